"""The running daemon: its nursery tree is its start order and, turned round, its stop order."""

import contextlib
import ctypes
import gc
import logging
import signal
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import msgspec
import trio

from bpf.room import Room
from config.load import ConfigError
from config.model import Config
from pipeline.aggregate import Aggregator
from pipeline.clock import Clock
from pipeline.fanout import DirectOutlet, Fanout
from pipeline.health import Health, State
from pipeline.records import Snapshot
from pipeline.roster import Roster
from pipeline.source import Roots
from pipeline.tick import Ticker
from rezolusd import catalog, logs
from rezolusd.notify import Notifier
from rezolusd.pages import Pages
from sinks.answer import ImmediateResponder
from sinks.http import Server, Site, bound, listening
from sinks.prometheus import PrometheusSink

log = logging.getLogger(__name__)

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Daemon:
    """One run of the daemon.

    Args of the constructor:
        config: what to start with.
        reload: reads the configuration again on SIGHUP; may raise `ConfigError`.
    """

    def __init__(self, config: Config, reload: Callable[[], Config]) -> None:
        self.config = config
        self._reload = reload
        self._health = Health()
        self._fanout = Fanout()
        self._notifier = Notifier()
        self._told = 0

    async def run(self) -> None:
        """Run until SIGTERM or SIGINT. Raises `AddressError` when the address cannot be listened on."""
        general = self.config.general
        with listening(general.listen) as listener, trio.open_signal_receiver(*SIGNALS) as signals:
            address = bound(listener)
            self._clock = Clock(general.interval.ns)
            stop_http = trio.Event()
            async with trio.open_nursery() as outlets:
                async with trio.open_nursery() as flow:
                    self._roster = Roster(flow, self._clock, self._health, Roots(general.proc, general.sys))
                    self._room = Room(catalog.FAMILIES, self.config, ())
                    ticker = Ticker(self._clock, self._roster, self._health, self._fanout, Aggregator())
                    hot = self._add_sinks()
                    pages = Pages(
                        self._clock, self._health, self._fanout, ticker, address, general.proc, general.sys
                    )
                    site = Site(pages.responders(), hot)
                    outlets.start_soon(Server(site, listener).run, stop_http)
                    log.info("listening on %s", shown(address))
                    self._apply(self.config)
                    flow.start_soon(ticker.run)
                    flow.start_soon(self._obey, signals, flow.cancel_scope)
                self._notifier.stopping()
                self._fanout.close()
                stop_http.set()
        log.info("stopped")

    def _add_sinks(self) -> dict[str, ImmediateResponder]:
        """Connect the sinks to the fan-out; the answer has the paths that they answer for."""
        self._fanout.add(DirectOutlet("manager", self._tell_manager))
        settings = self.config.sinks.prometheus
        if not settings.enabled:
            return {}
        sink = PrometheusSink(settings)
        self._fanout.add(DirectOutlet("prometheus", sink.take, lambda: sink.left_out))
        return {"/metrics": sink.answer}

    def _apply(self, config: Config) -> None:
        """Make the running samplers those that `config` names, at its intervals."""
        self._clock.set_interval(config.general.interval.ns)
        self._notifier.expect_ticks(config.general.interval.ns)
        self._room.enabled = [
            name for name, sampler in catalog.SAMPLERS.items() if catalog.enabled(config, sampler)
        ]
        for name, sampler in catalog.SAMPLERS.items():
            wanted = catalog.enabled(config, sampler)
            interval_ns = catalog.interval_ns(config, sampler)
            worker = self._roster.workers.get(name)
            same = worker is not None and worker.interval_ns == interval_ns and not self._room.outdated(name)
            if worker is not None and not (wanted and same and self._health.samplers[name].delivers):
                self._roster.stop(name)
                worker = None
            if wanted and worker is None:
                self._roster.start(self._room.bind(sampler), interval_ns)
            elif not wanted:
                self._health.set(name, State.DISABLED)
        self.config = config

    async def _obey(self, signals: AsyncIterator[int], flow: trio.CancelScope) -> None:
        async for number in signals:
            if number == signal.SIGHUP:
                self._reread()
            else:
                log.info("%s, stopping", signal.Signals(number).name)
                flow.cancel()

    def _reread(self) -> None:
        """SIGHUP: apply what can change while running; a file that cannot be used changes nothing."""
        self._notifier.reloading()
        try:
            config = self._reload()
        except ConfigError as error:
            for problem in error.problems:
                log.error("%s", problem)
            log.error("the configuration was not reloaded, the running one stays")
        else:
            for table in ("general", "bpf", "cgroups", "tasks", "sinks"):
                old, new = (_fixed(getattr(which, table)) for which in (self.config, config))
                if old != new:
                    log.warning("changes in [%s] other than the interval take a restart", table)
            logs.set_up(config.log)
            self._apply(config)
            log.info("configuration reloaded")
        self._notifier.ready(self._summary())

    def _tell_manager(self, snapshot: Snapshot) -> None:
        """The service manager's sink: a snapshot is a tick that really finished, so it feeds the watchdog."""
        if snapshot.seq == 1:
            self._notifier.ready(self._summary())
            log.info("first snapshot: %s", self._summary())
            # What start-up left is collected and given back, and what stays is not looked at again.
            gc.collect()
            gc.freeze()
            with contextlib.suppress(AttributeError):  # not every C library has it
                ctypes.CDLL(None).malloc_trim(0)
        elif self._told != self._health.changes:
            self._notifier.status(self._summary())
        self._told = self._health.changes
        self._notifier.watchdog()

    def _summary(self) -> str:
        counts = self._health.counts()
        return ", ".join(f"{state.value}: {' '.join(names)}" for state, names in counts.items())


def _fixed(table: msgspec.Struct) -> dict[str, Any]:
    """A configuration table without what can change while running."""
    fields = msgspec.structs.asdict(table)
    fields.pop("interval", None)
    return fields


def shown(address: str) -> str:
    """A bound address as something to open: a URL, or the unix socket as it is."""
    return address if address.startswith("unix:") else f"http://{address}/"
