"""mmapped BPF arrays as numpy views: reading a counter is a load from memory, not a system call."""

import mmap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from bpf.objects import Map
from pipeline import cpulist
from pipeline.records import HISTOGRAM_BUCKETS, Values

LINE: Final = 8  # u64 cells of a 64-byte cache line
MAX_CPUS: Final = 1024
MAX_STRIPES: Final = 8

Shared = TypeVar("Shared")


def padded(counters: int) -> int:
    """Width of a bank's row: whole cache lines, so that two CPUs never write to the same one."""
    return -(-counters // LINE) * LINE


class Mapped:
    """The mmapped arrays of one loaded object, for all samplers that share it.

    Args:
        maps: as declared.
        descriptors: of the maps, by name; they stay the caller's.
    """

    def __init__(self, maps: Sequence[Map], descriptors: Mapping[str, int]) -> None:
        self.descriptors = descriptors
        self._sizes = {each.name: each.entries * -(-each.value_size // 8) * 8 for each in maps if each.mmap}
        self._cells: dict[str, Values] = {}
        self._shared: dict[object, Any] = {}

    def cells(self, name: str) -> Values:
        """An array as u64, a writable view of the map itself; it lives as long as somebody holds it."""
        if name not in self._cells:
            pages = mmap.mmap(self.descriptors[name], self._sizes[name], mmap.MAP_SHARED)
            self._cells[name] = np.frombuffer(pages, np.uint64)
        return self._cells[name]

    def share(self, key: object, make: "Callable[[Mapped], Shared]") -> Shared:
        """What several samplers make of these maps together: made by the first, the same for the others."""
        if key not in self._shared:
            self._shared[key] = make(self)
        shared: Shared = self._shared[key]
        return shared

    def close(self) -> None:
        """Let go of all views; each array is unmapped with its last holder."""
        self._cells.clear()
        self._shared.clear()


class Bank:
    """Rows of counters, one row a CPU or a slot, each padded to cache lines.

    Args:
        cells: u64 `(rows * padded(counters),)`.
        counters: how many of a row's cells are used.
    """

    def __init__(self, cells: Values, counters: int) -> None:
        self._rows = cells.reshape(-1, padded(counters))
        self._used = self._rows[:, :counters]

    @property
    def rows(self) -> int:
        return len(self._rows)

    def sum(self) -> Values:
        """u64 `(counters,)`, over all rows, wrapping."""
        total: Values = self._used.sum(axis=0, dtype=np.uint64)
        return total

    def take(self, rows: npt.NDArray[np.intp]) -> Values:
        """u64 `(len(rows), counters)`, a copy."""
        taken: Values = self._used[rows]
        return taken

    def clear(self, row: int) -> None:
        """Zero one row; the map must be mapped writable."""
        self._rows[row] = 0


def stripes(cpus: int) -> int:
    """How often a busy histogram is kept, CPUs taking turns: they would wait for each other's cache lines.

    A power of two, at most 8, so that reading stays cheap on many CPUs.
    """
    return int(min(1 << max(cpus - 1, 0).bit_length(), MAX_STRIPES))


class Histograms:
    """H2 histograms one after the other, never told apart by CPU.

    Args:
        cells: u64, at least `count * 496`; or with two dimensions, a row a stripe.
    """

    def __init__(self, cells: Values, count: int) -> None:
        self._stripes = np.atleast_2d(cells)[:, : count * HISTOGRAM_BUCKETS]

    def read(self) -> Values:
        """u64 `(1, count * 496)`, a copy: one row of a group whose metrics are these histograms."""
        total: Values = self._stripes.sum(axis=0, dtype=np.uint64, keepdims=True)
        return total


def possible_cpus(sys: Path) -> int:
    """Rows a per-CPU bank needs: the largest possible CPU number and one; 1024 when nobody says."""
    try:
        return min(max(cpulist.parse((sys / "devices/system/cpu/possible").read_text())) + 1, MAX_CPUS)
    except (OSError, ValueError):
        return MAX_CPUS
