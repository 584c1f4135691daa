"""Cgroups come, go, and make room for others."""

import numpy as np
import pytest

from bpf.identity import hierarchy, maps, path
from bpf.maps import Bank
from tests.bpf.kernel import SLOTS, FakeCgroups, names

UNIFIED = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n"
HYBRID = (
    "tmpfs /sys/fs/cgroup tmpfs ro 0 0\n"
    "cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n"
    "cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\n"
)
CPUSET_ONLY = UNIFIED + "cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0\n"


@pytest.mark.parametrize(
    ("configured", "mounts", "expected"),
    [
        ("auto", UNIFIED, "v2"),
        ("auto", HYBRID, "cpu"),
        ("auto", CPUSET_ONLY, "v2"),
        ("auto", "", "v2"),
        ("v2", HYBRID, "v2"),
        ("cpu", UNIFIED, "cpu"),
    ],
)
def test_which_hierarchy(configured: str, mounts: str, expected: str) -> None:
    assert hierarchy(configured, mounts) == expected


@pytest.mark.parametrize(
    ("level", "parts", "expected"),
    [
        (0, (b"",), "/"),
        (1, (b"system.slice", b""), "/system.slice"),
        (2, (b"ssh.service", b"system.slice", b""), "/system.slice/ssh.service"),
        (3, (b"c", b"b", b"a"), "/a/b/c"),
        (4, (b"d", b"c", b"b"), ".../b/c/d"),
        (9, (b"d", b"c", b"b"), ".../b/c/d"),
        (1, (b"dev-disk-by\\x2duuid.mount",), "/dev-disk-by-uuid.mount"),
        (1, (b"caf\xe9",), "/caf\\xe9"),
        (1, ("café".encode(),), "/café"),
        (1, (b"short\0left over",), "/short"),
    ],
)
def test_the_path_shows_three_levels(level: int, parts: tuple[bytes, ...], expected: str) -> None:
    assert path(level, parts) == expected


def test_an_arrival_is_named_and_keeps_its_place() -> None:
    kernel = FakeCgroups()
    reader = object()
    kernel.table.join(reader)
    slot = kernel.event(77, b"web", b"apps")
    first = kernel.table.refresh(reader)
    assert names(kernel.table) == ["/apps/web"]
    assert kernel.table.slots[0].labels[0] == ("id", "1077")
    assert kernel.table.rows.tolist() == [slot]
    assert kernel.table.refresh(reader) == first, "nothing changed"


def test_a_removed_cgroup_is_shown_once_more_then_its_slot_is_zeroed_and_free() -> None:
    kernel = FakeCgroups()
    reader = object()
    cells = np.zeros(SLOTS * 8, np.uint64)
    kernel.table.join(reader, Bank(cells, 1))
    slot = kernel.event(77, b"web")
    kernel.table.refresh(reader)
    cells[slot * 8] = 5
    kernel.remove(77)
    kernel.table.refresh(reader)
    assert names(kernel.table) == ["/web"], "its last counts are still to be read"
    kernel.table.refresh(reader)
    assert names(kernel.table) == []
    assert slot not in kernel.free, "a program may still be adding to it"
    kernel.table.refresh(reader)
    assert kernel.free[-1] == slot
    assert cells[slot * 8] == 0


def test_one_that_lived_between_two_reads_is_shown_once() -> None:
    kernel = FakeCgroups()
    reader = object()
    kernel.table.join(reader)
    kernel.event(77, b"short")
    kernel.remove(77)
    kernel.table.refresh(reader)
    assert names(kernel.table) == ["/short"]
    kernel.table.refresh(reader)
    assert names(kernel.table) == []


def test_a_recycled_slot_is_another_series() -> None:
    kernel = FakeCgroups()
    reader = object()
    kernel.table.join(reader)
    for identity in range(1, 1 + 3 * SLOTS):
        assert kernel.event(identity, b"same")
        kernel.table.refresh(reader)
        assert dict(kernel.table.slots[-1].labels)["__uid__"] == str(identity)
        kernel.remove(identity)
        for _ in range(3):
            kernel.table.refresh(reader)
    assert kernel.table.lost == 0


def test_cgroups_beyond_the_table_are_one_series() -> None:
    kernel = FakeCgroups()
    reader = object()
    kernel.table.join(reader)
    for identity in range(1, SLOTS + 5):
        kernel.event(identity, f"c{identity}".encode())
    kernel.table.refresh(reader)
    assert kernel.table.lost == 5
    assert names(kernel.table)[0] == "other"
    assert len(kernel.table.slots) == SLOTS


def test_a_slot_waits_for_every_reader() -> None:
    kernel = FakeCgroups()
    fast, slow = object(), object()
    kernel.table.join(fast)
    kernel.table.join(slow)
    kernel.event(77, b"web")
    for reader in (fast, slow):
        kernel.table.refresh(reader)
    kernel.remove(77)
    for reader in (fast, fast, fast):
        kernel.table.refresh(reader)
    assert names(kernel.table) == ["/web"], "the slow one has not read since"
    kernel.table.leave(slow)
    kernel.table.refresh(fast)
    assert names(kernel.table) == []


def test_a_removal_that_the_second_reader_of_a_round_sees_first_is_not_forgotten() -> None:
    kernel = FakeCgroups()
    first, second = object(), object()
    kernel.table.join(first)
    kernel.table.join(second)
    kernel.event(77, b"web")
    kernel.table.refresh(first)
    kernel.remove(77)
    for reader in (second, first, second, first, second):
        kernel.table.refresh(reader)
    assert names(kernel.table) == []


def test_one_that_comes_and_goes_while_the_table_is_read_is_shown_all_the_same() -> None:
    kernel = FakeCgroups()
    reader = object()
    kernel.table.join(reader)
    kernel.event(1, b"old")
    kernel.table.refresh(reader)
    kernel.event(77, b"short")
    kernel.remove(77)
    kernel.remove(1)
    kernel.events[0] = 2  # as read when only the removal of the old one had been counted
    kernel.table._welcomed_at = [2, 0]
    kernel.table.refresh(reader)
    kernel.events[0] = 4
    kernel.table.refresh(reader)
    assert "/short" in names(kernel.table)
    for _ in range(2):
        kernel.table.refresh(reader)
    assert names(kernel.table) == []


def test_the_maps_are_sized_by_the_host() -> None:
    sizes = {each.name: each.entries for each in maps(128, 4096)}
    assert sizes["cgroup_last"] == 128 * 8
    assert sizes["cgroup_ids"] == 4096
