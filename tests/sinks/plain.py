"""H2 histograms in plain Python, straight from their definition; the sinks' arithmetic is held against it."""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

TOP = (1 << 64) - 1


def total_buckets(power: int) -> int:
    """`2^(g+1)` buckets of one value each, and `2^g` for each of the `64 - g - 1` octaves above."""
    return (2 << power) + (64 - power - 1) * (1 << power)


def bucket_of(value: int, power: int) -> int:
    if value < 2 << power:
        return value
    octave = len(f"{value:b}") - 1
    return int(
        2 ** (power + 1) + (octave - power - 1) * 2**power + (value - 2**octave) // 2 ** (octave - power)
    )


def bounds_of(bucket: int, power: int) -> tuple[int, int]:
    quotient, rest = divmod(bucket, 1 << power)
    if quotient == 0:
        return rest, rest
    width = 1 << (quotient - 1)
    low = (1 << (power + quotient - 1)) + width * rest
    return low, low + width - 1


def coarser(counts: Sequence[int], power: int) -> list[int]:
    """Every bucket's lower bound put, with its count, into a histogram of `power`."""
    found = [0] * total_buckets(power)
    for bucket, count in enumerate(counts):
        if count:
            found[bucket_of(bounds_of(bucket, 3)[0], power)] += count
    return found


def quantile(counts: Sequence[int], q: Fraction) -> int | None:
    """Upper bound of the bucket where the running sum reaches `max(1, ceil(q * total))`; None when empty."""
    total = sum(counts)
    target = max(1, math.ceil(q * total))
    running = 0
    for bucket, count in enumerate(counts):
        running += count
        if running >= target:
            return bounds_of(bucket, 3)[1]
    return None


def dense(counts: Mapping[int, int]) -> list[int]:
    return [counts.get(bucket, 0) for bucket in range(total_buckets(3))]
