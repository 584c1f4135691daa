import contextlib
import re
import resource
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.readers.kernfile import ParseError
from pipeline.readers.rezolus_rusage import GROUP, PEAK, SAMPLER, numbers
from pipeline.source import Roots
from tests.pipeline.readers.rows import by_series, published

RESIDENT = ("rezolus_memory_usage_resident_set_size", "")
STATUS = b"""Name:\tpython\nUmask:\t0022
State:\tR (running)
VmPeak:\t   22640 kB
VmHWM:\t   11684 kB
VmRSS:\t    9804 kB
Threads:\t1
voluntary_ctxt_switches:\t12
"""


def test_times_are_nanoseconds_and_the_rest_stays() -> None:
    fields = (12.345678, 0.000001, 51200, 0, 0, 0, 9001, 17, 0, 640, 1280, 0, 0, 0, 333, 44)
    assert by_series(GROUP, list(numbers(resource.struct_rusage(fields), 52_428_800))) == {
        ("rezolus_cpu_usage", "state=user"): 12_345_678_000,
        ("rezolus_cpu_usage", "state=system"): 1_000,
        RESIDENT: 52_428_800,
        ("rezolus_memory_page_reclaims", ""): 9001,
        ("rezolus_memory_page_faults", ""): 17,
        ("rezolus_blockio_operations", "op=read"): 640,
        ("rezolus_blockio_operations", "op=write"): 1280,
        ("rezolus_context_switch", "kind=voluntary"): 333,
        ("rezolus_context_switch", "kind=involuntary"): 44,
    }


@pytest.mark.parametrize("microseconds", [0, 1, 3, 999_999, 1_000_001, 4_503_599_627_370_495])
def test_every_microsecond_is_exact_though_it_came_as_a_float(microseconds: int) -> None:
    usage = resource.struct_rusage((microseconds / 1e6, 0.0, *[0] * 14))
    assert numbers(usage, None)[0] == microseconds * 1000


def test_the_peak_is_read_from_the_line_of_its_name_in_bytes() -> None:
    assert PEAK.numbers(STATUS) == [11684 * 1024]


@pytest.mark.parametrize(
    "text",
    [b"", b"VmRSS: 1 kB\n", b"VmHWM: 1 kB", b"VmHWM: -1 kB\n", b"VmHWM:\n", b"VmHWM 1 kB\n", b"\xff\n"],
)
def test_a_status_without_its_peak_is_a_parse_error(text: bytes) -> None:
    with pytest.raises(ParseError, match=r"^/proc/self/status: "):
        PEAK.numbers(text)


@given(st.binary() | st.lists(st.sampled_from([b"VmHWM: 1 kB\n", b"VmHWM: 2 kB\n", b"x\n"])).map(b"".join))
def test_any_bytes_are_a_peak_or_a_parse_error(text: bytes) -> None:
    with contextlib.suppress(ParseError):
        (peak,) = PEAK.numbers(text)
        assert peak is not None
        assert peak >= 0


def test_cut_off_anywhere_it_has_no_wrong_peak() -> None:
    for size in range(len(STATUS)):
        with contextlib.suppress(ParseError):
            assert PEAK.numbers(STATUS[:size]) == [11684 * 1024]


def peak_now() -> int:
    found = re.search(r"^VmHWM:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


def test_a_reading_lies_between_two_of_ones_own() -> None:
    source = SAMPLER.open(Roots())
    before = numbers(resource.getrusage(resource.RUSAGE_SELF), peak_now())
    (reading,) = source.sample()
    after = numbers(resource.getrusage(resource.RUSAGE_SELF), peak_now())
    source.close()
    found = published(reading)
    for low, series, high in zip(before, found, after, strict=True):
        value = found[series]
        assert value is not None
        assert low is not None
        assert high is not None
        # The kernel adds up the resident set of its CPUs only roughly (mm: percpu_counter).
        slack = 1 << 20 if series == RESIDENT else 0
        assert low - slack <= value <= high + slack, series
