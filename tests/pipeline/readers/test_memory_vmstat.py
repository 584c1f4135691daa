from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.readers.kernfile import KernelFileSource, ParseError
from pipeline.readers.memory_vmstat import GROUP, SCHEMA, parse
from tests.pipeline.readers.rows import VMSTAT, Series, by_series, published

RECORDED = Path(__file__).parents[2] / "fixtures" / "host" / "proc" / "vmstat"
PAGE = 4096
U64_MAX = (1 << 64) - 1
STALLS = ("memory_allocation_stalls", "")
ZONES = ("dma", "dma32", "normal", "high", "movable", "device")


def read(text: bytes, page_size: int = PAGE) -> dict[Series, int | None]:
    return by_series(GROUP, parse(text, page_size))


def there(text: bytes, page_size: int = PAGE) -> dict[Series, int]:
    """What the text has a reading for."""
    return {series: value for series, value in read(text, page_size).items() if value is not None}


def test_a_whole_file_to_exact_numbers() -> None:
    assert there(RECORDED.read_bytes()) == {
        ("memory_numa_hit", ""): 9182736450,
        ("memory_numa_miss", ""): 1203,
        ("memory_numa_foreign", ""): 1204,
        ("memory_numa_interleave", ""): 7719,
        ("memory_numa_local", ""): 9182730011,
        ("memory_numa_other", ""): 6439,
        ("memory_pages_dirtied", ""): 48211907,
        ("memory_pages_written", ""): 45120688,
        ("memory_dirty_threshold", "kind=hard"): 1097038 * PAGE,
        ("memory_dirty_threshold", "kind=background"): 547850 * PAGE,
        ("memory_reclaim_scanned", "kind=kswapd"): 6120977,
        ("memory_reclaim_scanned", "kind=direct"): 91230,
        ("memory_reclaim_reclaimed", "kind=kswapd"): 5540312,
        ("memory_reclaim_reclaimed", "kind=direct"): 70118,
        ("memory_page_faults", ""): U64_MAX,
        ("memory_major_page_faults", ""): 36519,
        ("memory_swap_in", ""): 21877,
        ("memory_swap_out", ""): 140236,
        ("memory_workingset_refaults", "kind=file"): 884213,
        ("memory_workingset_refaults", "kind=anon"): 15120,
        ("memory_workingset_activations", "kind=file"): 210655,
        ("memory_workingset_activations", "kind=anon"): 3071,
        ("memory_workingset_restores", "kind=file"): 97440,
        ("memory_workingset_restores", "kind=anon"): 1988,
        ("memory_oom_kills", ""): 3,
        ("memory_thp_faults", "outcome=allocated"): 88121,
        ("memory_thp_faults", "outcome=fallback"): 1340,
        ("memory_thp_collapses", ""): 4410,
        ("memory_thp_splits", ""): 612,
        ("memory_compaction_stalls", ""): 77,
        ("memory_compactions", "outcome=success"): 57,
        ("memory_compactions", "outcome=fail"): 20,
        ("memory_numa_balancing_pte_updates", ""): 409600,
        ("memory_numa_balancing_hint_faults", ""): 204811,
        ("memory_numa_balancing_pages_migrated", ""): 5809,
        STALLS: 0 + 3 + 118 + 541 + 2,
    }


def test_an_absent_line_leaves_its_series_absent_and_no_other() -> None:
    lines = RECORDED.read_bytes().splitlines(keepends=True)
    whole = read(b"".join(lines))
    for row in VMSTAT:
        key = row.key.replace("*", "").encode() + (b" " if "*" not in row.key else b"")
        rest = [line for line in lines if not line.startswith(key)]
        assert len(rest) == len(lines) - (5 if "*" in row.key else 1)
        assert read(b"".join(rest)) == whole | {row.series: None}


def test_a_key_is_matched_whole() -> None:
    text = b"""pgscan_direct_throttle 1
pgscan_direct 2
pgscan_khugepaged 3
pgsteal_anon 4
nr_dirty 5
nr_dirtied 6
nr_dirty_threshold_x 7
numa_hint_faults_local 8
thp_fault_fallback_charge 9
thp_split_page_failed 10
pgfaultx 11
xpgfault 12
pgfault: 13
PGFAULT 14
"""
    assert there(text) == {("memory_reclaim_scanned", "kind=direct"): 2, ("memory_pages_dirtied", ""): 6}


def test_stalls_are_the_sum_of_the_zones_that_are_there() -> None:
    every = "".join(f"allocstall_{zone} {10**place}\n" for place, zone in enumerate(ZONES))
    assert there(every.encode() + b"pgskip_dma 0\n") == {STALLS: 111111}
    for place, zone in enumerate(ZONES):
        assert there(f"allocstall_{zone} {10**place}\npgskip_dma 0\n".encode()) == {STALLS: 10**place}
    assert there(b"allocstall_dma 0\npgskip_dma 0\n") == {STALLS: 0}


def test_without_a_zone_there_are_no_stalls() -> None:
    text = b"pgfault 1\nallocstall 5\nallocstall_ 6\nallocstall_normal_x 7\nallocstall_all 8\n"
    assert there(text) == {("memory_page_faults", ""): 1}


@pytest.mark.parametrize("page_size", [4096, 16384, 65536])
def test_thresholds_are_in_bytes_by_the_size_of_a_page(page_size: int) -> None:
    text = b"nr_dirty_threshold 1000\nnr_dirty_background_threshold 500\nnr_dirtied 7\n"
    assert there(text, page_size) == {
        ("memory_dirty_threshold", "kind=hard"): 1000 * page_size,
        ("memory_dirty_threshold", "kind=background"): 500 * page_size,
        ("memory_pages_dirtied", ""): 7,
    }


def test_a_threshold_beyond_its_cell_is_never_published_as_another_number(tmp_path: Path) -> None:
    path = tmp_path / "vmstat"
    path.write_text(f"pswpin 1\nnr_dirty_threshold {(1 << 52) + 1}\nnr_unstable 0\n")
    source = KernelFileSource(path, SCHEMA, partial(parse, page_size=PAGE))
    (reading,) = source.sample()
    source.close()
    assert {series: value for series, value in published(reading).items() if value is not None} == {
        ("memory_swap_in", ""): 1
    }


def test_the_single_workingset_lines_of_old_kernels_are_not_taken_for_the_split_ones() -> None:
    assert there(b"workingset_refault 1\nworkingset_activate 2\nworkingset_restore 3\noom_kill 4\n") == {
        ("memory_oom_kills", ""): 4
    }


def test_of_a_line_that_is_there_twice_one_counts() -> None:
    text = b"pgfault 1\nallocstall_dma 1\nallocstall_normal 5\npgfault 2\nallocstall_dma 3\npgskip_dma 0\n"
    found = there(text)
    assert found.keys() == {("memory_page_faults", ""), STALLS}
    assert found["memory_page_faults", ""] in (1, 2)
    assert found[STALLS] in (6, 8)


def test_the_order_of_lines_and_the_kind_of_line_end_do_not_matter() -> None:
    text = RECORDED.read_bytes()
    assert parse(b"".join(reversed(text.splitlines(keepends=True))), PAGE) == parse(text, PAGE)
    assert parse(text.replace(b"\n", b"\r\n"), PAGE) == parse(text, PAGE)


@pytest.mark.parametrize(
    "line",
    [
        b"pgfault -1",
        b"pgfault ",
        b"pgfault \xff",
        b"pgfault 18446744073709551616",
        b"pgfault 1.0",
        b"pgfault 0x1",
    ],
)
def test_a_wanted_line_that_makes_no_sense_is_an_error_naming_it(line: bytes) -> None:
    with pytest.raises(ParseError, match=r"^/proc/vmstat: pgfault"):
        parse(b"pswpin 1\n" + line + b"\n", PAGE)


@pytest.mark.parametrize(
    "line", [b"nr_free_pages -1", b"pgscan_anon", b"\xff \xff", b"nr_x 99999999999999999999"]
)
def test_another_line_that_makes_no_sense_does_not_matter(line: bytes) -> None:
    assert there(b"pswpin 1\n" + line + b"\n") == {("memory_swap_in", ""): 1}


def check_cut_off(text: bytes) -> None:
    whole = parse(text, PAGE)
    for size in range(len(text)):
        try:
            part = parse(text[:size], PAGE)
        except ParseError:
            continue
        assert all(value in (None, right) for value, right in zip(part, whole, strict=True)), text[:size]


def test_cut_off_anywhere_it_has_no_wrong_number() -> None:
    check_cut_off(
        b"nr_free_pages 984265\nnr_dirtied 282665\nnr_dirty_threshold 1209166\npgscan_direct 17\noom_kill 1\n"
    )


def test_cut_off_between_two_zones_it_has_no_sum_of_some() -> None:
    check_cut_off(
        b"pswpin 12\nallocstall_dma 1\nallocstall_normal 23\nallocstall_movable 456\npgskip_dma 0\n"
    )


def test_five_megabytes_are_read_exactly() -> None:
    text = RECORDED.read_bytes()
    filler = b"nr_something 123\n" * 150_000
    assert parse(filler + text + filler, PAGE) == parse(text, PAGE)


KEYS = [row.key for row in VMSTAT if "*" not in row.key]


any_keys = st.sampled_from(KEYS + [f"allocstall_{zone}" for zone in ZONES])


@given(
    st.dictionaries(any_keys, st.integers(0, 1 << 40), min_size=1).flatmap(
        lambda lines: st.permutations(list(lines.items()))
    )
)
def test_any_lines_in_any_order_read_as_a_dictionary_would(lines: list[tuple[str, int]]) -> None:
    text = "".join(f"{key} {value}\n" for key, value in lines) + "nr_unstable 0\n"
    wanted = {key: value * PAGE if "threshold" in key else value for key, value in lines}
    stalls = [value for key, value in lines if key.startswith("allocstall_")]
    found = {row.series: wanted.get(row.key) for row in VMSTAT}
    assert read(text.encode()) == found | {STALLS: sum(stalls) if stalls else None}


words = st.sampled_from([key.encode() for key in KEYS]) | st.sampled_from(
    [b"1", b"allocstall_dma", b"\r", b"-1"]
)


@given(st.binary() | st.lists(words | st.binary(max_size=4) | st.just(b"\n")).map(b" ".join))
def test_any_bytes_are_a_row_or_a_parse_error(text: bytes) -> None:
    for end in (b"", b"\n"):
        try:
            found = parse(text + end, PAGE)
        except ParseError:
            continue
        assert len(found) == len(GROUP.metrics)
        assert all(value is None or value >= 0 for value in found)
