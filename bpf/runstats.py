"""What a sampler's programs cost, as the kernel counts it while `kernel.bpf_stats_enabled` is set."""

import contextlib
import os
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
    """Sums over some programs. Programs that several samplers share are in the sum of each of them.

    The switch is kept open and read with one system call a tick; the programs' files only while it is on.
    """

    def __init__(self, group: Group, programs: Iterable[int], proc: Path) -> None:
        self._schema = Schema(group)
        self._files = [proc / f"self/fdinfo/{descriptor}" for descriptor in programs]
        self._switch: int | None = None
        with contextlib.suppress(OSError):  # an old kernel has none
            self._switch = os.open(proc / "sys/kernel/bpf_stats_enabled", os.O_RDONLY | os.O_CLOEXEC)

    def readings(self) -> tuple[Reading, ...]:
        """One reading, or none while the kernel does not count or nothing ran yet."""
        if self._switch is None or os.pread(self._switch, 8, 0).strip() in (b"", b"0"):
            return ()
        stopwatch = Stopwatch()
        try:
            found = [parse(file.read_text()) for file in self._files]
        except (OSError, ValueError):  # a /proc that is not this process's own
            return ()
        count, time = (sum(column) for column in zip(*found, strict=True)) if found else (0, 0)
        if not count:
            return ()
        return (Reading(self._schema, stopwatch.window(), *fill(self._schema, ((count, time),))),)

    def close(self) -> None:
        if self._switch is not None:
            os.close(self._switch)
            self._switch = None
