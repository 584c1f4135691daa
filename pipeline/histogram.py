"""H2 histograms: which bucket a value falls into, and what a bucket spans.

Linear up to 2^(power + 1), then 2^power buckets for each power of two, up to all of a u64.
"""

from pipeline.records import GROUPING_POWER, MAX_VALUE_POWER


def index(value: int, power: int = GROUPING_POWER) -> int:
    """The bucket of a u64 value."""
    if value < 2 << power:
        return value
    octave = value.bit_length() - 1
    return ((octave - power + 1) << power) + ((value - (1 << octave)) >> (octave - power))


def buckets(power: int) -> int:
    """How many buckets a histogram of this grouping power has."""
    return (MAX_VALUE_POWER - power + 1) << power


def bounds(index: int, power: int = GROUPING_POWER) -> tuple[int, int]:
    """Lowest and highest value of a bucket, both inclusive."""
    octave, offset = index >> power, index & ((1 << power) - 1)
    if octave == 0:
        return offset, offset
    width = 1 << (octave - 1)
    lower = (1 << (power + octave - 1)) + offset * width
    return lower, lower + width - 1
