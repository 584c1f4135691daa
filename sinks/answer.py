"""What a request asks for and what is sent back, in the words of HTTP but of no server library."""

from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from typing import Final

import msgspec
from werkzeug.http import parse_accept_header, parse_options_header

PLAIN: Final = "text/plain; charset=utf-8"
JSON: Final = "application/json"


class Ask(msgspec.Struct, frozen=True):
    """The parts of a GET request that an answer may depend on; an absent header is the empty text."""

    query: Mapping[str, str] = {}
    accept: str = ""
    accept_encoding: str = ""


class Answer(msgspec.Struct, frozen=True):
    """A complete response."""

    body: bytes
    content_type: str = PLAIN
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()


ImmediateResponder = Callable[[Ask], Answer]
Responder = Callable[[Ask], Answer | Awaitable[Answer]]


@lru_cache(maxsize=64)
def preferred(accept: str, offers: tuple[str, ...]) -> str:
    """The offer an Accept header likes best; the first one when it likes none, or likes two alike.

    Of a media range's parameters only `version` is compared. Clients send others (`escaping`, `charset`)
    that an exact match, as RFC 9110 has it, would trip over.
    """
    ranges = [_media(text) + (quality,) for text, quality in parse_accept_header(accept or "*/*")]

    def quality(offer: str) -> float:
        kind, version = _media(offer)
        matching = [
            ((accepted == kind) + (accepted != "*/*"), wanted is not None, weight)
            for accepted, wanted, weight in ranges
            if accepted in (kind, kind.split("/")[0] + "/*", "*/*") and wanted in (None, version)
        ]
        return max(matching)[2] if matching else 0.0

    return max(offers, key=quality)


def _media(text: str) -> tuple[str, str | None]:
    """Type and version of a media range."""
    kind, parameters = parse_options_header(text)
    return kind.lower(), parameters.get("version")


@lru_cache(maxsize=64)
def takes_gzip(accept_encoding: str) -> bool:
    return parse_accept_header(accept_encoding)["gzip"] > 0
