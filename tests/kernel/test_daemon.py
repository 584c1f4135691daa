"""The real daemon with its BPF samplers."""

import os
import signal
from pathlib import Path

import pytest

from tests.e2e.process import Daemon, until
from tests.kernel.world import PATIENCE, held_by, in_kernel

pytestmark = [pytest.mark.kernel, pytest.mark.e2e]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "rezolusd.toml"
    general = f'[general]\nlisten = "127.0.0.1:0"\ninterval = "{50 * PATIENCE:.0f}ms"\n'
    path.write_text(f"{general}[bpf]\ncompile_seconds = {30 * PATIENCE:.0f}\n")
    return path


@pytest.mark.core
def test_files_are_served_while_probes_are_compiled_and_nothing_is_left_in_the_end(config: Path) -> None:
    programs, maps = in_kernel()
    with Daemon(config) as daemon:
        until(lambda: daemon.get("/-/ready").status == 200)
        first = daemon.states()
        assert first["memory_vmstat"] == "active"
        assert first["syscall_counts"] == first["syscall_latency"] == "starting"
        until(lambda: daemon.states()["syscall_latency"] == "active")
        rows = {row["name"]: row for row in daemon.json("/samplers")}
        assert rows["syscall_counts"]["health"] == "healthy"
        assert [program["name"] for program in rows["syscall_latency"]["programs"]] == [
            "sys_enter",
            "sys_exit",
        ]
        assert rows["syscall_counts"]["missed_ticks"] == 0
        page = daemon.text("/metrics")
        assert page.count("\nsyscall{") == 17 * len(os.sched_getaffinity(0))
        assert 'cgroup_syscall{id="1",name="/",op="sync"' in page
        assert "__uid__" not in page
    until(lambda: in_kernel()[0] <= programs and in_kernel()[1] <= maps)  # freed a moment after the last user


def test_without_bcc_the_rest_goes_on(config: Path) -> None:
    with config.open("a") as file:
        file.write('python = "/nowhere/python"\n')
    with Daemon(config) as daemon:
        until(lambda: daemon.states()["syscall_counts"] == "unsupported")
        assert daemon.states()["memory_vmstat"] == "active"
        daemon.wait_for("syscall_counts is unsupported: cannot run /nowhere/python for bcc: No such file")


def test_turning_one_off_takes_its_programs_out_of_the_kernel(config: Path) -> None:
    with Daemon(config) as daemon:
        until(lambda: "starting" not in daemon.states().values())
        held = len(held_by(daemon.process.pid, "prog_id"))
        with config.open("a") as file:
            file.write("[samplers.syscall_latency]\nenabled = false\n")
        daemon.signal(signal.SIGHUP)
        # Of enter, exit and the removal of cgroups the exit is for latencies only.
        until(lambda: len(held_by(daemon.process.pid, "prog_id")) == held - 1)
        until(lambda: daemon.states()["syscall_counts"] == "active")
        assert daemon.states()["syscall_latency"] == "disabled"
