"""Durations as people write them: `10ms`, `1m 30s`, `15m`. Whole nanoseconds, no fractions."""

import re
from typing import Final

_UNITS: Final = {
    unit: nanoseconds
    for names, nanoseconds in (
        ("ns nsec", 1),
        ("us usec", 1_000),
        ("ms msec", 1_000_000),
        ("s sec secs second seconds", 1_000_000_000),
        ("m min mins minute minutes", 60_000_000_000),
        ("h hr hrs hour hours", 3_600_000_000_000),
        ("d day days", 86_400_000_000_000),
        ("w week weeks", 7 * 86_400_000_000_000),
        ("M month months", 2_630_016_000_000_000),  # 30.44 days
        ("y year years", 31_557_600_000_000_000),  # 365.25 days
    )
    for unit in names.split()
}
_PART: Final = re.compile(r"\s*(\d{1,18})\s*([A-Za-z]+)\s*", re.ASCII)
_SHOWN: Final = (
    "year years",
    "month months",
    "day days",
    "h h",
    "m m",
    "s s",
    "ms ms",
    "us us",
    "ns ns",
)


def parse(text: str) -> int:
    """Nanoseconds in `text`; raises ValueError with what is wrong with it."""
    total, position = 0, 0
    while part := _PART.match(text, position):
        number, unit = part.groups()
        if unit not in _UNITS:
            raise ValueError(f"unknown unit {unit!r}, known are ns us ms s m h d w M y")
        total += int(number) * _UNITS[unit]
        position = part.end()
    if position == 0 or position != len(text):
        raise ValueError('not a duration, write a whole number and a unit such as "500ms", "1s" or "1m 30s"')
    return total


def format(nanoseconds: int) -> str:
    """`nanoseconds` in descending units with one space between, `0s` for none."""
    parts = []
    for names in _SHOWN:
        one, many = names.split()
        count, nanoseconds = divmod(nanoseconds, _UNITS[one])
        if count:
            parts.append(f"{count}{one if count == 1 else many}")
    return " ".join(parts) or "0s"
