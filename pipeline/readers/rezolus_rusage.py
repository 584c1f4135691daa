"""What the daemon itself costs, from getrusage(RUSAGE_SELF) and its own /proc/self/status."""

import resource
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pipeline.readers.kernfile import KernelFile, NumberLines
from pipeline.records import NANOSECONDS, Group, Kind, Metric, Reading, Schema, fill
from pipeline.source import Pace, Roots, Sampler, Source, Stopwatch

CPU: Final = "CPU time of the daemon"
BLOCKIO: Final = "Block operations the daemon caused"
SWITCHES: Final = "Context switches of the daemon"

GROUP: Final = Group(
    "rezolus_rusage",
    "main",
    (
        Metric("rezolus_cpu_usage", Kind.COUNTER, "nanoseconds", CPU, (("state", "user"),)),
        Metric("rezolus_cpu_usage", Kind.COUNTER, "nanoseconds", CPU, (("state", "system"),)),
        # The name says resident set, the figure is its peak: kept, so that existing queries find it.
        Metric(
            "rezolus_memory_usage_resident_set_size", Kind.GAUGE, "bytes", "Peak resident set of the daemon"
        ),
        Metric("rezolus_memory_page_reclaims", Kind.COUNTER, "", "Minor page faults of the daemon"),
        Metric("rezolus_memory_page_faults", Kind.COUNTER, "", "Major page faults of the daemon"),
        Metric("rezolus_blockio_operations", Kind.COUNTER, "operations", BLOCKIO, (("op", "read"),)),
        Metric("rezolus_blockio_operations", Kind.COUNTER, "operations", BLOCKIO, (("op", "write"),)),
        Metric("rezolus_context_switch", Kind.COUNTER, "", SWITCHES, (("kind", "voluntary"),)),
        Metric("rezolus_context_switch", Kind.COUNTER, "", SWITCHES, (("kind", "involuntary"),)),
    ),
)
SCHEMA: Final = Schema(GROUP)


STATUS: Final = Path("/proc/self/status")
# Between reading the two peaks the daemon may grow a little.
SLACK: Final = 1 << 20
PEAK: Final = NumberLines(str(STATUS), [b"VmHWM:"], {b"kB": 1024})


def numbers(usage: resource.struct_rusage, peak: int | None) -> tuple[int | None, ...]:
    """The group's row: times from seconds (of microsecond resolution) to ns; `peak` in bytes."""
    return (
        round(usage.ru_utime * 1_000_000) * (NANOSECONDS // 1_000_000),
        round(usage.ru_stime * 1_000_000) * (NANOSECONDS // 1_000_000),
        peak,
        usage.ru_minflt,
        usage.ru_majflt,
        usage.ru_inblock,
        usage.ru_oublock,
        usage.ru_nvcsw,
        usage.ru_nivcsw,
    )


class Rusage:
    """getrusage, with a peak that is the daemon's own.

    ru_maxrss survives exec: a daemon started by a larger process reports that process's size (kernel:
    fs/exec.c, exec_mmap) until its own peak is larger. So long the peak is read from /proc.
    """

    def __init__(self) -> None:
        self._status = KernelFile(STATUS)
        (own,) = PEAK.numbers(self._status.read())
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        self._inherited = most if own is None or most - own > SLACK else 0

    def sample(self) -> Sequence[Reading]:
        watch = Stopwatch()
        usage = resource.getrusage(resource.RUSAGE_SELF)
        peak: int | None = usage.ru_maxrss * 1024
        if peak == self._inherited:
            (peak,) = PEAK.numbers(self._status.read())
        window = watch.window()
        return (Reading(SCHEMA, window, *fill(SCHEMA, (numbers(usage, peak),))),)

    def close(self) -> None:
        self._status.close()


def open_source(_: Roots) -> Source:
    return Rusage()


SAMPLER: Final = Sampler(
    "rezolus_rusage", "getrusage(RUSAGE_SELF), /proc/self/status", (GROUP,), open_source, Pace.TICK
)
