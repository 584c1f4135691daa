from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.histogram import bounds, buckets, index
from sinks.histograms import PERCENTILES, downsample, percentiles, upper_bounds
from tests.sinks import plain

U64_MAX = (1 << 64) - 1
NONE = [None] * 5


@pytest.mark.parametrize(
    ("value", "bucket"),
    [
        (0, 0), (1, 1), (15, 15), (16, 16), (17, 16), (18, 17), (19, 17), (31, 23), (32, 24), (100, 36),
        (959, 62), (960, 63), (1000, 63), (1023, 63), (1024, 64), (8_000_000, 167), ((1 << 31) - 1, 231),
        (1 << 31, 232), ((1 << 63) - 1, 487), (1 << 63, 488), (U64_MAX, 495),
    ],
)  # fmt: skip
def test_known_values_fall_into_known_buckets(value: int, bucket: int) -> None:
    assert index(value) == bucket


@pytest.mark.parametrize(
    ("bucket", "lower", "upper"),
    [(0, 0, 0), (15, 15, 15), (16, 16, 17), (36, 96, 103), (63, 960, 1023), (495, 15 << 60, U64_MAX)],
)
def test_known_buckets_have_known_bounds(bucket: int, lower: int, upper: int) -> None:
    assert bounds(bucket) == (lower, upper)


@pytest.mark.parametrize(("power", "size"), [(0, 65), (1, 128), (2, 252), (3, 496)])
def test_buckets_cover_every_u64_once_and_in_order(power: int, size: int) -> None:
    assert buckets(power) == size == plain.total_buckets(power)
    expected = 0
    for bucket in range(size):
        lower, upper = bounds(bucket, power)
        assert (lower, upper) == plain.bounds_of(bucket, power)
        assert lower == expected <= upper
        assert index(lower, power) == index(upper, power) == bucket
        expected = upper + 1
    assert expected == 1 << 64
    assert upper_bounds(power) == tuple(plain.bounds_of(bucket, power)[1] for bucket in range(size))


u64 = st.integers(0, U64_MAX) | st.integers(0, 64).map(lambda bits: min(1 << bits, U64_MAX))


@given(u64, st.integers(0, 3))
def test_a_value_lies_in_its_bucket(value: int, power: int) -> None:
    bucket = index(value, power)
    assert bucket == plain.bucket_of(value, power)
    lower, upper = bounds(bucket, power)
    assert lower <= value <= upper


counts = st.dictionaries(st.integers(0, 495), st.integers(0, 1 << 40), max_size=40)


@given(counts)
@pytest.mark.parametrize(("power", "size"), [(0, 65), (1, 128), (2, 252), (3, 496)])
def test_coarser_buckets_are_those_of_the_values_put_in_anew(
    power: int, size: int, counts: dict[int, int]
) -> None:
    fine = plain.dense(counts)
    found = downsample(np.array(fine, np.uint64), power)
    assert found.tolist() == plain.coarser(fine, power)
    assert len(found) == size


@pytest.mark.parametrize("power", [0, 1, 2])
def test_every_single_bucket_finds_its_coarser_one(power: int) -> None:
    for bucket in range(496):
        fine = plain.dense({bucket: 7})
        assert downsample(np.array(fine, np.uint64), power).tolist() == plain.coarser(fine, power)


def test_coarser_buckets_keep_large_counts_exact() -> None:
    fine = plain.dense({0: (1 << 53) + 1, 495: (1 << 63) + 1})
    assert downsample(np.array(fine, np.uint64), 0).tolist()[-1] == (1 << 63) + 1
    assert downsample(np.array(fine, np.uint64), 0).tolist()[0] == (1 << 53) + 1


def interval(before: dict[int, int], now: dict[int, int]) -> list[int | None]:
    return percentiles(np.array(plain.dense(before), np.uint64), np.array(plain.dense(now), np.uint64))


def test_the_percentiles_there_are() -> None:
    assert [name for name, _ in PERCENTILES] == ["0.5", "0.9", "0.99", "0.999", "0.9999"]
    assert all(Fraction(name) == Fraction(share, 10_000) for name, share in PERCENTILES)


def test_percentiles_are_those_of_what_came_since() -> None:
    # 1000 values since: 500 of 1, 400 of 2, 90 of 3, 9 of 100, 1 of 1000.
    before = {1: 5, 200: 1_000_000}
    now = {1: 505, 2: 400, 3: 90, 36: 9, 63: 1, 200: 1_000_000}
    assert interval(before, now) == [1, 2, 3, 103, 1023]


def test_a_single_value_is_every_percentile() -> None:
    assert interval({}, {16: 1}) == [17] * 5


@pytest.mark.parametrize(
    ("low", "high", "median"), [(1, 1, 0), (1, 2, 2), (2, 1, 0), (500, 501, 2), (501, 500, 0)]
)
def test_the_median_is_where_half_of_all_is_reached(low: int, high: int, median: int) -> None:
    assert interval({}, {0: low, 2: high})[0] == median


def test_nothing_since_gives_nothing() -> None:
    assert interval({}, {}) == NONE
    assert interval({5: 7}, {5: 7}) == NONE


def test_a_count_that_went_back_gives_nothing() -> None:
    assert interval({5: 7, 6: 1}, {5: 6, 6: 100}) == NONE


def test_a_count_may_grow_by_half_the_range_at_once_and_no_more() -> None:
    assert interval({}, {5: 1 << 63}) == [5] * 5
    assert interval({}, {5: (1 << 63) + 1}) == NONE


def test_a_count_that_wraps_around_goes_on() -> None:
    assert interval({5: U64_MAX}, {5: 1}) == [5] * 5


def test_a_bound_beyond_an_i64_is_left_out() -> None:
    assert interval({}, {10: 90, 488: 10}) == [10, 10, None, None, None]
    assert interval({}, {487: 1}) == [(1 << 63) - 1] * 5


deltas = st.dictionaries(st.integers(0, 487), st.integers(0, 1 << 48), max_size=30)


@given(deltas, deltas)
def test_percentiles_follow_the_rule(before: dict[int, int], delta: dict[int, int]) -> None:
    now = {bucket: before.get(bucket, 0) + delta.get(bucket, 0) for bucket in before.keys() | delta.keys()}
    since = plain.dense(delta)
    wanted = [plain.quantile(since, Fraction(name)) if sum(since) else None for name, _ in PERCENTILES]
    assert interval(before, now) == wanted
