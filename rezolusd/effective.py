"""The configuration with every default filled in, as TOML."""

from typing import Any

import msgspec
import tomli_w

from config.humantime import format as format_duration
from config.model import Config
from rezolusd import catalog


def as_toml(config: Config) -> str:
    """What `config` amounts to; a file with this text means the same."""
    tree = _plain(config)
    tree["defaults"].pop("interval", None)
    tree["samplers"] = {name: _sampler(config, name) for name in catalog.SAMPLERS}
    return tomli_w.dumps(tree)


def _sampler(config: Config, name: str) -> dict[str, Any]:
    sampler = catalog.SAMPLERS[name]
    tick_ns = config.general.interval.ns
    interval_ns = max(catalog.interval_ns(config, sampler) or tick_ns, tick_ns)
    return {"enabled": catalog.enabled(config, sampler), "interval": format_duration(interval_ns)}


def _plain(value: Any) -> Any:
    """Structs as tables, what is written as a string as that string, what is unset left out."""
    if hasattr(type(value), "parse"):
        return str(value)
    if isinstance(value, msgspec.Struct):
        fields = msgspec.structs.asdict(value)
        return {name: _plain(field) for name, field in fields.items() if field is not None}
    return value
