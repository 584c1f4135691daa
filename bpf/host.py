"""The figures of this host that maps are sized by and programs are compiled for."""

from pathlib import Path
from typing import Final, Literal

import msgspec

from bpf import identity
from bpf.maps import possible_cpus
from pipeline import cpulist
from pipeline.readers.kernfile import KernelFile
from pipeline.source import Roots

PID_LIMIT: Final = 4_194_304  # the kernel's own limit on 64 bits


class Host(msgspec.Struct, frozen=True):
    """What maps are sized by and programs are compiled for.

    Attributes:
        cpus: rows of a per-CPU bank.
        online: the kernel's list of the CPUs that are online.
        pids: thread ids are below this.
        hierarchy: which cgroup of a task is meant.
        btf: folder of the kernel's BTF.
        slots: how many cgroups at a time are told apart.
        max_tasks: how many tasks at a time have a series of their own, 0 for no series by task at all.
    """

    cpus: int
    online: Path
    pids: int
    hierarchy: Literal["v2", "cpu"]
    btf: str
    slots: int = identity.SLOTS
    max_tasks: int = 4096

    @classmethod
    def read(cls, roots: Roots, hierarchy: str) -> "Host":
        """The host as it is now. Raises `OSError`."""
        proc, sys = Path(roots.proc), Path(roots.sys)
        cpus = possible_cpus(sys)
        try:
            pids = min(int((proc / "sys/kernel/pid_max").read_text()), PID_LIMIT)
        except (OSError, ValueError):
            pids = PID_LIMIT
        wanted = identity.hierarchy(hierarchy, (proc / "mounts").read_text())
        online = sys / "devices/system/cpu/online"
        return cls(cpus, online, pids, wanted, str(sys / "kernel/btf"))


class OnlineCpus:
    """The CPUs that are online, as rows of a per-CPU bank; looked up anew each time.

    One that goes offline has no series from then on; its counts stay in the bank, so that the series goes on
    from there when it comes back.

    Attributes:
        cpus: as of the last look; all rows until one succeeds.
    """

    def __init__(self, file: Path, rows: int) -> None:
        self.cpus = tuple(range(rows))
        self._rows = rows
        self._text = b""
        try:
            self._file: KernelFile | None = KernelFile(file)
        except OSError:
            self._file = None

    def changed(self) -> bool:
        """Look again; a list that cannot be read or understood changes nothing."""
        if self._file is None:
            return False
        try:
            text = self._file.read()
            if text == self._text:
                return False
            online = cpulist.parse(text.decode("ascii"))
        except (OSError, ValueError):
            return False
        self._text = text
        self.cpus = tuple(cpu for cpu in online if cpu < self._rows)
        return True

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
