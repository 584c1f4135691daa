"""The unit as `make install` leaves it, under a real systemd: its whole life, in the order of this file."""

import json
import os
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from rezolusd import catalog
from tests.e2e.process import until
from tests.kernel.world import held_by, in_kernel

REZOLUSD = "/opt/rezolusd/bin/rezolusd"
UNIT = "rezolusd.service"
PATIENCE = 120.0
DROP_IN = Path(f"/run/systemd/system/{UNIT}.d/test.conf")


def systemctl(*words: str, check: bool = True) -> str:
    done = subprocess.run(["systemctl", *words], capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, f"{done.stderr}\n{journal()}"
    return done.stdout


def journal() -> str:
    return subprocess.run(
        ["journalctl", "-b", "-u", UNIT, "-o", "cat", "--no-pager"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def prop(name: str) -> str:
    return systemctl("show", UNIT, f"--property={name}", "--value").strip()


def samplers() -> dict[str, dict[str, Any]]:
    done = subprocess.run([REZOLUSD, "status", "--json"], capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)
    return {row["name"]: row for row in found["samplers"]}


@pytest.fixture(scope="module", autouse=True)
def before() -> tuple[set[int], set[int]]:
    """Ids of the BPF programs and maps that were there without the daemon (systemd has some)."""
    return in_kernel()


def test_it_becomes_ready() -> None:
    systemctl("start", UNIT)  # returns when it is ready: Type=notify
    assert prop("ActiveState") == "active"
    assert prop("SubState") == "running"
    assert prop("NRestarts") == "0"


def test_all_samplers_are_active_under_the_units_capabilities() -> None:
    until(lambda: prop("StatusText").count("starting") == 0, PATIENCE)
    status = prop("StatusText")
    for name in catalog.SAMPLERS:
        assert re.search(rf"\bactive: [^,]*\b{name}\b", status), f"{status}\n{journal()}"


def test_it_has_three_capabilities_and_is_nobody_special() -> None:
    status = Path(f"/proc/{prop('MainPID')}/status").read_text()
    assert re.search(r"^CapEff:\s0000", status, re.MULTILINE)
    held = {int(line.split()[1], 16) for line in status.splitlines() if line.startswith(("CapEff", "CapBnd"))}
    assert held == {1 << 39 | 1 << 38 | 1 << 2}
    assert not re.search(r"^Uid:\s0\b", status, re.MULTILINE)


def test_its_programs_and_maps_are_in_the_kernel() -> None:
    pid = int(prop("MainPID"))
    assert held_by(pid, "prog_id")
    assert held_by(pid, "prog_id") <= in_kernel()[0]


def test_a_reload_changes_what_runs_and_not_the_process() -> None:
    pid = prop("MainPID")
    config = Path("/etc/rezolusd/rezolusd.toml")
    was = config.read_text()
    try:
        config.write_text("[samplers.memory_vmstat]\nenabled = false\n")
        systemctl("reload", UNIT)
        until(
            lambda: re.search(r"disabled: [^,]*memory_vmstat|^(?!.*memory_vmstat)", prop("StatusText")),
            PATIENCE,
        )
    finally:
        config.write_text(was)
    systemctl("reload", UNIT)
    until(lambda: re.search(r"\bactive: [^,]*\bmemory_vmstat\b", prop("StatusText")), PATIENCE)
    assert prop("MainPID") == pid
    assert prop("NRestarts") == "0"


def test_a_starved_watchdog_restarts_it() -> None:
    pid = prop("MainPID")
    DROP_IN.parent.mkdir(parents=True)
    DROP_IN.write_text("[Service]\nRestartSec=1\n")  # for the test's time only
    systemctl("daemon-reload")
    os.kill(int(pid), signal.SIGSTOP)
    until(lambda: prop("NRestarts") == "1" and prop("ActiveState") == "active", PATIENCE)
    assert prop("MainPID") != pid
    assert "watchdog" in journal().lower()
    until(lambda: prop("StatusText").count("starting") == 0, PATIENCE)
    assert re.search(r"\bactive: [^,]*\bsyscall_counts\b", prop("StatusText"))


def test_it_stops_cleanly_and_leaves_nothing(before: tuple[set[int], set[int]]) -> None:
    programs, maps = held_by(int(prop("MainPID")), "prog_id"), held_by(int(prop("MainPID")), "map_id")
    assert programs
    assert maps
    systemctl("stop", UNIT)
    assert prop("Result") == "success"
    assert prop("ExecMainStatus") == "0"
    until(lambda: not in_kernel()[0] & programs and not in_kernel()[1] & maps)
    assert "Traceback" not in journal()
    assert not Path("/run/rezolusd").exists()
