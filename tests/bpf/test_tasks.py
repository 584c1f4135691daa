"""Tasks come, end, and hand their ids on, on a ring and arrays in plain memory."""

import pytest

from tests.bpf.kernel import FakeTasks


def test_labels_of_a_task() -> None:
    kernel = FakeTasks()
    kernel.begin(7, 1000, b"postgres\0junk", b"db", b"apps")
    kernel.table.refresh()
    (slot,) = kernel.table.slots
    assert dict(slot.labels) == {
        "id": "7",
        "pid": "7",
        "tgid": "7",
        "comm": "postgres",
        "cgroup": "/apps/db",
        "__uid__": "7-3e8",
    }


@pytest.mark.parametrize(("comm", "label"), [(b"\xff\xfe", "\\xff\\xfe"), ("é".encode(), "é"), (b"", None)])
def test_names_that_are_no_utf_8_or_empty(comm: bytes, label: str | None) -> None:
    kernel = FakeTasks()
    kernel.begin(7, 1000, comm)
    kernel.table.refresh()
    assert dict(kernel.table.slots[0].labels).get("comm") == label
    assert dict(kernel.table.slots[0].labels)["cgroup"] == "/"


def test_a_task_that_ended_is_shown_once_more() -> None:
    kernel = FakeTasks()
    kernel.begin(7, 1000)
    kernel.begin(8, 1001)
    assert kernel.shown() == {7: "work", 8: "work"}
    kernel.end(7, 1000)
    assert kernel.shown() == {7: "work", 8: "work"}
    assert kernel.shown() == {8: "work"}


def test_one_that_came_and_went_between_two_looks_is_shown_once() -> None:
    kernel = FakeTasks()
    kernel.begin(7, 1000)
    kernel.end(7, 1000)
    assert kernel.shown() == {7: "work"}
    assert kernel.shown() == {}


def test_a_recycled_id_is_another_slot_at_once() -> None:
    kernel = FakeTasks()
    kernel.begin(7, 1000, b"old")
    kernel.shown()
    (old,) = kernel.table.slots
    kernel.end(7, 1000)
    kernel.begin(7, 2000, b"new")
    assert kernel.shown() == {7: "new"}
    (new,) = kernel.table.slots
    assert new != old
    assert kernel.shown() == {7: "new"}, "the end was its predecessor's"


def test_an_id_recycled_while_its_predecessor_leaves_stays() -> None:
    kernel = FakeTasks()
    kernel.begin(7, 1000, b"old")
    kernel.shown()
    kernel.end(7, 1000)
    kernel.shown()
    kernel.begin(7, 2000, b"new")
    assert kernel.shown() == {7: "new"}
    kernel.end(7, 2000)
    assert kernel.shown() == {7: "new"}
    assert kernel.shown() == {}


def test_the_generation_changes_with_the_tasks_only() -> None:
    kernel = FakeTasks()
    kernel.begin(7, 1000)
    first = kernel.table.refresh()
    assert kernel.table.refresh() == first
    kernel.end(9, 5)  # somebody who was never named
    assert kernel.table.refresh() == first
    kernel.begin(8, 1001)
    assert kernel.table.refresh() != first
