"""The Prometheus sink: keeps the newest snapshot, and renders it once however many ask for it."""

import gzip
from typing import Final

from config.model import Prometheus
from pipeline.records import Snapshot
from sinks.answer import Answer, Ask, preferred, takes_gzip
from sinks.page import Renderer

TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
OFFERS: Final = ("text/plain;version=0.0.4", "application/openmetrics-text;version=1.0.0")
NOT_READY: Final = Answer(b"no snapshot yet, the first is due within an interval\n", status=503)


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
        # A name that is no Unicode (lone surrogates) must not cost the page.
        return Answer(page.encode(errors="replace"), content_type, headers=(vary,))
