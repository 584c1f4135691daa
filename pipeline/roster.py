"""The samplers at work: starts and stops their tasks, and knows who is due at a tick."""

from collections.abc import Iterable

import trio

from pipeline.clock import Clock, Tick
from pipeline.health import Health, State
from pipeline.records import Report
from pipeline.slow import run_slow
from pipeline.source import Attempts, Pace, Roots, Sampler, run_source


class Worker:
    """One running sampler.

    Attributes:
        attempts: its source, while there is one.
        interval_ns: its own interval, None for every tick.
    """

    def __init__(self, sampler: Sampler, interval_ns: int | None, roots: Roots) -> None:
        self.sampler = sampler
        self.attempts = Attempts(sampler, roots)
        self.interval_ns = interval_ns
        self.scope = trio.CancelScope()
        self.tell, self.told = trio.open_memory_channel[Tick](1)
        self._period = -1

    def comes_due(self, tick: Tick) -> bool:
        """Whether this tick is the first in a new interval of the sampler's own."""
        if self.interval_ns is None:
            return True
        period = tick.wall_ns // self.interval_ns
        if period == self._period:
            return False
        self._period = period
        return True


class Roster:
    """Running samplers by name; `reports` is the channel they all push onto."""

    def __init__(self, nursery: trio.Nursery, clock: Clock, health: Health, roots: Roots) -> None:
        self.workers: dict[str, Worker] = {}
        send, self.reports = trio.open_memory_channel[Report](256)
        self._send = send
        self._nursery = nursery
        self._clock = clock
        self._health = health
        self._roots = roots

    def start(self, sampler: Sampler, interval_ns: int | None) -> None:
        """Run a sampler; its state is `STARTING` until its first report."""
        worker = self.workers[sampler.name] = Worker(sampler, interval_ns, self._roots)
        self._health.set(sampler.name, State.STARTING)
        self._health.samplers[sampler.name].retry_at_ns = 0
        self._nursery.start_soon(self._run, worker, name=f"sampler {sampler.name}")

    def stop(self, name: str) -> None:
        """Cancel a sampler's task and note it as disabled."""
        self.workers.pop(name).scope.cancel()
        self._health.set(name, State.DISABLED)

    async def _run(self, worker: Worker) -> None:
        attempts = worker.attempts
        with worker.scope:
            if worker.sampler.pace is Pace.SLOW:
                assert worker.interval_ns is not None, "a slow sampler has an interval of its own"  # noqa: S101
                await run_slow(attempts, worker.interval_ns, self._send, self._health)
            else:
                await run_source(attempts, worker.told, self._send)

    def tell(self, tick: Tick) -> set[str]:
        """Tell every sampler that is due of the tick; those named in the answer owe a report.

        One that is still busy with an earlier tick is not told again: it misses this one. One that has to be
        prepared first owes nothing: the tick does not wait for it.
        """
        now_ns = self._clock.monotonic_ns()
        owing = set()
        for name, worker in self.workers.items():
            status = self._health.samplers[name]
            if worker.sampler.pace is Pace.SLOW or status.retry_at_ns is None or now_ns < status.retry_at_ns:
                continue
            if worker.attempts.preparing or not worker.comes_due(tick):
                continue
            try:
                worker.tell.send_nowait(tick)
            except trio.WouldBlock:
                status.missed += 1
            else:
                if worker.attempts.ready:
                    owing.add(name)
        return owing

    def stale(self, intervals: int) -> Iterable[str]:
        """Slow samplers whose newest reading is older than so many of their intervals."""
        now_ns = self._clock.monotonic_ns()
        for name, worker in self.workers.items():
            read_ns = self._health.samplers[name].last_read_ns
            if (
                worker.interval_ns
                and read_ns is not None
                and now_ns - read_ns > intervals * worker.interval_ns
            ):
                yield name
