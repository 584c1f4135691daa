"""The command line: arguments, exit codes, messages. A command imports the heavy parts it needs itself.

Exit codes: 0 fine, 1 the operation failed, 2 usage or configuration.
"""

import os
import sys
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

import click

from config.load import ConfigError, load
from config.model import Config
from rezolusd import __version__

DEFAULT_FILE: Final = Path("/etc/rezolusd/rezolusd.toml")
FAILED: Final = 1
USAGE: Final = 2
COLOURS: Final = {
    "active": "green",
    "degraded": "yellow",
    "unsupported": "bright_black",
    "disabled": "bright_black",
    "failed": "red",
}


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="rezolusd")
def main() -> None:
    """Always-on Linux telemetry: kernel counters sampled every tick, served to Prometheus and others.

    Start with `rezolusd run`, open the address it prints, and ask `rezolusd status` how it is doing.
    """


@main.command(short_help="Run the daemon in the foreground.")
@click.option(
    "--config",
    "file",
    type=click.Path(path_type=Path),
    help=f"Configuration file; without it {DEFAULT_FILE} if there is one, else the defaults.",
)
def run(file: Path | None) -> None:
    """Run the daemon in the foreground until SIGTERM or Ctrl-C; SIGHUP re-reads the configuration."""
    config = _load(file)

    # numpy's linear algebra is not used; its threads need not be started.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

    import faulthandler

    import trio

    from rezolusd import logs
    from rezolusd.daemon import Daemon
    from sinks.http import AddressError

    # When the watchdog aborts a daemon that hangs, the journal then shows where.
    faulthandler.enable()
    logs.set_up(config.log)
    reload = partial(_read, file)
    try:
        trio.run(Daemon(config, reload).run)
    except AddressError as error:
        _fail(str(error))


@main.command(short_help="Validate a configuration and print it with every default.")
@click.argument("file", type=click.Path(path_type=Path), required=False)
def check(file: Path | None) -> None:
    """Validate a configuration file and print what it amounts to, defaults filled in, as TOML."""
    from rezolusd.effective import as_toml

    click.echo(as_toml(_load(file)), nl=False)


@main.command(short_help="List every sampler and whether it works on this host.")
@click.option("--json", "as_json", is_flag=True, help="One JSON array instead of a table.")
def samplers(as_json: bool) -> None:
    """List every sampler, what it reads, and whether it works on this host (each is tried once)."""
    import trio

    from rezolusd.probe import probe

    found = trio.run(probe, _load(None))
    if as_json:
        _print_json(found)
        return
    for row in found:
        _print_state(row["name"], row["state"], f"{row['reads']}{_because(row)}")


@main.command(short_help="Ask a running daemon how it is doing.")
@click.argument("endpoint", default="127.0.0.1:4241")
@click.option("--json", "as_json", is_flag=True, help="The daemon's answer as it is.")
def status(endpoint: str, as_json: bool) -> None:
    """Ask a running daemon how it is doing; exit 1 when anything is degraded or failed.

    ENDPOINT is a host, host:port, http://host:port or unix:/path; by default this host's daemon.
    """
    from rezolusd.client import ClientError, fetch_json

    try:
        answer = fetch_json(endpoint, "/status")
    except ClientError as error:
        _fail(str(error))
    states = [(row, _standing(row)) for row in answer.get("samplers", [])]
    if as_json:
        _print_json(answer)
    else:
        _print_status(answer)
        for row, standing in states:
            _print_state(row.get("name", "?"), standing, _because(row).removeprefix(": "))
    if any(standing in ("degraded", "failed") for _, standing in states):
        sys.exit(FAILED)


def _print_status(answer: dict[str, Any]) -> None:
    uptime = answer.get("uptime_seconds", "?")
    click.echo(f"version {answer.get('version', '?')}, up {uptime} s", nl="ticks" not in answer)
    if "ticks" in answer:
        click.echo(
            f", listening on {answer['listening']}, {answer['ticks']} ticks, {answer['late_ticks']} late"
        )
    for sink in answer.get("sinks", []):
        click.echo(f"sink {sink['name']}: {sink['snapshots']} snapshots, {sink['dropped_snapshots']} dropped")


def _standing(row: dict[str, Any]) -> str:
    """A sampler's state, or its health where that says more."""
    state, health = str(row.get("state", "?")), row.get("health")
    return health if state == "active" and health in ("degraded", "failed", "unsupported") else state


def _because(row: dict[str, Any]) -> str:
    reason = row.get("error") or row.get("reason")
    return f": {reason}" if reason else ""


def _print_state(name: str, state: str, text: str) -> None:
    click.echo(f"{name:<24} {click.style(f'{state:<12}', fg=COLOURS.get(state))} {text}".rstrip())


def _print_json(value: Any) -> None:
    import msgspec

    click.echo(msgspec.json.format(msgspec.json.encode(value)).decode())


def _read(file: Path | None) -> Config:
    from rezolusd.catalog import SAMPLERS

    if file is None and not DEFAULT_FILE.exists():
        return Config()
    return load(file or DEFAULT_FILE, SAMPLERS.keys())


def _load(file: Path | None) -> Config:
    try:
        return _read(file)
    except ConfigError as error:
        for problem in error.problems:
            click.echo(f"rezolusd: {problem}", err=True)
        sys.exit(USAGE)


def _fail(text: str) -> NoReturn:
    click.echo(f"rezolusd: {text}", err=True)
    sys.exit(FAILED)
