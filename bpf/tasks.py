"""Tasks by thread id, as `include/task.h` sees them: who has an id now, and what they are called.

Names come through a ring buffer, as a name for each possible id would be gigabytes. Ends are in an array.
"""

import struct
from typing import Final

import numpy as np
import numpy.typing as npt

from bpf.identity import NAME_BYTES, path
from bpf.maps import LINE, Mapped
from bpf.objects import Map, cells
from bpf.ring import Ring
from pipeline.records import Labels, Slot, Values

COMM_BYTES: Final = 16
# started, id, process, level, comm, names of the cgroup, its parent and its grandparent
RECORD: Final = struct.Struct(f"QIIQ{COMM_BYTES}s{NAME_BYTES}s{NAME_BYTES}s{NAME_BYTES}s")
# About six hundred records between two ticks; what does not fit is sent again.
RING_BYTES: Final = 1 << 18


def maps(ids: int, ring_bytes: int = RING_BYTES) -> tuple[Map, ...]:
    """The maps of `include/task.h`, for thread ids below `ids`. 24 bytes an id beside the ring."""
    return (
        *unnamed_maps(ids),
        cells("task_announced", ids),
        Map("task_records", "ringbuf", ring_bytes, key_size=0, value_size=0),
    )


def unnamed_maps(ids: int) -> tuple[Map, ...]:
    """Those it needs with TASKS_UNNAMED. 16 bytes an id."""
    return cells("task_started", ids), cells("task_gone", ids), cells("task_events", LINE)


class Tasks:
    """The named tasks of one object.

    A task that ended is shown once more, with its last counts, and then no longer. An id that is given to
    another task is another slot at once: its row is the new task's from the first event on.

    Args:
        gone, events: views of the arrays of these names.
        ring: the ring buffer of records.

    Attributes:
        slots, rows: the tasks and their rows, which are their ids, in the same order.
        generation: changes when they do.
    """

    def __init__(self, gone: Values, events: Values, ring: Ring) -> None:
        self.slots: tuple[Slot, ...] = ()
        self.rows: npt.NDArray[np.intp] = np.empty(0, np.intp)
        self.generation = 0
        self._gone, self._events, self._ring = gone, events, ring
        self._occupants: dict[int, tuple[int, Slot]] = {}
        self._ends = 0
        self._leaving: dict[int, int] = {}

    @property
    def retried(self) -> int:
        """Records that found the ring full and are sent again."""
        return int(self._events[1])

    def refresh(self) -> int:
        """Bring `slots` and `rows` up to date for the next reading; returns the generation."""
        # Read before the records are, so that an end is not noticed before its task is known.
        ends = int(self._events[0])
        changed = self._welcome()
        changed |= self._retire()
        if ends != self._ends:
            self._ends = ends
            self._see_off()
        if changed:
            self.rows = np.array(sorted(self._occupants), np.intp)
            self.slots = tuple(self._occupants[row][1] for row in self.rows.tolist())
            self.generation += 1
        return self.generation

    def _welcome(self) -> bool:
        arrived = False
        for record in self._ring.drain():
            started, row, process, level, comm, *names = RECORD.unpack(record)
            self._occupants[row] = started, Slot(_labels(started, row, process, level, comm, names), row)
            arrived = True
        return arrived

    def _retire(self) -> bool:
        """Those that were shown a last time are no longer, unless another task has their id by now."""
        leaving, self._leaving = self._leaving, {}
        over = [row for row, started in leaving.items() if self._occupants[row][0] == started]
        for row in over:
            del self._occupants[row]
        return bool(over)

    def _see_off(self) -> None:
        """Find those that ended: a look at the rows in use, not at the whole table."""
        rows = np.fromiter(self._occupants, np.intp, len(self._occupants))
        for row, ended in zip(rows.tolist(), self._gone[rows].tolist(), strict=True):
            if self._occupants[row][0] == ended:
                self._leaving[row] = ended

    def close(self) -> None:
        self._ring.close()


def _labels(started: int, row: int, process: int, level: int, comm: bytes, names: list[bytes]) -> Labels:
    name = comm.split(b"\0")[0].decode(errors="backslashreplace")
    return (
        ("id", str(row)),
        ("pid", str(row)),
        ("tgid", str(process)),
        *((("comm", name),) if name else ()),
        ("cgroup", path(level, names)),
        ("__uid__", f"{row:x}-{started:x}"),
    )


def open_tasks(mapped: Mapped, ring_bytes: int = RING_BYTES) -> Tasks:
    """The tasks of a loaded object whose maps include those of `maps`."""
    return Tasks(
        mapped.cells("task_gone"),
        mapped.cells("task_events"),
        Ring.open(mapped.descriptors["task_records"], ring_bytes),
    )
