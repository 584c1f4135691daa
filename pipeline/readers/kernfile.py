"""Kernel text files: opened once and read again from the start, and what their parsers share."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from pipeline.records import Reading, Schema, fill
from pipeline.source import Stopwatch

# The largest file read here, /proc/vmstat, has 5 KB; a page or two more is no kernel's.
MAX_BYTES: Final = 1 << 20
U64: Final = (1 << 64) - 1


class ParseError(Exception):
    """A kernel file does not look the way it is documented: file, line and item, and what was wanted."""


class KernelFile:
    """A file of /proc or /sys, held open. Raises `OSError` when it cannot be opened or read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # O_NONBLOCK means nothing to a kernel file, but a FIFO in its place must not hold the daemon.
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)

    def read(self) -> bytes:
        """The whole file as it is now, at most `MAX_BYTES`.

        One `pread` of a generous size gets what the kernel shows of one moment; the loop is for files
        that come in pieces.
        """
        pieces = []
        size = 0
        while size < MAX_BYTES:
            try:
                piece = os.pread(self._descriptor, 1 << 16, size)
            except OSError as error:
                error.filename = str(self.path)
                raise
            if not piece:
                break
            pieces.append(piece)
            size += len(piece)
        return b"".join(pieces)

    def close(self) -> None:
        os.close(self._descriptor)


class KernelFileSource:
    """A source that is one kernel file, one parser and one group of scalars."""

    def __init__(self, path: Path, schema: Schema, parse: Callable[[bytes], Sequence[int | None]]) -> None:
        """`parse` gives the numbers in the order of the group's metrics, None for "no reading"."""
        self._file = KernelFile(path)
        self._schema = schema
        self._parse = parse

    def sample(self) -> Sequence[Reading]:
        watch = Stopwatch()
        text = self._file.read()
        window = watch.window()
        return (Reading(self._schema, window, *fill(self._schema, (self._parse(text),))),)

    def close(self) -> None:
        self._file.close()


def number(token: bytes, file: str, item: bytes = b"") -> int:
    """An unsigned decimal of the kernel's as int; `file` and `item` are for the error."""
    if token.isdigit() and len(token) <= 20 and (value := int(token)) <= U64:
        return value
    where = f"{file}: {_shown(item)}" if item else file
    raise ParseError(f"{where}: {_shown(token)} is not an unsigned 64-bit number")


def needles(keys: Iterable[bytes]) -> tuple[bytes, ...]:
    """What `pick` looks for: each key from the line's beginning to its end, a colon or a blank."""
    return tuple(b"\n" + key + (b"" if key.endswith(b":") else b" ") for key in keys)


def pick(text: bytes, wanted: Sequence[bytes], file: str) -> Iterator[tuple[int, int, bytes]]:
    """Number and unit of each line `key number unit` whose needle is in `wanted`, after its place there.

    Keys are matched exactly and whole. One may be absent, or anywhere, or repeated: then the first counts.
    Other lines may hold anything. Searching for the needles takes half the time of splitting the lines.

    Raises:
        ParseError: the text ends within a line (so its last number may be half a number), has none of
            the wanted keys, or has one with no number behind it.
    """
    if not text.endswith(b"\n"):
        raise ParseError(f"{file}: ends within a line after {len(text)} bytes")
    text = b"\n" + text
    empty = True
    for place, needle in enumerate(wanted):
        at = text.find(needle)
        if at < 0:
            continue
        empty = False
        begin = at + len(needle)
        digits, _, unit = text[begin : text.index(b"\n", begin)].strip().partition(b" ")
        yield place, number(digits, file, needle.strip()), unit
    if empty:
        raise ParseError(f"{file}: has none of the lines it is read for")


def _shown(token: bytes) -> str:
    text = token[:40].decode("ascii", "backslashreplace")
    return text if len(token) <= 40 else f"{text}..."
