import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.readers.kernfile import MAX_BYTES, KernelFile, KernelFileSource, NumberLines, ParseError, number
from pipeline.records import Group, Kind, Metric, Schema

U64 = (1 << 64) - 1
KEYS = (b"a", b"a(b):", b"a_b")
UNITS = {b"": 1, b"kB": 1024}


def read(text: bytes) -> list[int | None]:
    return NumberLines("/proc/it", KEYS, UNITS).numbers(text)


def test_keys_are_matched_whole() -> None:
    text = b"ab 2\na_b_c 3\nA 4\nxa 5\na: 6\na_b 7\nxa(b): 8\na(b):  9\na 1\n"
    assert read(text) == [1, 9, 7]


def test_a_key_that_is_not_there_has_no_number() -> None:
    assert read(b"a_b 7\n") == [None, None, 7]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        (b"a 1\n", [1, None, None]),
        (b"a   1\r\n", [1, None, None]),
        (b"a 2 kB\r\n", [2048, None, None]),
        (b"a(b):\t  3 kB \n", [None, 3072, None]),
        (b"a 18446744073709551615\n", [U64, None, None]),
    ],
)
def test_a_number_is_multiplied_by_its_unit_whatever_the_blanks(
    text: bytes, numbers: list[int | None]
) -> None:
    assert read(text) == numbers


def test_of_a_key_that_is_there_twice_one_line_counts() -> None:
    assert read(b"a 1\na 2\n")[0] in (1, 2)


def test_other_lines_may_hold_anything() -> None:
    text = b"\n\n\n\xff\xfe\x00 1\nz\nz -1\n: : :\na 1\n" + b"z" * 100_000 + b"\n"
    assert read(text) == [1, None, None]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (b"", "/proc/it: ends within a line after 0 bytes"),
        (b"a 12", "/proc/it: ends within a line after 4 bytes"),
        (b"\n", "/proc/it: has none of the lines it is read for"),
        (b"z 1\n", "/proc/it: has none of the lines it is read for"),
        (b"a \n", "/proc/it: a:  is not an unsigned 64-bit number"),
        (b"a_b -1\n", "/proc/it: a_b: -1 is not an unsigned 64-bit number"),
        (b"a 1 MB\n", "/proc/it: a has the unknown unit MB"),
        (b"a 1 kB kB\n", "/proc/it: a has the unknown unit kB kB"),
        (b"a \xff\n", "/proc/it: a: \\xff is not an unsigned 64-bit number"),
        (b"a 18446744073709551616\n", "/proc/it: a: 18446744073709551616 is not an unsigned 64-bit number"),
    ],
)
def test_an_error_names_file_and_item(text: bytes, error: str) -> None:
    with pytest.raises(ParseError) as raised:
        read(text)
    assert str(raised.value) == error


texts = st.permutations([b"a 1", b"a(b): 2", b"a_b 3 kB", b"ab 4", b"", b"x 5", b"a: 6"]).flatmap(
    lambda lines: st.integers(0, len(lines)).map(lambda size: b"".join(line + b"\n" for line in lines[:size]))
)


@given(st.lists(texts))
def test_what_was_read_before_changes_no_result(history: list[bytes]) -> None:
    lines = NumberLines("/proc/it", KEYS, UNITS)
    for text in history:
        wanted = [value if line in text.split(b"\n") else None
                  for line, value in ((b"a 1", 1), (b"a(b): 2", 2), (b"a_b 3 kB", 3072))]  # fmt: skip
        try:
            assert lines.numbers(text) == wanted
        except ParseError:
            assert wanted == [None] * 3


@pytest.mark.parametrize(
    ("token", "value"),
    [(b"0", 0), (b"007", 7), (b"9223372036854775808", 1 << 63), (b"18446744073709551615", (1 << 64) - 1)],
)
def test_a_number_is_all_of_a_u64(token: bytes, value: int) -> None:
    assert number(token, "/proc/it") == value


@pytest.mark.parametrize(
    "token",
    [
        b"", b"-1", b"-0", b"+1", b"1.0", b"1e3", b"0x10", b"1_000", b"18446744073709551616", b"9" * 21,
        b"9" * 100_000, "٣".encode(), b"\xb2", b"1\x00", b"kB", b"NaN",
    ],
)  # fmt: skip
def test_what_is_no_u64_is_an_error_of_one_short_line(token: bytes) -> None:
    with pytest.raises(ParseError, match=r"^/proc/it: .*is not an unsigned 64-bit number$") as raised:
        number(token, "/proc/it")
    assert len(str(raised.value)) < 250
    assert "\n" not in str(raised.value)


@given(
    st.lists(st.binary() | st.lists(st.sampled_from([b"a 1", b"a", b"a_b", b" ", b"2", b"\n"])).map(b"".join))
)
def test_any_bytes_are_numbers_or_a_parse_error(history: list[bytes]) -> None:
    lines = NumberLines("/proc/it", KEYS, UNITS)
    for text in history:
        for end in (b"", b"\n"):
            try:
                found = lines.numbers(text + end)
            except ParseError:
                continue
            assert len(found) == 3
            assert all(number is None or 0 <= number <= U64 * 1024 for number in found)


def test_a_file_is_read_anew_from_its_start_each_time(tmp_path: Path) -> None:
    path = tmp_path / "it"
    path.write_bytes(b"a long first text\n")
    file = KernelFile(path)
    assert file.read() == b"a long first text\n"
    path.write_bytes(b"short\n")
    assert file.read() == b"short\n"
    path.write_bytes(b"")
    assert file.read() == b""
    path.write_bytes(b"x" * 200_000)
    assert file.read() == b"x" * 200_000
    file.close()


def test_a_file_is_opened_once(tmp_path: Path) -> None:
    path = tmp_path / "it"
    path.write_bytes(b"first\n")
    file = KernelFile(path)
    path.unlink()
    path.write_bytes(b"another file of the same name\n")
    assert file.read() == b"first\n"
    file.close()


def test_closing_gives_the_descriptor_back(tmp_path: Path) -> None:
    path = tmp_path / "it"
    path.write_bytes(b"first\n")
    before = set(os.listdir("/proc/self/fd"))
    file = KernelFile(path)
    file.read()
    file.close()
    assert set(os.listdir("/proc/self/fd")) == before
    with pytest.raises(OSError, match="Bad file descriptor") as raised:
        file.read()
    assert raised.value.filename == str(path)


def test_an_error_of_opening_or_reading_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as missing:
        KernelFile(tmp_path / "none")
    assert missing.value.filename in (tmp_path / "none", str(tmp_path / "none"))
    folder = KernelFile(tmp_path)
    with pytest.raises(IsADirectoryError) as raised:
        folder.read()
    assert raised.value.filename == str(tmp_path)
    folder.close()


def test_a_file_that_the_kernel_hands_out_in_pieces_is_put_together() -> None:
    # The maps of a process come a page of text at a time; those of one that waits stand still.
    waits = [sys.executable, "-c", "import ctypes, hashlib, lzma; print(flush=True); input()"]
    with subprocess.Popen(waits, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        path = Path(f"/proc/{process.pid}/maps")
        file = KernelFile(path)
        text = file.read()
        file.close()
        assert text == path.read_bytes()
        process.communicate(b"\n")
    assert len(text) > 4096


SCHEMA = Schema(Group("it", "it", (Metric("a", Kind.COUNTER, "", "It"), Metric("b", Kind.GAUGE, "", "It"))))


def parse(text: bytes) -> Sequence[int | None]:
    return NumberLines("/proc/it", [b"a", b"b"], {b"": 1}).numbers(text)


def test_a_reading_has_the_numbers_and_the_window(tmp_path: Path) -> None:
    path = tmp_path / "it"
    path.write_bytes(b"a 18446744073709551615\n")
    source = KernelFileSource(path, SCHEMA, parse)
    (first,) = source.sample()
    path.write_bytes(b"b 1\na 2\n")
    (second,) = source.sample()
    source.close()
    assert first.schema is SCHEMA
    assert second.schema is SCHEMA
    assert (first.values.tolist(), first.present.tolist()) == ([[(1 << 64) - 1, 0]], [[True, False]])
    assert (second.values.tolist(), second.present.tolist()) == ([[2, 1]], [[True, True]])
    assert first.window.width_ns >= 0
    assert first.window.begin_ns <= second.window.begin_ns


def test_a_file_beyond_the_limit_is_an_error_not_its_first_part(tmp_path: Path) -> None:
    filler = b"z 123456789 abc\n"  # divides the limit, so that the cut falls between two lines
    assert MAX_BYTES % len(filler) == 0
    path = tmp_path / "it"
    path.write_bytes(b"a 1\nzzzzzzzzzzz\n" + filler * (MAX_BYTES // len(filler)) + b"a 2\n")
    source = KernelFileSource(path, SCHEMA, parse)
    with pytest.raises(ParseError, match="it"):
        source.sample()
    source.close()


def test_memory_is_bounded_however_large_the_file(tmp_path: Path) -> None:
    path = tmp_path / "it"
    path.write_bytes(b"z" * 5_000_000)
    source = KernelFileSource(path, SCHEMA, parse)
    with pytest.raises(ParseError):
        source.sample()
    source.close()
