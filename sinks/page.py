"""A snapshot as Prometheus text: prepared once a schema, filled in once a snapshot."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from config.model import Prometheus
from pipeline.histogram import buckets
from pipeline.records import HISTOGRAM_BUCKETS, Kind, Metric, Present, Reading, Schema, Snapshot, Values
from sinks.exposition import Family, decimal, family, label_text
from sinks.histograms import PERCENTILES, downsample, percentiles, upper_bounds


class Block(msgspec.Struct, frozen=True, eq=False):
    """One family's samples out of one reading, prepared but for the numbers.

    Attributes:
        prefixes: each sample's line up to its number; see `_prefix_of` for histograms.
        template: the lines joined, a `%` place for each number.
        start: where its numbers begin among the reading's numbers of its kind.
        histograms: for a histogram family, the first cell of each of its histograms, else None.
    """

    family: Family
    prefixes: list[str]
    template: str
    start: int
    kind: Kind
    histograms: list[int] | None = None


class Prepared(msgspec.Struct, frozen=True, eq=False):
    """All that can be known of a reading's lines before its numbers: made once a schema and mask."""

    mask: bytes
    blocks: list[Block]
    counters: npt.NDArray[np.intp]
    gauges: npt.NDArray[np.intp]


class Renderer:
    """Renders snapshots in one format; what it prepared for a schema lasts as long as the schema is used."""

    def __init__(self, settings: Prometheus, openmetrics: bool) -> None:
        self.settings = settings
        self.openmetrics = openmetrics
        self.left_out = 0
        self._prepared: dict[Schema, Prepared] = {}
        self._layout: list[tuple[str, list[tuple[int, Block]]]] = []
        self._laid_out: list[Prepared] = []

    def render(self, snapshot: Snapshot, before: Snapshot | None) -> str:
        """The page of `snapshot`; percentiles are those of the time since `before`."""
        readings = snapshot.readings
        prepared = [self._prepare(reading) for reading in readings]
        self._prepared = {reading.schema: found for reading, found in zip(readings, prepared, strict=True)}
        if prepared != self._laid_out:
            self._layout, self._laid_out = self._lay_out(prepared), prepared
        numbers = [_numbers(*pair) for pair in zip(readings, prepared, strict=True)]
        earlier = {reading.schema.group.key: reading for reading in before.readings} if before else {}
        page: list[str] = []
        for header, blocks in self._layout:
            page.append(header)
            for place, block in blocks:
                if block.histograms is None:
                    page.append(_scalars(block, numbers[place][block.kind]))
                else:
                    old = earlier.get(readings[place].schema.group.key)
                    page.extend(self._histograms(block, readings[place], old))
        if self.openmetrics:
            page.append("# EOF\n")
        return "".join(page)

    def _prepare(self, reading: Reading) -> Prepared:
        mask = reading.present.tobytes()
        known = self._prepared.get(reading.schema)
        if known is not None and known.mask == mask:
            return known
        found: dict[str, tuple[Metric, list[str], list[int]]] = {}
        for metric, labels, cell in self._series(reading):
            named = self._family(metric)
            _, prefixes, cells = found.setdefault(named.sample, (metric, [], []))
            prefixes.append(self._prefix_of(metric, named, labels))
            cells.append(cell)
        taken: dict[Kind, list[int]] = {kind: [] for kind in Kind}
        blocks = []
        for metric, prefixes, cells in found.values():
            histograms = cells if metric.kind is Kind.HISTOGRAM else None
            block = Block(
                self._family(metric), prefixes, "", len(taken[metric.kind]), metric.kind, histograms
            )
            blocks.append(_with_template(block))
            taken[metric.kind] += cells
        return Prepared(
            mask, blocks, np.array(taken[Kind.COUNTER], np.intp), np.array(taken[Kind.GAUGE], np.intp)
        )

    def _prefix_of(self, metric: Metric, named: Family, labels: str) -> str:
        """What a series' text begins with; of a histogram the whole template, or the labels alone."""
        if metric.kind is not Kind.HISTOGRAM:
            return _prefix(named.sample, labels)
        if self.settings.histograms == "classic":
            return _classic_template(named, labels, self.settings.grouping_power)
        return labels

    def _family(self, metric: Metric) -> Family:
        return family(metric, self.settings.naming, self.openmetrics, self.settings.histograms)

    def _series(self, reading: Reading) -> Iterator[tuple[Metric, str, int]]:
        """Metric, label text and first cell of every series there is a reading of, metric by metric."""
        schema = reading.schema
        group = schema.group
        for column, metric in enumerate(group.metrics):
            if metric.kind is Kind.HISTOGRAM and self.settings.histograms == "off":
                continue
            for row in np.flatnonzero(reading.present[:, column]).tolist():
                labels = schema.labels(schema.slots[row], metric)
                if self.settings.naming == "prometheus" and labels.get("unit") == metric.unit:
                    labels.pop("unit", None)  # it is in the name
                yield metric, label_text(labels), row * group.width + group.offsets[column]

    def _lay_out(self, prepared: list[Prepared]) -> list[tuple[str, list[tuple[int, Block]]]]:
        """Families in order of name, each with its blocks from whichever readings have one."""
        families: dict[str, list[tuple[int, Block]]] = {}
        for place, found in enumerate(prepared):
            for block in found.blocks:
                families.setdefault(block.family.sample, []).append((place, block))
        room, self.left_out = self.settings.max_series, 0
        each = {Kind.COUNTER: 1, Kind.GAUGE: 1, Kind.HISTOGRAM: self._lines_a_histogram()}
        layout = []
        for _, blocks in sorted(families.items()):
            kept = []
            for place, block in blocks:
                fitting = _shortened(block, room // each[block.kind])
                room -= len(fitting.prefixes) * each[block.kind]
                self.left_out += (len(block.prefixes) - len(fitting.prefixes)) * each[block.kind]
                if fitting.prefixes:
                    kept.append((place, fitting))
            if kept:
                layout.append((kept[0][1].family.header(self.openmetrics), kept))
        return layout

    def _lines_a_histogram(self) -> int:
        if self.settings.histograms == "classic":
            return buckets(self.settings.grouping_power) + 3
        return len(PERCENTILES)

    def _histograms(self, block: Block, now: Reading, before: Reading | None) -> Iterator[str]:
        assert block.histograms is not None  # noqa: S101 - narrows the type
        group, cells = now.schema.group, now.values.reshape(-1)
        old, had = (None, None) if before is None else _aligned(before, now.schema)
        for labels, start in zip(block.prefixes, block.histograms, strict=True):
            counts = cells[start : start + HISTOGRAM_BUCKETS]
            if self.settings.histograms == "classic":
                power = self.settings.grouping_power
                yield _classic(block.family, labels, downsample(counts, power), power)
            elif old is not None and had is not None:
                row, offset = divmod(start, group.width)
                if had[row, group.offsets.index(offset)]:
                    then = old[row, offset : offset + HISTOGRAM_BUCKETS]
                    yield from _summary(block.family, labels, then, counts)


def _prefix(sample: str, labels: str) -> str:
    return f"{sample}{{{labels}}} " if labels else f"{sample} "


def _with_template(block: Block) -> Block:
    if block.histograms is not None:
        return block
    place = "%s\n" if block.family.digits else "%d\n"
    template = "".join(prefix.replace("%", "%%") + place for prefix in block.prefixes)
    return msgspec.structs.replace(block, template=template)


def _shortened(block: Block, room: int) -> Block:
    """The block with at most `room` of its series."""
    if len(block.prefixes) <= room:
        return block
    histograms = None if block.histograms is None else block.histograms[:room]
    return _with_template(
        msgspec.structs.replace(block, prefixes=block.prefixes[:room], histograms=histograms)
    )


def _numbers(reading: Reading, prepared: Prepared) -> dict[Kind, list[int]]:
    """The reading's scalars as Python ints, in the order their blocks take them."""
    cells = reading.values.reshape(-1)
    return {
        Kind.COUNTER: cells[prepared.counters].tolist(),
        Kind.GAUGE: cells.view(np.int64)[prepared.gauges].tolist(),
    }


def _scalars(block: Block, numbers: list[int]) -> str:
    own: Iterable[Any] = numbers[block.start : block.start + len(block.prefixes)]
    if block.family.digits:
        own = (decimal(number, block.family.digits) for number in own)
    return block.template % tuple(own)


def _aligned(before: Reading, schema: Schema) -> tuple[Values, Present]:
    """An earlier reading's values and mask in the slot order of `schema`; a new slot counts from zero."""
    if before.schema is schema:
        return before.values, before.present
    rows = {slot: row for row, slot in enumerate(before.schema.slots)}
    values, present = schema.empty()
    present[:] = True
    for row, slot in enumerate(schema.slots):
        if slot in rows:
            values[row], present[row] = before.values[rows[slot]], before.present[rows[slot]]
    return values, present


def _summary(named: Family, labels: str, before: Values, now: Values) -> Iterator[str]:
    """A gauge for each percentile of the interval."""
    for (percentile, _), bound in zip(PERCENTILES, percentiles(before, now), strict=True):
        if bound is not None:
            every = f'{labels},percentile="{percentile}"' if labels else f'percentile="{percentile}"'
            yield f"{named.sample}{{{every}}} {decimal(bound, named.digits)}\n"


def _classic_template(named: Family, labels: str, power: int) -> str:
    """One histogram's lines with a place for each cumulative count, twice the total, and the sum."""
    labels = labels.replace("%", "%%")
    before = f"{named.name}_bucket{{{labels}," if labels else f"{named.name}_bucket{{"
    bounds = [decimal(bound, named.digits) for bound in upper_bounds(power)]
    lines = [f'{before}le="{bound}"}} %d\n' for bound in (*bounds, "+Inf")]
    lines.append(f"{_prefix(f'{named.name}_count', labels)}%d\n")
    lines.append(f"{_prefix(f'{named.name}_sum', labels)}%s\n")
    return "".join(lines)


def _classic(named: Family, template: str, counts: Values, power: int) -> str:
    """Cumulative buckets, count and sum; the sum takes every value for its bucket's upper bound."""
    running = counts.cumsum(dtype=np.uint64).tolist()
    bounds = upper_bounds(power)
    total = sum(int(counts[place]) * bounds[place] for place in np.flatnonzero(counts).tolist())
    return template % (*running, running[-1], running[-1], decimal(total, named.digits))
