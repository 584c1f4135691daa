import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.readers.cpu_cores import parse
from pipeline.readers.kernfile import ParseError


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        (b"0\n", [0]),
        (b"0-3\n", [0, 1, 2, 3]),
        (b"0-1,8\n", [0, 1, 8]),
        (b"0,2-3,5,7-9\n", [0, 2, 3, 5, 7, 8, 9]),
        (b"8,0-1\n", [0, 1, 8]),
        (b"0-3,2-5\n", [0, 1, 2, 3, 4, 5]),
        (b"0-1\r\n", [0, 1]),
        (b"8191\n", [8191]),
    ],
)
def test_a_list_of_cpus(text: bytes, cpus: list[int]) -> None:
    assert parse(text) == cpus


@pytest.mark.parametrize(
    "text",
    [
        b"", b"\n", b",\n", b"0,\n", b",0\n", b"-\n", b"0-\n", b"-3\n", b"3-0\n", b"0-3-5\n", b"a\n",
        b"0;1\n",
        b"0 1\n", b"0\n1\n", b"-1\n", b"0x1\n", b"\xff\n", b"0-8192\n", b"8192\n",
        b"0-18446744073709551615\n", b"18446744073709551616\n", b"9" * 5_000_000 + b"\n",
        b"0," * 200_000 + b"\n",
    ],
    ids=range(23),
)  # fmt: skip
def test_what_is_no_list_of_cpus_is_an_error_naming_the_file(text: bytes) -> None:
    with pytest.raises(ParseError, match=r"^/sys/devices/system/cpu/online: ") as raised:
        parse(text)
    assert len(str(raised.value)) < 250


@pytest.mark.parametrize("text", [b"0-11\n", b"0-11,16-19\n", b"10\n", b"0,12,345\n"])
def test_cut_off_anywhere_it_has_no_wrong_number(text: bytes) -> None:
    for size in range(len(text)):
        try:
            cut = parse(text[:size])
        except ParseError:
            continue
        assert cut == parse(text), text[:size]


@given(st.sets(st.integers(0, 300), min_size=1))
def test_any_set_of_cpus_written_as_the_kernel_does_is_read_back(cpus: set[int]) -> None:
    ranges: list[list[int]] = []
    for cpu in sorted(cpus):
        if ranges and ranges[-1][1] == cpu - 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    text = ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)
    assert parse(f"{text}\n".encode()) == sorted(cpus)


@given(st.binary() | st.text("0123456789,-\n", max_size=20).map(str.encode))
def test_any_bytes_are_a_list_or_a_parse_error(text: bytes) -> None:
    try:
        cpus = parse(text)
    except ParseError:
        return
    assert cpus == sorted(set(cpus))
    assert cpus
