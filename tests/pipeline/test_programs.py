"""Verdicts on programs, and what they amount to."""

import errno

import pytest

from pipeline.programs import Program, Verdict, rollup

OK = Program("a", True, "tp_btf")
GONE = Program("b", False, errno=errno.ENOENT)
REFUSED = Program("c", False, errno=errno.EINVAL)
DRIVER = Program("d", False, errno=errno.ENOENT, driver="ena", driver_bound=True)
NO_DRIVER = Program("e", False, errno=errno.ENOENT, driver="ena")


@pytest.mark.parametrize(
    ("program", "verdict"),
    [
        (OK, Verdict.OK),
        (GONE, Verdict.UNSUPPORTED),
        (REFUSED, Verdict.BROKEN),
        (DRIVER, Verdict.BROKEN),
        (NO_DRIVER, Verdict.NOT_APPLICABLE),
        (Program("f", True, driver="ena"), Verdict.OK),
    ],
)
def test_verdict(program: Program, verdict: Verdict) -> None:
    assert program.verdict is verdict


@pytest.mark.parametrize(
    ("programs", "loaded", "health"),
    [
        ((OK, OK), True, "healthy"),
        ((OK, NO_DRIVER), True, "healthy"),
        ((OK, GONE), True, "unsupported"),
        ((GONE, REFUSED), True, "degraded"),
        ((OK, DRIVER), True, "degraded"),
        ((), False, "failed"),
        ((), True, "healthy"),
    ],
)
def test_rollup(programs: tuple[Program, ...], loaded: bool, health: str) -> None:
    assert rollup(programs, loaded) == health
