"""What is published, by name: one meaning for each, and none that another could be taken for."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import product

import pytest

from pipeline.records import Kind, Metric
from rezolusd import catalog
from sinks.exposition import Naming, family

METRICS = [metric for group in catalog.groups() for metric in group.metrics]
SUFFIXES = {
    "counter": ("_created",),
    "histogram": ("_bucket", "_count", "_sum", "_created"),
    "gauge": (),
    "unknown": (),
}


def test_a_name_has_one_kind_unit_and_help_wherever_it_is_declared() -> None:
    meanings: dict[str, set[tuple[Kind, str, str]]] = defaultdict(set)
    for metric in METRICS:
        meanings[metric.name].add((metric.kind, metric.unit, metric.help))
    assert {name: found for name, found in meanings.items() if len(found) > 1} == {}


def test_a_family_has_the_same_labels_throughout() -> None:
    labels: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    for metric in METRICS:
        labels[metric.name].add(tuple(sorted(name for name, _ in metric.labels)))
    assert {name: found for name, found in labels.items() if len(found) > 1} == {}


def test_a_series_is_declared_once() -> None:
    declared = Counter(
        (group.sampler, metric.name, metric.labels) for group in catalog.groups() for metric in group.metrics
    )
    assert [series for series, count in declared.items() if count > 1] == []


def test_groups_are_named_once() -> None:
    keys = Counter(group.key for group in catalog.groups())
    assert [key for key, count in keys.items() if count > 1] == []


def test_names_and_labels_are_plain_words_and_leave_the_reserved_ones_alone() -> None:
    for metric in METRICS:
        assert re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", metric.name)
        for name, value in metric.labels:
            assert re.fullmatch(r"[a-z][a-z0-9_]*", name)
            assert name not in ("sampler", "unit", "id", "percentile", "le", "quantile", "job", "instance")
            assert value


def taken(metric: Metric, naming: Naming, openmetrics: bool, histograms: str) -> Iterator[str]:
    """Every sample name that belongs to the metric's family."""
    found = family(metric, naming, openmetrics, histograms)
    yield from {found.sample, found.name}
    for suffix in SUFFIXES[found.type]:
        yield found.name.removesuffix("_total") + suffix


@pytest.mark.parametrize(
    ("naming", "openmetrics", "histograms"),
    list(product(["rezolus", "prometheus"], [False, True], ["summary", "classic"])),
)
def test_no_two_families_lay_claim_to_the_same_sample_name(
    naming: Naming, openmetrics: bool, histograms: str
) -> None:
    owners: dict[str, set[str]] = defaultdict(set)
    for metric in METRICS:
        for sample in taken(metric, naming, openmetrics, histograms):
            owners[sample].add(metric.name)
    assert {sample: names for sample, names in owners.items() if len(names) > 1} == {}
