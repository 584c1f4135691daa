"""The object of the samplers that share the scheduler's hooks: `sched.bpf.c`."""

from collections.abc import Collection
from typing import Final

from bpf import cpu_migrations, cpu_usage, identity, scheduler_runqueue, tasks
from bpf.cpu_usage import SOFTIRQS
from bpf.host import Host
from bpf.maps import LINE, stripes
from bpf.objects import HERE, Hook, Map, Object, cells, twins
from bpf.room import Family
from pipeline.records import HISTOGRAM_BUCKETS

RUNQUEUE: Final = scheduler_runqueue.NAME
MIGRATIONS: Final = cpu_migrations.NAME
USAGE: Final = cpu_usage.NAME

DEFINES: Final = {
    "LINE": LINE,
    # columns of sched_counters and of cgroup_sched
    "INVOLUNTARY": 0,
    "VOLUNTARY": 1,
    "WAIT": 2,
    "DISCARDED": 3,
    "OFF": 3,
    "MOVES": cpu_migrations.MOVES,
    # columns of sched_moves
    "MOVED_FROM": 0,
    "MOVED_TO": 1,
    # histograms of sched_latencies
    "RUNQLAT": 0,
    "RUNNING": 1,
    "OFFCPU": 2,
    "LATENCIES": 3,
    # columns of cpu_times and of cgroup_times
    "CHARGED": cpu_usage.CHARGED,
    "UTIME": cpu_usage.UTIME,
    "STIME": cpu_usage.STIME,
    "EXITED": cpu_usage.EXITED,
    "INTERRUPTS": cpu_usage.INTERRUPTS,
    "HARDIRQ": cpu_usage.HARDIRQ,
    "HARDIRQ_TIME": cpu_usage.HARDIRQ_TIME,
    "SOFTIRQ": cpu_usage.SOFTIRQ,
    "SOFTIRQ_TIME": cpu_usage.SOFTIRQ_TIME,
    "SOFTIRQS": len(SOFTIRQS),
    "USAGE_WIDTH": cpu_usage.WIDTH,
    # cells of irq_state and of usage_events
    "HARD_BEGIN": 0,
    "HARD_TOTAL": 1,
    "SOFT_BEGIN": 2,
    "HARD_BEFORE": 3,
    "SINCE": 0,
    "KSOFTIRQ": int.from_bytes(b"ksoftirq", "little"),
}
# Where the scheduler's own tracepoint is missing, its accounting by ticks.
CHARGES: Final[Hook] = (
    *twins("sched_stat_runtime"),
    ("fentry", "cpuacct_account_field", "account_fentry"),
    ("kprobe", "cpuacct_account_field", "account_kprobe"),
)


def build(host: Host, parts: Collection[str]) -> Object:
    """The object with the parts that the wanted samplers need."""
    runqueue, migrations, usage = (name in parts for name in (RUNQUEUE, MIGRATIONS, USAGE))
    copies = stripes(host.cpus)
    maps = list(identity.maps(host.cpus, host.slots))
    hooks: list[Hook] = [twins("cgroup_rmdir")]
    if runqueue or migrations:
        maps += [Map("sched_stamps", "array", host.pids, value_size=32)]
        maps += [cells("cgroup_sched", host.slots * LINE)]
        hooks += [twins("sched_switch"), twins("sched_wakeup_new")]
    if runqueue:
        maps += [
            cells("sched_counters", host.cpus * LINE),
            cells("sched_latencies", copies * 3 * HISTOGRAM_BUCKETS),
        ]
        hooks += [twins("sched_wakeup")]
    if migrations:
        maps += [cells("sched_moves", host.cpus * LINE)]
    if usage:
        maps += _usage_maps(host)
        hooks += [CHARGES, *map(twins, cpu_usage.PART.programs[1:-1])]
    switches = {
        "RUNQUEUE": runqueue,
        "MIGRATIONS": migrations,
        "USAGE": usage,
        "TASKS_UNNAMED": not host.max_tasks,
    }
    numbers = {"STRIPES": copies} | {name: int(on) for name, on in switches.items()}
    return Object(
        str(HERE / "sched.bpf.c"),
        maps,
        hooks,
        structs=(*identity.STRUCTS, "pt_regs"),
        defines=DEFINES | identity.defines(host.hierarchy) | numbers,
        fields=identity.FIELDS
        | {
            "TASK_STATE": ("task_struct", ("__state", "state")),
            "TASK_CPU": ("task_struct", ("cpu", "thread_info.cpu")),  # before 5.16 and since
        },
        enums=identity.ENUMS if host.hierarchy == "cpu" else {},
        # Only with CONFIG_IRQ_TIME_ACCOUNTING.
        present={"IRQ_TIME": ("rq", "prev_irq_time")},
        btf=host.btf,
    )


def _usage_maps(host: Host) -> list[Map]:
    return [
        cells("cpu_times", host.cpus * cpu_usage.WIDTH),
        cells("cgroup_times", host.slots * LINE),
        Map("task_times", "array", host.pids, value_size=32, mmap=True),
        cells("irq_state", host.cpus * LINE),
        cells("usage_events", LINE),
        *(tasks.maps(host.pids) if host.max_tasks else tasks.unnamed_maps(host.pids)),
    ]


FAMILY: Final = Family("sched", build, (cpu_migrations.PART, cpu_usage.PART, scheduler_runqueue.PART))
