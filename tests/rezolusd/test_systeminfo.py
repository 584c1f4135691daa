import json
import os
import re
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.cpulist import MAX_CPUS
from rezolusd.systeminfo import SystemInfo, parse_list, parse_number, read_text, systeminfo


def plant(root: Path, tree: dict[str, str | bytes]) -> None:
    """Files by path; a text `-> TARGET` makes a link."""
    for name, content in tree.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        elif content.startswith("-> "):
            path.symlink_to(content.removeprefix("-> "))
        else:
            path.write_text(content + "\n")


def look(root: Path) -> SystemInfo:
    return systeminfo(root / "proc", root / "sys", "x86_64")


def as_json(info: SystemInfo) -> Any:
    return json.loads(msgspec.json.encode(info))


def cpu(
    number: int, core: int, package: int, thread_siblings: str, package_cpus: str
) -> dict[str, str | bytes]:
    """What /sys tells of one CPU: private first-level caches a core, an L3 a package."""
    base = f"sys/devices/system/cpu/cpu{number}"
    caches = [
        ("1", "Data", "48K", thread_siblings),
        ("1", "Instruction", "32K", thread_siblings),
        ("2", "Unified", "2048K", thread_siblings),
        ("3", "Unified", "107520K", package_cpus),
    ]
    tree: dict[str, str | bytes] = {
        f"{base}/topology/core_id": str(core),
        f"{base}/topology/physical_package_id": str(package),
    }
    for index, (level, kind, size, shared) in enumerate(caches):
        folder = f"{base}/cache/index{index}"
        tree |= {f"{folder}/level": level, f"{folder}/type": kind, f"{folder}/size": size}
        tree |= {f"{folder}/shared_cpu_list": shared}
    return tree


TWO_SOCKETS: dict[str, str | bytes] = {
    "proc/version": "Linux version 6.1.0-test (gcc) #1 SMP",
    "proc/sys/kernel/hostname": "db7",
    "proc/cpuinfo": "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Xeon: a test\n\n"
    "processor\t: 1\nvendor_id\t: Other\nmodel name\t: Other",
    "proc/meminfo": "MemTotal:       16384 kB\nMemFree:        1 kB",
    "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  560.35.03\n"
    "GCC version:  gcc version 12.2.0",
    "proc/driver/nvidia/gpus/0000:c1:00.0/information": "Model: \t\t NVIDIA H100\nIRQ:   \t\t 64",
    "proc/driver/nvidia/gpus/0000:41:00.0/information": "Model: \t\t NVIDIA A100\nIRQ:   \t\t 63",
    "sys/bus/pci/devices/0000:c1:00.0/numa_node": "1",
    "sys/bus/pci/devices/0000:41:00.0/numa_node": "-1",
    "sys/devices/system/cpu/online": "0-3",
    "sys/devices/system/cpu/smt/active": "1",
    **cpu(0, 0, 0, "0-1", "0-1"),
    **cpu(1, 0, 0, "0-1", "0-1"),
    **cpu(2, 0, 1, "2-3", "2-3"),
    **cpu(3, 0, 1, "2-3", "2-3"),
    "sys/devices/system/cpu/cpu0/topology/die_id": "4",
    "sys/devices/system/node/online": "0-2",
    "sys/devices/system/node/node0/cpulist": "0-1",
    "sys/devices/system/node/node1/cpulist": "2-3",
    "sys/devices/system/node/node2/cpulist": "",
    "sys/class/net/bonding_masters": "bond0",
    "sys/class/net/lo/operstate": "up",
    "sys/class/net/eth1/operstate": "down",
    "sys/class/net/eth0/operstate": "up",
    "sys/class/net/eth0/speed": "25000",
    "sys/class/net/eth0/device/numa_node": "1",
    "sys/class/net/eth0/device/driver": "-> ../../../../bus/pci/drivers/mlx5_core",
    "sys/class/net/ens5/operstate": "up",
    "sys/class/net/ens5/speed": "-1",
}


def test_the_whole_document_of_a_two_socket_host(tmp_path: Path) -> None:
    plant(tmp_path, TWO_SOCKETS)
    assert as_json(look(tmp_path)) == {
        "os": "linux",
        "kernel": "Linux version 6.1.0-test (gcc) #1 SMP",
        "arch": "x86_64",
        "hostname": "db7",
        "cpu_model": "Xeon: a test",
        "cpu_vendor": "GenuineIntel",
        "cpus": 4,
        "cores": 2,
        "packages": 2,
        "smt": True,
        "memory_total_bytes": 16777216,
        "numa_nodes": 3,
        "cpu_topology": [
            {"cpu": 0, "core": 0, "die": 4, "package": 0, "numa_node": 0},
            {"cpu": 1, "core": 0, "die": 0, "package": 0, "numa_node": 0},
            {"cpu": 2, "core": 0, "die": 1, "package": 1, "numa_node": 1},
            {"cpu": 3, "core": 0, "die": 1, "package": 1, "numa_node": 1},
        ],
        "caches": [
            {"level": "L1d", "size": "48K", "instances": 2, "shared_cpus": [[0, 1], [2, 3]]},
            {"level": "L1i", "size": "32K", "instances": 2, "shared_cpus": [[0, 1], [2, 3]]},
            {"level": "L2", "size": "2048K", "instances": 2, "shared_cpus": [[0, 1], [2, 3]]},
            {"level": "L3", "size": "107520K", "instances": 2, "shared_cpus": [[0, 1], [2, 3]]},
        ],
        "nics": [
            {"name": "ens5", "speed": None, "numa_node": None, "driver": None},
            {"name": "eth0", "speed": 25000, "numa_node": 1, "driver": "mlx5_core"},
        ],
        "gpus": [
            {"index": 0, "name": "NVIDIA A100", "vendor": "nvidia", "memory_bytes": None}
            | {"driver": "560.35.03", "numa_node": None},
            {"index": 1, "name": "NVIDIA H100", "vendor": "nvidia", "memory_bytes": None}
            | {"driver": "560.35.03", "numa_node": 1},
        ],
    }


EMPTY: dict[str, object] = {
    "os": "linux",
    "kernel": "",
    "arch": "x86_64",
    "hostname": None,
    "cpu_model": None,
    "cpu_vendor": None,
    "cpus": 0,
    "cores": None,
    "packages": None,
    "smt": None,
    "memory_total_bytes": None,
    "numa_nodes": None,
    "cpu_topology": [],
    "caches": [],
    "nics": [],
    "gpus": [],
}


def test_an_empty_tree_has_null_for_every_optional(tmp_path: Path) -> None:
    assert as_json(look(tmp_path)) == EMPTY


def test_a_cpu_that_is_offline_is_not_counted(tmp_path: Path) -> None:
    plant(tmp_path, TWO_SOCKETS | {"sys/devices/system/cpu/online": "0,2-3"})
    info = look(tmp_path)
    assert (info.cpus, [place.cpu for place in info.cpu_topology]) == (3, [0, 2, 3])


def test_firmware_that_does_not_tell_packages_gives_one(tmp_path: Path) -> None:
    plant(
        tmp_path,
        {
            "sys/devices/system/cpu/online": "0-1",
            "sys/devices/system/cpu/cpu0/topology/core_id": "0",
            "sys/devices/system/cpu/cpu0/topology/physical_package_id": "-1",
            "sys/devices/system/cpu/cpu1/topology/core_id": "1",
        },
    )
    info = look(tmp_path)
    assert (info.cores, info.packages, info.caches) == (2, 1, ())


def test_an_interface_whose_name_is_not_utf8_still_makes_json(tmp_path: Path) -> None:
    plant(tmp_path, {"sys/class/net/" + os.fsdecode(b"\xffeth") + "/operstate": "up"})
    assert as_json(look(tmp_path))["nics"][0]["name"] == "\ufffdeth"


def test_a_file_without_end_is_read_for_a_moment_only() -> None:
    assert len(read_text(Path("/dev/zero")) or "") < 100_000


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"\0" * 70_000,
        b"\xff\xfe: \xff",
        b"9" * 70_000,
        b"-1",
        b"0-99999999999",
        b":::\n-,-",
        b"1\n2",
    ],
)
def test_odd_content_in_every_file_costs_only_its_field(content: bytes, tmp_path: Path) -> None:
    plant(tmp_path, {name: content for name, text in TWO_SOCKETS.items() if not str(text).startswith("->")})
    info = as_json(look(tmp_path))
    assert info.keys() == EMPTY.keys()
    assert (info["smt"], info["memory_total_bytes"], info["nics"]) == (None, None, [])


def test_folders_where_files_belong_cost_only_their_field(tmp_path: Path) -> None:
    for name in TWO_SOCKETS:
        (tmp_path / name).mkdir(parents=True)
    assert as_json(look(tmp_path)) | {"gpus": []} == EMPTY


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("0", (0,)),
        ("0-3", (0, 1, 2, 3)),
        ("0-1,8, 10-11", (0, 1, 8, 10, 11)),
        ("5,1-2,1", (1, 2, 5)),
        ("3-1", ()),
        ("", ()),
        ("0-", ()),
        ("-1", ()),
        ("0,x", ()),
        (f"0-{MAX_CPUS}", ()),
        ("1_0", ()),
    ],
)
def test_lists(text: str, numbers: tuple[int, ...]) -> None:
    assert parse_list(text) == numbers


@given(st.text())
def test_parsers_take_any_text(text: str) -> None:
    assert all(0 <= number < MAX_CPUS for number in parse_list(text))
    number = parse_number(text)
    assert number is None or 0 <= number < 2**53


@given(st.sets(st.integers(0, MAX_CPUS - 1), min_size=1))
def test_a_list_is_read_as_it_was_written(numbers: set[int]) -> None:
    assert parse_list(",".join(map(str, sorted(numbers)))) == tuple(sorted(numbers))


# This machine, against others who read it


@pytest.fixture(scope="module")
def here() -> SystemInfo:
    return systeminfo(Path("/proc"), Path("/sys"), os.uname().machine)


def test_this_machine_as_the_c_library_sees_it(here: SystemInfo) -> None:
    assert here.cpus == os.sysconf("SC_NPROCESSORS_ONLN")
    assert here.memory_total_bytes == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert here.hostname == os.uname().nodename
    assert os.uname().release in here.kernel
    assert os.sched_getaffinity(0) <= {place.cpu for place in here.cpu_topology} or not here.cpu_topology


@pytest.fixture(scope="module")
def lscpu() -> str:
    tool = shutil.which("lscpu")
    return tool or pytest.skip("lscpu (util-linux) is not installed")


def ask(*command: str) -> str:
    environ = os.environ | {"LC_ALL": "C"}
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environ).stdout


def test_this_machine_as_lscpu_sees_it(here: SystemInfo, lscpu: str) -> None:
    text = ask(lscpu, "--parse=CPU,CORE,SOCKET,NODE", "--online")
    rows = [line.split(",") for line in text.splitlines() if not line.startswith("#")]
    assert here.cpus == len(rows)
    if here.cpu_topology:
        assert here.cores == len({row[1] for row in rows})
        assert here.packages == len({row[2] for row in rows})
        nodes = ["" if place.numa_node is None else str(place.numa_node) for place in here.cpu_topology]
        assert nodes == [row[3] for row in rows]


def test_the_caches_of_this_machine_as_lscpu_sees_them(here: SystemInfo, lscpu: str) -> None:
    text = ask(lscpu)
    for cache in here.caches:
        assert re.search(rf"{cache.level} cache:.*\({cache.instances} instances?\)", text), text


def test_the_interfaces_of_this_machine_as_the_c_library_sees_them(here: SystemInfo) -> None:
    assert {nic.name for nic in here.nics} <= {name for _, name in socket.if_nameindex()} - {"lo"}
