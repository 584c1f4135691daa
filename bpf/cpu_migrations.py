"""`cpu_migrations`: tasks that go on running on another CPU than before, from `sched.bpf.c`."""

from collections.abc import Sequence
from typing import Final

from bpf import identity
from bpf.host import Host, OnlineCpus
from bpf.identity import Cgroups
from bpf.maps import LINE, Bank, Mapped
from bpf.room import Part, declare
from bpf.series import ByCgroup, ByCpu, columns
from pipeline.records import Group, Kind, Metric, Reading
from pipeline.source import Source

NAME: Final = "cpu_migrations"
MOVES: Final = 4  # column of the bank `cgroup_sched`

MIGRATIONS: Final = Group(
    NAME,
    "cpu_migrations_migrations",
    tuple(
        Metric("cpu_migrations", Kind.COUNTER, "", "Moves of tasks from and to a CPU", (("direction", way),))
        for way in ("from", "to")
    ),
)
CGROUP_MIGRATIONS: Final = Group(
    NAME,
    "cpu_migrations_cgroup",
    (Metric("cgroup_cpu_migrations", Kind.COUNTER, "", "Moves of tasks between CPUs by cgroup"),),
)
SAMPLER: Final = declare(
    NAME, "tracepoints sched/sched_switch and sched_wakeup_new", (MIGRATIONS, CGROUP_MIGRATIONS)
)


class Migrations:
    """The source of `cpu_migrations`.

    Args:
        moves: a row a CPU.
        by_cgroup: a row a cgroup slot.
    """

    def __init__(self, moves: Bank, by_cgroup: Bank, cgroups: Cgroups, online: OnlineCpus) -> None:
        self._online, self._cgroups = online, cgroups
        self._cpus = ByCpu(MIGRATIONS, moves.take, online)
        self._by_cgroup = ByCgroup(CGROUP_MIGRATIONS, columns(by_cgroup, MOVES, 1), cgroups)
        cgroups.join(self, by_cgroup)

    def sample(self) -> Sequence[Reading]:
        self._online.changed()
        self._cgroups.refresh(self)
        return self._cpus.read(), self._by_cgroup.read()

    def close(self) -> None:
        self._cgroups.leave(self)
        self._online.close()


def open_migrations(mapped: Mapped, host: Host) -> Source:
    return Migrations(
        Bank(mapped.cells("sched_moves"), len(MIGRATIONS.metrics)),
        Bank(mapped.cells("cgroup_sched"), LINE),
        mapped.share(Cgroups, identity.open_cgroups),
        OnlineCpus(host.online, host.cpus),
    )


PART: Final = Part(SAMPLER, ("sched_wakeup_new", "sched_switch", "cgroup_rmdir"), open_migrations)
