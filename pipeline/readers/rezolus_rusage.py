"""What the daemon itself costs, from getrusage(RUSAGE_SELF)."""

import resource
from collections.abc import Sequence
from typing import Final

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


def numbers(usage: resource.struct_rusage) -> tuple[int, ...]:
    """The group's row: times from seconds (of microsecond resolution) to ns, the peak from KiB to bytes."""
    return (
        round(usage.ru_utime * 1_000_000) * (NANOSECONDS // 1_000_000),
        round(usage.ru_stime * 1_000_000) * (NANOSECONDS // 1_000_000),
        usage.ru_maxrss * 1024,
        usage.ru_minflt,
        usage.ru_majflt,
        usage.ru_inblock,
        usage.ru_oublock,
        usage.ru_nvcsw,
        usage.ru_nivcsw,
    )


class Rusage:
    """Nothing to hold open."""

    def sample(self) -> Sequence[Reading]:
        watch = Stopwatch()
        usage = resource.getrusage(resource.RUSAGE_SELF)
        window = watch.window()
        return (Reading(SCHEMA, window, *fill(SCHEMA, (numbers(usage),))),)

    def close(self) -> None:
        pass


def open_source(_: Roots) -> Source:
    return Rusage()


SAMPLER: Final = Sampler("rezolus_rusage", "getrusage(RUSAGE_SELF)", (GROUP,), open_source, Pace.TICK)
