"""Memory as /proc/meminfo accounts for it (kernel: fs/proc/meminfo.c)."""

from pathlib import Path
from typing import Final

from pipeline.readers.kernfile import KernelFileSource, NumberLines
from pipeline.records import Group, Kind, Labels, Metric, Schema
from pipeline.source import Pace, Roots, Sampler, Source

FILE: Final = "/proc/meminfo"


def _gauge(key: str, name: str, help: str, labels: Labels = (), unit: str = "bytes") -> tuple[bytes, Metric]:
    return f"{key}:".encode(), Metric(name, Kind.GAUGE, unit, help, labels)


def _pages(key: str, state: str, help: str) -> tuple[bytes, Metric]:
    return _gauge(key, "memory_hugetlb_pages", help, (("state", state),), "pages")


FILE_LRU: Final = (("kind", "file"),)
ANON_LRU: Final = (("kind", "anon"),)

LINES: Final = (
    _gauge("MemTotal", "memory_total", "Memory the kernel can use"),
    _gauge("MemFree", "memory_free", "Memory used for nothing at all"),
    _gauge("MemAvailable", "memory_available", "Memory new allocations can get without swapping, estimated"),
    _gauge("Buffers", "memory_buffers", "Page cache of block devices"),
    _gauge("Cached", "memory_cached", "Page cache of files, shared memory included"),
    _gauge("Dirty", "memory_dirty", "Page cache waiting to be written back"),
    _gauge("Writeback", "memory_writeback", "Page cache being written back right now"),
    _gauge("Active(file)", "memory_active", "Memory on the active LRU lists", FILE_LRU),
    _gauge("Active(anon)", "memory_active", "Memory on the active LRU lists", ANON_LRU),
    _gauge("Inactive(file)", "memory_inactive", "Memory on the inactive LRU lists", FILE_LRU),
    _gauge("Inactive(anon)", "memory_inactive", "Memory on the inactive LRU lists", ANON_LRU),
    _gauge("Unevictable", "memory_unevictable", "Memory that cannot be reclaimed"),
    _gauge("Mlocked", "memory_mlocked", "Memory locked by mlock"),
    _gauge("Shmem", "memory_shmem", "Shared anonymous memory and tmpfs"),
    _gauge("Mapped", "memory_mapped", "Page cache mapped into processes"),
    _gauge("AnonPages", "memory_anon", "Anonymous memory mapped into processes"),
    _gauge("SReclaimable", "memory_slab", "Memory of the slab allocator", (("kind", "reclaimable"),)),
    _gauge("SUnreclaim", "memory_slab", "Memory of the slab allocator", (("kind", "unreclaimable"),)),
    _gauge("KReclaimable", "memory_kernel_reclaimable", "Kernel memory that can be reclaimed, slab included"),
    _gauge("KernelStack", "memory_kernel_stack", "Memory of kernel stacks"),
    _gauge("PageTables", "memory_page_tables", "Memory of the page tables of processes"),
    _gauge("Percpu", "memory_percpu", "Memory of the per-CPU allocator"),
    _gauge("SwapTotal", "memory_swap_total", "Swap space there is"),
    _gauge("SwapFree", "memory_swap_free", "Swap space unused"),
    _gauge("SwapCached", "memory_swap_cached", "Memory read back from swap whose slot is still kept"),
    _gauge("CommitLimit", "memory_commit_limit", "Memory that may be promised under strict overcommit"),
    _gauge("Committed_AS", "memory_committed", "Memory promised to processes, touched or not"),
    _gauge("AnonHugePages", "memory_hugepages_anon", "Anonymous memory in transparent huge pages"),
    _gauge("ShmemHugePages", "memory_hugepages_shmem", "Shared memory in transparent huge pages"),
    _gauge("FileHugePages", "memory_hugepages_file", "Page cache in transparent huge pages"),
    _gauge("Hugetlb", "memory_hugetlb", "Memory set aside for hugetlb pages of all sizes"),
    _pages("HugePages_Total", "total", "Hugetlb pages of the default size"),
    _pages("HugePages_Free", "free", "Hugetlb pages of the default size"),
    _pages("HugePages_Rsvd", "reserved", "Hugetlb pages of the default size"),
    _pages("HugePages_Surp", "surplus", "Hugetlb pages of the default size"),
    _gauge("HardwareCorrupted", "memory_hardware_corrupted", "Memory taken out of use after hardware errors"),
)
GROUP: Final = Group("memory_meminfo", "memory_meminfo_read", tuple(metric for _, metric in LINES))
SCHEMA: Final = Schema(GROUP)
TEXT: Final = NumberLines(FILE, (key for key, _ in LINES), {b"kB": 1024, b"": 1})


def parse(text: bytes) -> list[int | None]:
    """Bytes, or pages for the hugetlb counts, in the order of `LINES`; None where the line is missing."""
    return TEXT.numbers(text)


def open_source(roots: Roots) -> Source:
    return KernelFileSource(Path(roots.proc, "meminfo"), SCHEMA, parse)


SAMPLER: Final = Sampler("memory_meminfo", FILE, (GROUP,), open_source, Pace.TICK)
