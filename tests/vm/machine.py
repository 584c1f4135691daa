"""One boot of an emulated machine: three disks in, a console log and the results out, within a time."""

import io
import re
import subprocess
import tarfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.vm.image import ROOT
from tests.vm.kernels import Fetched

QEMU: Final = "qemu-system-x86_64"
RESULT_BYTES: Final = 16 << 20
MEMORY_MB: Final = 2048
CPUS: Final = 2
# An oops is a failure like any panic; -1: do not wait, end at once (with -no-reboot).
CONSOLE: Final = "console=ttyS0 quiet mitigations=off oops=panic panic=-1 root=/dev/nvme0n1 rw"
DEADLY: Final = re.compile(r"Kernel panic - not syncing.*|BUG: .*|Oops: .*")
TAIL_LINES: Final = 25


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


def source_disk(path: Path, job: str, modules: Path | None = None) -> None:
    """Pack the checkout, a job and a kernel's modules as the guest unpacks them: a bare tar archive."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    )  # fmt: skip
    with tarfile.open(path, "w") as archive:
        for name in sorted(filter(None, listed.stdout.split("\0"))):
            if (ROOT / name).exists():
                archive.add(ROOT / name, f"src/{name}")
        for wheel in (ROOT / "dist").glob("*.whl"):
            archive.add(wheel, f"src/dist/{wheel.name}")
        if modules is not None:
            archive.add(modules, f"usr/lib/modules/{modules.name}")
        entry = tarfile.TarInfo("src/job")
        entry.size = len(job.encode())
        archive.addfile(entry, io.BytesIO(job.encode()))


def command_line(kernel: Fetched, image: Path, source: Path, results: Path, init: str) -> list[str]:
    """The emulator's. NVMe and ext4 are built into these kernels, virtio is not: no initramfs is needed."""
    command = [QEMU, "-accel", "tcg,thread=multi", "-cpu", "max", "-m", str(MEMORY_MB), "-smp", str(CPUS)]
    command += ["-display", "none", "-serial", "stdio", "-monitor", "none", "-no-reboot", "-nic", "none"]
    command += ["-kernel", str(kernel.image), "-append", f"{CONSOLE} init={init}", "-device", "nvme,serial=vm"]
    disks = [(image, "snapshot=on"), (source, "snapshot=on"), (results, "cache=unsafe")]
    for number, (file, option) in enumerate(disks, 1):
        command += ["-drive", f"file={file},if=none,id=disk{number},format=raw,{option}"]
        command += ["-device", f"nvme-ns,drive=disk{number},nsid={number}"]
    return command


def boot(command: Sequence[str], log: Path, seconds: float) -> Boot:
    """Run the emulator to its end, or kill it when its time is up. The console goes to a file at once."""
    begin = time.monotonic()
    fault = ""
    with log.open("wb") as console:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=console, stderr=subprocess.STDOUT
        )
        try:
            code = process.wait(seconds)
            fault = f"the emulator ended with exit code {code}" if code else ""
        except subprocess.TimeoutExpired:
            fault = f"hangs, ended after {seconds:.0f} s"
        finally:
            process.kill()
            process.wait()
    said = log.read_text(errors="replace").replace("\r", "")
    if found := DEADLY.search(said):
        fault = found[0]
    return Boot(fault, said, time.monotonic() - begin)


def unpack(results: Path, folder: Path) -> list[Path]:
    """The files the guest left on its third disk, none if it did not come that far."""
    try:
        with tarfile.open(results) as archive:
            archive.extractall(folder, filter="data")
    except tarfile.TarError:
        return []
    return sorted(path for path in folder.iterdir() if path.is_file())
