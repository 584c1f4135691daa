"""What the daemon asks of the compile child: one C file, its maps, its hooks, its constants."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

HERE: Final = Path(__file__).resolve().parent


class Map(msgspec.Struct, frozen=True):
    """One map, declared here and nowhere else: C names it `MAP_<name>`.

    Attributes:
        mmap: its cells, u64 each, are seen by the daemon without a system call.
        fill: initial values: cells of an mmapped array, or u32 entries of a queue.
    """

    name: str
    type: Literal["array", "hash", "queue", "ringbuf"]
    entries: int
    key_size: int = 4
    value_size: int = 8
    mmap: bool = False
    fill: Sequence[int] = ()


def cells(name: str, entries: int, fill: Sequence[int] = ()) -> Map:
    """An mmapped array of u64."""
    return Map(name, "array", entries, mmap=True, fill=fill)


# Kind, target and C function of each way to hook one event, best first; the first one's target names it.
Hook = tuple[tuple[str, str, str], ...]


def twins(tracepoint: str) -> Hook:
    """A tracepoint hooked as tp_btf or else raw_tp by one C function of the same name."""
    return (("tp_btf", tracepoint, tracepoint), ("raw_tp", tracepoint, tracepoint))


class Object(msgspec.Struct, frozen=True):
    """One C file with everything it needs from the running kernel and from us.

    Attributes:
        source: the C file.
        structs: kernel structs it reads.
        defines: constants it is compiled with.
        fields: macro to struct and possible names of a field, newest first.
        enums: macro to enum and enumerator.
        present: macro to struct and field; 1 where this kernel has it, else 0.
        parameters: macro to function and name of a parameter; 1 where this kernel's has it, else 0.
    """

    source: str
    maps: Sequence[Map]
    hooks: Sequence[Hook]
    structs: Sequence[str] = ()
    defines: Mapping[str, int] = {}
    fields: Mapping[str, tuple[str, Sequence[str]]] = {}
    enums: Mapping[str, tuple[str, str]] = {}
    present: Mapping[str, tuple[str, str]] = {}
    parameters: Mapping[str, tuple[str, str]] = {}
    btf: str = "/sys/kernel/btf"
    seconds: int = 30

    @property
    def name(self) -> str:
        return Path(self.source).name
