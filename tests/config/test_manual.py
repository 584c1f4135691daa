"""`config/rezolusd.toml` is the manual of the configuration: complete, and equal to the defaults."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from config.load import load, parse
from config.model import Config, Defaults, General, Interval, Listen, Log, Prometheus, Sampler, Sinks
from rezolusd import catalog
from rezolusd.effective import as_toml

MANUAL = Path(__file__).parents[2] / "config" / "rezolusd.toml"
SECOND = 1_000_000_000


def with_examples() -> str:
    """The manual's text with what it shows as `# key = value` switched on."""
    return re.sub(r"^# (?=\w+ = )", "", MANUAL.read_text(), flags=re.MULTILINE)


def tables(config: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Every table the model has, with its keys; the keys of `[samplers.NAME]` are not among them."""
    fields = msgspec.structs.fields(config)
    yield path, tuple(field.name for field in fields)
    for field in fields:
        value = getattr(config, field.name)
        if isinstance(value, msgspec.Struct) and not hasattr(type(value), "parse"):
            yield from tables(value, (*path, field.name))


def test_the_manual_is_the_defaults() -> None:
    config = load(MANUAL, catalog.SAMPLERS)
    assert msgspec.structs.replace(config, samplers={}) == Config()
    assert set(config.samplers.values()) == {Sampler()}


@pytest.mark.parametrize(("path", "keys"), list(tables(Config())))
def test_the_manual_names_every_key(path: tuple[str, ...], keys: tuple[str, ...]) -> None:
    table = tomllib.loads(with_examples())
    for name in path:
        table = table[name]
    assert sorted(table) == sorted(keys)


def test_what_the_manual_shows_switched_off_is_right_too() -> None:
    assert with_examples() != MANUAL.read_text()
    assert parse(with_examples(), catalog.SAMPLERS).defaults.interval is not None


def test_the_manual_has_a_commented_table_for_every_sampler_and_the_keys_it_may_have() -> None:
    text = MANUAL.read_text()
    assert re.findall(r"^#.*\n\[samplers\.(\w+)\]$", text, re.MULTILINE) == sorted(catalog.SAMPLERS)
    for field in msgspec.structs.fields(Sampler):
        assert f"`{field.name}`" in text


def test_every_key_of_the_manual_has_a_word_about_it() -> None:
    lines = MANUAL.read_text().splitlines()
    bare = [
        line
        for before, line in zip(["", *lines], lines, strict=False)
        if re.match(r"\w+ = ", line) and not before.startswith("#") and not line.startswith("sys =")
    ]
    assert bare == []


def means(config: Config) -> tuple[General, Log, Sinks, dict[str, tuple[bool, int]]]:
    """All that `config` amounts to: a sampler's interval that follows the tick is that of the tick."""
    samplers = {
        name: (
            catalog.enabled(config, sampler),
            catalog.interval_ns(config, sampler) or config.general.interval.ns,
        )
        for name, sampler in catalog.SAMPLERS.items()
    }
    return config.general, config.log, config.sinks, samplers


UNUSUAL = Config(
    General(Interval(10_000_000), Listen("::1", 0), "/host/proc", '/host/"sys"\\'),
    Log("debug", "json"),
    Defaults(False, Interval(90 * SECOND)),
    {"cpu_cores": Sampler(True), "memory_vmstat": Sampler(True, Interval(SECOND))},
    Sinks(Prometheus(False, "prometheus", "classic", 0, 7)),
)


@pytest.mark.parametrize("config", [Config(), UNUSUAL], ids=["defaults", "unusual"])
def test_the_effective_configuration_reads_back_as_the_same(config: Config) -> None:
    again = parse(as_toml(config), catalog.SAMPLERS)
    assert means(again) == means(config)
    assert as_toml(again) == as_toml(config)


def test_the_effective_configuration_says_everything() -> None:
    tree = tomllib.loads(as_toml(UNUSUAL))
    assert tree == {
        "general": {
            "interval": "10ms",
            "listen": "[::1]:0",
            "proc": "/host/proc",
            "sys": '/host/"sys"\\',
        },
        "log": {"level": "debug", "format": "json"},
        "defaults": {"enabled": False},
        "samplers": {
            **{name: {"enabled": False, "interval": "1m 30s"} for name in catalog.SAMPLERS},
            "cpu_cores": {"enabled": True, "interval": "1m 30s"},
            "memory_vmstat": {"enabled": True, "interval": "1s"},
        },
        "sinks": {
            "prometheus": {
                "enabled": False,
                "naming": "prometheus",
                "histograms": "classic",
                "grouping_power": 0,
                "max_series": 7,
            }
        },
        "bpf": {"python": "", "compile_seconds": 30},
        "cgroups": {"hierarchy": "auto"},
        "tasks": {"max_tasks": 4096},
    }
