"""The kernel's side of the cgroup table, in plain arrays."""

import numpy as np

from bpf.identity import RECORD, Cgroups

SLOTS = 16


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
