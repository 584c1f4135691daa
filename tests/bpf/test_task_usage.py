"""Series by task up to a limit, the rest in one."""

import numpy as np

from bpf.task_usage import CELLS, USAGE, TaskUsage
from tests.bpf.kernel import IDS, FakeTasks


class Fake:
    """The kernel's side of it."""

    def __init__(self, limit: int) -> None:
        self.tasks = FakeTasks()
        self.times = np.zeros(IDS * CELLS, np.uint64)
        self.source = TaskUsage(self.tasks.table, self.times, limit)

    def charge(self, row: int, ns: int) -> None:
        self.times[row * CELLS + USAGE] += ns

    def begin(self, row: int, started: int, comm: bytes = b"work") -> None:
        self.times[row * CELLS + USAGE] = 0
        self.tasks.begin(row, started, comm)

    def shown(self) -> dict[str, int]:
        """What a reader sees: time by comm."""
        reading = self.source.read()[0]
        names = [dict(slot.labels)["comm"] for slot in reading.schema.slots]
        return dict(zip(names, reading.values[:, 0].tolist(), strict=True))

    def unlisted(self) -> int:
        return int(self.source.read()[1].values[0, 0])


def test_whoever_finds_room_has_a_series_and_keeps_it() -> None:
    fake = Fake(limit=2)
    fake.begin(9, 1, b"nine")
    assert fake.shown() == {"nine": 0}
    fake.begin(3, 2, b"three")
    fake.begin(1, 3, b"one")
    fake.charge(9, 1009)
    fake.charge(1, 17)
    assert fake.shown() == {"one": 17, "nine": 1009, "other": 0}, (
        "of two that come at once the lower id is first"
    )
    assert fake.unlisted() == 1


def test_the_rest_never_shrinks_and_loses_nothing() -> None:
    fake = Fake(limit=1)
    fake.begin(1, 1, b"one")
    fake.shown()
    for row in (2, 3):
        fake.begin(row, row)
        fake.charge(row, 100)
    assert fake.shown() == {"one": 0, "other": 200}
    fake.charge(2, 11)
    fake.tasks.end(2, 2)
    assert fake.shown()["other"] == 211, "what it had run since the last look is not lost with its end"
    assert fake.shown()["other"] == 211
    assert fake.unlisted() == 1
    fake.tasks.end(3, 3)
    fake.shown()
    assert fake.shown() == {"one": 0, "other": 211}, "the sum stays when nobody is left in it"
    assert fake.unlisted() == 0


def test_room_that_becomes_free_is_for_those_who_come_next() -> None:
    fake = Fake(limit=1)
    fake.begin(1, 1, b"one")
    fake.shown()
    fake.begin(2, 2, b"two")
    fake.charge(2, 5)
    fake.shown()
    fake.tasks.end(1, 1)
    fake.shown()
    assert fake.shown() == {"other": 5}, "its time is in the sum already"
    fake.begin(3, 3, b"three")
    fake.charge(3, 7)
    assert fake.shown() == {"three": 7, "other": 5}


def test_an_id_that_is_somebody_elses_now_is_another_series() -> None:
    fake = Fake(limit=4)
    fake.begin(5, 1, b"old")
    fake.charge(5, 1000)
    first = fake.source.read()[0].schema.slots
    fake.tasks.end(5, 1)
    fake.begin(5, 2, b"new")
    fake.charge(5, 3)
    assert fake.shown() == {"new": 3}
    (slot,) = fake.source.read()[0].schema.slots
    assert slot not in first
