"""Snapshots made by hand, and pages taken apart without the renderer's help."""

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal

from pipeline.records import Group, Kind, Metric, Reading, Schema, Slot, Snapshot, Window

Cell = int | Mapping[int, int] | None
Sample = tuple[str, frozenset[tuple[str, str]]]

SECOND = 1_000_000_000
U64_MAX = (1 << 64) - 1


def slots(label: str, *names: str, internal: bool = False) -> tuple[Slot, ...]:
    """An occupant for each name; `internal` gives each a label that must not be published."""
    return tuple(
        Slot(((label, name), *([("__uid__", f"u{index}")] if internal else [])), index)
        for index, name in enumerate(names)
    )


def reading(schema: Schema, *rows: Sequence[Cell]) -> Reading:
    """A row for each slot and in it a cell for each metric: a number, counts by bucket, or None."""
    values, present = schema.empty()
    group = schema.group
    for row, cells in enumerate(rows):
        for column, cell in enumerate(cells):
            if cell is None:
                continue
            present[row, column] = True
            counts = {0: cell} if isinstance(cell, int) else cell
            for bucket, count in counts.items():
                values[row, group.offsets[column] + bucket] = count & U64_MAX
    assert len(rows) == len(schema.slots)
    return Reading(schema, Window(0, 0), values, present)


def sole(group: Group, *cells: Cell) -> Reading:
    """A reading of a group with a single occupant."""
    return reading(Schema(group), cells)


def snapshot(seq: int, *readings: Reading) -> Snapshot:
    ordered = sorted(readings, key=lambda found: found.schema.group.key)
    return Snapshot(seq, 1_700_000_000 * SECOND + seq * SECOND, seq * SECOND, 0, tuple(ordered))


LINE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"(?:,|$)', re.DOTALL)
ESCAPES = {r"\\": "\\", r"\"": '"', r"\n": "\n"}


def lines(page: str) -> list[str]:
    """The page's sample lines as they stand."""
    return [line for line in page.split("\n") if line and not line.startswith("#")]


def headers(page: str) -> list[str]:
    """The page's comment lines as they stand."""
    return [line for line in page.split("\n") if line.startswith("#")]


def samples(page: str) -> dict[Sample, Decimal]:
    """Every sample with its exact value. A line that is none, or one that is there twice, fails the test."""
    found: dict[Sample, Decimal] = {}
    for line in lines(page):
        match = LINE.fullmatch(line)
        assert match is not None, line
        text = match[2] or ""
        assert LABEL.sub("", text) == "", line
        labels = [(name, _unescaped(value)) for name, value in LABEL.findall(text)]
        assert len(labels) == len(dict(labels)), line
        sample = match[1], frozenset(labels)
        assert sample not in found, line
        found[sample] = Decimal(match[3])
    return found


def _unescaped(value: str) -> str:
    return re.sub(r"\\.", lambda escape: ESCAPES[escape[0]], value)


TASKS = Group(
    "tasks",
    "main",
    (
        Metric("task_count", Kind.COUNTER, "", "Tasks there were"),
        Metric("task_level", Kind.GAUGE, "bytes", "Memory of the task"),
    ),
)
LATENCY = Group("disk", "latency", (Metric("latency", Kind.HISTOGRAM, "nanoseconds", "Latency"),))


def tasks(*names: str) -> Schema:
    return Schema(TASKS, slots("task", *names))


def percentile(text: str, disk: str, q: str = "0.5") -> Decimal | None:
    """A percentile of `LATENCY` on the page, of the disk of this name."""
    wanted = {"disk": disk, "percentile": q, "sampler": "disk", "unit": "nanoseconds"}
    return samples(text).get(("latency", frozenset(wanted.items())))
