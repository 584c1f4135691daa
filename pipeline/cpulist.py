"""The kernel's way to write a set of CPUs or nodes: `0-3,8` (kernel: lib/vsprintf.c, bitmap_list_string)."""

import re
from typing import Final

# NR_CPUS can be configured up to 8192.
MAX_CPUS: Final = 1 << 13
_ITEM: Final = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?", re.ASCII)


def parse(text: str) -> tuple[int, ...]:
    """The numbers, ascending and each once. Raises ValueError when `text` is no such list or empty."""
    numbers: set[int] = set()
    for item in text.strip().split(","):
        span = _ITEM.fullmatch(item.strip())
        if span is None:
            raise ValueError(f"{item[:40]!r} is not a CPU or a range of CPUs")
        first, last = int(span[1]), int(span[2] or span[1])
        if not first <= last < MAX_CPUS:
            raise ValueError(f"{first}-{last} is no range of CPUs below {MAX_CPUS}")
        numbers.update(range(first, last + 1))
    return tuple(sorted(numbers))
