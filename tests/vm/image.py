"""The guest's root file system: made once, cached under a key of all that goes into it."""

import hashlib
import shutil
import struct
import subprocess
import tomllib
from pathlib import Path
from typing import Any, Final

from tests.vm.kernels import VmError, run

ROOT: Final = Path(__file__).resolve().parents[2]
GUEST: Final = Path(__file__).resolve().with_name("guest")

SUITE: Final = "bookworm"
PYTHON: Final = "3.11"  # the suite's
SIZE: Final = 2 << 30
START: Final = 1 << 20  # of the only partition
SIGNATURE: Final = 0x72657A6F
PARTITION: Final = f"{SIGNATURE:08x}-01"  # by which the kernel finds its root file system
PACKAGES: Final = (
    "ca-certificates,e2fsprogs,kmod,libbpf1,make,mount,procps,python3,python3-bpfcc,python3-venv,"
    "systemd,systemd-sysv,util-linux,xfsprogs"
)
# What the tests that run in the guest import, of the project's test tools.
TOOLS: Final = ("pytest", "pytest-timeout", "pytest-trio", "hypothesis")
# Wheels for the guest, whatever interpreter the host has.
PLATFORMS: Final = ("manylinux2014_x86_64", "manylinux_2_27_x86_64", "manylinux_2_28_x86_64")
STEPS: Final = """\
set -e
# Two environments: the daemon's, as `make install` makes it, and the tests', with the checkout beside it.
python3 -m venv /opt/rezolusd
python3 -m venv /opt/tests
/opt/rezolusd/bin/pip install -q --no-index --find-links /wheels -r /wheels/run.txt
/opt/tests/bin/pip install -q --no-index --find-links /wheels -r /wheels/run.txt -r /wheels/test.txt
rm -r /wheels
chmod 755 /usr/local/sbin/vm-start
systemctl -q enable vm-test.service
systemctl -q mask systemd-networkd-wait-online.service apt-daily.timer apt-daily-upgrade.timer \
    dpkg-db-backup.timer e2scrub_all.timer fstrim.timer e2scrub_reap.service getty@tty1.service
systemctl -q set-default multi-user.target
"""


def requirements(project: dict[str, Any]) -> dict[str, list[str]]:
    """Requirement files for the two environments, from pyproject.toml."""
    tools = project["optional-dependencies"]["test"]
    kept = [line for line in tools if line.split(">")[0].strip() in TOOLS]
    return {"run.txt": list(project["dependencies"]), "test.txt": kept}


def key() -> str:
    """A name for what the image holds."""
    parts = [SUITE, str(SIZE), PACKAGES, STEPS, repr(requirements(_project()))]
    parts += [(ROOT / "constraints.txt").read_text()]
    parts += [(GUEST / name).read_text() for name in ("vm-start", "vm-test.service")]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def build(cache: Path, python: str) -> Path:
    """The image, made if the cache has none with this key; older ones are removed. Raises `VmError`."""
    image = cache / f"root-{key()}.img"
    if image.exists():
        return image
    for old in cache.glob("root-*.img"):
        old.unlink()
    print(f"building {image.name}", flush=True)
    work = cache / "build"
    subprocess.run(["rm", "-rf", "--one-file-system", work], check=True)
    work.mkdir(parents=True)
    _wheels(work / "wheels", python)
    _root(work)
    half = work / "root.img"
    _partition(half)
    file_system = ["-t", "ext4", "-E", f"offset={START}", "-d", str(work / "root"), str(half)]
    run(["mke2fs", "-q", "-F", *file_system, f"{(SIZE - START) >> 10}k"], 120)
    half.rename(image)
    shutil.rmtree(work)
    return image


def _partition(disk: Path) -> None:
    """An empty disk with one partition to its end, written down in a classic partition table."""
    entry = struct.pack("<B3xB3xII", 0, 0x83, START // 512, (SIZE - START) // 512)
    with disk.open("wb") as file:
        file.write(bytes(440) + struct.pack("<IH", SIGNATURE, 0) + entry + bytes(48) + b"\x55\xaa")
        file.truncate(SIZE)


def _project() -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return project


def _wheels(folder: Path, python: str) -> None:
    """Everything both environments need, as wheels: the guest has no network."""
    folder.mkdir()
    command = [python, "-m", "pip", "--disable-pip-version-check", "download", "-q", "-d", str(folder)]
    command += ["--only-binary=:all:", "--implementation=cp", f"--python-version={PYTHON}"]
    command += [f"--platform={platform}" for platform in PLATFORMS]
    command += ["-c", str(ROOT / "constraints.txt")]
    for name, lines in requirements(_project()).items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
        command += ["-r", str(folder / name)]
    run(command, 240)


def _root(work: Path) -> None:
    def enter(name: str) -> str:
        return f"{work / name}"

    (work / "steps").write_text(STEPS)
    hooks = [
        f'cp -r {enter("wheels")} "$1/wheels"',
        f'cp {GUEST / "vm-start"} "$1/usr/local/sbin/"',
        f'cp {GUEST / "vm-test.service"} "$1/etc/systemd/system/"',
        f'chroot "$1" /bin/sh < {enter("steps")}',
    ]
    command = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={PACKAGES}"]
    command += [f"--customize-hook={hook}" for hook in hooks]
    run([*command, SUITE, str(work / "root")], 420)


def tools_missing() -> list[str]:
    """Packages of the host that are not there yet."""
    wanted = {"qemu-system-x86_64": "qemu-system-x86", "mmdebstrap": "mmdebstrap", "mke2fs": "e2fsprogs"}
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return [package for tool, package in wanted.items() if shutil.which(tool, path=path) is None]


def install_tools(missing: list[str], root: bool) -> None:
    """Install what the host lacks; who may not is told the line. Raises `VmError`."""
    if not missing:
        return
    command = ["apt-get", "install", "-y", "-q", "--no-install-recommends", *missing]
    if not root:
        raise VmError(f"as root: {' '.join(command)}")
    print(f"installing {' '.join(missing)}", flush=True)
    run(["apt-get", "update", "-q"], 180)
    run(["env", "DEBIAN_FRONTEND=noninteractive", *command], 300)
