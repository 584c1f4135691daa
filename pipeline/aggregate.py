"""What is known right now: the newest readings of every sampler, put together when asked. No clock."""

from collections.abc import Set

from pipeline.records import Reading, Report, Snapshot


class Aggregator:
    """Folds reports in; hands out a snapshot of what stands."""

    def __init__(self) -> None:
        self._readings: dict[str, tuple[Reading, ...]] = {}
        self._seq = 0

    def apply(self, report: Report) -> None:
        """A success replaces all of its sampler's readings; a failure leaves them to `drop`."""
        if report.error is None:
            self._readings[report.sampler] = report.readings

    def drop(self, sampler: str) -> None:
        """Forget a sampler's readings: they are about to be read anew, or are stale."""
        self._readings.pop(sampler, None)

    def keep_only(self, samplers: Set[str]) -> None:
        """Forget the readings of all others: they were turned off."""
        for gone in self._readings.keys() - samplers:
            del self._readings[gone]

    def snapshot(self, wall_ns: int, anchored_ns: int, duration_ns: int) -> Snapshot:
        """Everything that stands, ordered by group key, under the next sequence number."""
        self._seq += 1
        readings = [reading for held in self._readings.values() for reading in held]
        readings.sort(key=lambda reading: reading.schema.group.key)
        return Snapshot(self._seq, wall_ns, anchored_ns, duration_ns, tuple(readings))
