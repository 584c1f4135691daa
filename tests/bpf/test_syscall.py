"""The table of classes, and what is compiled for which samplers."""

import re
from pathlib import Path

import pytest

from bpf.host import Host
from bpf.objects import HERE
from bpf.syscall import (
    COUNTS,
    LATENCY,
    NO_RETURN,
    OP_MASK,
    WIDTH,
    build,
    classes,
)
from bpf.syscall_table import NAMES, OPS, numbers
from pipeline.health import Unsupported

HOST = Host(
    cpus=4, online=Path("/sys/devices/system/cpu/online"), pids=1000, hierarchy="cpu", btf="/sys/kernel/btf"
)
HEADER = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")


def op(machine: str, number: int) -> str:
    return OPS[classes(machine)[number] & OP_MASK]


def test_seventeen_classes_need_three_cache_lines() -> None:
    assert len(OPS) == 17
    assert OPS[0] == "other"
    assert OPS[16] == "sync"
    assert WIDTH == 24


@pytest.mark.parametrize(
    ("machine", "number", "expected"),
    [
        ("x86_64", 0, "read"),
        ("x86_64", 1, "write"),
        ("x86_64", 35, "sleep"),
        ("x86_64", 26, "sync"),  # msync
        ("x86_64", 74, "sync"),  # fsync
        ("x86_64", 162, "sync"),
        ("x86_64", 306, "sync"),  # syncfs
        ("x86_64", 202, "lock"),
        ("x86_64", 262, "other"),  # newfstatat
        ("x86_64", 437, "other"),  # openat2
        ("x86_64", 435, "other"),  # clone3
        ("x86_64", 277, "other"),  # sync_file_range
        ("x86_64", 16, "other"),  # ioctl
        ("x86_64", 1023, "other"),
        ("aarch64", 63, "read"),
        ("aarch64", 82, "sync"),
        ("aarch64", 101, "sleep"),
        ("aarch64", 79, "other"),  # newfstatat
        ("aarch64", 115, "sleep"),
    ],
)
def test_classes_by_number(machine: str, number: int, expected: str) -> None:
    assert op(machine, number) == expected


@pytest.mark.parametrize(("machine", "exit_group"), [("x86_64", 231), ("aarch64", 94)])
def test_calls_that_never_return_are_marked(machine: str, exit_group: int) -> None:
    table = classes(machine)
    assert table[exit_group] == OPS.index("process") | NO_RETURN
    assert sum(1 for entry in table if entry & NO_RETURN) == 2


def test_an_architecture_without_a_table_is_unsupported() -> None:
    with pytest.raises(Unsupported, match="riscv64"):
        classes("riscv64")


def test_a_name_has_one_class() -> None:
    every = " ".join(NAMES.values()).split()
    assert len(every) == len(set(every))


@pytest.mark.skipif(not HEADER.exists(), reason="no kernel headers of the C library here")
def test_numbers_are_those_of_the_c_library() -> None:
    given = {name: int(number) for name, number in re.findall(r"__NR_(\w+) (\d+)", HEADER.read_text())}
    wanted = set(" ".join(NAMES.values()).split())
    assert numbers("x86_64") == {name: number for name, number in given.items() if name in wanted}


def test_only_wanted_parts_are_built() -> None:
    alone = build(HOST, {LATENCY})
    assert {hook[0][1] for hook in alone.hooks} == {"sys_enter", "sys_exit"}
    assert not any(each.name.startswith("cgroup") for each in alone.maps)
    both = build(HOST, {COUNTS, LATENCY})
    assert [hook[0][1] for hook in both.hooks].count("sys_enter") == 1
    sizes = {each.name: each.entries for each in both.maps}
    assert sizes["syscall_counts"] == HOST.cpus * WIDTH
    assert sizes["syscall_stamps"] == HOST.pids


def test_every_constant_of_the_c_file_is_defined() -> None:
    both = build(HOST, {COUNTS, LATENCY})
    files = ("syscall.bpf.c", "include/cgroup.h", "include/cgroup_name.h")
    text = "".join((HERE / file).read_text() for file in files)
    used = set(re.findall(r"MAP\((\w+)\)", text)) - {"name"}
    assert used == {each.name for each in both.maps}
    for macro in (*both.defines, *both.fields, *both.enums):
        assert macro in text
