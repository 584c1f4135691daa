import subprocess
import sys

import pytest

from tests.e2e.process import ROOT


@pytest.mark.bench
def test_the_bench_runs_and_prints_every_figure() -> None:
    """That it works, not how fast: no figure is looked at."""
    ran = subprocess.run(
        [sys.executable, "-m", "tests.bench", "--quick"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    for figure in ("scrape, rezolusd", "CPU at 10ms", "resident memory", "first scrape", "rendering"):
        assert figure in ran.stdout
