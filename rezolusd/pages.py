"""What the daemon says of itself over HTTP: the front page, `/status`, `/samplers` and their like."""

import os
import uuid
from html import escape
from pathlib import Path
from typing import Any, Final

import msgspec
import trio

from pipeline.clock import Clock
from pipeline.fanout import Fanout
from pipeline.health import Health, State, Status
from pipeline.programs import Program
from pipeline.records import NANOSECONDS
from pipeline.tick import Ticker
from rezolusd import __version__, catalog
from rezolusd.systeminfo import systeminfo
from sinks.answer import JSON, Answer, Ask, Responder, preferred

LINKS: Final = {
    "/metrics": "all metrics as Prometheus text or OpenMetrics",
    "/metrics/descriptions": "what each metric means",
    "/status": "version, ticks, sinks and samplers",
    "/samplers": "the state of each sampler",
    "/systeminfo": "this machine's hardware",
    "/-/healthy": "200 while the daemon runs",
    "/-/ready": "200 once the first snapshot is there",
}


class Pages:
    """Answers from the daemon's live state."""

    def __init__(
        self,
        clock: Clock,
        health: Health,
        fanout: Fanout,
        ticker: Ticker,
        listening: str,
        proc: str,
        sys: str,
    ) -> None:
        self._clock = clock
        self._health = health
        self._fanout = fanout
        self._ticker = ticker
        self._listening = listening
        self._roots = Path(proc), Path(sys)
        self._epoch = str(uuid.uuid4())

    def responders(self) -> dict[str, Responder]:
        return {
            "/": self._front,
            "/metrics/descriptions": lambda _: _json(descriptions()),
            "/status": lambda _: _json(self.status()),
            "/samplers": lambda _: _json(samplers(self._health)),
            "/systeminfo": self._systeminfo,
            "/-/healthy": lambda _: Answer(b"healthy\n"),
            "/-/ready": self._ready,
        }

    def _front(self, ask: Ask) -> Answer:
        if preferred(ask.accept, ("text/plain", "text/html")) == "text/html":
            return _front_html()
        lines = (f"{path}  {text}\n" for path, text in LINKS.items())
        return Answer(f"rezolusd {__version__}\n\n{''.join(lines)}".encode())

    async def _systeminfo(self, _: Ask) -> Answer:
        # Hundreds of small files on a large host: not in the loop.
        return _json(await trio.to_thread.run_sync(systeminfo, *self._roots, os.uname().machine))

    def _ready(self, _: Ask) -> Answer:
        if self._ticker.ticks:
            return Answer(b"ready\n")
        return Answer(b"not ready, no snapshot yet\n", status=503)

    def status(self) -> dict[str, Any]:
        """The object of `/status`: the fields other readers of it know, then our own."""
        interval_ns = self._clock.interval_ns
        return {
            "version": __version__,
            "producer_epoch": self._epoch,
            "clock_anchor_wall_ns": self._clock.anchor_wall_ns,
            "uptime_seconds": self._clock.monotonic_ns() // NANOSECONDS,
            "ttl_seconds": interval_ns // NANOSECONDS,
            "sample_interval_ms": interval_ns // 1_000_000,
            "subscribers": 0,
            "index_resyncs": 0,
            "samplers": samplers(self._health),
            "listening": self._listening,
            "ticks": self._ticker.ticks,
            "late_ticks": self._ticker.late,
            "last_tick_ns": self._ticker.last_duration_ns,
            "sinks": [
                {
                    "name": outlet.name,
                    "policy": outlet.policy.value,
                    "snapshots": outlet.published,
                    "dropped_snapshots": outlet.dropped,
                    "left_out_series": outlet.left_out(),
                }
                for outlet in self._fanout.outlets
            ],
        }


def samplers(health: Health) -> list[dict[str, Any]]:
    """The list of `/samplers`, by name."""
    return [_sampler(name, status) for name, status in sorted(health.samplers.items())]


def _sampler(name: str, status: Status) -> dict[str, Any]:
    """One sampler: state and what belongs to it, then what its reads cost and how they went."""
    shown: dict[str, Any] = {"name": name}
    if status.state is State.DEGRADED:
        shown |= {"state": "active", "health": "degraded", "reason": status.reason}
    elif status.state is State.ACTIVE:
        shown |= {"state": "active", "health": "healthy"}
    elif status.state is State.FAILED:
        shown |= {"state": "failed", "error": status.reason, "health": "failed"}
    elif status.state is State.UNSUPPORTED:
        shown |= {"state": "unsupported", "reason": status.reason, "health": "unsupported"}
    else:
        shown |= {"state": status.state.value}
    if status.programs:
        shown |= {"health": status.health, "programs": [_program(program) for program in status.programs]}
    return shown | {
        "reads": status.reads,
        "failed_reads": status.failures,
        "missed_ticks": status.missed,
        "last_read_duration_ns": status.last_elapsed_ns,
    }


def _program(program: Program) -> dict[str, Any]:
    """The program object other readers of `/samplers` know, and `kind`, the way it is hooked."""
    shown: dict[str, Any] = {"name": program.name, "attached": program.attached}
    if program.attached:
        shown |= {"kind": program.kind}
    else:
        shown |= {"error": program.error}
    driver = {"type": "driver", "driver": program.driver}
    shown |= {"intent": driver if program.driver else {"type": "required"}, "expected": False}
    return shown | {"verdict": program.verdict.value}


def descriptions() -> dict[str, str]:
    """What each metric means, by name; where several share a name, the first one's word."""
    found: dict[str, str] = {}
    for group in catalog.groups():
        for metric in group.metrics:
            found.setdefault(metric.name, metric.help)
    return found


def _json(value: Any) -> Answer:
    return Answer(msgspec.json.encode(value) + b"\n", JSON)


def _front_html() -> Answer:
    rows = "".join(f'<li><a href="{path}">{path}</a> {escape(text)}</li>\n' for path, text in LINKS.items())
    page = (
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>rezolusd</title>\n'
        f"<h1>rezolusd {escape(__version__)}</h1>\n<ul>\n{rows}</ul>\n</html>\n"
    )
    return Answer(page.encode(), "text/html; charset=utf-8")
