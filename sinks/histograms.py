"""What is made of H2 histograms on the way out: percentiles of an interval, coarser buckets. Pure numpy."""

from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

from pipeline.histogram import bounds, buckets, index
from pipeline.records import GROUPING_POWER, HISTOGRAM_BUCKETS, Values

# In ten-thousandths, so that targets are exact whole numbers.
PERCENTILES: Final = (("0.5", 5000), ("0.9", 9000), ("0.99", 9900), ("0.999", 9990), ("0.9999", 9999))
RESET: Final = 1 << 63


@cache
def upper_bounds(power: int = GROUPING_POWER) -> tuple[int, ...]:
    """The highest value of each bucket."""
    return tuple(bounds(index, power)[1] for index in range(buckets(power)))


@cache
def _coarse_starts(power: int) -> npt.NDArray[np.intp]:
    """Where, among the recorded buckets, each bucket of a coarser histogram begins."""
    coarse = [index(bounds(fine)[0], power) for fine in range(HISTOGRAM_BUCKETS)]
    return np.searchsorted(np.array(coarse), np.arange(buckets(power))).astype(np.intp)


def downsample(counts: Values, power: int) -> Values:
    """Counts of the recorded 496 buckets as those of a histogram of `power`, at most the recorded one."""
    if power == GROUPING_POWER:
        return counts
    starts = _coarse_starts(power)
    sums = np.add.reduceat(counts, np.minimum(starts, len(counts) - 1))
    # A coarse bucket that no recorded bucket falls into begins where its successor does.
    sums[np.append(starts[1:] == starts[:-1], starts[-1] == len(counts))] = 0
    return sums


def percentiles(before: Values, now: Values) -> list[int | None]:
    """Upper bounds of the buckets where the interval's percentiles lie, in the order of `PERCENTILES`.

    Both arguments are 496 cumulative counts. None throughout when nothing was recorded in between, or
    when a count went backwards; None for a bound beyond an i64.
    """
    delta = now - before
    if (delta > RESET).any():
        return [None] * len(PERCENTILES)
    running = delta.cumsum(dtype=np.uint64)
    total = int(running[-1])
    if total == 0:
        return [None] * len(PERCENTILES)
    targets = [max(1, -(-total * share // 10_000)) for _, share in PERCENTILES]
    places = np.searchsorted(running, np.array(targets, np.uint64))
    found = (upper_bounds()[place] for place in places.tolist())
    return [bound if bound < RESET else None for bound in found]
