import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.model import Duration, Interval, Listen

MILLISECOND = 1_000_000
DAY = 86_400_000 * MILLISECOND


@pytest.mark.parametrize(
    ("text", "ns"), [("10ms", 10 * MILLISECOND), ("1s", 1000 * MILLISECOND), ("1day", DAY), ("24h", DAY)]
)
def test_an_interval_is_from_ten_milliseconds_to_a_day(text: str, ns: int) -> None:
    assert Interval.parse(text) == Interval(ns)


@pytest.mark.parametrize(
    "text", ["0s", "9ms", "9ms 999us 999ns", "1day 1ns", "2days", "1y", "999999999999999999y"]
)
def test_an_interval_outside_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^out of range, an interval is from 10ms to 1day$"):
        Interval.parse(text)


def test_a_duration_has_no_bounds_and_shows_as_written() -> None:
    assert Duration.parse("0s") == Duration(0)
    assert str(Duration.parse("90s")) == "1m 30s"


@pytest.mark.parametrize(
    ("text", "listen"),
    [
        ("127.0.0.1:4241", Listen("127.0.0.1", 4241)),
        ("0.0.0.0:0", Listen("0.0.0.0", 0)),
        ("localhost:65535", Listen("localhost", 65535)),
        ("[::1]:0", Listen("::1", 0)),
        ("[::]:4241", Listen("::", 4241)),
        ("[fe80::1%eth0]:80", Listen("fe80::1%eth0", 80)),
        ("unix:/run/rezolusd.sock", Listen(path="/run/rezolusd.sock")),
        ("unix:/run/with:colon", Listen(path="/run/with:colon")),
        ("unix:/" + "p" * 106, Listen(path="/" + "p" * 106)),
    ],
)
def test_where_to_listen_is_read_and_shown_alike(text: str, listen: Listen) -> None:
    assert Listen.parse(text) == listen
    assert str(listen) == text


@pytest.mark.parametrize("text", ["", "4241", ":4241", "localhost", "::1:4241", "::1", "fe80::1:80"])
def test_what_is_no_address_says_how_to_write_one(text: str) -> None:
    with pytest.raises(ValueError, match=r"^not an address, write host:port, \[ipv6\]:port or unix:/path$"):
        Listen.parse(text)


@pytest.mark.parametrize("port", ["", "65536", "-1", "http", "80 ", "8_0", "٨٠", "1e3", "99999999999"])
def test_what_is_no_port_is_named(port: str) -> None:
    with pytest.raises(ValueError, match="is not a number from 0 to 65535") as raised:
        Listen.parse(f"localhost:{port}")
    assert str(raised.value) == f"port {port!r} is not a number from 0 to 65535"


@pytest.mark.parametrize("text", ["[::1]", "[]:80", "[[::1]]:80", "[::1]]:80", "a b:80", "a\n:80"])
def test_what_only_looks_like_an_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="address"):
        Listen.parse(text)


def test_a_port_of_thousands_of_digits_is_no_port() -> None:
    with pytest.raises(ValueError, match="is not a number from 0 to 65535"):
        Listen.parse("localhost:" + "9" * 5000)


@pytest.mark.parametrize(
    "text", ["unix:", "unix:run/socket", "unix:@abstract", "unix:/" + "p" * 107, "unix:/" + "ü" * 54]
)
def test_a_unix_socket_has_an_absolute_path_that_fits(text: str) -> None:
    with pytest.raises(ValueError, match=r"^a unix socket is unix:/absolute/path of at most 107 bytes$"):
        Listen.parse(text)


@given(st.text())
def test_any_text_is_an_address_shown_as_another_like_it_or_a_value_error(text: str) -> None:
    try:
        listen = Listen.parse(text)
    except ValueError:
        return
    assert Listen.parse(str(listen)) == listen
