"""Banks and histograms on plain arrays; the bucket formula against its definition and against its C twin."""

import ctypes
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bpf.maps import Bank, Histograms, padded, possible_cpus, stripes
from bpf.objects import HERE
from pipeline.histogram import bounds
from pipeline.histogram import index as bucket
from pipeline.records import HISTOGRAM_BUCKETS

U64_MAX = 2**64 - 1
CHECKED = {15: 15, 16: 16, 17: 16, 1000: 63, 8_000_000: 167, U64_MAX: 495, 2**31: bucket(2**31 - 1) + 1}


def every_boundary() -> Iterator[int]:
    for index in range(HISTOGRAM_BUCKETS):
        yield from bounds(index)


@pytest.fixture(scope="module")
def c_bucket(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], int]:
    """`h2_bucket` of the header, compiled for this machine."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler; tests/kernel runs the header as BPF")
    folder = tmp_path_factory.mktemp("histogram")
    source = folder / "twin.c"
    source.write_text(
        "typedef unsigned int u32; typedef unsigned long long u64;\n"
        "#define __always_inline inline\n"
        f'#include "{HERE}/include/histogram.h"\n'
        "u32 bucket(u64 value) { return h2_bucket(value); }\n"
    )
    subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "twin.so", source], check=True)
    function = ctypes.CDLL(str(folder / "twin.so")).bucket
    function.argtypes, function.restype = [ctypes.c_uint64], ctypes.c_uint32
    return lambda value: int(function(value))


@pytest.mark.parametrize(("value", "expected"), CHECKED.items())
def test_check_values(value: int, expected: int) -> None:
    assert bucket(value) == expected


def test_the_bucket_of_8_ms() -> None:
    assert bounds(167) == (7_864_320, 8_388_607)


def test_buckets_tile_the_whole_range() -> None:
    expected = 0
    for index in range(HISTOGRAM_BUCKETS):
        lower, upper = bounds(index)
        assert lower == expected
        assert bucket(lower) == bucket(upper) == index
        assert index < 16 or upper - lower + 1 <= lower / 8
        expected = upper + 1
    assert expected == U64_MAX + 1


@given(st.integers(0, U64_MAX))
def test_a_value_lies_within_its_bucket(value: int) -> None:
    lower, upper = bounds(bucket(value))
    assert lower <= value <= upper


def test_the_c_twin_agrees_at_every_boundary(c_bucket: Callable[[int], int]) -> None:
    assert all(c_bucket(value) == bucket(value) for value in every_boundary())


def test_the_c_twin_agrees_anywhere(c_bucket: Callable[[int], int]) -> None:
    @given(st.integers(0, U64_MAX))
    def agrees(value: int) -> None:
        assert c_bucket(value) == bucket(value)

    agrees()


@pytest.mark.parametrize(("counters", "width"), [(1, 8), (8, 8), (9, 16), (17, 24)])
def test_rows_are_whole_cache_lines(counters: int, width: int) -> None:
    assert padded(counters) == width


def test_a_bank_is_summed_or_taken_by_row() -> None:
    cells = np.arange(3 * 8, dtype=np.uint64)
    bank = Bank(cells, 5)
    assert bank.sum().tolist() == [24, 27, 30, 33, 36]
    taken = bank.take(np.array([2, 0]))
    assert taken.tolist() == [[16, 17, 18, 19, 20], [0, 1, 2, 3, 4]]
    cells[:] = 0
    assert taken[0, 0] == 16, "a reading does not change afterwards"


def test_a_sum_wraps() -> None:
    cells = np.zeros(16, np.uint64)
    cells[0], cells[8] = U64_MAX, 2
    assert Bank(cells, 1).sum().tolist() == [1]


def test_clearing_a_row_leaves_the_others() -> None:
    cells = np.ones(24, np.uint64)
    Bank(cells, 3).clear(1)
    assert cells.reshape(3, 8).sum(axis=1).tolist() == [8, 0, 8]


def test_histograms_are_one_row() -> None:
    cells = np.zeros(2 * HISTOGRAM_BUCKETS + 8, np.uint64)
    cells[HISTOGRAM_BUCKETS + 167] = 3
    row = Histograms(cells, 2).read()
    assert row.shape == (1, 2 * HISTOGRAM_BUCKETS)
    assert row[0, HISTOGRAM_BUCKETS + 167] == 3


def test_cpus_that_are_possible(tmp_path: Path) -> None:
    folder = tmp_path / "devices/system/cpu"
    folder.mkdir(parents=True)
    assert possible_cpus(tmp_path) == 1024, "nobody says"
    (folder / "possible").write_text("0-127\n")
    assert possible_cpus(tmp_path) == 128
    (folder / "possible").write_text("0-4095\n")
    assert possible_cpus(tmp_path) == 1024


@pytest.mark.parametrize(("cpus", "expected"), [(1, 1), (2, 2), (3, 4), (8, 8), (9, 8), (1024, 8)])
def test_stripes(cpus: int, expected: int) -> None:
    assert stripes(cpus) == expected


def test_stripes_of_a_histogram_are_summed() -> None:
    cells = np.zeros((2, 3 * HISTOGRAM_BUCKETS), np.uint64)
    cells[:, HISTOGRAM_BUCKETS + 9] = 3, 4
    (row,) = Histograms(cells[:, HISTOGRAM_BUCKETS:], 1).read()
    assert row[9] == row.sum() == 7
