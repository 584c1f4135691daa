"""One boot of an emulated machine: three disks in, a console log and the results out, within a time."""

import io
import re
import subprocess
import tarfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from tests.vm.image import PARTITION, ROOT
from tests.vm.kernels import Fetched

QEMU: Final = "qemu-system-x86_64"
RESULT_BYTES: Final = 16 << 20
MEMORY_MB: Final = 2048
CPUS: Final = 2
# An oops is a failure like any panic; -1: do not wait, end at once (with -no-reboot).
CONSOLE: Final = (
    f"root=PARTUUID={PARTITION} rootwait rw console=ttyS0 quiet oops=panic panic=-1 mitigations=off "
    "systemd.getty_auto=no"
)
DEADLY: Final = re.compile(r"Kernel panic - not syncing.*|BUG: .*|Oops: .*")
TAIL_LINES: Final = 25
# Of a kernel's modules those that probes may be interested in and that need no hardware; all would be 90 MB.
MODULES: Final = (
    "modules.",
    "kernel/crypto/",
    "kernel/drivers/block/",
    "kernel/fs/autofs/",
    "kernel/fs/ext4/",
    "kernel/fs/jbd2/",
    "kernel/fs/mbcache",
    "kernel/fs/xfs/",
    "kernel/lib/",
    "kernel/net/ipv4/tcp_",
    "kernel/net/sched/",
)


class Boot(NamedTuple):
    """How a machine ended.

    Attributes:
        fault: empty, or what went wrong with the machine as a whole, in a few words.
        console: everything it said.
        seconds: how long it ran.
    """

    fault: str
    console: str
    seconds: float

    def tail(self) -> str:
        return "\n".join(self.console.splitlines()[-TAIL_LINES:])


def source_disk(path: Path, job: str, wheel: Path, modules: Path) -> None:
    """Pack the checkout, its wheel, a job and a kernel's modules for the guest: a bare tar archive."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    )  # fmt: skip
    with tarfile.open(path, "w") as archive:
        for name in sorted(filter(None, listed.stdout.split("\0"))):
            if (ROOT / name).exists():
                archive.add(ROOT / name, f"src/{name}")
        archive.add(wheel, f"src/dist/{wheel.name}")
        for path in (*modules.glob("modules.*"), *(modules / "kernel").rglob("*.ko")):
            name = str(path.relative_to(modules))
            if name.startswith(MODULES):
                archive.add(path, f"usr/lib/modules/{modules.name}/{name}")
        entry = tarfile.TarInfo("src/job")
        entry.size = len(job.encode())
        archive.addfile(entry, io.BytesIO(job.encode()))


def empty_disk(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(RESULT_BYTES)


def command_line(kernel: Fetched, image: Path, source: Path, results: Path, init: str) -> list[str]:
    """The emulator's. NVMe and ext4 are built into these kernels, virtio is not: no initramfs is needed."""
    command = [QEMU, "-accel", "tcg,thread=multi", "-cpu", "max", "-m", str(MEMORY_MB), "-smp", str(CPUS)]
    command += ["-display", "none", "-serial", "stdio", "-monitor", "none", "-no-reboot", "-nic", "none"]
    command += ["-kernel", str(kernel.image), "-append", f"{CONSOLE} init={init}"]
    # Disks are named as they are found; the guest knows them by serial number, root by its partition.
    for name, file, option in (
        ("root", image, "snapshot=on"),
        ("source", source, "snapshot=on"),
        ("results", results, "cache=unsafe"),
    ):
        command += ["-drive", f"file={file},if=none,id={name},format=raw,{option}"]
        command += ["-device", f"nvme,serial={name},drive={name}"]
    return command


def interactive(command: Sequence[str]) -> list[str]:
    """The same machine with the console on this terminal; Ctrl-A X ends it."""
    return ["mon:stdio" if word == "stdio" else word for word in command]


def boot(command: Sequence[str], log: Path, seconds: float) -> Boot:
    """Run the emulator to its end, or kill it when its time is up. The console goes to a file at once."""
    begin = time.monotonic()
    with log.open("wb") as console:
        fault = _run(command, console, seconds)
    said = log.read_text(errors="replace").replace("\r", "")
    if found := DEADLY.search(said):
        fault = found[0]
    return Boot(fault, said, time.monotonic() - begin)


_running: set["subprocess.Popen[bytes]"] = set()


def end_all() -> None:
    """End every machine that runs now."""
    for process in list(_running):
        process.kill()


def _run(command: Sequence[str], console: BinaryIO, seconds: float) -> str:
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=console, stderr=subprocess.STDOUT
        )
    except OSError as error:
        return f"cannot run {command[0]}: {error.strerror}"
    _running.add(process)
    try:
        code = process.wait(seconds)
    except subprocess.TimeoutExpired:
        return f"hangs, ended after {seconds:.0f} s"
    finally:
        process.kill()
        process.wait()
        _running.discard(process)
    return f"the emulator ended with exit code {code}" if code else ""


def unpack(results: Path, folder: Path) -> list[Path]:
    """The files the guest left on its third disk, none if it did not come that far."""
    try:
        with tarfile.open(results) as archive:
            archive.extractall(folder, filter="data")
    except tarfile.TarError:
        return []
    return sorted(path for path in folder.iterdir() if path.is_file())
