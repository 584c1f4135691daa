"""Kernel text files: opened once and read again from the start, and what their parsers share."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Final

from pipeline.records import U64_MAX, Reading, Schema, fill
from pipeline.source import Stopwatch

# The largest file read here, /proc/vmstat, has 5 KB; a page or two more is no kernel's.
MAX_BYTES: Final = 1 << 20


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

        The kernel hands such files out in pieces of about a page.
        """
        pieces = []
        size = 0
        while True:
            try:
                piece = os.pread(self._descriptor, 1 << 13, size)
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
    if token.isdigit() and len(token) <= 20 and (value := int(token)) <= U64_MAX:
        return value
    where = f"{file}: {_shown(item)}" if item else file
    raise ParseError(f"{where}: {_shown(token)} is not an unsigned 64-bit number")


class NumberLines:
    """Reads numbers by key out of a file of `key number unit` lines.

    Keys are matched exactly and whole. One may be absent, or anywhere, or repeated: then the first counts.
    Other lines may hold anything.

    The kernel prints the same lines in the same order each time. So the places of the wanted words are
    remembered, and hold for any later text that differs in digits and blanks only: a fifth of the cost.
    """

    def __init__(self, file: str, keys: Iterable[bytes], units: Mapping[bytes, int]) -> None:
        """`units` are those a line may have, each with what its number is multiplied by."""
        self._file = file
        self._places = {key: place for place, key in enumerate(keys)}
        self._units = units
        self._layout: _Layout | None = None

    def numbers(self, text: bytes) -> list[int | None]:
        """The numbers in the order of the keys, None for a key that is not there.

        Raises:
            ParseError: the text ends within a line (so its last number may be half a number), has none of
                the keys, or has one with no number or an unknown unit behind it.
        """
        known = self._layout
        found = known.numbers(text) if known is not None else None
        if known is None or found is None:
            known, found = self._read(text)
            self._layout = known
        numbers: list[int | None] = [None] * len(self._places)
        for place, scale, number in zip(known.places, known.scales, found, strict=True):
            numbers[place] = number * scale
        return numbers

    def _read(self, text: bytes) -> tuple["_Layout", list[int]]:
        """Line by line: the layout, and the numbers as they stand."""
        if not text.endswith(b"\n"):
            raise ParseError(f"{self._file}: ends within a line after {len(text)} bytes")
        places, scales, words, found = [], [], [], []
        at = 0
        for line in text.split(b"\n"):
            tokens = line.split()
            place = self._places.get(tokens[0]) if tokens else None
            if place is not None and place not in places:
                number, scale = self._number(tokens)
                places.append(place)
                scales.append(scale)
                words.append(at)
                found.append(number)
            at += len(tokens)
        if not places:
            raise ParseError(f"{self._file}: has none of the lines it is read for")
        return _Layout(text, at, places, scales, words), found

    def _number(self, tokens: list[bytes]) -> tuple[int, int]:
        """A line's number and what its unit multiplies it by."""
        key, digits, *unit = [*tokens, b""] if len(tokens) == 1 else tokens
        scale = self._units.get(b" ".join(unit))
        if scale is None:
            raise ParseError(f"{self._file}: {_shown(key)} has the unknown unit {_shown(b' '.join(unit))}")
        return number(digits, self._file, key), scale


class _Layout:
    """Where the wanted words are in a text, and how to tell that another text has them there too.

    Without digits and blanks the texts must be equal, so each line has the same letters. Then only a
    number that moved to another line could mislead; but where one is missing, what follows its key is the
    next line's key, which is no number.
    """

    def __init__(
        self, text: bytes, words: int, places: list[int], scales: list[int], keys_at: list[int]
    ) -> None:
        self.places, self.scales = places, scales
        self._skeleton = text.translate(None, b"0123456789 ")
        self._words = words
        keys_at = [*keys_at, keys_at[0]]  # twice, as itemgetter gives a tuple for two or more only
        self._pick_keys = itemgetter(*keys_at)
        self._pick_numbers = itemgetter(*(at + 1 for at in keys_at))
        self._keys = self._pick_keys(text.split())

    def numbers(self, text: bytes) -> list[int] | None:
        """The numbers in the order of `places`; None when the text has another layout or an odd number."""
        words = text.split()
        if (
            len(words) != self._words
            or text.translate(None, b"0123456789 ") != self._skeleton
            or self._pick_keys(words) != self._keys
        ):
            return None
        digits = self._pick_numbers(words)
        if not b"".join(digits).isdigit():
            return None
        numbers = list(map(int, digits[:-1]))
        return numbers if max(numbers) <= U64_MAX else None


def _shown(token: bytes) -> str:
    text = token[:40].decode("ascii", "backslashreplace")
    return text if len(token) <= 40 else f"{text}..."
