"""What machine this is: the document behind `/systeminfo`, read from /proc and /sys.

Field names, types and meanings are those that readers of recordings know; an absent optional is null there.
Nothing here raises on what a file holds: an odd or missing one costs its own field.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from pipeline import cpulist

MAX_BYTES: Final = 1 << 16
"""Of each file no more is read: enough for the first processor in /proc/cpuinfo and for every CPU list."""

MAX_DIGITS: Final = 15
"""A number of more digits is no figure of a machine, and times 1024 would not fit 64 bits."""

MAX_ENTRIES: Final = 4096
"""Of each folder no more entries are looked at."""

CACHE_INDICES: Final = range(4)

DRIVER_VERSION: Final = re.compile(r"\b\d{1,6}(?:\.\d{1,6}){1,2}\b")


class Place(msgspec.Struct, frozen=True):
    """Where one online CPU sits."""

    cpu: int
    core: int
    die: int
    package: int
    numa_node: int | None


class Cache(msgspec.Struct, frozen=True):
    """One kind of cache, all its instances; `level` is L1d, L1i, L2 or L3, `size` the kernel's text: 32K."""

    level: str
    size: str | None
    instances: int
    shared_cpus: tuple[tuple[int, ...], ...]


class Nic(msgspec.Struct, frozen=True):
    """A network interface that is up; `speed` in Mbit/s."""

    name: str
    speed: int | None
    numa_node: int | None
    driver: str | None


class Gpu(msgspec.Struct, frozen=True):
    """A GPU; `index` counts within its vendor, `driver` is a version."""

    index: int
    name: str | None
    vendor: str
    memory_bytes: int | None
    driver: str | None
    numa_node: int | None


class SystemInfo(msgspec.Struct, frozen=True):
    """The whole document, as JSON encodes it."""

    os: str
    kernel: str
    arch: str
    hostname: str | None
    cpu_model: str | None
    cpu_vendor: str | None
    cpus: int
    cores: int | None
    packages: int | None
    smt: bool | None
    memory_total_bytes: int | None
    numa_nodes: int | None
    cpu_topology: tuple[Place, ...]
    caches: tuple[Cache, ...]
    nics: tuple[Nic, ...]
    gpus: tuple[Gpu, ...]


def systeminfo(proc: Path, sys: Path, arch: str) -> SystemInfo:
    """Read the machine once. About ten small files a CPU: off the event loop, please.

    Args:
        proc: /proc, or a tree like it.
        sys: /sys, or a tree like it.
        arch: the machine word of uname: x86_64, aarch64.
    """
    cpu, node = sys / "devices/system/cpu", sys / "devices/system/node"
    online, nodes = read_list(cpu / "online"), read_list(node / "online")
    places = tuple(read_places(cpu, online, read_node_of_cpu(node, nodes)))
    smt = read_number(cpu / "smt/active")
    cpuinfo = read_fields(proc / "cpuinfo")
    return SystemInfo(
        os="linux",
        kernel=read_text(proc / "version") or "",
        arch=arch,
        hostname=read_text(proc / "sys/kernel/hostname"),
        cpu_model=cpuinfo.get("model name"),
        cpu_vendor=cpuinfo.get("vendor_id"),
        cpus=len(online),
        cores=len({(place.package, place.core) for place in places}) or None,
        packages=len({place.package for place in places}) or None,
        smt=None if smt is None else smt == 1,
        memory_total_bytes=parse_kilobytes(read_fields(proc / "meminfo").get("MemTotal", "")),
        numa_nodes=len(nodes) or None,
        cpu_topology=places,
        caches=tuple(read_caches(cpu, online)),
        nics=tuple(read_nics(sys / "class/net")),
        gpus=tuple(read_nvidia(proc / "driver/nvidia", sys / "bus/pci/devices")),
    )


def read_places(cpu: Path, online: tuple[int, ...], node_of: dict[int, int]) -> Iterator[Place]:
    """Source: /sys/devices/system/cpu/cpuN/topology.

    A CPU whose core is not told is left out; the package falls back to 0 (firmware may leave -1 there), and
    the die to the package.
    """
    for number in online:
        topology = cpu / f"cpu{number}/topology"
        core = read_number(topology / "core_id")
        if core is None:
            continue
        package = read_number(topology / "physical_package_id") or 0
        die = read_number(topology / "die_id")
        yield Place(number, core, package if die is None else die, package, node_of.get(number))


def read_node_of_cpu(node: Path, nodes: tuple[int, ...]) -> dict[int, int]:
    """Source: /sys/devices/system/node/nodeN/cpulist."""
    return {cpu: number for number in nodes for cpu in read_list(node / f"node{number}/cpulist")}


def read_caches(cpu: Path, online: tuple[int, ...]) -> Iterator[Cache]:
    """Source: /sys/devices/system/cpu/cpuN/cache/indexM, one cache an index; none where no level is told.

    Instances are told apart by the first CPU that shares one; size and level are those of the first.
    """
    for index in CACHE_INDICES:
        folders = [cpu / f"cpu{number}/cache/index{index}" for number in online]
        instances: dict[int, tuple[int, ...]] = {}
        for shared in filter(None, (read_list(folder / "shared_cpu_list") for folder in folders)):
            instances.setdefault(shared[0], shared)
        first = next((folder for folder in folders if read_level(folder)), None)
        if first is not None and instances:
            size = read_text(first / "size")
            yield Cache(read_level(first), size, len(instances), tuple(instances.values()))


def read_level(folder: Path) -> str:
    """L1d, L1i, L2, L3; empty where the level is not told."""
    level = read_number(folder / "level")
    suffix = {"Data": "d", "Instruction": "i"}.get(read_text(folder / "type") or "", "")
    return "" if level is None else f"L{level}{suffix}"


def read_nics(net: Path) -> Iterator[Nic]:
    """Source: /sys/class/net, by name. A speed that is not known is -1 there, or the read fails."""
    for name in entries(net):
        if name != "lo" and read_text(net / name / "operstate") == "up":
            device = net / name / "device"
            yield Nic(
                name=printable(name),
                speed=read_number(net / name / "speed"),
                numa_node=read_number(device / "numa_node"),
                driver=read_link_name(device / "driver"),
            )


def read_nvidia(nvidia: Path, pci: Path) -> Iterator[Gpu]:
    """Source: /proc/driver/nvidia, one folder a GPU named by its PCI address, in whose order they count."""
    version = DRIVER_VERSION.search((read_text(nvidia / "version") or "").partition("\n")[0])
    for index, address in enumerate(entries(nvidia / "gpus")):
        yield Gpu(
            index=index,
            name=read_fields(nvidia / "gpus" / address / "information").get("Model"),
            vendor="nvidia",
            memory_bytes=None,
            driver=version[0] if version else None,
            numa_node=read_number(pci / address / "numa_node"),
        )


def read_text(path: Path) -> str | None:
    """The file's beginning, stripped; bytes that are not UTF-8 become U+FFFD. None if unreadable or empty."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES).decode(errors="replace").strip() or None
    except (OSError, ValueError):
        return None


def read_number(path: Path) -> int | None:
    """The file's one number; None where unreadable, negative (the kernel's "not known") or no number."""
    return parse_number(read_text(path) or "")


def read_list(path: Path) -> tuple[int, ...]:
    """The numbers of a list such as `0-3,8`, ascending; empty where unreadable or malformed."""
    return parse_list(read_text(path) or "")


def read_fields(path: Path) -> dict[str, str]:
    """`name: value` lines by name, the first of each name; empty values left out."""
    fields: dict[str, str] = {}
    for line in (read_text(path) or "").splitlines():
        name, _, value = (part.strip() for part in line.partition(":"))
        if value:
            fields.setdefault(name, value)
    return fields


def read_link_name(path: Path) -> str | None:
    """The last component of a link's target."""
    try:
        return printable(path.readlink().name) or None
    except (OSError, ValueError):
        return None


def entries(folder: Path) -> list[str]:
    """Names in a folder, sorted; none where there is no such folder."""
    try:
        return sorted(os.listdir(folder))[:MAX_ENTRIES]
    except OSError:
        return []


def parse_number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS else None


def parse_list(text: str) -> tuple[int, ...]:
    try:
        return cpulist.parse(text)
    except ValueError:
        return ()


def parse_kilobytes(text: str) -> int | None:
    """`16384 kB` in bytes."""
    kilobytes = parse_number(text.partition(" ")[0])
    return None if kilobytes is None else kilobytes * 1024


def printable(name: str) -> str:
    """A file name without the surrogates that stand for bytes that are not UTF-8: JSON cannot carry them."""
    return os.fsencode(name).decode(errors="replace")
