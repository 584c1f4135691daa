"""Pages under the naming `prometheus`, judged by Prometheus's own linter."""

import os
import shutil
import subprocess
from typing import Literal

import pytest

from config.model import Prometheus
from pipeline.records import Group, Kind, Metric, Reading, Schema, Slot, Snapshot
from rezolusd import catalog
from sinks.page import Renderer
from tests.sinks.world import Cell, reading, snapshot

# How a daemon that has all samplers looks: every unit there is, and both kinds of histogram.
SYNTHETIC = Group(
    "synthetic",
    "main",
    (
        Metric("blockio_latency", Kind.HISTOGRAM, "nanoseconds", "Latency", (("op", "read"),)),
        Metric("blockio_latency", Kind.HISTOGRAM, "nanoseconds", "Latency", (("op", "write"),)),
        Metric("blockio_size", Kind.HISTOGRAM, "bytes", "Sizes"),
        Metric("blockio_bytes", Kind.COUNTER, "bytes", "Bytes"),
        Metric("cpu_energy", Kind.COUNTER, "microjoules", "Energy"),
        Metric("cpu_temperature", Kind.GAUGE, "millidegrees Celsius", "Temperature"),
        Metric("cpu_frequency", Kind.GAUGE, "Hz", "Frequency"),
        Metric("gpu_busy", Kind.GAUGE, "percentage", "Share of time busy"),
        Metric("gpu_power", Kind.GAUGE, "milliwatts", "Power"),
        Metric("rail", Kind.GAUGE, "millivolts", "Voltage"),
        Metric("pcie", Kind.GAUGE, "bytes/second", "Throughput"),
    ),
)


def promtool() -> str:
    """Its path. Without it the test is skipped, but not in CI, where that would hide the loss."""
    path = shutil.which("promtool")
    if path is not None:
        return path
    reason = "promtool (package prometheus) is not installed"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def check(page: str) -> tuple[int, str]:
    """Exit code and findings: 0 for none, 3 for findings, 1 for what cannot be parsed."""
    done = subprocess.run(
        [promtool(), "check", "metrics"],
        input=page, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", timeout=60,
    )  # fmt: skip
    return done.returncode, done.stdout


def full(group: Group, count: int) -> Reading:
    """A reading with a number in every cell."""
    schema = Schema(group, tuple(Slot((("name", f"n{slot}"),), slot) for slot in range(2)))
    row: list[Cell] = [
        {10: count, 100: count} if metric.kind is Kind.HISTOGRAM else count for metric in group.metrics
    ]
    return reading(schema, row, row)


def everything(seq: int) -> Snapshot:
    return snapshot(seq, *(full(group, seq) for group in (*catalog.groups(), SYNTHETIC)))


@pytest.mark.parametrize("histograms", ["summary", "classic", "off"])
def test_under_prometheus_naming_promtool_finds_nothing(
    histograms: Literal["summary", "classic", "off"],
) -> None:
    page = Renderer(Prometheus(naming="prometheus", histograms=histograms), False).render(
        everything(2), everything(1)
    )
    metrics = [metric for group in catalog.groups() for metric in group.metrics]
    names = {found.name for found in metrics if histograms != "off" or found.kind is not Kind.HISTOGRAM}
    assert all(f"\n{name}" in f"\n{page}" for name in names)
    assert check(page) == (0, "")


@pytest.mark.parametrize("histograms", ["summary", "classic"])
def test_under_rezolus_naming_promtool_can_read_the_page(histograms: Literal["summary", "classic"]) -> None:
    code, findings = check(
        Renderer(Prometheus(histograms=histograms), False).render(everything(2), everything(1))
    )
    assert code in (0, 3), findings
