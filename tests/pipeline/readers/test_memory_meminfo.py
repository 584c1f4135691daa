from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.readers.kernfile import KernelFileSource, ParseError
from pipeline.readers.memory_meminfo import GROUP, SCHEMA, parse
from tests.pipeline.readers.rows import MEMINFO, Series, by_series, published

RECORDED = Path(__file__).parents[2] / "fixtures" / "host" / "proc" / "meminfo"
KIB = 1024
I64_MAX = (1 << 63) - 1


def read(text: bytes) -> dict[Series, int | None]:
    return by_series(GROUP, parse(text))


def there(text: bytes) -> dict[Series, int]:
    """What the text has a reading for."""
    return {series: value for series, value in read(text).items() if value is not None}


def test_a_whole_file_to_exact_numbers() -> None:
    assert there(RECORDED.read_bytes()) == {
        ("memory_total", ""): 32658428 * KIB,
        ("memory_free", ""): 4418212 * KIB,
        ("memory_available", ""): 21940776 * KIB,
        ("memory_buffers", ""): 813504 * KIB,
        ("memory_cached", ""): 15208932 * KIB,
        ("memory_dirty", ""): 2364 * KIB,
        ("memory_writeback", ""): 128 * KIB,
        ("memory_active", "kind=file"): 7102144 * KIB,
        ("memory_active", "kind=anon"): 2745012 * KIB,
        ("memory_inactive", "kind=file"): 8713684 * KIB,
        ("memory_inactive", "kind=anon"): 5379636 * KIB,
        ("memory_unevictable", ""): 245760 * KIB,
        ("memory_mlocked", ""): 131072 * KIB,
        ("memory_shmem", ""): 459796 * KIB,
        ("memory_mapped", ""): 1893508 * KIB,
        ("memory_anon", ""): 7917232 * KIB,
        ("memory_slab", "kind=reclaimable"): 905216 * KIB,
        ("memory_slab", "kind=unreclaimable"): 472064 * KIB,
        ("memory_kernel_reclaimable", ""): 945920 * KIB,
        ("memory_kernel_stack", ""): 24336 * KIB,
        ("memory_page_tables", ""): 87360 * KIB,
        ("memory_percpu", ""): 18944 * KIB,
        ("memory_swap_total", ""): 8388604 * KIB,
        ("memory_swap_free", ""): 7912960 * KIB,
        ("memory_swap_cached", ""): 12044 * KIB,
        ("memory_commit_limit", ""): 24717816 * KIB,
        ("memory_committed", ""): 19364204 * KIB,
        ("memory_hugepages_anon", ""): 2172928 * KIB,
        ("memory_hugepages_shmem", ""): 65536 * KIB,
        ("memory_hugepages_file", ""): 30720 * KIB,
        ("memory_hugetlb", ""): 1048576 * KIB,
        ("memory_hugetlb_pages", "state=total"): 512,
        ("memory_hugetlb_pages", "state=free"): 448,
        ("memory_hugetlb_pages", "state=reserved"): 32,
        ("memory_hugetlb_pages", "state=surplus"): 6,
        ("memory_hardware_corrupted", ""): 4 * KIB,
    }


def test_an_absent_line_leaves_its_series_absent_and_no_other() -> None:
    lines = RECORDED.read_bytes().splitlines(keepends=True)
    whole = read(b"".join(lines))
    for row in MEMINFO:
        rest = [line for line in lines if not line.startswith(f"{row.key}:".encode())]
        assert len(rest) == len(lines) - 1
        assert read(b"".join(rest)) == whole | {row.series: None}


def test_a_key_is_matched_whole() -> None:
    text = b"Active: 1 kB\nActive(anon): 2 kB\nInactive: 3 kB\nSlab: 4 kB\nCachedX: 5 kB\nSwapCached: 6 kB\n"
    assert there(text) == {("memory_active", "kind=anon"): 2 * KIB, ("memory_swap_cached", ""): 6 * KIB}


@pytest.mark.parametrize(
    "key", ["MemTotal", "MemTotal :", "memtotal:", "MEMTOTAL:", "xMemTotal:", "MemTotalx:"]
)
def test_what_only_looks_like_a_key_is_none(key: str) -> None:
    assert there(f"MemFree: 1 kB\n{key} 2 kB\n".encode()) == {("memory_free", ""): KIB}


def test_hugepages_are_counts_whatever_their_size() -> None:
    text = b"HugePages_Total: 3\nHugepagesize: 1048576 kB\nHugetlb: 3145728 kB\n"
    assert there(text) == {
        ("memory_hugetlb_pages", "state=total"): 3,
        ("memory_hugetlb", ""): 3 << 30,
    }


def test_of_a_line_that_is_there_twice_one_counts() -> None:
    found = there(b"MemFree: 1 kB\nDirty: 5 kB\nMemFree: 2 kB\n")
    assert found.pop(("memory_free", "")) in (KIB, 2 * KIB)
    assert found == {("memory_dirty", ""): 5 * KIB}


def test_the_order_of_lines_and_the_kind_of_line_end_do_not_matter() -> None:
    text = RECORDED.read_bytes()
    assert parse(b"".join(reversed(text.splitlines(keepends=True)))) == parse(text)
    assert parse(text.replace(b"\n", b"\r\n")) == parse(text)


def test_bytes_that_are_no_text_in_other_lines_do_not_matter() -> None:
    assert there(b"\xff\xfe: 1 kB\n\x00\nMemFree: 2 kB\nCaf\xe9: \xff kB\n") == {("memory_free", ""): 2 * KIB}


@pytest.mark.parametrize(
    "line",
    [
        b"MemTotal: -1 kB", b"MemTotal: 1.5 kB", b"MemTotal: \xff kB", b"MemTotal:", b"MemTotal: kB",
        b"MemTotal: 18446744073709551616 kB", b"MemTotal: 1 MB", b"MemTotal: 1 kB kB", b"MemTotal: 1 2",
        b"MemTotal: 1kB", b"HugePages_Total: -1", b"HugePages_Total: 2 MB",
    ],
)  # fmt: skip
def test_a_wanted_line_that_makes_no_sense_is_an_error_naming_it(line: bytes) -> None:
    with pytest.raises(ParseError, match=r"^/proc/meminfo: (MemTotal|HugePages_Total):"):
        parse(b"MemFree: 1 kB\n" + line + b"\n")


def test_the_largest_numbers_are_kept_exactly() -> None:
    text = f"HugePages_Total: {I64_MAX}\nMemTotal: {(1 << 53) - 1} kB\n".encode()
    assert there(text) == {
        ("memory_hugetlb_pages", "state=total"): I64_MAX,
        ("memory_total", ""): ((1 << 53) - 1) * KIB,
    }


@pytest.mark.parametrize(
    "line", ["MemTotal: 18014398509481985 kB", "MemTotal: 9007199254740992 kB", f"HugePages_Free: {1 << 63}"]
)
def test_a_level_beyond_its_cell_is_never_published_as_another_number(line: str, tmp_path: Path) -> None:
    path = tmp_path / "meminfo"
    path.write_text(f"MemFree: 1 kB\n{line}\n")
    source = KernelFileSource(path, SCHEMA, parse)
    try:
        (reading,) = source.sample()
    except ParseError:
        return
    finally:
        source.close()
    assert {series: value for series, value in published(reading).items() if value is not None} == {
        ("memory_free", ""): KIB
    }


def test_cut_off_anywhere_it_has_no_wrong_number() -> None:
    text = (
        b"MemTotal:   12345678 kB\nMemFree: 9 kB\nActive: 55 kB\nActive(file): 44 kB\nHugePages_Total: 123\n"
    )
    whole = parse(text)
    for size in range(len(text)):
        try:
            part = parse(text[:size])
        except ParseError:
            continue
        assert all(value in (None, right) for value, right in zip(part, whole, strict=True)), text[:size]
    assert parse(text[: text.index(b"Active:")]) == [12345678 * KIB, 9 * KIB] + [None] * 34


def test_five_megabytes_are_read_exactly() -> None:
    text = RECORDED.read_bytes()
    filler = b"Something:  123 kB\n" * 130_000
    assert len(filler) + len(text) * 2 > 2_400_000
    assert parse(filler + text + filler) == parse(text)
    assert parse(b"x" * 5_000_000 + b"\n" + text) == parse(text)


KEYS = [row.key for row in MEMINFO]
numbers = st.integers(0, (1 << 53) - 1)


@given(
    st.dictionaries(st.sampled_from(KEYS), numbers, min_size=1).flatmap(
        lambda lines: st.permutations(list(lines.items()))
    )
)
def test_any_lines_in_any_order_read_as_a_dictionary_would(lines: list[tuple[str, int]]) -> None:
    pages = {row.key for row in MEMINFO if row.unit == "pages"}
    text = "".join(f"{key}:  {value}{'' if key in pages else ' kB'}\n" for key, value in lines)
    wanted = {key: value if key in pages else value * KIB for key, value in lines}
    assert read(text.encode()) == {row.series: wanted.get(row.key) for row in MEMINFO}


words = st.sampled_from([key.encode() + b":" for key in KEYS]) | st.sampled_from([b"1", b"kB", b"\r", b"-1"])


@given(st.binary() | st.lists(words | st.binary(max_size=4) | st.just(b"\n")).map(b" ".join))
def test_any_bytes_are_a_row_or_a_parse_error(text: bytes) -> None:
    for end in (b"", b"\n"):
        try:
            found = parse(text + end)
        except ParseError:
            continue
        assert len(found) == len(GROUP.metrics)
        assert all(value is None or value >= 0 for value in found)
