"""Readings of banks, with everything but the numbers kept from one reading to the next."""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from bpf.host import OnlineCpus
from bpf.identity import Cgroups
from bpf.maps import Bank, Histograms
from pipeline.records import Group, Present, Reading, Schema, Slot, Values
from pipeline.source import Stopwatch

# From rows of a bank to values of a group: u64 `(rows, metrics)`.
Take = Callable[[npt.NDArray[np.intp]], Values]


def columns(bank: Bank, first: int, count: int) -> Take:
    """Some neighbouring columns of a bank as they are."""
    return lambda rows: bank.take(rows)[:, first : first + count]


class _Series:
    """A group with a row of a bank for each occupant, with the metrics that are `present`, or all."""

    def __init__(self, group: Group, take: Take, present: Sequence[bool] | None) -> None:
        self._group, self._take = group, take
        self._columns = np.ones(len(group.metrics), np.bool_) if present is None else np.array(present)
        self._rows: npt.NDArray[np.intp] = np.empty(0, np.intp)
        self._schema = Schema(group, ())
        self._present: Present = np.ones((0, len(group.metrics)), np.bool_)

    def _occupy(self, slots: Sequence[Slot], rows: npt.NDArray[np.intp]) -> None:
        self._rows = rows
        self._schema = Schema(self._group, tuple(slots))
        self._present = np.tile(self._columns, (len(slots), 1))

    def _reading(self) -> Reading:
        stopwatch = Stopwatch()
        values = self._take(self._rows)
        return Reading(self._schema, stopwatch.window(), values, self._present)


class ByCpu(_Series):
    """A series for each CPU that is online. Whoever has several asks `online.changed` once, before."""

    def __init__(
        self, group: Group, take: Take, online: OnlineCpus, present: Sequence[bool] | None = None
    ) -> None:
        super().__init__(group, take, present)
        self._online = online
        self._cpus: tuple[int, ...] | None = None

    def read(self) -> Reading:
        if self._cpus is not self._online.cpus:
            self._cpus = self._online.cpus
            slots = [Slot((("id", str(cpu)),), cpu) for cpu in self._cpus]
            self._occupy(slots, np.array(self._cpus, np.intp))
        return self._reading()


class ByCgroup(_Series):
    """A series for each cgroup. Whoever has several refreshes the cgroups once for all, before."""

    def __init__(
        self, group: Group, take: Take, cgroups: Cgroups, present: Sequence[bool] | None = None
    ) -> None:
        super().__init__(group, take, present)
        self._cgroups = cgroups
        self._generation = -1

    def read(self) -> Reading:
        if self._generation != self._cgroups.generation:
            self._generation = self._cgroups.generation
            self._occupy(self._cgroups.slots, self._cgroups.rows)
        return self._reading()


class Whole:
    """Histograms of the whole host, one group."""

    def __init__(self, group: Group, histograms: Histograms) -> None:
        self._histograms = histograms
        self._schema = Schema(group)
        self._present = np.ones((1, len(group.metrics)), np.bool_)

    def read(self) -> Reading:
        stopwatch = Stopwatch()
        values = self._histograms.read()
        return Reading(self._schema, stopwatch.window(), values, self._present)
