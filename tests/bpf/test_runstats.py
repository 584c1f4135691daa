"""Run-time statistics out of a program descriptor's fdinfo."""

from pathlib import Path

import pytest

from bpf.runstats import RunStats, parse, run_group

FDINFO = "pos:\t0\nprog_type:\t26\nprog_tag:\tcbe3dc2edfd33970\nrun_time_ns:\t{ns}\nrun_cnt:\t{count}\n"


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    (tmp_path / "self/fdinfo").mkdir(parents=True)
    (tmp_path / "sys/kernel").mkdir(parents=True)
    (tmp_path / "sys/kernel/bpf_stats_enabled").write_text("1\n")
    for descriptor, count in ((7, 10), (9, 5)):
        (tmp_path / f"self/fdinfo/{descriptor}").write_text(FDINFO.format(ns=100 * count, count=count))
    return tmp_path


def test_parse() -> None:
    assert parse(FDINFO.format(ns=900, count=10)) == (10, 900)
    assert parse("pos:\t0\n") == (0, 0)


def test_sums_over_the_programs(proc: Path) -> None:
    stats = RunStats(run_group("s"), (7, 9), proc)
    (reading,) = stats.readings()
    assert reading.values.tolist() == [[15, 1500]]
    stats.close()
    assert stats.readings() == ()


def test_nothing_while_the_kernel_does_not_count(proc: Path) -> None:
    (proc / "sys/kernel/bpf_stats_enabled").write_text("0\n")
    assert RunStats(run_group("s"), (7, 9), proc).readings() == ()


def test_nothing_when_nothing_ran_or_nobody_says(proc: Path) -> None:
    assert RunStats(run_group("s"), (), proc).readings() == ()
    assert RunStats(run_group("s"), (8,), proc).readings() == ()
