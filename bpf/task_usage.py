"""CPU time by task, a part of `cpu_usage`: a series for each task up to a limit, the rest in one."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from bpf.tasks import Tasks
from pipeline.records import Group, Kind, Metric, Reading, Schema, Slot, Values
from pipeline.source import Stopwatch

SAMPLER: Final = "cpu_usage"
CELLS: Final = 4  # of struct task_times
USAGE: Final = 2  # of them the time charged

TASK: Final = Group(
    SAMPLER, "cpu_usage_task", (Metric("task_cpu_usage", Kind.COUNTER, "nanoseconds", "CPU time by task"),)
)
TASKS: Final = Group(
    SAMPLER,
    "cpu_usage_tasks",
    (
        Metric("cpu_usage_unlisted_tasks", Kind.GAUGE, "", "Tasks without a series of their own"),
        Metric("cpu_usage_retried_names", Kind.COUNTER, "", "Names of tasks that had to be sent again"),
    ),
)
# All tasks beyond the limit together.
REST: Final = Slot((("id", "0"), ("comm", "other")), 0)


class TaskUsage:
    """Readings of the groups `TASK` and `TASKS`.

    Whoever has a series keeps it, and whoever has none gets none later: what it was charged is in the sum of
    the rest already.

    Args:
        tasks: who has which row.
        times: the map `task_times`.
        limit: of series, at least 1.
    """

    def __init__(self, tasks: Tasks, times: Values, limit: int) -> None:
        self._tasks, self._limit = tasks, limit
        self._usage = times.reshape(-1, CELLS)[:, USAGE]
        self._generation = -1
        self._listed: set[Slot] = set()
        self._unlisted: dict[Slot, int] = {}
        self._rest = 0
        self._rows: npt.NDArray[np.intp] = np.empty(0, np.intp)
        self._schema = Schema(TASK, ())
        self._present = np.ones((0, 1), np.bool_)
        self._host = Schema(TASKS)

    def read(self) -> Sequence[Reading]:
        stopwatch = Stopwatch()
        if self._generation != (generation := self._tasks.refresh()):
            self._generation = generation
            self._choose()
        if self._unlisted:
            self._add_up()
        values = self._usage[self._rows][:, np.newaxis]
        if len(self._schema.slots) > len(self._rows):
            values = np.append(values, np.array([[self._rest]], np.uint64), axis=0)
        window = stopwatch.window()
        host = np.array([[len(self._unlisted), self._tasks.retried]], np.uint64)
        return (
            Reading(self._schema, window, values, self._present),
            Reading(self._host, window, host, np.ones((1, 2), np.bool_)),
        )

    def _choose(self) -> None:
        """Who has a series of their own from now on."""
        here = self._tasks.slots
        listed = [slot for slot in here if slot in self._listed]
        new = [slot for slot in here if slot not in self._listed and slot not in self._unlisted]
        room = self._limit - len(listed)
        self._unlisted = {slot: seen for slot, seen in self._unlisted.items() if slot in set(here)}
        self._unlisted |= dict.fromkeys(new[room:], 0)
        listed = sorted((*listed, *new[:room]), key=lambda slot: slot.index)
        self._listed = set(listed)
        self._rows = np.array([slot.index for slot in listed], np.intp)
        rest = (REST,) if self._unlisted or self._rest else ()
        self._schema = Schema(TASK, (*listed, *rest))
        self._present = np.ones((len(self._schema.slots), 1), np.bool_)

    def _add_up(self) -> None:
        """What the rest was charged since the last look; a row with a new occupant is `_choose`'s."""
        for slot, seen in self._unlisted.items():
            usage = int(self._usage[slot.index])
            if usage > seen:
                self._rest += usage - seen
                self._unlisted[slot] = usage

    def close(self) -> None:
        self._tasks.close()
        del self._usage
