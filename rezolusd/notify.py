"""The sd_notify protocol, the daemon's side: datagrams that tell systemd how it is doing.

Source: sd_notify(3), sd_watchdog_enabled(3), as of systemd 252.
"""

import logging
import os
import socket
import time
from collections.abc import Callable, Mapping
from typing import Final

log = logging.getLogger(__name__)

PINGS_PER_PERIOD: Final = 4
"""systemd asks for two at least; twice that leaves room for a late tick."""

PATIENCE_TICKS: Final = 3
"""Ticks that may fail to finish in a row before the watchdog bites."""

SEND_TIMEOUT_S: Final = 0.2
"""How long a full queue at systemd's end may hold the caller. Waited for at all, as a lost READY would end
the daemon at its start timeout."""

MAX_STATUS_BYTES: Final = 2048
"""systemd throws away a datagram above 4096 bytes."""


class Notifier:
    """Says ready, status, watchdog, reloading, stopping to the service manager, if there is one.

    Without `NOTIFY_SOCKET` every method does nothing. None raises: a datagram that cannot be sent is logged
    at debug, the first time only.

    Args:
        environ: where `NOTIFY_SOCKET` (a path, or an abstract name after `@`), `WATCHDOG_USEC` and
            `WATCHDOG_PID` are looked up, once.
        clock: CLOCK_MONOTONIC in ns.
    """

    def __init__(
        self,
        environ: Mapping[str, str] = os.environ,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._address = _address(environ.get("NOTIFY_SOCKET", ""))
        self._clock = clock
        self._configured_usec = _watchdog_usec(environ)
        self._watchdog_usec = self._configured_usec
        self._fed_ns: int | None = None
        self._is_ready = False
        self._has_complained = False

    def ready(self, status: str = "") -> None:
        """Start-up, or a reload, is done."""
        lines = ["READY=1"] + ([_status(status)] if status else [])
        self._is_ready = self._send(*lines) or self._is_ready

    def status(self, text: str) -> None:
        """One line for `systemctl status`; line breaks become spaces, the end of a long one is cut off."""
        self._send(_status(text))

    def watchdog(self) -> None:
        """A tick really finished. Call it on every one: only a few a watchdog period are passed on."""
        now = self._clock()
        pause_ns = self._watchdog_usec * 1000 // PINGS_PER_PERIOD
        if not self._watchdog_usec or (self._fed_ns is not None and now - self._fed_ns < pause_ns):
            return
        if self._send("WATCHDOG=1"):
            self._fed_ns = now

    def expect_ticks(self, interval_ns: int) -> None:
        """Ticks are this far apart from now on: have systemd wait for at least three of them.

        Lengthens the watchdog beyond the unit's WatchdogSec where that is too short, goes back to it where it
        is not, and until ready lengthens the start timeout likewise.
        """
        patience_usec = PATIENCE_TICKS * interval_ns // 1000
        watchdog_usec = max(self._configured_usec, patience_usec) if self._configured_usec else 0
        lines = []
        if watchdog_usec != self._watchdog_usec:
            lines.append(f"WATCHDOG_USEC={watchdog_usec}")
        if not self._is_ready:
            lines.append(f"EXTEND_TIMEOUT_USEC={patience_usec}")
        if lines and self._send(*lines):
            self._watchdog_usec = watchdog_usec

    def reloading(self) -> None:
        """A reload begins; `ready` ends it. systemd 253 and newer insist on the time."""
        self._send("RELOADING=1", f"MONOTONIC_USEC={self._clock() // 1000}")

    def stopping(self) -> None:
        """The way down has begun."""
        self._send("STOPPING=1")

    def _send(self, *lines: str) -> bool:
        """Whether one datagram of these lines was taken. The socket is close-on-exec, as Python makes all."""
        if self._address is None:
            return False
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
                out.settimeout(SEND_TIMEOUT_S)
                out.sendto("\n".join(lines).encode(errors="replace"), self._address)
        except (OSError, ValueError) as error:
            self._complain(f"{lines[0]} not sent to NOTIFY_SOCKET: {error}")
            return False
        return True

    def _complain(self, message: str) -> None:
        if not self._has_complained:
            log.debug(message)
        self._has_complained = True


def _address(name: str) -> bytes | None:
    """`NOTIFY_SOCKET` as AF_UNIX takes it; None where absent, or of a kind unknown here (`vsock:`)."""
    if name.startswith("@"):
        return b"\0" + os.fsencode(name[1:])
    return os.fsencode(name) if name.startswith("/") else None


def _watchdog_usec(environ: Mapping[str, str]) -> int:
    """The watchdog period in µs, 0 for none or one meant for another process."""
    period = environ.get("WATCHDOG_USEC", "")
    is_ours = environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
    return int(period) if is_ours and period.isascii() and period.isdecimal() and len(period) < 20 else 0


def _status(text: str) -> str:
    line = " ".join(text.splitlines()).encode(errors="replace")[:MAX_STATUS_BYTES]
    return "STATUS=" + line.decode(errors="ignore")
