"""The daemon's own metrics: what its samplers cost, and everything that was lost anywhere."""

from pipeline.clock import Clock
from pipeline.fanout import Fanout
from pipeline.health import Health, State
from pipeline.records import NANOSECONDS, Group, Kind, Metric, Reading, Report, Schema, Slot, Window, fill

NAME = "rezolusd"

SAMPLERS = Group(
    NAME,
    "samplers",
    (
        Metric(
            "rezolusd_sampler_healthy",
            Kind.GAUGE,
            "",
            "Whether the sampler delivers all it should: 1 active, 0 degraded or failed; absent when "
            "disabled or unsupported on this host",
        ),
        Metric("rezolusd_sampler_reads", Kind.COUNTER, "operations", "Reads that succeeded"),
        Metric("rezolusd_sampler_failed_reads", Kind.COUNTER, "operations", "Reads that failed"),
        Metric(
            "rezolusd_sampler_missed_ticks",
            Kind.COUNTER,
            "operations",
            "Ticks the sampler was still busy at, or answered too late for",
        ),
        Metric(
            "rezolusd_sampler_read_duration",
            Kind.GAUGE,
            "nanoseconds",
            "How long the newest read took, successful or not",
        ),
        Metric(
            "rezolusd_sampler_age", Kind.GAUGE, "nanoseconds", "Time since the newest read that succeeded"
        ),
    ),
)
SINKS = Group(
    NAME,
    "sinks",
    (
        Metric("rezolusd_sink_snapshots", Kind.COUNTER, "operations", "Snapshots offered to the sink"),
        Metric(
            "rezolusd_sink_dropped_snapshots",
            Kind.COUNTER,
            "operations",
            "Snapshots the sink lost because it was behind",
        ),
        Metric(
            "rezolusd_sink_left_out_series",
            Kind.GAUGE,
            "",
            "Series the sink left out of its last output because of a limit",
        ),
    ),
)
TICKS = Group(
    NAME,
    "ticks",
    (
        Metric("rezolusd_ticks", Kind.COUNTER, "operations", "Ticks that finished with a snapshot"),
        Metric(
            "rezolusd_late_ticks",
            Kind.COUNTER,
            "operations",
            "Ticks skipped because they could no longer start in time",
        ),
        Metric(
            "rezolusd_tick_duration",
            Kind.GAUGE,
            "nanoseconds",
            "How long gathering this snapshot took, from the tick",
        ),
    ),
)
GROUPS = (SAMPLERS, SINKS, TICKS)


# Fast ticks need no faster news of the daemon itself.
FRESH_NS = NANOSECONDS // 10


class SelfMetrics:
    """Makes the report of the daemon about itself, at most every `FRESH_NS` a new one."""

    def __init__(self, health: Health, fanout: Fanout, clock: Clock) -> None:
        self._health = health
        self._fanout = fanout
        self._clock = clock
        self._samplers = Schema(SAMPLERS, ())
        self._sinks = Schema(SINKS, ())
        self._ticks = Schema(TICKS)
        self._newest: Report | None = None
        self._made_ns = 0

    def report(self, ticks: int, late: int, duration_ns: int) -> Report:
        """One reading for each of the three groups."""
        now_ns = self._clock.monotonic_ns()
        if self._newest is None or now_ns - self._made_ns >= FRESH_NS:
            window = Window(self._clock.wall(), 0)
            own = Reading(self._ticks, window, *fill(self._ticks, ((ticks, late, duration_ns),)))
            readings = (self._read_samplers(window, now_ns), self._read_sinks(window), own)
            self._newest, self._made_ns = Report(NAME, readings, 0), now_ns
        return self._newest

    def _read_samplers(self, window: Window, now_ns: int) -> Reading:
        working = {
            name: status
            for name, status in self._health.samplers.items()
            if status.state not in (State.DISABLED, State.UNSUPPORTED)
        }
        self._samplers = _with_slots(self._samplers, "sampler", tuple(working))
        rows = (
            (
                None if status.state is State.STARTING else int(status.state is State.ACTIVE),
                status.reads,
                status.failures,
                status.missed,
                status.last_elapsed_ns,
                None if status.last_read_ns is None else now_ns - status.last_read_ns,
            )
            for status in working.values()
        )
        return Reading(self._samplers, window, *fill(self._samplers, rows))

    def _read_sinks(self, window: Window) -> Reading:
        outlets = self._fanout.outlets
        self._sinks = _with_slots(self._sinks, "sink", tuple(outlet.name for outlet in outlets))
        rows = ((outlet.published, outlet.dropped, outlet.left_out()) for outlet in outlets)
        return Reading(self._sinks, window, *fill(self._sinks, rows))


def _with_slots(schema: Schema, label: str, names: tuple[str, ...]) -> Schema:
    """The same schema if it already has a slot for exactly these names, else a new one."""
    if tuple(slot.labels[0][1] for slot in schema.slots) == names:
        return schema
    return Schema(schema.group, tuple(Slot(((label, name),), index) for index, name in enumerate(names)))
