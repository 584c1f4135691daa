"""Tries every sampler once on this host, without a daemon."""

from typing import Any

from pipeline.source import Attempts, Roots
from rezolusd.catalog import SAMPLERS


def probe() -> list[dict[str, Any]]:
    """For each sampler its name, state, what it reads, the metrics it has a reading of, and why not."""
    return [_probe(name) for name in sorted(SAMPLERS)]


def _probe(name: str) -> dict[str, Any]:
    sampler = SAMPLERS[name]
    attempts = Attempts(sampler, Roots())
    report = attempts.attempt()
    attempts.close()
    metrics = {
        metric.name
        for reading in report.readings
        for column, metric in enumerate(reading.schema.group.metrics)
        if reading.present[:, column].any()
    }
    row: dict[str, Any] = {
        "name": name,
        "state": "active",
        "reads": sampler.reads,
        "opt_in": sampler.opt_in,
        "metrics": sorted(metrics),
    }
    if report.unsupported:
        row |= {"state": "unsupported", "reason": report.error}
    elif report.error is not None:
        row |= {"state": "failed", "error": report.error}
    return row
