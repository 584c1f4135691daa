"""One golden page for the whole: the real samplers over a fixture tree, to the last byte.

When a page changes on purpose, write the files anew from the repository's root and look at the difference:

    python -m tests.sinks.test_golden
    git diff tests/fixtures/golden
"""

import resource
from pathlib import Path
from unittest.mock import patch

import pytest

from config.model import Prometheus
from pipeline.aggregate import Aggregator
from pipeline.readers import rezolus_rusage
from pipeline.records import Reading, Report, Snapshot, Window, fill
from pipeline.source import Attempts, Roots
from rezolusd import catalog
from sinks.page import Renderer

FIXTURES = Path(__file__).parents[1] / "fixtures"
HOST = FIXTURES / "host"
GOLDEN = FIXTURES / "golden"
PAGES = {
    "rezolus.txt": (Prometheus(), False),
    "prometheus.openmetrics.txt": (Prometheus(naming="prometheus"), True),
}
# The daemon that costs just this; user time, system time, faults, blocks and switches.
USAGE = resource.struct_rusage((12.345678, 3.000001, 0, 0, 0, 0, 9001, 17, 0, 640, 1280, 0, 0, 0, 333, 44))
PEAK = 52_428_800


def report(name: str) -> Report:
    """What the sampler reads in the fixture tree, on pages of 4 KiB; what the daemon costs is made up."""
    if name == "rezolus_rusage":
        schema = rezolus_rusage.SCHEMA
        numbers = rezolus_rusage.numbers(USAGE, PEAK)
        return Report(name, (Reading(schema, Window(0, 0), *fill(schema, (numbers,))),), 0)
    attempts = Attempts(catalog.SAMPLERS[name], Roots(str(HOST / "proc"), str(HOST / "sys")))
    with patch.object(resource, "getpagesize", return_value=4096):
        found = attempts.attempt()
    attempts.close()
    assert found.error is None
    return found


def snapshot() -> Snapshot:
    aggregator = Aggregator()
    compiled = {part.sampler.name for family in catalog.FAMILIES for part in family.parts}
    for name in catalog.SAMPLERS.keys() - compiled:
        aggregator.apply(report(name))
    return aggregator.snapshot(1_700_000_000_000_000_000, 1_700_000_000_000_000_000, 0)


def render(name: str) -> str:
    return Renderer(*PAGES[name]).render(snapshot(), None)


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_the_golden_one(name: str) -> None:
    assert render(name) == (GOLDEN / name).read_text()


def test_there_is_a_page_for_every_golden_file() -> None:
    assert sorted(path.name for path in GOLDEN.iterdir()) == sorted(PAGES)


if __name__ == "__main__":
    for page in PAGES:
        (GOLDEN / page).write_text(render(page))
