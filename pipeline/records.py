"""The words the whole daemon speaks: what a number means, and the numbers of one moment.

Meaning is declared once (`Metric` in a `Group`) and travels by reference; numbers travel as one array
per reading. There is never an object per series.
"""

import itertools
from array import array
from collections.abc import Iterable, Sequence
from enum import Enum
from functools import cached_property, lru_cache
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from pipeline.programs import Program

Values = npt.NDArray[np.uint64]
Present = npt.NDArray[np.bool_]
Labels = tuple[tuple[str, str], ...]

NANOSECONDS: Final = 1_000_000_000
I64_MIN: Final = -(1 << 63)
I64_MAX: Final = (1 << 63) - 1
U64_MAX: Final = (1 << 64) - 1

# H2 histograms as recorded: 2^3 buckets an octave over the whole range of a u64.
GROUPING_POWER: Final = 3
MAX_VALUE_POWER: Final = 64
HISTOGRAM_BUCKETS: Final = (MAX_VALUE_POWER - GROUPING_POWER + 1) << GROUPING_POWER


class Kind(Enum):
    """How a number behaves: it only grows, it is a level, or it is a distribution that only grows."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Metric(msgspec.Struct, frozen=True):
    """One metric with its fixed labels.

    Attributes:
        name: as published, e.g. `memory_slab`.
        kind: counters and histogram buckets are u64, gauges i64.
        unit: the field's word for it (`bytes`, `nanoseconds`, `pages`, ...), empty for a plain number.
        help: one sentence without a full stop.
        labels: fixed labels, e.g. `(("kind", "reclaimable"),)`.
    """

    name: str
    kind: Kind
    unit: str
    help: str
    labels: Labels = ()

    @property
    def width(self) -> int:
        """How many u64 cells one reading of this metric takes."""
        return HISTOGRAM_BUCKETS if self.kind is Kind.HISTOGRAM else 1


class Slot(msgspec.Struct, frozen=True):
    """One occupant of a group: a CPU, a cgroup, a task, a sampler; `SOLE` where a group has just one.

    Attributes:
        labels: what tells this occupant from the others; labels starting with `__` are internal.
        index: its place in the kernel's table, the `id` label where there is one.
    """

    labels: Labels = ()
    index: int = 0


SOLE: Final = Slot()


class Group(msgspec.Struct, frozen=True, eq=False, dict=True):
    """Metrics that are read together, in one go, by one sampler.

    Attributes:
        sampler: the sampler's name.
        name: the acquisition group's short name, unique within the sampler.
        metrics: in the order of a row of values.
    """

    sampler: str
    name: str
    metrics: tuple[Metric, ...]

    @property
    def key(self) -> str:
        return f"{self.sampler}/{self.name}"

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Where each metric's cells begin in a row, and after the last one the row's width."""
        offsets = [0]
        for metric in self.metrics:
            offsets.append(offsets[-1] + metric.width)
        return tuple(offsets)

    @property
    def width(self) -> int:
        return self.offsets[-1]


class Schema(msgspec.Struct, frozen=True, eq=False, dict=True):
    """A group with its present occupants. A new one is made only when occupants come or go.

    Sinks key what they prepare (page templates, arrow fields) by the schema object itself.
    """

    group: Group
    slots: tuple[Slot, ...] = (SOLE,)

    def empty(self) -> tuple[Values, Present]:
        """Arrays for one reading: values `(slots, width)` all zero, present `(slots, metrics)` all False."""
        rows = len(self.slots)
        return (
            np.zeros((rows, self.group.width), np.uint64),
            np.zeros((rows, len(self.group.metrics)), np.bool_),
        )

    def labels(self, slot: Slot, metric: Metric) -> dict[str, str]:
        """All labels of one series but its metric name; the occupant's word wins, then the metric's."""
        labels = {"sampler": self.group.sampler}
        if metric.unit:
            labels["unit"] = metric.unit
        labels.update(metric.labels)
        labels.update(slot.labels)
        return labels


class Window(msgspec.Struct, frozen=True):
    """When the values were read: wall clock at the begin, width by the monotonic clock, both ns."""

    begin_ns: int
    width_ns: int

    @property
    def end_ns(self) -> int:
        return self.begin_ns + self.width_ns


class Reading(msgspec.Struct, frozen=True, eq=False):
    """All values of one group at one moment.

    Attributes:
        schema: what the values are, by reference.
        window: when they were read.
        values: u64 `(slots, width)`; a gauge's cell holds its i64 in two's complement.
        present: bool `(slots, metrics)`; False means "no reading", which is not the same as 0.
    """

    schema: Schema
    window: Window
    values: Values
    present: Present


class Snapshot(msgspec.Struct, frozen=True, eq=False):
    """Everything known at one tick.

    Attributes:
        seq: dense, from 1.
        wall_ns: wall clock of the tick.
        anchored_ns: wall clock at the daemon's start plus monotonic time since; never steps.
        duration_ns: how long gathering took.
        readings: ordered by group key; a group appears at most once.
    """

    seq: int
    wall_ns: int
    anchored_ns: int
    duration_ns: int
    readings: tuple[Reading, ...]


class Report(msgspec.Struct, frozen=True, eq=False):
    """What a sampler's task pushes onto the channel after each attempt: its readings, or why there are none.

    Attributes:
        sampler: who reports.
        readings: one for each group it read; empty when the read failed.
        elapsed_ns: how long the attempt took.
        error: one line, None when the read succeeded.
        unsupported: the error will not go away by trying again.
        degraded: one line when it succeeded in part.
        programs: how its BPF programs are doing, empty when it has none or none could be loaded.
    """

    sampler: str
    readings: tuple[Reading, ...]
    elapsed_ns: int
    error: str | None = None
    unsupported: bool = False
    degraded: str = ""
    programs: tuple[Program, ...] = ()


def signed(value: int) -> int:
    """The u64 cell that holds the i64 `value`."""
    return value & U64_MAX


def fill(schema: Schema, rows: Iterable[Sequence[int | None]]) -> tuple[Values, Present]:
    """Arrays for a group of scalars from a row of numbers for each slot; None marks "no reading"."""
    numbers = list(itertools.chain.from_iterable(rows))
    shape = (len(schema.slots), len(schema.group.metrics))
    cells = [number or 0 for number in numbers]
    if cells and (min(cells) < 0 or max(cells) > I64_MAX):
        numbers = _within_cells(schema.group, numbers)
        cells = [number or 0 for number in numbers]
    present = _mask(bytes(number is not None for number in numbers), shape)
    # By way of array, which takes ints three times as fast as numpy.
    return np.frombuffer(array("Q", cells), np.uint64).reshape(shape), present


@lru_cache(maxsize=256)
def _mask(given: bytes, shape: tuple[int, int]) -> Present:
    """The mask with a 1 for each number given; read-only, as it is the same from one reading to the next."""
    return np.frombuffer(given, np.bool_).reshape(shape)


def _within_cells(group: Group, numbers: list[int | None]) -> list[int | None]:
    """Gauges below zero in two's complement; what no cell of its kind can hold is no reading."""
    kinds = itertools.cycle(metric.kind for metric in group.metrics)
    cells: list[int | None] = []
    for kind, number in zip(kinds, numbers, strict=False):
        lowest, highest = (I64_MIN, I64_MAX) if kind is Kind.GAUGE else (0, U64_MAX)
        fits = number is not None and lowest <= number <= highest
        cells.append(signed(number) if fits and number is not None else None)
    return cells
