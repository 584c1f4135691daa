"""Cgroups by dense slot, as `include/cgroup.h` fills them: who has which, and what they are called.

A slot's whole life is in mmapped arrays, so a name cannot be lost the way a record of a full ring can. The
daemon only notices arrivals and departures, and gives slots of removed cgroups back.
"""

import ctypes
import struct
from collections.abc import Callable, Sequence
from typing import Final, Literal, Protocol

import numpy as np
import numpy.typing as npt

from bpf.libbpf import libbpf
from bpf.maps import LINE, Bank, Mapped
from bpf.objects import Map, cells
from pipeline.records import Slot, Values

SLOTS: Final = 4096
NAME_BYTES: Final = 128  # names of container scopes have up to 90
RECORD: Final = struct.Struct(f"QQQ{NAME_BYTES}s{NAME_BYTES}s{NAME_BYTES}s")

STRUCTS: Final = ("task_struct", "css_set", "cgroup", "cgroup_subsys_state", "kernfs_node")
FIELDS: Final = {"KERNFS_PARENT": ("kernfs_node", ("__parent", "parent"))}
ENUMS: Final = {"CPU_CGROUP": ("cgroup_subsys_id", "cpu_cgrp_id")}
# Events of cgroups that came when all slots were taken are counted together in slot 0.
OTHERS: Final = Slot((("id", "0"), ("name", "other")), 0)

Hierarchy = Literal["v2", "cpu"]


def hierarchy(configured: str, mounts: str) -> Hierarchy:
    """Which cgroup of a task is meant; `mounts` is the text of `/proc/mounts`."""
    if configured != "auto":
        return "cpu" if configured == "cpu" else "v2"
    for line in mounts.splitlines():
        fields = line.split()
        if len(fields) >= 4 and fields[2] == "cgroup" and "cpu" in fields[3].split(","):
            return "cpu"
    return "v2"


def defines(wanted: Hierarchy) -> dict[str, int]:
    return {"CGROUP_V2": int(wanted == "v2"), "CGROUP_NAME": NAME_BYTES}


def maps(cpus: int, slots: int) -> tuple[Map, ...]:
    """The maps of `include/cgroup.h`, for so many possible CPUs."""
    return (
        cells("cgroup_ids", slots),
        cells("cgroup_last", cpus * LINE),
        Map("cgroup_slots", "hash", slots, key_size=8, value_size=16),
        Map("cgroup_free", "queue", slots, key_size=0, value_size=4, fill=tuple(range(1, slots))),
        Map("cgroup_records", "array", slots, value_size=RECORD.size, mmap=True),
        cells("cgroup_gone", slots),
        cells("cgroup_events", LINE),
    )


def path(level: int, names: Sequence[bytes]) -> str:
    r"""A cgroup's name from its own, its parent's and its grandparent's; at most three levels are shown.

    systemd's `\x2d` is read back as the dash it stands for. Bytes that are no UTF-8 are written `\xff`, so
    that different names stay different.
    """
    if level == 0:
        return "/"
    known = [name.split(b"\0")[0].decode(errors="backslashreplace") for name in names[: min(level, 3)]]
    start = "..." if level > 3 else ""
    return f"{start}/{'/'.join(reversed(known))}".replace("\\x2d", "-")


class Keeper(Protocol):
    """Gives slots back to the kernel side."""

    def forget(self, identity: int) -> None:
        """Take the identity out of the table, so that nobody is led to its slot."""

    def give_back(self, slot: int) -> None:
        """Let the slot be given to another cgroup."""


class KernelKeeper:
    """The keeper of the maps behind two descriptors."""

    def __init__(self, slots: int, free: int) -> None:
        lib = libbpf()
        self._slots, self._free = slots, free
        self._delete: Callable[[int, bytes], int] = lib.bpf_map_delete_elem
        self._update = lib.bpf_map_update_elem
        self._update.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64]

    def forget(self, identity: int) -> None:
        self._delete(self._slots, struct.pack("Q", identity))

    def give_back(self, slot: int) -> None:
        self._update(self._free, None, struct.pack("I", slot), 0)


class Cgroups:
    """The cgroups of one object, for all samplers that share it.

    A removed cgroup is shown once more, with its last counts; then its slot is taken from it, and one round
    later, when no program can still be adding to it, zeroed and given back. A round ends when every reader
    has read.

    Args:
        ids, gone, events: views of the arrays of these names, `ids` and `gone` writable.
        records: memory of the array `cgroup_records`.
        keeper: gives slots back.

    Attributes:
        slots, rows: the occupants and their rows in a bank, in the same order.
        generation: changes when they do.
    """

    def __init__(
        self, ids: Values, gone: Values, events: Values, records: memoryview | bytearray, keeper: Keeper
    ) -> None:
        self.slots: tuple[Slot, ...] = ()
        self.rows: npt.NDArray[np.intp] = np.empty(0, np.intp)
        self.generation = 0
        self._ids, self._gone, self._events, self._records = ids, gone, events, records
        self._keeper = keeper
        self._known = np.zeros_like(ids)
        self._occupants: dict[int, Slot] = {}
        self._leaving: list[int] = []
        self._cooling: list[int] = []
        self._banks: list[Bank] = []
        self._readers: set[object] = set()
        self._have_read: set[object] = set()
        self._welcomed_at = self._retired_at = [0, 0]

    def join(self, reader: object, *banks: Bank) -> None:
        """Take part in the rounds; rows of the banks are zeroed before they are given to another cgroup."""
        self._readers.add(reader)
        self._banks += banks

    def leave(self, reader: object) -> None:
        self._readers.discard(reader)
        self._have_read.discard(reader)

    @property
    def lost(self) -> int:
        """Events of cgroups that found no slot."""
        return int(self._events[1])

    def refresh(self, reader: object) -> int:
        """Bring `slots` and `rows` up to date for one reader's next reading; returns the generation."""
        # Read before the arrays are, and written after: nothing is missed, at worst looked for twice.
        events = self._events[:2].tolist()
        changed = False
        if not self._have_read or self._readers <= self._have_read:
            self._have_read.clear()
            if events != self._retired_at or self._leaving or self._cooling:
                self._retired_at = events
                changed = self._retire()
        self._have_read.add(reader)
        if events != self._welcomed_at:
            self._welcomed_at = events
            changed |= self._welcome()
        if changed:
            self.rows = np.array(sorted(self._occupants), np.intp)
            self.slots = tuple(self._occupants[row] for row in self.rows.tolist())
            self.generation += 1
        return self.generation

    def _welcome(self) -> bool:
        """Take in who came; returns whether anybody did."""
        before = len(self._occupants)
        if self.lost:
            self._occupants[0] = OTHERS
        arrived = np.flatnonzero(self._ids != self._known).tolist()
        for row in arrived:
            self._known[row] = self._ids[row]
            self._occupants[row] = self._slot(row)
        return bool(arrived) or len(self._occupants) != before

    def _slot(self, row: int) -> Slot:
        identity, label, level, *names = RECORD.unpack_from(self._records, row * RECORD.size)
        return Slot((("id", str(label)), ("name", path(level, names)), ("__uid__", str(identity))), row)

    def _retire(self) -> bool:
        """Take one more step with those who left; returns whether anybody is no longer shown."""
        for row in self._cooling:
            for bank in self._banks:
                bank.clear(row)
            self._keeper.give_back(row)
        # One that came and went while we were looking is not shown yet: it leaves a round later.
        self._cooling = [row for row in self._leaving if row in self._occupants]
        for row in self._cooling:
            self._keeper.forget(int(self._known[row]))
            self._ids[row] = self._known[row] = 0
            self._gone[row] = 0
            del self._occupants[row]
        self._leaving = np.flatnonzero(self._gone).tolist()
        return bool(self._cooling)


def open_cgroups(mapped: Mapped) -> Cgroups:
    """The cgroups of a loaded object whose maps include those of `maps`."""
    return Cgroups(
        mapped.cells("cgroup_ids"),
        mapped.cells("cgroup_gone"),
        mapped.cells("cgroup_events"),
        mapped.cells("cgroup_records").data.cast("B"),
        KernelKeeper(mapped.descriptors["cgroup_slots"], mapped.descriptors["cgroup_free"]),
    )
