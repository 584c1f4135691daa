"""The files in systemd/, judged by systemd's own tools."""

import os
import re
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "systemd"
UNIT = FOLDER / "rezolusd.service"
MOST_EXPOSURE = 2.5


def tool(name: str) -> str:
    """The tool's path. Without it the test is skipped, but not in CI, where that would hide the loss."""
    path = shutil.which(name)
    if path is not None:
        return path
    reason = f"{name} (package systemd) is not installed"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def run(*command: str | Path) -> str:
    """Standard output and error together; the command has to succeed."""
    environ = os.environ | {"LC_ALL": "C.UTF-8", "SYSTEMD_COLORS": "0", "SYSTEMD_PAGER": ""}
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", env=environ, timeout=60
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def directives() -> dict[str, list[str]]:
    """The unit's assignments: name to values, in order."""
    found = defaultdict(list)
    for line in UNIT.read_text().splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found[name].append(value)
    return found


def test_the_unit_has_no_fault(tmp_path: Path) -> None:
    analyze = tool("systemd-analyze")
    copy = tmp_path / UNIT.name
    # Nothing need be installed in /opt for this.
    copy.write_text(re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", UNIT.read_text(), flags=re.MULTILINE))
    assert run(analyze, "verify", "--man=no", copy) == ""


def test_the_unit_is_little_exposed() -> None:
    text = run(tool("systemd-analyze"), "security", "--offline=true", "--no-pager", UNIT)
    overall = re.search(r"Overall exposure level for rezolusd\.service: ([0-9.]+)", text)
    assert overall is not None, text
    assert float(overall[1]) <= MOST_EXPOSURE, text


@pytest.mark.parametrize("name", ["CapabilityBoundingSet", "AmbientCapabilities"])
def test_three_capabilities_and_no_more(name: str) -> None:
    assert [value.split() for value in directives()[name]] == [
        ["CAP_BPF", "CAP_PERFMON", "CAP_DAC_READ_SEARCH"]
    ]


def test_each_capability_has_its_reason() -> None:
    for capability in directives()["AmbientCapabilities"][0].split():
        assert re.search(rf"^# {capability}: \w+", UNIT.read_text(), flags=re.MULTILINE)


@pytest.mark.parametrize(
    "name", ["ProtectProc=invisible", "ProcSubset=pid", "PrivateUsers=yes", "PrivateNetwork=yes"]
)
def test_nothing_that_would_blind_the_daemon(name: str) -> None:
    assert name not in UNIT.read_text()


def test_the_user_is_made(tmp_path: Path) -> None:
    user = directives()["User"]
    said = run(tool("systemd-sysusers"), "--dry-run", f"--root={tmp_path}", FOLDER / "rezolusd.sysusers")
    assert f"Creating user '{user[0]}'" in said


def test_the_folder_of_the_configuration_is_made(tmp_path: Path) -> None:
    tmpfiles = tool("systemd-tmpfiles")
    if os.getuid() != 0:
        pytest.skip("only root may give a folder to root")
    assert run(tmpfiles, "--create", f"--root={tmp_path}", FOLDER / "rezolusd.tmpfiles") == ""
    config = Path(directives()["ExecStart"][0].split()[-1])
    assert (tmp_path / config.relative_to("/")).parent.is_dir()
