"""The daemon as its users meet it: started, scraped, asked, reloaded, stopped."""

import gzip
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from rezolusd import catalog
from tests.e2e.process import ROOT, Daemon, rezolusd, until

pytestmark = pytest.mark.e2e

QUICK = '[general]\nlisten = "127.0.0.1:0"\ninterval = "50ms"\n'


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Samplers of kernel files only: tests/kernel has those that are compiled first, and need root."""
    path = tmp_path / "rezolusd.toml"
    off = "".join(
        f"[samplers.{part.sampler.name}]\nenabled = false\n"
        for family in catalog.FAMILIES
        for part in family.parts
    )
    path.write_text(QUICK + off)
    return path


def kernel(file: str, key: str) -> int:
    lines = Path(f"/proc/{file}").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.split()[0] == key)


def test_the_page_shows_this_machine(config: Path) -> None:
    with Daemon(config) as daemon:
        until(lambda: daemon.get("/-/ready").status == 200)
        before = kernel("vmstat", "pgfault")
        samples = daemon.metrics_once(lambda page: page["rezolusd_ticks"] > 3)
        assert samples["memory_total"] == kernel("meminfo", "MemTotal:") * 1024
        assert samples["cpu_cores"] == os.cpu_count()
        later = daemon.metrics_once(lambda page: page["memory_page_faults"] > before)
        assert before < later["memory_page_faults"] <= kernel("vmstat", "pgfault")
        peak_kb = next(line for line in daemon.pid_file("status").splitlines() if line.startswith("VmHWM"))
        assert 0 < samples["rezolus_memory_usage_resident_set_size"] <= int(peak_kb.split()[1]) * 1024
        assert samples['rezolus_cpu_usage{state="user"}'] > 0


def test_formats_are_negotiated(config: Path) -> None:
    with Daemon(config) as daemon:
        until(lambda: daemon.get("/-/ready").status == 200)
        plain = daemon.get("/metrics")
        assert plain.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        asked = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"
        packed = daemon.get("/metrics", Accept=asked, Accept_Encoding="gzip")
        assert packed.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
        assert packed.headers["content-encoding"] == "gzip"
        assert gzip.decompress(packed.body).endswith(b"# EOF\n")  # type: ignore[attr-defined]


def test_every_page_answers(config: Path) -> None:
    with Daemon(config) as daemon:
        until(lambda: daemon.get("/-/ready").status == 200)
        assert daemon.text("/-/healthy") == "healthy\n"
        assert "/metrics" in daemon.text("/")
        assert '<a href="/status">' in daemon.text("/", Accept="text/html,*/*;q=0.8")
        assert daemon.json("/metrics/descriptions")["memory_free"] == "Memory used for nothing at all"
        assert daemon.json("/systeminfo")["memory_total_bytes"] == kernel("meminfo", "MemTotal:") * 1024
        status = daemon.json("/status")
        assert status["listening"] == daemon.endpoint
        assert status["ticks"] > 0
        assert [row["name"] for row in status["samplers"]] == sorted(daemon.states())
        assert set(daemon.states().values()) == {"active", "disabled"}


def test_status_command_and_its_exit_codes(config: Path, tmp_path: Path) -> None:
    with Daemon(config) as daemon:
        until(lambda: daemon.get("/-/ready").status == 200)
        fine = rezolusd("status", daemon.endpoint)
        assert fine.returncode == 0
        assert "memory_meminfo" in fine.stdout
        assert daemon.endpoint in fine.stdout
        assert '"ticks"' in rezolusd("status", f"http://{daemon.endpoint}/", "--json").stdout
    gone = rezolusd("status", daemon.endpoint)
    assert gone.returncode == 1
    assert gone.stderr == f"rezolusd: {daemon.endpoint}: no answer: Connection refused\n"


def test_a_broken_kernel_file_costs_its_rows_only(tmp_path: Path) -> None:
    proc, path = tmp_path / "proc", tmp_path / "rezolusd.toml"
    proc.mkdir()
    shutil.copy("/proc/meminfo", proc / "meminfo")
    (proc / "vmstat").write_bytes(b"pgfault twelve\n")
    path.write_text(f'{QUICK}proc = "{proc}"\nsys = "/nowhere"\n')
    with Daemon(path) as daemon:
        until(lambda: daemon.states()["memory_vmstat"] == "failed")
        samples = daemon.metrics()
        assert "memory_total" in samples
        assert "memory_page_faults" not in samples
        assert "cpu_cores" not in samples
        assert 'rezolusd_sampler_healthy{sampler="memory_vmstat"} 0\n' in daemon.text("/metrics")
        answer = rezolusd("status", daemon.endpoint)
        assert answer.returncode == 1
        assert "ParseError: /proc/vmstat: pgfault: twelve is not an unsigned 64-bit number" in answer.stdout
        assert "/nowhere/devices/system/cpu/online: ENOENT (No such file or directory)" in answer.stdout
        shutil.copy("/proc/vmstat", proc / "vmstat")
        until(lambda: daemon.states()["memory_vmstat"] == "active")
        assert rezolusd("status", daemon.endpoint).returncode == 0


def test_reload_applies_what_it_can_and_refuses_a_bad_file(config: Path) -> None:
    with Daemon(config) as daemon:
        until(lambda: daemon.states().get("memory_vmstat") == "active")
        config.write_text(f'{QUICK}[samplers.memory_vmstat]\nenabled = false\n[log]\nformat = "json"\n')
        daemon.signal(signal.SIGHUP)
        daemon.wait_for(r'"message":"configuration reloaded"')
        assert daemon.states()["memory_vmstat"] == "disabled"
        until(lambda: "memory_page_faults" not in daemon.metrics())
        config.write_text('[general]\ninterval = "soon"\n')
        daemon.signal(signal.SIGHUP)
        daemon.wait_for(r"rezolusd.toml:2: general.interval = ")
        daemon.wait_for(r"not reloaded, the running one stays")
        assert daemon.json("/status")["sample_interval_ms"] == 50
        config.write_text('[general]\nlisten = "127.0.0.1:1"\ninterval = "20ms"\n')
        daemon.signal(signal.SIGHUP)
        daemon.wait_for(r"take a restart")
        daemon.wait_for(r"configuration reloaded")
        assert daemon.json("/status")["sample_interval_ms"] == 20
        until(lambda: "memory_page_faults" in daemon.metrics())


@pytest.mark.parametrize("listen", ["[::1]:0", "localhost:0"])
def test_other_addresses(listen: str, config: Path) -> None:
    config.write_text(QUICK.replace("127.0.0.1:0", listen))
    with Daemon(config) as daemon:
        assert not daemon.endpoint.endswith(":0")
        assert rezolusd("status", daemon.endpoint).returncode == 0


def test_a_unix_socket(config: Path, tmp_path: Path) -> None:
    path = tmp_path / "r.sock"
    config.write_text(QUICK.replace("127.0.0.1:0", f"unix:{path}"))
    with Daemon(config) as daemon:
        assert daemon.endpoint == f"unix:{path}"
        assert rezolusd("status", daemon.endpoint).returncode == 0
        second = rezolusd("run", "--config", str(config))
        assert second.returncode == 1
        assert "is in use by another process" in second.stderr
    assert not path.exists()


def test_a_port_in_use(config: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        config.write_text(QUICK.replace("127.0.0.1:0", address))
        refused = rezolusd("run", "--config", str(config))
    assert refused.returncode == 1
    assert refused.stderr == f"rezolusd: cannot listen on {address}: is in use by another process\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[general]\nintervall = '1s'", ":2: general.intervall is not a known key, did you mean interval?"),
        ("[general]\ninterval = '1ms'", ':2: general.interval = "1ms": out of range, an interval is from'),
        ("[samplers.memory_vmstats]", ":1: samplers.memory_vmstats is not a known sampler, did you mean"),
        ("[general]\ninterval = 1", ":2: general.interval = 1: wants a string"),
        ("[general", ": not TOML: "),
    ],
)
def test_a_bad_configuration_is_one_clear_line(text: str, problem: str, config: Path) -> None:
    config.write_text(text)
    for command in (("run", "--config", str(config)), ("check", str(config))):
        refused = rezolusd(*command)
        assert refused.returncode == 2
        assert refused.stdout == ""
        assert refused.stderr.count("\n") == 1
        assert f"rezolusd: {config}{problem}" in refused.stderr


def test_an_unreadable_configuration(tmp_path: Path) -> None:
    for path, reason in ((tmp_path / "none.toml", "No such file"), (tmp_path, "Is a directory")):
        refused = rezolusd("run", "--config", str(path))
        assert refused.returncode == 2
        assert refused.stderr.startswith(f"rezolusd: {path}: cannot be read: {reason}")


def test_check_prints_a_configuration_that_means_the_same(config: Path, tmp_path: Path) -> None:
    first = rezolusd("check", str(config))
    assert first.returncode == 0
    again = tmp_path / "again.toml"
    again.write_text(first.stdout)
    assert rezolusd("check", str(again)).stdout == first.stdout
    assert 'interval = "50ms"' in first.stdout


def test_samplers_lists_what_exists() -> None:
    listed = rezolusd("samplers")
    assert listed.returncode == 0
    assert "memory_meminfo" in listed.stdout
    assert '"memory_total"' in rezolusd("samplers", "--json").stdout


@pytest.mark.parametrize(
    "arguments", [("nonsense",), ("run", "--nonsense"), ("status", "ftp://x"), ("status", "a:b")]
)
def test_bad_usage(arguments: tuple[str, ...]) -> None:
    refused = rezolusd(*arguments)
    assert refused.returncode in (1, 2)
    assert "Traceback" not in refused.stderr
    assert refused.stderr


def test_version() -> None:
    assert rezolusd("--version").stdout.startswith("rezolusd, version ")


def test_the_manager_is_told_and_the_watchdog_fed(config: Path, tmp_path: Path) -> None:
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(path))
        manager.settimeout(20)
        heard: list[str] = []

        def hear(word: str) -> str:
            while not (found := [line for line in heard if word in line]):
                heard.append(manager.recv(65536).decode())
            heard.clear()
            return found[0]

        with Daemon(config, NOTIFY_SOCKET=str(path), WATCHDOG_USEC="400000") as daemon:
            assert "STATUS=active: cpu_cores memory_meminfo" in hear("READY=1")
            hear("WATCHDOG=1")
            hear("WATCHDOG=1")
            daemon.signal(signal.SIGHUP)
            hear("RELOADING=1")
            hear("READY=1")
            daemon.stop()
            hear("STOPPING=1")


def test_stopping_under_stalled_clients_and_with_sigint(config: Path) -> None:
    with Daemon(config) as daemon:
        host, port = daemon.endpoint.split(":")
        stalled = [socket.create_connection((host, int(port))) for _ in range(20)]
        for client in stalled:
            client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 200)
        daemon.signal(signal.SIGINT)
        assert daemon.process.wait(5) == 0
        for client in stalled:
            client.close()


def test_no_heavy_import_in_a_plain_daemon() -> None:
    code = (
        "import sys, rezolusd.daemon, rezolusd.cli;"
        "print([name for name in ('pyarrow', 'bcc', 'prometheus_client', 'pytest') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
