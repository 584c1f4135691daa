"""Whole pages held against exact expectations, and against the parsers of Prometheus's own client library."""

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.metrics_core import Metric as Parsed
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from config.model import Prometheus
from pipeline.records import Group, Kind, Metric, Schema, Slot, Snapshot
from sinks.page import Renderer
from tests.sinks import plain
from tests.sinks.world import U64_MAX, Sample, headers, reading, samples, slots, snapshot, sole

Naming = Literal["rezolus", "prometheus"]
Histograms = Literal["summary", "classic", "off"]

NASTY = 'a "quoted\\" name,\nwith {braces} = 100%s and %(d)d'
CPU = Group(
    "cpu_usage",
    "cpu",
    (
        Metric("cpu_usage", Kind.COUNTER, "nanoseconds", "CPU time", (("state", "user"),)),
        Metric("cpu_usage", Kind.COUNTER, "nanoseconds", "CPU time", (("state", "system"),)),
        Metric("cpu_migrations", Kind.COUNTER, "operations", 'Moves to "another" CPU, 100% \\ of them'),
    ),
)
SOFTIRQ = Group(
    "cpu_softirq",
    "main",
    (
        Metric("cpu_temperature", Kind.GAUGE, "millidegrees Celsius", "Temperature"),
        Metric("cpu_usage", Kind.COUNTER, "nanoseconds", "CPU time", (("state", "softirq"),)),
    ),
)
CGROUP = Group(
    "cgroup",
    "main",
    (
        Metric("cgroup_memory", Kind.GAUGE, "bytes", "Memory"),
        Metric("cgroup_wait", Kind.HISTOGRAM, "nanoseconds", "Wait", (("op", "read"),)),
        Metric("cgroup_wait", Kind.HISTOGRAM, "nanoseconds", "Wait", (("op", "write"),)),
        Metric("cgroup_size", Kind.HISTOGRAM, "bytes", "Sizes"),
    ),
)
CPUS = Schema(CPU, slots("id", "0", "1", "2"))
CGROUPS = Schema(CGROUP, slots("name", NASTY, "/b", internal=True))

BEFORE = snapshot(
    1,
    reading(CPUS, (0, 0, 0), (0, 0, 0), (0, 0, 0)),
    sole(SOFTIRQ, 0, 0),
    reading(CGROUPS, (0, {1: 5}, {}, {40: 2}), (0, {}, {3: 1}, {})),
)
NOW = snapshot(
    2,
    reading(CPUS, (U64_MAX, (1 << 53) + 1, 1), (None, 1_500_000_000, None), (0, None, U64_MAX)),
    sole(SOFTIRQ, -40_500, 123),
    reading(
        CGROUPS,
        (1 << 62, {1: 5, 16: 50, 63: 50}, {}, {40: 2}),
        (-7, None, {3: 1, 495: 1}, {100: 1 << 40}),
    ),
)

NAMES = {
    "cpu_usage": ("cpu_usage_seconds_total", 9),
    "cpu_migrations": ("cpu_migrations_total", 0),
    "cpu_temperature": ("cpu_temperature_celsius", 3),
    "cgroup_memory": ("cgroup_memory_bytes", 0),
    "cgroup_wait": ("cgroup_wait_seconds", 9),
    "cgroup_size": ("cgroup_size_bytes", 0),
    "cgroup_wait_distribution": ("cgroup_wait_distribution_seconds", 9),
    "cgroup_size_distribution": ("cgroup_size_distribution_bytes", 0),
}
FIRST, SECOND = {"name": NASTY, "sampler": "cgroup"}, {"name": "/b", "sampler": "cgroup"}
# Name, unit, labels, value: the scalars as recorded.
SCALARS: list[tuple[str, str, dict[str, str], int]] = [
    ("cpu_usage", "nanoseconds", {"sampler": "cpu_usage", "id": "0", "state": "user"}, U64_MAX),
    ("cpu_usage", "nanoseconds", {"sampler": "cpu_usage", "id": "2", "state": "user"}, 0),
    ("cpu_usage", "nanoseconds", {"sampler": "cpu_usage", "id": "0", "state": "system"}, (1 << 53) + 1),
    ("cpu_usage", "nanoseconds", {"sampler": "cpu_usage", "id": "1", "state": "system"}, 1_500_000_000),
    ("cpu_usage", "nanoseconds", {"sampler": "cpu_softirq", "state": "softirq"}, 123),
    ("cpu_migrations", "operations", {"sampler": "cpu_usage", "id": "0"}, 1),
    ("cpu_migrations", "operations", {"sampler": "cpu_usage", "id": "2"}, U64_MAX),
    ("cpu_temperature", "millidegrees Celsius", {"sampler": "cpu_softirq"}, -40_500),
    ("cgroup_memory", "bytes", FIRST, 1 << 62),
    ("cgroup_memory", "bytes", SECOND, -7),
]
# Name, unit, labels, counts now, counts since the snapshot before.
HISTOGRAMS: list[tuple[str, str, dict[str, str], dict[int, int], dict[int, int]]] = [
    ("cgroup_wait", "nanoseconds", {**FIRST, "op": "read"}, {1: 5, 16: 50, 63: 50}, {16: 50, 63: 50}),
    ("cgroup_wait", "nanoseconds", {**FIRST, "op": "write"}, {}, {}),
    ("cgroup_wait", "nanoseconds", {**SECOND, "op": "write"}, {3: 1, 495: 1}, {495: 1}),
    ("cgroup_size", "bytes", FIRST, {40: 2}, {}),
    ("cgroup_size", "bytes", SECOND, {100: 1 << 40}, {100: 1 << 40}),
]


def expected(naming: Naming, histograms: Histograms, power: int) -> dict[Sample, Decimal]:
    return dict(_expected(naming, histograms, power))


def _expected(naming: Naming, histograms: Histograms, power: int) -> Iterator[tuple[Sample, Decimal]]:
    def sample(
        name: str, suffix: str, unit: str, labels: dict[str, str], value: int, *, scaled: bool = True
    ) -> tuple[Sample, Decimal]:
        if naming == "rezolus":
            return (name + suffix, frozenset({**labels, "unit": unit}.items())), Decimal(value)
        own, digits = NAMES[name]
        return (own + suffix, frozenset(labels.items())), Decimal(shifted(value, digits if scaled else 0))

    for name, unit, labels, value in SCALARS:
        yield sample(name, "", unit, labels, value)
    for name, unit, labels, now, since in HISTOGRAMS:
        if histograms == "summary" and since:
            for q in ("0.5", "0.9", "0.99", "0.999", "0.9999"):
                bound = plain.quantile(plain.dense(since), Fraction(q))
                if bound is not None and bound < 1 << 63:
                    yield sample(name, "", unit, {**labels, "percentile": q}, bound)
        if histograms == "classic":
            name = f"{name}_distribution"
            digits = NAMES[name][1] if naming == "prometheus" else 0
            running = total = 0
            for bucket, count in enumerate(plain.coarser(plain.dense(now), power)):
                running += count
                upper = plain.bounds_of(bucket, power)[1]
                total += count * upper
                le = {**labels, "le": shifted(upper, digits)}
                yield sample(name, "_bucket", unit, le, running, scaled=False)
            yield sample(name, "_bucket", unit, {**labels, "le": "+Inf"}, running, scaled=False)
            yield sample(name, "_count", unit, labels, running, scaled=False)
            yield sample(name, "_sum", unit, labels, total)


def shifted(value: int, digits: int) -> str:
    """The decimal point moved to the left, by cutting the text."""
    if not digits:
        return str(value)
    text = str(abs(value)).rjust(digits + 1, "0")
    text = f"{text[:-digits]}.{text[-digits:]}".rstrip("0").rstrip(".")
    return f"-{text}" if value < 0 else text


def parsed(page: str, openmetrics: bool) -> list[Parsed]:
    if openmetrics:
        return list(parse_openmetrics(page))  # type: ignore[no-untyped-call]
    return list(parse_text(page))


def by_oracle(families: list[Parsed]) -> dict[Sample, float]:
    return {
        (sample.name, frozenset(sample.labels.items())): float(sample.value)
        for family in families
        for sample in family.samples
    }


def page(settings: Prometheus, openmetrics: bool, now: Snapshot = NOW, before: Snapshot = BEFORE) -> str:
    return Renderer(settings, openmetrics).render(now, before)


NAMINGS: tuple[Naming, ...] = ("rezolus", "prometheus")
WAYS: tuple[Histograms, ...] = ("summary", "classic", "off")
CASES = [
    (Prometheus(naming=naming, histograms=histograms, grouping_power=power), openmetrics)
    for naming, histograms, openmetrics in product(NAMINGS, WAYS, (False, True))
    for power in ((0, 1, 2, 3) if histograms == "classic" else (3,))
]


def title(value: object) -> str:
    if isinstance(value, Prometheus):
        return f"{value.naming}-{value.histograms}-{value.grouping_power}"
    return "openmetrics" if value else "text"


every_case = pytest.mark.parametrize(("settings", "openmetrics"), CASES, ids=title)


@every_case
def test_every_sample_is_there_once_and_exact(settings: Prometheus, openmetrics: bool) -> None:
    found = samples(page(settings, openmetrics))
    assert found == expected(settings.naming, settings.histograms, settings.grouping_power)


@every_case
def test_the_client_library_reads_the_same(settings: Prometheus, openmetrics: bool) -> None:
    text = page(settings, openmetrics)
    families = parsed(text, openmetrics)
    counters = {family.name for family in families if family.type == "counter" and not openmetrics}
    wanted = {
        # The library gives a counter of the old format the ending it should have had.
        ((f"{name}_total" if name in counters else name), labels): float(value)
        for (name, labels), value in samples(text).items()
    }
    assert by_oracle(families) == wanted
    assert len({family.name for family in families}) == len(families)


@every_case
def test_every_family_has_one_header_before_its_samples_which_stand_together(
    settings: Prometheus, openmetrics: bool
) -> None:
    text = page(settings, openmetrics)
    seen: list[str] = []
    for line in text.split("\n"):
        if line.startswith("# HELP "):
            seen.append(line.split(" ")[2])
        elif line and not line.startswith("#"):
            assert line.startswith(seen[-1]), line
    assert len(seen) == len(set(seen))
    for word in ("TYPE", "UNIT"):
        named = [line.split(" ")[2] for line in headers(text) if line.startswith(f"# {word} ")]
        assert len(named) == len(set(named))
        assert set(named) <= set(seen)
    assert text.count("# EOF") == openmetrics


@pytest.mark.parametrize(
    ("naming", "openmetrics", "types"),
    [
        ("rezolus", False, {"cpu_usage": "counter", "cgroup_memory": "gauge", "cgroup_wait": "gauge"}),
        ("rezolus", True, {"cpu_usage": "unknown", "cgroup_memory": "gauge", "cgroup_wait": "gauge"}),
        ("prometheus", False, {"cpu_usage_seconds": "counter", "cgroup_memory_bytes": "gauge"}),
        ("prometheus", True, {"cpu_usage_seconds": "counter", "cgroup_wait_seconds": "gauge"}),
    ],
)
def test_the_types_the_client_library_sees(naming: Naming, openmetrics: bool, types: dict[str, str]) -> None:
    families = {
        found.name: found for found in parsed(page(Prometheus(naming=naming), openmetrics), openmetrics)
    }
    assert {name: families[name].type for name in types} == types


def test_units_and_help_the_client_library_sees() -> None:
    families = {found.name: found for found in parsed(page(Prometheus(naming="prometheus"), True), True)}
    assert families["cpu_usage_seconds"].unit == "seconds"
    assert families["cpu_temperature_celsius"].unit == "celsius"
    assert families["cpu_migrations"].unit == ""
    assert families["cpu_migrations"].documentation == 'Moves to "another" CPU, 100% \\ of them'


# Labels as they may come from anywhere; the library ends lines at more than Prometheus does.
names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r"), max_size=8)
u64 = st.integers(0, U64_MAX)
i64 = st.integers(-(1 << 63), (1 << 63) - 1)


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(names, st.tuples(st.none() | u64, st.none() | i64), max_size=5),
    st.sampled_from(NAMINGS),
    st.booleans(),
)
def test_any_labels_and_numbers_survive(
    cells: dict[str, tuple[int | None, int | None]], naming: Naming, openmetrics: bool
) -> None:
    group = Group(
        "it",
        "main",
        (Metric("c", Kind.COUNTER, "microjoules", "C"), Metric("g", Kind.GAUGE, "milliwatts", "G")),
    )
    schema = Schema(group, tuple(Slot((("name", name),), index) for index, name in enumerate(cells)))
    text = page(Prometheus(naming=naming), openmetrics, snapshot(2, reading(schema, *cells.values())))
    scaled = naming == "prometheus"
    found = samples(text)
    assert len(by_oracle(parsed(text, openmetrics))) == len(found)
    wanted: dict[Sample, Decimal] = {}
    for name, (counter, gauge) in cells.items():
        for value, own, base, unit, digits in (
            (counter, "c", "c_joules_total", "microjoules", 6),
            (gauge, "g", "g_watts", "milliwatts", 3),
        ):
            if value is not None:
                labels = {"name": name, "sampler": "it"} | ({} if scaled else {"unit": unit})
                key = base if scaled else own, frozenset(labels.items())
                wanted[key] = Decimal(shifted(value, digits if scaled else 0))
    assert found == wanted
