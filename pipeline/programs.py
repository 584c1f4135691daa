"""The standing of a sampler's BPF programs: who was meant to be there, who is, and what that amounts to."""

import errno
from collections.abc import Iterable
from enum import Enum

import msgspec


class Verdict(Enum):
    """What to make of one BPF program, given whether it had to be there."""

    OK = "ok"
    UNSUPPORTED = "unsupported"
    BROKEN = "broken"
    NOT_APPLICABLE = "not_applicable"


class Program(msgspec.Struct, frozen=True):
    """One BPF program of a sampler.

    Attributes:
        name: the event it hooks.
        kind: how it is hooked (`tp_btf`, `raw_tp`, ...), empty when it is not.
        error, errno: why it is not attached.
        driver: it is wanted only where this driver is bound to a device; empty when it is always wanted.
        driver_bound: whether that is so.
    """

    name: str
    attached: bool
    kind: str = ""
    error: str = ""
    errno: int = 0
    driver: str = ""
    driver_bound: bool = False

    @property
    def verdict(self) -> Verdict:
        if self.attached:
            return Verdict.OK
        if self.driver:
            return Verdict.BROKEN if self.driver_bound else Verdict.NOT_APPLICABLE
        return Verdict.UNSUPPORTED if self.errno == errno.ENOENT else Verdict.BROKEN


def rollup(programs: Iterable[Program], loaded: bool = True) -> str:
    """`healthy`, `unsupported`, `degraded` or `failed`: the health of all a sampler's programs together."""
    if not loaded:
        return "failed"
    verdicts = {program.verdict for program in programs}
    if Verdict.BROKEN in verdicts:
        return "degraded"
    return "unsupported" if Verdict.UNSUPPORTED in verdicts else "healthy"
