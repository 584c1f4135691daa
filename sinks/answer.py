"""What a request asks for and what is sent back, in the words of HTTP but of no server library."""

from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from typing import Final

import msgspec
from werkzeug.datastructures import MIMEAccept
from werkzeug.http import parse_accept_header

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
    """The offer an Accept header likes best; the first one when it likes none, or likes two alike."""
    accepted = parse_accept_header(accept or "*/*", MIMEAccept)
    return accepted.best_match(offers, offers[0]) or offers[0]


@lru_cache(maxsize=64)
def takes_gzip(accept_encoding: str) -> bool:
    return parse_accept_header(accept_encoding)["gzip"] > 0
