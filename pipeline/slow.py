"""The room for readers that may take seconds, or never come back: off the tick, at their own pace."""

import trio

from pipeline.health import Health, State
from pipeline.records import NANOSECONDS, Report
from pipeline.source import Attempts


async def run_slow(
    attempts: Attempts,
    interval_ns: int,
    reports: "trio.MemorySendChannel[Report]",
    health: Health,
) -> None:
    """Read at once and then every `interval_ns`, each time in a worker thread, never two at a time.

    A read that outlasts its interval is waited for, without piling up others behind it; meanwhile the
    sampler is degraded and says since when. Intervals it missed are skipped, not caught up with.
    """
    name = attempts.sampler.name
    limiter = trio.CapacityLimiter(1)
    interval = interval_ns / NANOSECONDS
    due = trio.current_time()
    try:
        while True:
            async with trio.open_nursery() as watch:
                watch.start_soon(_say_when_overdue, name, interval, health)
                report = await trio.to_thread.run_sync(
                    attempts.attempt, abandon_on_cancel=True, limiter=limiter
                )
                watch.cancel_scope.cancel()
            await reports.send(report)
            if report.unsupported:
                return
            due += interval * max(1, -((due - trio.current_time()) // interval))
            await trio.sleep_until(due)
    finally:
        if limiter.borrowed_tokens == 0:
            attempts.close()


async def _say_when_overdue(name: str, interval: float, health: Health) -> None:
    await trio.sleep(interval)
    health.set(
        name, State.DEGRADED, f"a read has been under way for more than its interval of {interval:g} s"
    )
