"""What a sampler's programs cost, as the kernel counts it while `kernel.bpf_stats_enabled` is set."""

from collections.abc import Iterable
from pathlib import Path

from pipeline.records import Group, Kind, Metric, Reading, Schema, fill
from pipeline.source import Stopwatch


def run_group(sampler: str) -> Group:
    """`rezolus_bpf_run_count` and `rezolus_bpf_run_time` of one sampler."""
    return Group(
        sampler,
        "main",
        (
            Metric("rezolus_bpf_run_count", Kind.COUNTER, "", "Times the BPF programs of this sampler ran"),
            Metric(
                "rezolus_bpf_run_time",
                Kind.COUNTER,
                "nanoseconds",
                "Time the BPF programs of this sampler took",
            ),
        ),
    )


def parse(fdinfo: str) -> tuple[int, int]:
    """Run count and run time in ns of one program, from the `fdinfo` of its descriptor."""
    fields = dict(line.split(":", 1) for line in fdinfo.splitlines() if ":" in line)
    return int(fields.get("run_cnt", 0)), int(fields.get("run_time_ns", 0))


class RunStats:
    """Sums over some programs. Programs that several samplers share are in the sum of each of them."""

    def __init__(self, group: Group, programs: Iterable[int], proc: Path) -> None:
        self._schema = Schema(group)
        self._files = [proc / f"self/fdinfo/{descriptor}" for descriptor in programs]
        self._switch = proc / "sys/kernel/bpf_stats_enabled"

    def readings(self) -> tuple[Reading, ...]:
        """One reading, or none while the kernel does not count or nothing ran yet."""
        stopwatch = Stopwatch()
        try:
            if int(self._switch.read_text()) == 0:
                return ()
            found = [parse(file.read_text()) for file in self._files]
        except (OSError, ValueError):  # an old kernel, or a /proc that is not this process's own
            return ()
        count, time = (sum(column) for column in zip(*found, strict=True)) if found else (0, 0)
        if not count:
            return ()
        return (Reading(self._schema, stopwatch.window(), *fill(self._schema, ((count, time),))),)
