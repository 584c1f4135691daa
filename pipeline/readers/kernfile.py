"""Kernel text files: opened once and read again from the start, and what their parsers share."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
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
        """The whole file as it is now; more than `MAX_BYTES` is a `ParseError`.

        One `pread` of a generous size gets what the kernel shows of one moment; the loop is for files
        that come in pieces.
        """
        pieces = []
        size = 0
        while True:
            try:
                piece = os.pread(self._descriptor, 1 << 16, size)
            except OSError as error:
                error.filename = str(self.path)
                raise
            if not piece:
                break
            pieces.append(piece)
            size += len(piece)
            if size > MAX_BYTES:
                raise ParseError(f"{self.path}: larger than {MAX_BYTES} bytes, this is no kernel file")
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


class NumberLines:
    """Reads numbers by key out of a file of `key number unit` lines.

    Keys are matched exactly and whole. One may be absent, or anywhere, or repeated: then any one of its
    lines counts. Other lines may hold anything.

    The kernel prints a file's lines in the same order each time, so a key is looked for where it was the
    last time first: a third of the cost of splitting every line.
    """

    def __init__(self, file: str, keys: Iterable[bytes], units: Mapping[bytes, int]) -> None:
        """`units` are those a line may have, each with what its number is multiplied by."""
        self._file = file
        self._starts = [key + (b"" if key.endswith(b":") else b" ") for key in keys]
        self._lines = [0] * len(self._starts)
        self._units = units
        self._plain = units.get(b"") == 1

    def numbers(self, text: bytes) -> list[int | None]:
        """The numbers in the order of the keys, None for a key that is not there.

        Raises:
            ParseError: the text ends within a line (so its last number may be half a number), has none of
                the keys, or has one with no number or an unknown unit behind it.
        """
        if not text.endswith(b"\n"):
            raise ParseError(f"{self._file}: ends within a line after {len(text)} bytes")
        lines = text.split(b"\n")
        found: list[int | None] = []
        for place, start in enumerate(self._starts):
            line = lines[self._lines[place]] if self._lines[place] < len(lines) else b""
            if not line.startswith(start):
                line = self._search(place, lines, text)
            rest = line[len(start) :]
            plain = self._plain and rest.isdigit() and len(rest) < 20
            found.append(int(rest) if plain else self._number(line, start) if line else None)
        if all(number is None for number in found):
            raise ParseError(f"{self._file}: has none of the lines it is read for")
        return found

    def _search(self, place: int, lines: list[bytes], text: bytes) -> bytes:
        at = (b"\n" + text).find(b"\n" + self._starts[place])
        if at < 0:
            return b""
        self._lines[place] = text.count(b"\n", 0, at)
        return lines[self._lines[place]]

    def _number(self, line: bytes, start: bytes) -> int:
        digits, _, unit = line[len(start) :].strip().partition(b" ")
        scale = self._units.get(unit)
        if scale is None:
            raise ParseError(f"{self._file}: {_shown(start.rstrip())} has the unknown unit {_shown(unit)}")
        return number(digits, self._file, start.rstrip()) * scale


def _shown(token: bytes) -> str:
    text = token[:40].decode("ascii", "backslashreplace")
    return text if len(token) <= 40 else f"{text}..."
