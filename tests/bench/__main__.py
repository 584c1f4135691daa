"""`make bench`: what the daemon costs on this machine, printed beside its goal and, where installed, a peer.

Times are of this machine at this moment; ratios within one run are what may be compared.
"""

import argparse
import resource
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles

import numpy as np
import trio
from prometheus_client import CollectorRegistry, Gauge, generate_latest

from config.model import Prometheus
from pipeline.records import Group, Kind, Metric, Reading, Schema, Slot, Snapshot, Window
from rezolusd.catalog import SAMPLERS
from sinks.page import Renderer
from tests.e2e.process import Daemon, free_port, until

BPF_SAMPLERS = [name for name, sampler in SAMPLERS.items() if "tracepoint" in sampler.reads]


def row(figure: str, value: str, goal: str = "") -> None:
    print(f"{figure:<58} {value:>12}   {goal}", flush=True)


@contextmanager
def daemon(interval: str, bpf: bool = False) -> Iterator[Daemon]:
    """A daemon with all file samplers and, once they are attached, all BPF samplers if wanted."""
    off = "" if bpf else "".join(f"[samplers.{name}]\nenabled = false\n" for name in BPF_SAMPLERS)
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "rezolusd.toml")
        config.write_text(f'[general]\nlisten = "127.0.0.1:0"\ninterval = "{interval}"\n{off}')
        with Daemon(config) as running:
            if bpf:
                until(lambda: "starting" not in running.states().values())
            yield running


@contextmanager
def node_exporter() -> Iterator[int | None]:
    """The port of a node_exporter of our own, None where it is not installed."""
    path = shutil.which("prometheus-node-exporter") or shutil.which("node_exporter")
    if path is None:
        yield None
        return
    port = free_port()
    process = subprocess.Popen(
        [path, f"--web.listen-address=127.0.0.1:{port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        until(lambda: answers(port))
        yield port
    finally:
        process.terminate()
        process.wait()


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Scraper:
    """Scrapes on one kept connection, with as little work of its own as can be."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.seconds: list[float] = []

    def scrape(self) -> bytes:
        begin = time.perf_counter()
        self.socket.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        page = b""
        while not complete(page):
            piece = self.socket.recv(1 << 20)
            if not piece:
                raise ConnectionError("the server closed the connection within a page")
            page += piece
        self.seconds.append(time.perf_counter() - begin)
        return page

    def p50(self) -> float:
        return median(self.seconds)

    def p99(self) -> float:
        return quantiles(self.seconds, n=100)[98]


def complete(page: bytes) -> bool:
    head, blank, body = page.partition(b"\r\n\r\n")
    _, found, length = head.lower().partition(b"content-length:")
    if not found:
        return page.endswith(b"\r\n0\r\n\r\n")
    return bool(blank) and len(body) >= int(length.split(b"\r\n")[0])


def series(page: bytes) -> int:
    """Samples of a page; chunk sizes of a chunked one are hexadecimal alone on a line."""
    lines = page.partition(b"\r\n\r\n")[2].splitlines()
    return sum(b" " in line and not line.startswith(b"#") for line in lines)


def scrapes(count: int) -> None:
    with daemon("1s") as running, node_exporter() as peer_port:
        until(lambda: running.get("/-/ready").status == 200)
        ours = Scraper(int(running.endpoint.rsplit(":", 1)[1]))
        theirs = Scraper(peer_port) if peer_port else None
        our_series = series(ours.scrape())
        their_series = series(theirs.scrape()) if theirs else 0
        ours.seconds.clear()
        for _ in range(
            count // 100 or 1
        ):  # in turns, long enough that neither answers within the other's wake
            for scraper in filter(None, (ours, theirs)):
                for _ in range(min(count, 100)):
                    scraper.scrape()
        row(
            "scrape, rezolusd p50 / p99",
            f"{ours.p50() * 1e3:.2f} / {ours.p99() * 1e3:.2f} ms",
            f"{our_series} series",
        )
        if not theirs:
            row("scrape, node_exporter", "not installed")
            return
        theirs.seconds.pop(0)
        row(
            "scrape, node_exporter p50 / p99",
            f"{theirs.p50() * 1e3:.2f} / {theirs.p99() * 1e3:.2f} ms",
            f"{their_series} series",
        )
        row("scrape p50, rezolusd / node_exporter", f"{ours.p50() / theirs.p50():.3f}")
        share = (ours.p50() / our_series) / (theirs.p50() / their_series)
        row("scrape p50 a series, rezolusd / node_exporter", f"{share:.3f}", "goal 0.25")


def resident(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / (1 << 20)


def running_cost(interval: str, seconds: float, goal: str, bpf: bool = False) -> None:
    """The share of a core over some seconds of nothing but ticks, from the scheduler's own nanoseconds."""
    what = f"{interval}, BPF too" if bpf else interval
    with daemon(interval, bpf) as running:
        until(lambda: running.get("/-/ready").status == 200)
        pid = running.process.pid
        time.sleep(1)
        before, begin = run_ns(pid), time.monotonic()
        time.sleep(seconds)
        share = (run_ns(pid) - before) / 1e9 / (time.monotonic() - begin)
        row(f"CPU at {what}, share of one core", f"{share:.3%}", goal)
        if interval == "1s":
            for _ in range(200):
                running.get("/metrics")
            row(
                f"resident memory after 200 scrapes, {what}",
                f"{resident(pid):.1f} MiB",
                "goal 60 MiB" if not bpf else "goal 66 MiB",
            )
        late, ticks = (running.json("/status")[key] for key in ("late_ticks", "ticks"))
        row(f"late ticks at {what}", f"{late} of {late + ticks}")


def empty_loop(seconds: float) -> None:
    """What a trio program costs here that does nothing but wake every 10 ms."""

    async def sleep() -> None:
        for _ in range(round(seconds * 100)):
            await trio.sleep(0.01)

    begin, before = time.monotonic(), time.process_time()
    trio.run(sleep)
    share = (time.process_time() - before) / (time.monotonic() - begin)
    row("CPU of an empty trio loop at 10ms", f"{share:.3%}")


def run_ns(pid: int) -> int:
    """CPU time of all threads, from /proc/PID/task/TID/schedstat."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)


def start_and_stop(runs: int) -> None:
    first, stop = [], []
    for _ in range(runs):
        begin = time.perf_counter()
        with daemon("1s") as running:
            until(lambda: running.get("/metrics").status == 200)
            first.append(time.perf_counter() - begin)
            host, port = running.endpoint.split(":")
            stalled = [socket.create_connection((host, int(port))) for _ in range(20)]
            for client in stalled:
                client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 300)
            time.sleep(0.3)
            begin = time.perf_counter()
            running.stop()
            stop.append(time.perf_counter() - begin)
            for client in stalled:
                client.close()
    row(
        "start to first scrape answered, median / worst",
        f"{median(first):.2f} / {max(first):.2f} s",
        "goal 1 s",
    )
    row("SIGTERM to exit, 20 stalled clients, worst", f"{max(stop):.2f} s", "goal 2 s")


def microseconds(what: Callable[[], object], runs: int) -> float:
    taken = []
    for _ in range(runs):
        begin = time.perf_counter()
        what()
        taken.append(time.perf_counter() - begin)
    return median(taken) * 1e6


def rendering(count: int) -> None:
    """One family of `count` series: our template against the Python client library."""
    group = Group("bench", "bench", (Metric("bench", Kind.GAUGE, "", "A number"),))
    schema = Schema(group, tuple(Slot((("id", str(index)),), index) for index in range(count)))
    values, present = schema.empty()
    values[:, 0] = np.arange(count)
    present[:] = True
    renderer = Renderer(Prometheus(), False)
    page = Snapshot(1, 0, 0, 0, (Reading(schema, Window(0, 0), values, present),))
    renderer.render(page, None)
    ours = microseconds(lambda: renderer.render(page, None), 20)
    registry = CollectorRegistry()
    gauge = Gauge("bench", "A number", ["id", "sampler"], registry=registry)
    for index in range(count):
        gauge.labels(str(index), "bench").set(index)
    theirs = microseconds(lambda: generate_latest(registry), 5)
    row(f"rendering, µs a series of {count}", f"{ours / count:.2f}")
    row("rendering, rezolusd / Python client library", f"{ours / theirs:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="seconds instead of minutes, for the test suite")
    quick = parser.parse_args().quick
    scrapes(50 if quick else 500)
    running_cost("1s", 2 if quick else 30, "goal 0.2 %")
    running_cost("10ms", 1 if quick else 15, "goal 10 %")
    running_cost("1s", 2 if quick else 20, "", bpf=True)
    empty_loop(1 if quick else 10)
    start_and_stop(1 if quick else 5)
    rendering(1000 if quick else 5000)


if __name__ == "__main__":
    main()
