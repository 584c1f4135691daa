"""How each sampler is doing, told apart so that an operator can act on it."""

import logging
from enum import Enum
from typing import Final

import msgspec

from pipeline.programs import Program, rollup

log = logging.getLogger(__name__)


class State(Enum):
    """What a sampler is right now.

    `DEGRADED` delivers something but not all it should; `FAILED` delivers nothing and is tried again with
    back-off; `UNSUPPORTED` cannot work on this host as it is, and is tried again only on a reload.
    """

    STARTING = "starting"
    ACTIVE = "active"
    DISABLED = "disabled"
    UNSUPPORTED = "unsupported"
    DEGRADED = "degraded"
    FAILED = "failed"


class Unsupported(Exception):  # noqa: N818 - a finding about the host, not an error
    """Raised by a sampler that finds its host lacks what it reads; the message says what is missing.

    Attributes:
        programs: its BPF programs, when that is what is missing.
    """

    def __init__(self, message: str, programs: tuple[Program, ...] = ()) -> None:
        super().__init__(message)
        self.programs = programs


class Status(msgspec.Struct):
    """The standing of one sampler; counters since the daemon's start.

    Attributes:
        reason: why it is not active, one line; empty when it is.
        reads, failures, missed: attempts that succeeded, that failed, and ticks it answered too late for.
        last_elapsed_ns: duration of the newest attempt, successful or not; None before the first.
        last_read_ns: monotonic time of the newest success; None before the first.
        retry_at_ns: monotonic time before which it is left alone; None for ever, as it is unsupported.
        backoff_ns: how long it was last left alone after a failure.
        programs: its BPF programs, as of the newest attempt.
    """

    state: State
    reason: str = ""
    reads: int = 0
    failures: int = 0
    missed: int = 0
    last_elapsed_ns: int | None = None
    last_read_ns: int | None = None
    retry_at_ns: int | None = 0
    backoff_ns: int = 0
    programs: tuple[Program, ...] = ()

    @property
    def health(self) -> str:
        """The rollup of its programs: `healthy`, `unsupported`, `degraded` or `failed`."""
        if self.state is State.UNSUPPORTED:
            return "unsupported"
        return rollup(self.programs, loaded=self.state is not State.FAILED)

    @property
    def delivers(self) -> bool:
        return self.state in (State.ACTIVE, State.DEGRADED)


LEVELS: Final = {
    State.FAILED: logging.ERROR,
    State.DEGRADED: logging.WARNING,
    State.UNSUPPORTED: logging.WARNING,
}


class Health:
    """The standing of all samplers, by name. Each change of state is logged once.

    Attributes:
        changes: how often any state has changed.
    """

    def __init__(self) -> None:
        self.samplers: dict[str, Status] = {}
        self.changes = 0

    def set(self, sampler: str, state: State, reason: str = "") -> None:
        """Record a sampler's state; a first state or a changed one is logged, a repeated one is not."""
        status = self.samplers.get(sampler)
        if status is None:
            status = self.samplers[sampler] = Status(State.STARTING)
        if status.state is state:
            status.reason = reason
            return
        self.changes += 1
        before, status.state, status.reason = status.state, state, reason
        level = LEVELS.get(state, logging.INFO if before in LEVELS else logging.DEBUG)
        log.log(level, "sampler %s is %s%s", sampler, state.value, f": {reason}" if reason else "")

    def counts(self) -> dict[State, list[str]]:
        """Sampler names by state, states in order of declaration, names sorted."""
        names: dict[State, list[str]] = {state: [] for state in State}
        for name in sorted(self.samplers):
            names[self.samplers[name].state].append(name)
        return {state: found for state, found in names.items() if found}
