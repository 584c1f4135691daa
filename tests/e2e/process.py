"""The real daemon as a process of its own, and what its neighbours say about it."""

import http.client
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

from rezolusd.client import connection

ROOT = Path(__file__).parents[2]
# An emulated machine is twenty times slower than this one.
SLOWNESS = float(os.environ.get("REZOLUSD_PATIENCE", "1"))
PATIENCE = 20.0 * SLOWNESS

T = TypeVar("T")


def until(what: Callable[[], T], patience: float = PATIENCE) -> T:
    """What `what` gives as soon as it gives something true; a failure after `patience` seconds."""
    deadline = time.monotonic() + patience
    while not (found := what()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02 * SLOWNESS**2)  # looking must not keep an emulated processor busy
    return found


def peer(name: str) -> str:
    """The path of a program of another project; where it is missing the test is skipped, but not in CI."""
    path = shutil.which(name)
    if path is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"{name} is not installed")
    return path


def rezolusd(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """One run of the command line to its end."""
    return subprocess.run(
        [sys.executable, "-m", "rezolusd", *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


class Daemon:
    """A running daemon; a context manager that stops it and wants exit code 0.

    Args of the constructor:
        wrapper: a command that runs the daemon by exec.
    """

    def __init__(self, config: Path, wrapper: Sequence[str] = (), **environment: str) -> None:
        self.config = config
        self.log = ""
        self.process = subprocess.Popen(
            [*wrapper, sys.executable, "-m", "rezolusd", "run", "--config", str(config)],
            cwd=ROOT,
            env={**os.environ, **environment},
            stderr=subprocess.PIPE,
        )

    def __enter__(self) -> "Daemon":
        try:
            found = self.wait_for(r"listening on (?:http://)?([^\s/\"]+(?:/\S*[^/\s])?)")
        except BaseException:
            self.process.kill()
            raise
        self.endpoint = found[1].rstrip("/")
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        assert self.process.stderr is not None
        with self.process.stderr:
            code = self.stop() if self.process.poll() is None else self.process.returncode
            self.log += self.process.stderr.read().decode()
        assert kind is not None or code == 0, self.log
        assert kind is not None or "Traceback" not in self.log, self.log

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise

    def wait_for(self, pattern: str) -> "re.Match[str]":
        """The first match in the log from here on; what was matched is not looked at again."""
        assert self.process.stderr is not None
        deadline = time.monotonic() + PATIENCE
        while not (found := re.search(pattern, self.log)):
            assert time.monotonic() < deadline, f"no {pattern!r} in the log:\n{self.log}"
            if select.select([self.process.stderr], [], [], 0.1)[0]:
                piece = os.read(self.process.stderr.fileno(), 65536).decode()
                assert piece, f"the daemon ended:\n{self.log}"
                self.log += piece
        self.log = self.log[found.end() :]
        return found

    def get(self, path: str, **headers: str) -> http.client.HTTPResponse:
        """A GET; the body is read already and waits in `response.body`."""
        asked = connection(self.endpoint)
        asked.request("GET", path, headers={name.replace("_", "-"): text for name, text in headers.items()})
        response = asked.getresponse()
        response.body = response.read()  # type: ignore[attr-defined]
        asked.close()
        return response

    def text(self, path: str, **headers: str) -> str:
        response = self.get(path, **headers)
        assert response.status == 200, response.status
        return response.body.decode()  # type: ignore[attr-defined, no-any-return]

    def json(self, path: str) -> Any:
        return json.loads(self.text(path))

    def metrics(self) -> dict[str, int]:
        """Every sample of the page by its name and labels, the labels every series has left out."""
        samples = {}
        for line in self.text("/metrics").splitlines():
            if not line.startswith("#"):
                series, number = line.rsplit(" ", 1)
                kept = re.sub(r',?(?:sampler|unit)="[^"]*"', "", series).replace("{,", "{").replace("{}", "")
                samples[kept] = int(number)
        return samples

    def metrics_once(self, right: Callable[[dict[str, int]], bool]) -> dict[str, int]:
        """The first page's samples for which `right` holds."""
        return until(lambda: [page for page in (self.metrics(),) if right(page)])[0]

    def states(self) -> dict[str, str]:
        return {row["name"]: row["state"] for row in self.json("/samplers")}

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def pid_file(self, name: str) -> str:
        return Path(f"/proc/{self.process.pid}/{name}").read_text()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
    return port
