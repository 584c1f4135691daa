"""A real Prometheus server scrapes the real daemon, and promtool reads its page."""

import json
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.process import Daemon, free_port, peer, until
from tests.e2e.test_daemon import QUICK, kernel

pytestmark = pytest.mark.e2e


class Prometheus:
    """A server of its own in a folder of its own, scraping one target every 200 ms."""

    def __init__(self, folder: Path, target: str) -> None:
        scrape = {"job_name": "rezolusd", "static_configs": [{"targets": [target]}]}
        settings = {
            "global": {"scrape_interval": "200ms", "scrape_timeout": "200ms"},
            "scrape_configs": [scrape],
        }
        (folder / "prometheus.yml").write_text(json.dumps(settings))
        self.base = f"http://127.0.0.1:{free_port()}"
        self.process = subprocess.Popen(
            [
                peer("prometheus"),
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address={self.base.removeprefix('http://')}",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def api(self, path: str, **query: str) -> Any:
        url = f"{self.base}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return json.load(answer)["data"]
        except OSError:
            return None

    def query(self, promql: str) -> float | None:
        found = self.api("query", query=promql)
        return float(found["result"][0]["value"][1]) if found and found["result"] else None


@pytest.fixture(params=["rezolus", "prometheus"])
def scraped(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Daemon, Prometheus]]:
    config = tmp_path / "rezolusd.toml"
    config.write_text(f'{QUICK}[sinks.prometheus]\nnaming = "{request.param}"\n')
    with Daemon(config) as daemon:
        server = Prometheus(tmp_path, daemon.endpoint)
        try:
            yield request.param, daemon, server
        finally:
            server.process.terminate()
            server.process.wait(20)


def test_prometheus_scrapes_and_answers_with_the_kernels_value(
    scraped: tuple[str, Daemon, Prometheus],
) -> None:
    naming, _, server = scraped
    total, ticks, faults = {
        "rezolus": ("memory_total", "rezolusd_ticks", "memory_page_faults"),
        "prometheus": ("memory_total_bytes", "rezolusd_ticks_total", "memory_page_faults_total"),
    }[naming]
    before = kernel("vmstat", "pgfault")
    until(lambda: (server.query(f"count_over_time({ticks}[1m])") or 0) >= 5, 60)
    assert server.query('up{job="rezolusd"}') == 1
    assert server.query(total) == kernel("meminfo", "MemTotal:") * 1024
    until(lambda: (server.query(f"changes({ticks}[1m])") or 0) >= 4, 60)
    assert before <= (server.query(faults) or 0) <= kernel("vmstat", "pgfault")
    (target,) = server.api("targets")["activeTargets"]
    assert target["lastError"] == ""
    kinds = server.api("metadata")
    assert kinds[total if total in kinds else "memory_total"][0]["type"] == "gauge"


def test_promtool_has_no_finding_on_the_live_page(tmp_path: Path) -> None:
    config = tmp_path / "rezolusd.toml"
    config.write_text(f'{QUICK}[sinks.prometheus]\nnaming = "prometheus"\n')
    with Daemon(config) as daemon:
        until(lambda: daemon.get("/-/ready").status == 200)
        page = daemon.text("/metrics")
    checked = subprocess.run(
        [peer("promtool"), "check", "metrics"], input=page, capture_output=True, text=True, check=False
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
