"""One name for each sampler, used everywhere: its module, its entry, its table, its groups, its tests."""

import importlib
import pkgutil
import tomllib
from importlib.util import find_spec
from pathlib import Path

import msgspec
import pytest

from config.model import Sinks
from pipeline import readers
from pipeline.source import Sampler
from rezolusd.catalog import SAMPLERS

ROOT = Path(__file__).parents[2]
MANUAL = tomllib.loads((ROOT / "config" / "rezolusd.toml").read_text())


@pytest.mark.parametrize(("name", "sampler"), SAMPLERS.items(), ids=list(SAMPLERS))
def test_a_sampler_is_called_the_same_everywhere(name: str, sampler: Sampler) -> None:
    room = "bpf" if find_spec(f"bpf.{name}") else "pipeline.readers"
    module = importlib.import_module(f"{room}.{name}")
    assert module.SAMPLER is sampler
    assert sampler.name == name
    assert {group.sampler for group in sampler.groups} == {name}
    assert name in MANUAL["samplers"]
    assert (ROOT / "tests" / Path(*module.__name__.split(".")).with_name(f"test_{name}.py")).is_file()


def test_every_reader_that_declares_a_sampler_is_in_the_catalogue() -> None:
    modules = [
        importlib.import_module(f"{readers.__name__}.{found.name}")
        for found in pkgutil.iter_modules(readers.__path__)
    ]
    declared = [module.SAMPLER for module in modules if hasattr(module, "SAMPLER")]
    assert {sampler.name for sampler in declared} <= SAMPLERS.keys()
    assert all(SAMPLERS[sampler.name] is sampler for sampler in declared)


def test_a_sink_is_called_the_same_everywhere() -> None:
    names = [field.name for field in msgspec.structs.fields(Sinks)]
    assert sorted(MANUAL["sinks"]) == sorted(names)
    for name in names:
        assert (ROOT / "sinks" / f"{name}.py").is_file()
        assert (ROOT / "tests" / "sinks" / f"test_{name}.py").is_file()
