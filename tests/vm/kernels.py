"""The kernels that are tried, and their fetching from the distribution's archive; none is ever installed."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

RELEASES: Final = re.compile(r"linux-image-(\S+)-amd64\b")


class Kernel(NamedTuple):
    """A line of kernels; its newest package in the archive is taken.

    Attributes:
        name: as given in `KERNELS=` and shown in the table.
        packages: pattern of the packages' names.
    """

    name: str
    packages: str


# Add a kernel here; docs/testing.md says what it must bring.
KERNELS: Final = (
    Kernel("6.1", r"linux-image-6\.1\.0-\d+-cloud-amd64"),
    Kernel("6.12", r"linux-image-6\.12\.\d+\+deb\d+-cloud-amd64"),
)


class VmError(Exception):
    """A step of the host's failed; the message is one line."""


class Fetched(NamedTuple):
    """A kernel unpacked in a folder."""

    name: str
    release: str
    image: Path
    modules: Path


def choose(names: str) -> list[Kernel]:
    """The kernels named, in the list's order; all when none is. Raises `VmError`."""
    wanted = names.split()
    known = [kernel.name for kernel in KERNELS]
    if strange := [name for name in wanted if name not in known]:
        raise VmError(f"no kernel {', '.join(strange)} in the list; there are {', '.join(known)}")
    return [kernel for kernel in KERNELS if not wanted or kernel.name in wanted]


def version(package: str) -> list[tuple[int, int | str]]:
    """A key that sorts packages by version: numbers as numbers."""
    return [(1, int(part)) if part.isdigit() else (0, part) for part in re.findall(r"\d+|\D+", package)]


def newest(kernel: Kernel, packages: Iterable[str]) -> str | None:
    fitting = [package for package in packages if re.fullmatch(kernel.packages, package)]
    return max(fitting, key=version, default=None)


def available() -> list[str]:
    """Names of the kernel packages that apt knows."""
    listed = subprocess.run(
        ["apt-cache", "search", "--names-only", "^linux-image-[0-9].*-amd64$"],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return [line.split()[0] for line in listed.stdout.splitlines()]


def fetch(wanted: Sequence[Kernel], folder: Path) -> list[Fetched]:
    """Download and unpack what the folder does not have yet. Raises `VmError`."""
    folder.mkdir(parents=True, exist_ok=True)
    packages = available()
    if not all(newest(kernel, packages) for kernel in wanted):  # a fresh machine has no lists yet
        run(["apt-get", "update", "-q"], 180)
        packages = available()
    found = []
    for kernel in wanted:
        package = newest(kernel, packages) or newest(kernel, [path.name for path in folder.iterdir()])
        if package is None:
            raise VmError(f"apt knows no package {kernel.packages}; is this Debian 12?")
        if not (folder / package).exists():
            _download(package, folder)
        found.append(unpacked(kernel.name, folder / package))
    return found


def unpacked(name: str, package: Path) -> Fetched:
    (image,) = package.glob("boot/vmlinuz-*")
    release = image.name.removeprefix("vmlinuz-")
    return Fetched(name, release, image, package / "lib/modules" / release)


def _download(package: str, folder: Path) -> None:
    print(f"fetching {package}", flush=True)
    half = folder.resolve() / f".{package}.{os.getpid()}"
    half.mkdir()
    try:
        # apt's sandbox user may not write here; unsandboxed it need not be told where it may.
        options = ["-q", "-o", "APT::Sandbox::User=root"]
        run(["apt-get", "download", *options, package], 300, cwd=half)
        (archive,) = half.glob("*.deb")
        run(["dpkg", "-x", str(archive), "unpacked"], 120, cwd=half)
        (half / "unpacked").rename(folder / package)
    finally:
        shutil.rmtree(half)


def run(command: Sequence[str], seconds: float, cwd: Path | None = None) -> None:
    """Run to the end within a time, quietly unless it fails. Raises `VmError` with its last line."""
    try:
        done = subprocess.run(
            command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            encoding="utf-8", errors="replace", timeout=seconds,
        )  # fmt: skip
    except subprocess.TimeoutExpired as late:
        raise VmError(f"{' '.join(command[:3])} took longer than {seconds:.0f} s") from late
    except OSError as error:
        raise VmError(f"cannot run {command[0]}: {error.strerror}") from error
    if done.returncode:
        print(done.stdout[-4000:], flush=True)
        raise VmError(f"{' '.join(command[:3])} ended with exit code {done.returncode}")
