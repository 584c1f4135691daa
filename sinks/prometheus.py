"""The Prometheus page: the newest snapshot as text, rendered once however many ask for it."""

import gzip
from collections.abc import AsyncIterable, Iterable, Iterator
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from config.model import Prometheus
from pipeline.records import HISTOGRAM_BUCKETS, Kind, Metric, Reading, Schema, Snapshot, Values
from sinks.answer import Answer, Ask, preferred, takes_gzip
from sinks.exposition import Family, decimal, family, label_text
from sinks.histograms import PERCENTILES, downsample, percentiles, upper_bounds

TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
OFFERS: Final = ("text/plain;version=0.0.4", "application/openmetrics-text;version=1.0.0")
NOT_READY: Final = Answer(b"no snapshot yet, the first is due within an interval\n", status=503)


class Block(msgspec.Struct, frozen=True, eq=False):
    """One family's samples out of one reading, prepared but for the numbers.

    Attributes:
        prefixes: each sample's line up to its number.
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
        cells: dict[Kind, list[int]] = {kind: [] for kind in Kind}
        blocks: dict[str, Block] = {}
        for metric, labels, cell in self._series(reading):
            named = family(metric, self.settings.naming, self.openmetrics, self.settings.histograms)
            block = blocks.get(named.sample)
            if block is None:
                block = Block(
                    named,
                    [],
                    "",
                    len(cells[metric.kind]),
                    metric.kind,
                    [] if metric.kind is Kind.HISTOGRAM else None,
                )
                blocks[named.sample] = block
            block.prefixes.append(labels if block.histograms is not None else _prefix(named.sample, labels))
            cells[metric.kind].append(cell)
            if block.histograms is not None:
                block.histograms.append(cell)
        return Prepared(
            mask,
            [_with_template(block) for block in blocks.values()],
            np.array(cells[Kind.COUNTER], np.intp),
            np.array(cells[Kind.GAUGE], np.intp),
        )

    def _series(self, reading: Reading) -> Iterator[tuple[Metric, str, int]]:
        """Metric, label text and first cell of every series there is a reading of, metric by metric."""
        schema = reading.schema
        group = schema.group
        for column, metric in enumerate(group.metrics):
            if metric.kind is Kind.HISTOGRAM and self.settings.histograms == "off":
                continue
            for row in np.flatnonzero(reading.present[:, column]).tolist():
                labels = label_text(schema.labels(schema.slots[row], metric), self.settings.naming)
                yield metric, labels, row * group.width + group.offsets[column]

    def _lay_out(self, prepared: list[Prepared]) -> list[tuple[str, list[tuple[int, Block]]]]:
        """Families in order of name, each with its blocks from whichever readings have one."""
        families: dict[str, list[tuple[int, Block]]] = {}
        for place, found in enumerate(prepared):
            for block in found.blocks:
                families.setdefault(block.family.sample, []).append((place, block))
        room, self.left_out = self.settings.max_series, 0
        layout = []
        for _, blocks in sorted(families.items()):
            kept = []
            for place, block in blocks:
                fitting = _shortened(block, room)
                room -= len(fitting.prefixes)
                self.left_out += len(block.prefixes) - len(fitting.prefixes)
                if fitting.prefixes:
                    kept.append((place, fitting))
            if kept:
                layout.append((kept[0][1].family.header(self.openmetrics), kept))
        return layout

    def _histograms(self, block: Block, now: Reading, before: Reading | None) -> Iterator[str]:
        assert block.histograms is not None  # noqa: S101 - narrows the type
        cells = now.values.reshape(-1)
        old = None if before is None else _aligned(before, now.schema)
        for labels, start in zip(block.prefixes, block.histograms, strict=True):
            counts = cells[start : start + HISTOGRAM_BUCKETS]
            if self.settings.histograms == "classic":
                yield from _classic(block.family, labels, downsample(counts, self.settings.grouping_power))
            elif old is not None:
                yield from _summary(block.family, labels, old[start : start + HISTOGRAM_BUCKETS], counts)


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


def _aligned(before: Reading, schema: Schema) -> Values | None:
    """An earlier reading's cells in the slot order of `schema`; a slot it did not have counts from zero."""
    if before.schema is schema:
        return before.values.reshape(-1)
    rows = {slot: row for row, slot in enumerate(before.schema.slots)}
    values, _ = schema.empty()
    for row, slot in enumerate(schema.slots):
        if slot in rows:
            values[row] = before.values[rows[slot]]
    return values.reshape(-1)


def _summary(named: Family, labels: str, before: Values, now: Values) -> Iterator[str]:
    """A gauge for each percentile of the interval."""
    for (percentile, _), bound in zip(PERCENTILES, percentiles(before, now), strict=True):
        if bound is not None:
            every = f'{labels},percentile="{percentile}"' if labels else f'percentile="{percentile}"'
            yield f"{named.sample}{{{every}}} {decimal(bound, named.digits)}\n"


def _classic(named: Family, labels: str, counts: Values) -> Iterator[str]:
    """Cumulative buckets, count and sum; the sum takes every value for its bucket's upper bound."""
    running = counts.cumsum(dtype=np.uint64).tolist()
    power = next(power for power in range(4) if len(upper_bounds(power)) == len(counts))
    bounds = upper_bounds(power)
    before = f"{named.name}_bucket{{{labels}," if labels else f"{named.name}_bucket{{"
    for bound, count in zip(bounds, running, strict=True):
        yield f'{before}le="{decimal(bound, named.digits)}"}} {count}\n'
    total = sum(count * bound for count, bound in zip(counts.tolist(), bounds, strict=True))
    yield f'{before}le="+Inf"}} {running[-1]}\n'
    yield f"{_prefix(f'{named.name}_count', labels)}{running[-1]}\n"
    yield f"{_prefix(f'{named.name}_sum', labels)}{decimal(total, named.digits)}\n"


class PrometheusSink:
    """Keeps the newest snapshot and answers for it.

    Attributes:
        left_out: series left out of the newest page, as there are more than `max_series`.
    """

    def __init__(self, settings: Prometheus) -> None:
        self.left_out = 0
        self._renderers = {False: Renderer(settings, False), True: Renderer(settings, True)}
        self._newest: Snapshot | None = None
        self._before: Snapshot | None = None
        self._answers: dict[tuple[bool, bool], Answer] = {}

    async def run(self, snapshots: AsyncIterable[Snapshot]) -> None:
        """Take snapshots until there are no more."""
        async for snapshot in snapshots:
            self.take(snapshot)

    def take(self, snapshot: Snapshot) -> None:
        self._before, self._newest = self._newest, snapshot
        self._answers.clear()

    def answer(self, ask: Ask) -> Answer:
        """The page in the format and encoding asked for; 503 before the first snapshot."""
        if self._newest is None:
            return NOT_READY
        openmetrics = preferred(ask.accept, OFFERS) == OFFERS[1]
        wanted = openmetrics, takes_gzip(ask.accept_encoding)
        answer = self._answers.get(wanted)
        if answer is None:
            answer = self._answers[wanted] = self._make(self._newest, *wanted)
        return answer

    def _make(self, snapshot: Snapshot, openmetrics: bool, compressed: bool) -> Answer:
        content_type = OPENMETRICS if openmetrics else TEXT
        vary = ("vary", "accept, accept-encoding")
        if compressed:
            plain = self.answer(Ask(accept=OFFERS[openmetrics]))
            # Level 1: a tenth larger than level 6 at a third of its time.
            body = gzip.compress(plain.body, 1, mtime=0)
            return Answer(body, content_type, headers=(vary, ("content-encoding", "gzip")))
        renderer = self._renderers[openmetrics]
        page = renderer.render(snapshot, self._before)
        self.left_out = renderer.left_out
        return Answer(page.encode(), content_type, headers=(vary,))
