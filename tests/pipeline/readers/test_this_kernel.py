"""The readers on the kernel the tests run on, against what is read there by other means."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from pipeline.readers import cpu_cores, memory_meminfo, memory_vmstat
from pipeline.source import Attempts, Roots, Sampler
from tests.pipeline.readers.rows import MEMINFO, VMSTAT, Series, published

pytestmark = pytest.mark.core


def read(sampler: Sampler) -> dict[Series, int | None]:
    attempts = Attempts(sampler, Roots())
    report = attempts.attempt()
    attempts.close()
    assert report.error is None
    (reading,) = report.readings
    return published(reading)


def lines(path: str) -> dict[str, int]:
    """First two words of every line, by a means of our own."""
    return {
        key: int(value)
        for key, value in re.findall(r"^(\S+?):?\s+(\d+)", Path(path).read_text(), re.MULTILINE)
    }


def test_memory_and_swap_there_are() -> None:
    found = read(memory_meminfo.SAMPLER)
    assert found["memory_total", ""] == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    swaps = [line.split()[-3] for line in Path("/proc/swaps").read_text().splitlines()[1:]]
    assert found["memory_swap_total", ""] == sum(map(int, swaps)) * 1024


STATIC = ("MemTotal", "SwapTotal", "HugePages_Total", "HardwareCorrupted", "CommitLimit")


@pytest.mark.parametrize("row", [row for row in MEMINFO if row.key in STATIC], ids=lambda row: row.key)
def test_what_stands_still_is_exact(row: object) -> None:
    assert row in MEMINFO
    kernel = lines("/proc/meminfo")
    found = read(memory_meminfo.SAMPLER)
    for own in MEMINFO:
        if own is row:
            value = kernel.get(own.key)
            scale = 1 if own.unit == "pages" else 1024
            assert found[own.series] == (None if value is None else value * scale)


def test_what_moves_is_there_exactly_when_the_kernel_has_it() -> None:
    for sampler, table, path in (
        (memory_meminfo.SAMPLER, MEMINFO, "/proc/meminfo"),
        (memory_vmstat.SAMPLER, VMSTAT, "/proc/vmstat"),
    ):
        kernel, found = lines(path), read(sampler)
        for row in table:
            has = row.key in kernel or ("*" in row.key and "allocstall_normal" in kernel)
            assert (found[row.series] is not None) == has, row.key


def test_what_only_grows_lies_between_a_reading_before_and_one_after() -> None:
    before = lines("/proc/vmstat")
    found = read(memory_vmstat.SAMPLER)
    after = lines("/proc/vmstat")
    checked = 0
    for row in VMSTAT:
        value = found[row.series]
        if row.kind == "counter" and row.key in before:
            assert value is not None
            assert before[row.key] <= value <= after[row.key], row.key
            checked += 1
    assert checked >= 10


def test_stalls_lie_between_the_sums_before_and_after() -> None:
    def stalls() -> int:
        return sum(value for key, value in lines("/proc/vmstat").items() if key.startswith("allocstall_"))

    before = stalls()
    found = read(memory_vmstat.SAMPLER)["memory_allocation_stalls", ""]
    assert found is not None
    assert before <= found <= stalls()


def test_the_dirty_threshold_is_a_share_of_memory_in_bytes() -> None:
    found = read(memory_vmstat.SAMPLER)
    hard, background = (found["memory_dirty_threshold", f"kind={kind}"] for kind in ("hard", "background"))
    assert hard is not None
    assert background is not None
    assert 0 < background <= hard <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert hard % os.sysconf("SC_PAGE_SIZE") == 0


def test_cpus_online() -> None:
    (found,) = read(cpu_cores.SAMPLER).values()
    assert found == len(re.findall(r"^cpu\d+ ", Path("/proc/stat").read_text(), re.MULTILINE))
    assert found == os.sysconf("SC_NPROCESSORS_ONLN")
    assert found == int(subprocess.check_output(["getconf", "_NPROCESSORS_ONLN"]))


def test_the_whole_file_is_read_however_the_kernel_hands_it_out() -> None:
    with Path("/proc/meminfo").open("rb", buffering=0) as file:
        pieces = b"".join(iter(lambda: file.read(100), b""))
    known = {
        key for key, value in zip(MEMINFO, memory_meminfo.parse(pieces), strict=True) if value is not None
    }
    assert len(known) == sum(value is not None for value in read(memory_meminfo.SAMPLER).values())
