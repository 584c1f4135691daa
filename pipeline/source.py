"""A sampler as the pipeline sees it, and the task around one that is read within the tick."""

import errno
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum
from typing import Protocol

import msgspec
import trio

from pipeline.clock import Tick
from pipeline.health import Health, State, Unsupported
from pipeline.programs import Program
from pipeline.records import NANOSECONDS, Group, Reading, Report, Window

log = logging.getLogger(__name__)

BACKOFF_FIRST_NS = NANOSECONDS
BACKOFF_LIMIT_NS = 60 * NANOSECONDS


class Roots(msgspec.Struct, frozen=True):
    """Where the kernel's files are mounted; a fixture tree in tests, `/host/proc` in a container."""

    proc: str = "/proc"
    sys: str = "/sys"


class Source(Protocol):
    """Reads the world on request. Whoever makes one may raise `Unsupported`, or an `OSError`."""

    def sample(self) -> Sequence[Reading]:
        """One reading for each group. Raises when the world cannot be read or understood."""

    def close(self) -> None:
        """Give back files and maps; called once, after the last `sample`."""


class Prepared(msgspec.Struct, frozen=True):
    """A source that took more than a moment to make, and how well that went.

    Attributes:
        programs: its BPF programs, attached or not.
        degraded: one line when it will not deliver all it should.
    """

    source: Source
    programs: tuple[Program, ...] = ()
    degraded: str = ""


class Pace(Enum):
    """How a source is read: in the loop at the tick, in a thread at the tick, or off the tick altogether."""

    TICK = "tick"
    TICK_THREAD = "tick_thread"
    SLOW = "slow"


class Sampler(msgspec.Struct, frozen=True):
    """A catalogue entry: all that is known of a sampler before it is started.

    Attributes:
        name: the kernel's own word; config table, log field and module are named alike.
        reads: what it reads, for people, e.g. `/proc/vmstat`.
        groups: what it can publish.
        open: makes its source.
        pace: how it is read; `TICK` only for what never blocks.
        interval_ns: its own interval, None for every tick.
        opt_in: off unless its own config table says otherwise.
        prepare: makes its source where that takes longer than a tick may, so that `open` is not used. Runs
            beside the ticks, which do not wait for a sampler that is being prepared.
    """

    name: str
    reads: str
    groups: tuple[Group, ...]
    open: Callable[[Roots], Source]
    pace: Pace = Pace.TICK
    interval_ns: int | None = None
    opt_in: bool = False
    prepare: Callable[[Roots], Awaitable[Prepared]] | None = None


class Stopwatch:
    """The window of a reading: made before the first byte is read, asked for its window after the last."""

    def __init__(self) -> None:
        self._begin_ns = time.time_ns()
        self._from_ns = time.monotonic_ns()

    def window(self) -> Window:
        return Window(self._begin_ns, time.monotonic_ns() - self._from_ns)


class Attempts:
    """One sampler's life: opened at its first attempt, read at each, opened anew after a failure."""

    def __init__(self, sampler: Sampler, roots: Roots) -> None:
        self.sampler = sampler
        self.roots = roots
        self.preparing = sampler.prepare is not None
        self._source: Source | None = None
        self._programs: tuple[Program, ...] = ()
        self._degraded = ""

    @property
    def ready(self) -> bool:
        """Whether an attempt would be answered at once: there is a source, or one is made on the spot."""
        return self._source is not None or self.sampler.prepare is None

    async def prepare(self) -> Report | None:
        """Make the source if that takes time; returns a report if that failed."""
        if self._source is not None or self.sampler.prepare is None:
            return None
        begin = time.monotonic_ns()
        self.preparing = True
        try:
            prepared = await self.sampler.prepare(self.roots)
        except (FileNotFoundError, PermissionError) as reason:
            return self._failure(Unsupported(explain(reason)), begin)
        except Exception as reason:
            return self._failure(reason, begin)
        finally:
            self.preparing = False
        self._source, self._programs, self._degraded = prepared.source, prepared.programs, prepared.degraded
        return None

    def attempt(self) -> Report:
        """Open if need be, and read once. Never raises: what goes wrong is in the report."""
        begin = time.monotonic_ns()
        try:
            if self._source is None:
                self._source = self._open()
            readings = tuple(self._source.sample())
        except Exception as reason:
            self.close()
            return self._failure(reason, begin)
        elapsed = time.monotonic_ns() - begin
        name = self.sampler.name
        return Report(name, readings, elapsed, degraded=self._degraded, programs=self._programs)

    def _failure(self, reason: Exception, begin: int) -> Report:
        elapsed = time.monotonic_ns() - begin
        name, programs = self.sampler.name, getattr(reason, "programs", ())
        if isinstance(reason, Unsupported):
            return Report(name, (), elapsed, str(reason), unsupported=True, programs=programs)
        log.debug("sampler %s", name, exc_info=reason)
        return Report(name, (), elapsed, explain(reason), programs=programs)

    def _open(self) -> Source:
        try:
            return self.sampler.open(self.roots)
        except (FileNotFoundError, PermissionError) as reason:
            raise Unsupported(explain(reason)) from reason

    def close(self) -> None:
        source, self._source = self._source, None
        if source is not None:
            source.close()


def explain(error: Exception) -> str:
    """An exception as one line with the names in it; an OSError with its file and errno's name."""
    if isinstance(error, OSError) and error.errno is not None:
        name = errno.errorcode.get(error.errno, str(error.errno))
        where = f"{error.filename}: " if error.filename is not None else ""
        return f"{where}{name} ({error.strerror})"
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def settle(report: Report, health: Health, now_ns: int) -> None:
    """Write one attempt's outcome into the sampler's standing, and when it may be tried again."""
    status = health.samplers[report.sampler]
    status.last_elapsed_ns = report.elapsed_ns
    status.programs = report.programs
    if report.error is None:
        status.reads += 1
        status.last_read_ns = now_ns
        status.backoff_ns = 0
        status.retry_at_ns = 0
        state = State.DEGRADED if report.degraded else State.ACTIVE
        health.set(report.sampler, state, report.degraded)
        return
    if report.unsupported:
        status.retry_at_ns = None
        health.set(report.sampler, State.UNSUPPORTED, report.error)
        return
    status.failures += 1
    status.backoff_ns = min(max(status.backoff_ns * 2, BACKOFF_FIRST_NS), BACKOFF_LIMIT_NS)
    status.retry_at_ns = now_ns + status.backoff_ns
    health.set(report.sampler, State.FAILED, report.error)


async def run_source(
    attempts: Attempts,
    told: "trio.MemoryReceiveChannel[Tick]",
    reports: "trio.MemorySendChannel[Report]",
) -> None:
    """The task around one source: read when told of a tick, push the report, until the channel ends.

    What has to be prepared is so at once, and after a failure when told of a tick, which then does not wait.
    """
    threaded = attempts.sampler.pace is Pace.TICK_THREAD
    limiter = trio.CapacityLimiter(1)
    try:
        await _prepare(attempts, reports)
        async for _ in told:
            if not attempts.ready:
                await _prepare(attempts, reports)
                continue
            if threaded:
                report = await trio.to_thread.run_sync(
                    attempts.attempt, abandon_on_cancel=True, limiter=limiter
                )
            else:
                report = attempts.attempt()
            # The channel has room for all; a task that is told once a tick need not yield here as well.
            reports.send_nowait(report)
    finally:
        if limiter.borrowed_tokens == 0:
            attempts.close()


async def _prepare(attempts: Attempts, reports: "trio.MemorySendChannel[Report]") -> None:
    failure = await attempts.prepare()
    if failure is not None:
        await reports.send(failure)
