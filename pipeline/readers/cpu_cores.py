"""How many CPUs are online, from /sys/devices/system/cpu/online (kernel: drivers/base/cpu.c)."""

from pathlib import Path
from typing import Final

from pipeline.readers.kernfile import KernelFileSource, ParseError, number
from pipeline.records import Group, Kind, Metric, Schema
from pipeline.source import Pace, Roots, Sampler, Source

FILE: Final = "/sys/devices/system/cpu/online"
# The kernel's own limit (NR_CPUS) is 8192 on the largest configurations.
MAX_CPUS: Final = 1 << 16

GROUP: Final = Group(
    "cpu_cores", "cpu_cores_read", (Metric("cpu_cores", Kind.GAUGE, "", "Logical CPUs online"),)
)
SCHEMA: Final = Schema(GROUP)


def parse(text: bytes) -> list[int]:
    """The CPU numbers of a list such as `0-3,8`, ascending and each once.

    Raises:
        ParseError: the text is no such list, or names a CPU beyond `MAX_CPUS`.
    """
    if not text.endswith(b"\n"):
        raise ParseError(f"{FILE}: ends within a line after {len(text)} bytes")
    cpus: set[int] = set()
    for item in text.strip().split(b","):
        first, dash, last = item.partition(b"-")
        begin = number(first, FILE)
        end = number(last, FILE) if dash else begin
        if not begin <= end < MAX_CPUS:
            raise ParseError(f"{FILE}: {begin}-{end} is no range of CPUs")
        cpus.update(range(begin, end + 1))
    return sorted(cpus)


def open_source(roots: Roots) -> Source:
    return KernelFileSource(
        Path(roots.sys, "devices/system/cpu/online"), SCHEMA, lambda text: (len(parse(text)),)
    )


SAMPLER: Final = Sampler("cpu_cores", FILE, (GROUP,), open_source, Pace.TICK)
