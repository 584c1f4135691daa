"""Tries every sampler once on this host, without a daemon."""

from typing import Any

import trio

from bpf.room import Room
from config.model import Config
from pipeline.source import Attempts, Roots, Sampler
from rezolusd import catalog


async def probe(config: Config) -> list[dict[str, Any]]:
    """For each sampler its name, state, what it reads, the metrics it has a reading of, and why not."""
    room = Room(catalog.FAMILIES, config, catalog.SAMPLERS.keys())
    roots = Roots(config.general.proc, config.general.sys)
    rows: list[dict[str, Any]] = []

    async def probe_one(sampler: Sampler) -> None:
        rows.append(await _probe(Attempts(room.bind(sampler), roots)))

    async with trio.open_nursery() as nursery:
        for sampler in catalog.SAMPLERS.values():
            nursery.start_soon(probe_one, sampler)
    return sorted(rows, key=lambda row: str(row["name"]))


async def _probe(attempts: Attempts) -> dict[str, Any]:
    sampler = attempts.sampler
    report = await attempts.prepare() or attempts.attempt()
    attempts.close()
    metrics = {
        metric.name
        for reading in report.readings
        for column, metric in enumerate(reading.schema.group.metrics)
        if reading.present[:, column].any()
    }
    row: dict[str, Any] = {
        "name": sampler.name,
        "state": "degraded" if report.degraded else "active",
        "reads": sampler.reads,
        "opt_in": sampler.opt_in,
        "metrics": sorted(metrics),
    }
    if report.degraded:
        row |= {"reason": report.degraded}
    if report.unsupported:
        row |= {"state": "unsupported", "reason": report.error}
    elif report.error is not None:
        row |= {"state": "failed", "error": report.error}
    return row
