"""The kernel's side of the tables of cgroups and of tasks, in plain arrays."""

import mmap
import struct

import numpy as np

from bpf import tasks
from bpf.identity import NAME_BYTES, RECORD, Cgroups
from bpf.maps import LINE
from bpf.ring import HEADER, Ring
from bpf.tasks import Tasks

SLOTS = 16
IDS = 64
RING = 1 << 14


class FakeCgroups:
    """Does what `include/cgroup.h` does, when told."""

    def __init__(self) -> None:
        self.ids = np.zeros(SLOTS, np.uint64)
        self.gone = np.zeros(SLOTS, np.uint64)
        self.events = np.zeros(8, np.uint64)
        self.records = bytearray(SLOTS * RECORD.size)
        self.free = list(range(1, SLOTS))
        self.known: dict[int, int] = {}
        self.table = Cgroups(self.ids, self.gone, self.events, self.records, self)

    def event(self, identity: int, *names: bytes, level: int | None = None) -> int:
        """Something happens in a cgroup; returns the slot it is counted in."""
        if identity in self.known:
            return self.known[identity]
        if not self.free:
            self.events[1] += 1
            return 0
        slot = self.known[identity] = self.free.pop(0)
        whole = (*names, b"", b"", b"")[:3]
        depth = len(names) if level is None else level
        RECORD.pack_into(self.records, slot * RECORD.size, identity, identity + 1000, depth, *whole)
        self.ids[slot] = identity
        self.events[0] += 1
        return slot

    def remove(self, identity: int) -> None:
        self.gone[self.known[identity]] = 1
        self.events[0] += 1

    # The daemon's end of it: a `Keeper`.

    def forget(self, identity: int) -> None:
        del self.known[identity]

    def give_back(self, slot: int) -> None:
        self.free.append(slot)


def names(table: Cgroups) -> list[str]:
    return [dict(slot.labels)["name"] for slot in table.slots]


class FakeTasks:
    """The kernel's side of `Tasks`."""

    def __init__(self) -> None:
        self.gone = np.zeros(IDS, np.uint64)
        self.events = np.zeros(LINE, np.uint64)
        self.consumer = bytearray(mmap.PAGESIZE)
        self.producer = bytearray(mmap.PAGESIZE + 2 * RING)
        self.table = Tasks(self.gone, self.events, Ring(self.consumer, self.producer, RING))
        self._end = 0

    def begin(self, row: int, started: int, comm: bytes = b"work", *names: bytes) -> None:
        padded = [*names, b"", b"", b""][:3]
        record = tasks.RECORD.pack(
            started, row, row, len(names), comm, *(name[:NAME_BYTES] for name in padded)
        )
        whole = struct.pack("II", len(record), 0) + record
        for copy in (0, RING):
            at = mmap.PAGESIZE + copy + self._end % RING
            self.producer[at : at + len(whole)] = whole
        self._end += (len(record) + HEADER + 7) // 8 * 8
        struct.pack_into("Q", self.producer, 0, self._end)

    def end(self, row: int, started: int) -> None:
        self.gone[row] = started
        self.events[0] += 1

    def shown(self) -> dict[int, str]:
        """Which tasks a reader sees now: the name by row."""
        self.table.refresh()
        assert self.table.rows.tolist() == [slot.index for slot in self.table.slots]
        return {slot.index: dict(slot.labels)["comm"] for slot in self.table.slots}
