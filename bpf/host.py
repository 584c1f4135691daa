"""The figures of this host that maps are sized by and programs are compiled for."""

from pathlib import Path
from typing import Final, Literal

import msgspec

from bpf import identity
from bpf.maps import possible_cpus, present_cpus
from pipeline.source import Roots

PID_LIMIT: Final = 4_194_304  # the kernel's own limit on 64 bits


class Host(msgspec.Struct, frozen=True):
    """What maps are sized by and programs are compiled for.

    Attributes:
        cpus: rows of a per-CPU bank.
        present: CPUs that are really there.
        pids: thread ids are below this.
        hierarchy: which cgroup of a task is meant.
        btf: folder of the kernel's BTF.
        slots: how many cgroups at a time are told apart.
    """

    cpus: int
    present: tuple[int, ...]
    pids: int
    hierarchy: Literal["v2", "cpu"]
    btf: str
    slots: int = identity.SLOTS

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
        return cls(cpus, tuple(present_cpus(sys, cpus)), pids, wanted, str(sys / "kernel/btf"))
