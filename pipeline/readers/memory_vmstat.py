"""Memory events as /proc/vmstat counts them (kernel: mm/vmstat.c)."""

import resource
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from pipeline.readers.kernfile import KernelFileSource, NumberLines, ParseError
from pipeline.records import Group, Kind, Labels, Metric, Schema
from pipeline.source import Pace, Roots, Sampler, Source

FILE: Final = "/proc/vmstat"


def _counter(key: str, name: str, unit: str, help: str, labels: Labels = ()) -> tuple[bytes, Metric]:
    return key.encode(), Metric(name, Kind.COUNTER, unit, help, labels)


def _threshold(key: str, kind: str) -> tuple[bytes, Metric]:
    help = "Dirty page cache at which writers are throttled (hard) or the flusher starts (background)"
    return key.encode(), Metric("memory_dirty_threshold", Kind.GAUGE, "bytes", help, (("kind", kind),))


def _kinds(key: str, name: str, help: str, kinds: Sequence[str]) -> list[tuple[bytes, Metric]]:
    """One counter of pages a kind; `{}` in the key stands for the kind."""
    return [_counter(key.format(kind), name, "pages", help, (("kind", kind),)) for kind in kinds]


FILE_ANON: Final = ("file", "anon")
RECLAIMERS: Final = ("kswapd", "direct")
ALLOCATED: Final = (("outcome", "allocated"),)
FALLBACK: Final = (("outcome", "fallback"),)
SUCCESS: Final = (("outcome", "success"),)
FAIL: Final = (("outcome", "fail"),)

# Keys are matched whole: the file also has pgscan_direct_throttle, and nr_dirty beside nr_dirtied.
LINES: Final = (
    _counter("numa_hit", "memory_numa_hit", "", "Pages allocated on the node they were meant for"),
    _counter("numa_miss", "memory_numa_miss", "", "Pages allocated on a node though meant for another"),
    _counter("numa_foreign", "memory_numa_foreign", "", "Pages meant for a node but allocated on another"),
    _counter("numa_interleave", "memory_numa_interleave", "", "Pages interleaved onto the node meant"),
    _counter("numa_local", "memory_numa_local", "", "Pages allocated on the node of the running CPU"),
    _counter("numa_other", "memory_numa_other", "", "Pages allocated for a process on another node"),
    _counter("nr_dirtied", "memory_pages_dirtied", "pages", "Page-cache pages dirtied"),
    _counter(
        "nr_written", "memory_pages_written", "pages", "Page-cache pages written back, by whatever path"
    ),
    _threshold("nr_dirty_threshold", "hard"),
    _threshold("nr_dirty_background_threshold", "background"),
    *_kinds("pgscan_{}", "memory_reclaim_scanned", "Pages scanned by reclaim", RECLAIMERS),
    *_kinds("pgsteal_{}", "memory_reclaim_reclaimed", "Pages freed by reclaim", RECLAIMERS),
    _counter("pgfault", "memory_page_faults", "faults", "Page faults of all kinds"),
    _counter("pgmajfault", "memory_major_page_faults", "faults", "Page faults that had to read from storage"),
    _counter("pswpin", "memory_swap_in", "pages", "Pages read back from swap"),
    _counter("pswpout", "memory_swap_out", "pages", "Pages written to swap"),
    # Since 5.9 split by kind; the single lines of older kernels are not the same figures.
    *_kinds(
        "workingset_refault_{}", "memory_workingset_refaults", "Evicted pages soon needed again", FILE_ANON
    ),
    *_kinds(
        "workingset_activate_{}",
        "memory_workingset_activations",
        "Refaulted pages put on the active list at once",
        FILE_ANON,
    ),
    *_kinds(
        "workingset_restore_{}",
        "memory_workingset_restores",
        "Refaulted pages that had been active before",
        FILE_ANON,
    ),
    _counter("oom_kill", "memory_oom_kills", "operations", "Processes killed for want of memory"),
    _counter(
        "thp_fault_alloc",
        "memory_thp_faults",
        "faults",
        "Faults that wanted a huge page, by outcome",
        ALLOCATED,
    ),
    _counter(
        "thp_fault_fallback",
        "memory_thp_faults",
        "faults",
        "Faults that wanted a huge page, by outcome",
        FALLBACK,
    ),
    _counter("thp_collapse_alloc", "memory_thp_collapses", "operations", "Ranges collapsed into a huge page"),
    _counter("thp_split_page", "memory_thp_splits", "operations", "Huge pages split into small ones"),
    _counter(
        "compact_stall", "memory_compaction_stalls", "operations", "Allocations that waited for compaction"
    ),
    _counter(
        "compact_success", "memory_compactions", "operations", "Direct compactions, by outcome", SUCCESS
    ),
    _counter("compact_fail", "memory_compactions", "operations", "Direct compactions, by outcome", FAIL),
    _counter(
        "numa_pte_updates",
        "memory_numa_balancing_pte_updates",
        "operations",
        "Page-table entries marked to learn who uses the page",
    ),
    _counter(
        "numa_hint_faults", "memory_numa_balancing_hint_faults", "faults", "Faults on entries marked so"
    ),
    _counter(
        "numa_pages_migrated",
        "memory_numa_balancing_pages_migrated",
        "pages",
        "Pages moved to the node that uses them",
    ),
)
STALLS: Final = Metric(
    "memory_allocation_stalls",
    Kind.COUNTER,
    "operations",
    "Allocations that had to reclaim memory themselves first, all zones",
)
GROUP: Final = Group("memory_vmstat", "memory_vmstat_read", (*(metric for _, metric in LINES), STALLS))
SCHEMA: Final = Schema(GROUP)

# One line for each zone the kernel was built with.
STALL_KEYS: Final = tuple(
    f"allocstall_{zone}".encode() for zone in ("dma", "dma32", "normal", "high", "movable", "device")
)
STALLS_PLACE: Final = len(LINES)
TEXT: Final = NumberLines(FILE, (*(key for key, _ in LINES), *STALL_KEYS), {b"": 1})
IN_PAGES: Final = tuple(
    place for place, (_, metric) in enumerate(LINES) if metric.name == "memory_dirty_threshold"
)


def parse(text: bytes, page_size: int) -> list[int | None]:
    """Counts, and thresholds in bytes, in the order of `GROUP`; None where the line is missing."""
    lines = TEXT.numbers(text)
    if text[text.rfind(b"\n", 0, -1) + 1 :].split(b" ")[0] in STALL_KEYS:
        raise ParseError(f"{FILE}: ends among the allocstall lines, the sum would be of some zones only")
    for place in IN_PAGES:
        pages = lines[place]
        lines[place] = None if pages is None else pages * page_size
    stalls = [count for count in lines[STALLS_PLACE:] if count is not None]
    return [*lines[:STALLS_PLACE], sum(stalls) if stalls else None]


def open_source(roots: Roots) -> Source:
    return KernelFileSource(
        Path(roots.proc, "vmstat"), SCHEMA, partial(parse, page_size=resource.getpagesize())
    )


SAMPLER: Final = Sampler("memory_vmstat", FILE, (GROUP,), open_source, Pace.TICK)
