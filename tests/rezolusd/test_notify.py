import logging
import os
import socket
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from rezolusd import notify
from rezolusd.notify import Notifier

SECOND = 1_000_000_000
MINUTE_USEC = str(60_000_000)


class Clock:
    """A monotonic clock moved by hand."""

    def __init__(self) -> None:
        self.now = 5 * SECOND

    def __call__(self) -> int:
        return self.now


class Manager:
    """The service manager's end: a bound datagram socket."""

    def __init__(self, name: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + name[1:] if name.startswith("@") else name)
        self.socket.setblocking(False)
        self.environ = {"NOTIFY_SOCKET": name}

    def heard(self) -> list[str]:
        """Every datagram since the last call."""
        datagrams = []
        while True:
            try:
                datagrams.append(self.socket.recv(4096).decode())
            except BlockingIOError:
                return datagrams


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Manager]:
    name = str(tmp_path / "notify") if request.param == "path" else f"@rezolusd-test-{uuid.uuid4()}"
    manager = Manager(name)
    yield manager
    manager.socket.close()


def test_a_life_as_the_manager_hears_it(manager: Manager) -> None:
    notifier = Notifier(manager.environ, Clock())
    notifier.ready("3 active")
    notifier.status("2 active, 1 failed: cpu_cores")
    notifier.reloading()
    notifier.ready()
    notifier.stopping()
    assert manager.heard() == [
        "READY=1\nSTATUS=3 active",
        "STATUS=2 active, 1 failed: cpu_cores",
        "RELOADING=1\nMONOTONIC_USEC=5000000",
        "READY=1",
        "STOPPING=1",
    ]


def test_a_status_is_one_line_that_fits(manager: Manager) -> None:
    notifier = Notifier(manager.environ)
    notifier.status("two\nlines\x00 \udcff")
    notifier.status("é" * 4000)
    first, second = manager.heard()
    assert first == "STATUS=two lines\x00 ?"
    assert second == "STATUS=" + "é" * (notify.MAX_STATUS_BYTES // 2)


def test_the_watchdog_is_fed_four_times_a_period_however_fast_the_ticks(manager: Manager) -> None:
    clock = Clock()
    notifier = Notifier(manager.environ | {"WATCHDOG_USEC": MINUTE_USEC}, clock)
    for _ in range(60 * 10):
        notifier.watchdog()
        clock.now += SECOND // 10
    assert manager.heard() == ["WATCHDOG=1"] * 4


def test_slow_ticks_feed_it_every_time(manager: Manager) -> None:
    clock = Clock()
    notifier = Notifier(manager.environ | {"WATCHDOG_USEC": MINUTE_USEC}, clock)
    for _ in range(3):
        notifier.watchdog()
        clock.now += 20 * SECOND
    assert manager.heard() == ["WATCHDOG=1"] * 3


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"WATCHDOG_USEC": "0"},
        {"WATCHDOG_USEC": "-1"},
        {"WATCHDOG_USEC": "soon"},
        {"WATCHDOG_USEC": "9" * 5000},
        {"WATCHDOG_USEC": MINUTE_USEC, "WATCHDOG_PID": "1"},
    ],
)
def test_no_watchdog_is_fed_where_none_was_asked_of_this_process(
    environ: dict[str, str], manager: Manager
) -> None:
    Notifier(manager.environ | environ).watchdog()
    assert manager.heard() == []


def test_a_watchdog_of_this_process_is_fed(manager: Manager) -> None:
    environ = {"WATCHDOG_USEC": MINUTE_USEC, "WATCHDOG_PID": str(os.getpid())}
    Notifier(manager.environ | environ).watchdog()
    assert manager.heard() == ["WATCHDOG=1"]


def test_long_intervals_lengthen_the_watchdog_and_the_start(manager: Manager) -> None:
    clock = Clock()
    notifier = Notifier(manager.environ | {"WATCHDOG_USEC": "30000000"}, clock)
    notifier.expect_ticks(60 * SECOND)
    assert manager.heard() == ["WATCHDOG_USEC=180000000\nEXTEND_TIMEOUT_USEC=180000000"]
    notifier.ready()
    notifier.watchdog()
    clock.now += 44 * SECOND
    notifier.watchdog()
    clock.now += SECOND
    notifier.watchdog()
    assert manager.heard() == ["READY=1", "WATCHDOG=1", "WATCHDOG=1"]


def test_a_reload_to_short_intervals_goes_back_to_the_units_watchdog(manager: Manager) -> None:
    notifier = Notifier(manager.environ | {"WATCHDOG_USEC": "30000000"})
    notifier.ready()
    for seconds in (1, 11, 11, 1):
        notifier.expect_ticks(seconds * SECOND)
    assert manager.heard() == ["READY=1", "WATCHDOG_USEC=33000000", "WATCHDOG_USEC=30000000"]


def test_without_a_watchdog_only_the_start_is_lengthened(manager: Manager) -> None:
    notifier = Notifier(manager.environ)
    notifier.expect_ticks(60 * SECOND)
    notifier.ready()
    notifier.expect_ticks(90 * SECOND)
    assert manager.heard() == ["EXTEND_TIMEOUT_USEC=180000000", "READY=1"]


def speak(notifier: Notifier) -> None:
    notifier.expect_ticks(60 * SECOND)
    notifier.ready("fine")
    notifier.status("fine")
    notifier.watchdog()
    notifier.reloading()
    notifier.stopping()


@pytest.mark.parametrize("name", ["", "vsock:2:1234", "relative"])
def test_without_a_manager_nothing_happens(name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    speak(Notifier({"NOTIFY_SOCKET": name, "WATCHDOG_USEC": MINUTE_USEC}))
    assert caplog.records == []


@pytest.mark.parametrize("name", ["/nowhere/notify", "/" + "x" * 200, "/nul\0", "@" + "x" * 200, "/\udcff"])
def test_a_manager_out_of_reach_is_logged_once_at_debug(name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    speak(Notifier({"NOTIFY_SOCKET": name, "WATCHDOG_USEC": MINUTE_USEC}))
    assert [(record.levelname, record.name) for record in caplog.records] == [("DEBUG", "rezolusd.notify")]


def test_a_manager_that_does_not_read_holds_nobody(
    manager: Manager, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(notify, "SEND_TIMEOUT_S", 0.001)
    caplog.set_level(logging.DEBUG)
    clock = Clock()
    notifier = Notifier(manager.environ | {"WATCHDOG_USEC": MINUTE_USEC}, clock)
    while not caplog.records:
        notifier.status("queue up")
    notifier.watchdog()
    assert set(manager.heard()) == {"STATUS=queue up"}
    notifier.watchdog()
    assert manager.heard() == ["WATCHDOG=1"], "one that was not taken is no feed, the next is sent at once"
