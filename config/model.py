"""The configuration file as types: every key, its default, and what it may be.

`config/rezolusd.toml` is the manual; a test keeps the two equal.
"""

import re
from ipaddress import IPv6Address
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct, field

from config.humantime import format as format_duration
from config.humantime import parse as parse_duration

SECOND: Final = 1_000_000_000


class Duration(Struct, frozen=True, order=True):
    """A humantime string of the file, in nanoseconds."""

    ns: int

    @classmethod
    def parse(cls, text: str) -> "Duration":
        return cls(parse_duration(text))

    def __str__(self) -> str:
        return format_duration(self.ns)


class Interval(Duration, frozen=True, order=True):
    """How often something happens: from 10 ms to a day."""

    @classmethod
    def parse(cls, text: str) -> "Interval":
        interval = cls(parse_duration(text))
        if not SECOND // 100 <= interval.ns <= 86_400 * SECOND:
            raise ValueError("out of range, an interval is from 10ms to 1day")
        return interval


_HOST: Final = re.compile(r"[\w.-]{1,253}", re.ASCII)
_PORT: Final = re.compile(r"\d{1,5}", re.ASCII)


def _is_bracketed_ipv6(text: str) -> bool:
    try:
        return text[:1] + text[-1:] == "[]" and bool(IPv6Address(text[1:-1]))
    except ValueError:
        return False


class Listen(Struct, frozen=True):
    """Where to listen: `host` and `port`, or the `path` of a unix socket.

    Attributes:
        port: 0 lets the kernel choose; the log and `/status` name what was bound.
    """

    host: str = ""
    port: int = 0
    path: str = ""

    @classmethod
    def parse(cls, text: str) -> "Listen":
        if text.startswith("unix:"):
            path = text.removeprefix("unix:")
            if not path.startswith("/") or len(path.encode()) > 107:
                raise ValueError("a unix socket is unix:/absolute/path of at most 107 bytes")
            return cls(path=path)
        host, colon, port = text.rpartition(":")
        if not colon or not (_HOST.fullmatch(host) or _is_bracketed_ipv6(host)):
            raise ValueError("not an address, write host:port, [ipv6]:port or unix:/path")
        if not _PORT.fullmatch(port) or int(port) > 65535:
            raise ValueError(f"port {port[:12]!r} is not a number from 0 to 65535")
        return cls(host.strip("[]"), int(port))

    def __str__(self) -> str:
        if self.path:
            return f"unix:{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class General(Struct, frozen=True, forbid_unknown_fields=True):
    """`[general]`.

    Attributes:
        interval: from one tick to the next.
        proc, sys: where the kernel's files are mounted.
    """

    interval: Interval = Interval(SECOND)
    listen: Listen = Listen("127.0.0.1", 4241)
    proc: Annotated[str, Meta(pattern="^/")] = "/proc"
    sys: Annotated[str, Meta(pattern="^/")] = "/sys"


class Log(Struct, frozen=True, forbid_unknown_fields=True):
    """`[log]`."""

    level: Literal["error", "warn", "info", "debug"] = "info"
    format: Literal["text", "json"] = "text"


class Defaults(Struct, frozen=True, forbid_unknown_fields=True):
    """`[defaults]`, for samplers whose own table says nothing.

    Attributes:
        interval: None leaves each sampler its own pace.
    """

    enabled: bool = True
    interval: Interval | None = None


class Sampler(Struct, frozen=True, forbid_unknown_fields=True):
    """`[samplers.NAME]`; None falls back to `[defaults]`."""

    enabled: bool | None = None
    interval: Interval | None = None


class Prometheus(Struct, frozen=True, forbid_unknown_fields=True):
    """`[sinks.prometheus]`.

    Attributes:
        naming: `rezolus` leaves names and units as recorded; `prometheus` has base units and `_total`.
        histograms: `summary` gives percentiles of the last interval, `classic` cumulative buckets.
        grouping_power: resolution of classic buckets, 2^power an octave.
        max_series: a page holds at most so many series; what is left out is counted.
    """

    enabled: bool = True
    naming: Literal["rezolus", "prometheus"] = "rezolus"
    histograms: Literal["summary", "classic", "off"] = "summary"
    grouping_power: Annotated[int, Meta(ge=0, le=3)] = 3
    max_series: Annotated[int, Meta(ge=1, le=10_000_000)] = 200_000


class Sinks(Struct, frozen=True, forbid_unknown_fields=True):
    """`[sinks.NAME]`, one table a sink."""

    prometheus: Prometheus = Prometheus()


class Bpf(Struct, frozen=True, forbid_unknown_fields=True):
    """`[bpf]`.

    Attributes:
        python: the interpreter that has bcc; empty finds one, the daemon's own or the system's.
        compile_seconds: a sampler whose probes are not attached by then has failed, and is tried again.
    """

    python: Annotated[str, Meta(pattern="^(/|$)")] = ""
    compile_seconds: Annotated[int, Meta(ge=1, le=600)] = 30


class Cgroups(Struct, frozen=True, forbid_unknown_fields=True):
    """`[cgroups]`.

    Attributes:
        hierarchy: `v2` counts for a task's own cgroup of the unified hierarchy, `cpu` for the one the cpu
            controller sees; `auto` is `cpu` where that controller is mounted the old way, else `v2`.
    """

    hierarchy: Literal["auto", "v2", "cpu"] = "auto"


class Tasks(Struct, frozen=True, forbid_unknown_fields=True):
    """`[tasks]`.

    Attributes:
        max_tasks: so many tasks at a time have a series of their own, the others are summed; 0 turns series
            by task off.
    """

    max_tasks: Annotated[int, Meta(ge=0, le=4_194_304)] = 4096


class Config(Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file."""

    general: General = General()
    log: Log = Log()
    defaults: Defaults = Defaults()
    samplers: dict[str, Sampler] = field(default_factory=dict)
    sinks: Sinks = Sinks()
    bpf: Bpf = Bpf()
    cgroups: Cgroups = Cgroups()
    tasks: Tasks = Tasks()
