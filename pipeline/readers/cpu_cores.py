"""How many CPUs are online, from /sys/devices/system/cpu/online (kernel: drivers/base/cpu.c)."""

from pathlib import Path
from typing import Final

from pipeline import cpulist
from pipeline.readers.kernfile import KernelFileSource, ParseError
from pipeline.records import Group, Kind, Metric, Schema
from pipeline.source import Pace, Roots, Sampler, Source

FILE: Final = "/sys/devices/system/cpu/online"
GROUP: Final = Group(
    "cpu_cores", "cpu_cores_read", (Metric("cpu_cores", Kind.GAUGE, "", "Logical CPUs online"),)
)
SCHEMA: Final = Schema(GROUP)


def parse(text: bytes) -> list[int]:
    """The CPU numbers of a list such as `0-3,8`, ascending and each once.

    Raises:
        ParseError: the text is no such list, or ends before its line does.
    """
    if not text.endswith(b"\n"):
        raise ParseError(f"{FILE}: ends within a line after {len(text)} bytes")
    try:
        return list(cpulist.parse(text.decode("ascii")))
    except ValueError as error:
        raise ParseError(f"{FILE}: {error}") from error


def open_source(roots: Roots) -> Source:
    return KernelFileSource(
        Path(roots.sys, "devices/system/cpu/online"), SCHEMA, lambda text: (len(parse(text)),)
    )


SAMPLER: Final = Sampler("cpu_cores", FILE, (GROUP,), open_source, Pace.TICK)
