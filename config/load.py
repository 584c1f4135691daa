"""From a path to a `Config`, or to one list of everything that is wrong with the file."""

import difflib
import json
import re
import reprlib
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar, get_args, get_origin

import msgspec

from config.model import Config, Duration, Interval, Listen, Sampler

MAX_BYTES: Final = 1 << 20

T = TypeVar("T")


class ConfigError(Exception):
    """The configuration cannot be used; `problems` has one line for each thing that is wrong."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def load(path: Path, samplers: Collection[str]) -> Config:
    """The configuration in the file at `path`; `samplers` are the names its tables may have.

    Raises:
        ConfigError: with every problem found, each naming file, line, key, value and what would be right.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError([f"{path}: cannot be read: {error.strerror}"]) from error
    if len(raw) > MAX_BYTES:
        raise ConfigError([f"{path}: larger than {MAX_BYTES} bytes, this is no configuration file"])
    try:
        return parse(raw.decode(), samplers, str(path))
    except UnicodeDecodeError as error:
        raise ConfigError([f"{path}: not UTF-8 at byte {error.start}"]) from error


def parse(text: str, samplers: Collection[str], name: str = "configuration") -> Config:
    """As `load`, from text; `name` is what the problems call the file."""
    try:
        tree = tomllib.loads(text)
    except ValueError as error:  # a TOMLDecodeError, or int() refusing thousands of digits
        raise ConfigError([f"{name}: not TOML: {error}"]) from error
    except RecursionError as error:
        raise ConfigError([f"{name}: not TOML: nested too deeply"]) from error
    reader = _Reader(name, _lines(text), samplers)
    config = reader.struct(Config, tree, ())
    if config is not None:
        reader.cross_check(config)
    if reader.found or config is None:
        raise ConfigError([text for _, text in sorted(reader.found)])
    return config


Keys = tuple[str, ...]


class _Reader:
    """Converts table by table and key by key, so that one bad value does not hide the next."""

    def __init__(self, name: str, lines: Mapping[Keys, int], samplers: Collection[str]) -> None:
        self.found: list[tuple[int, str]] = []
        self._name = name
        self._lines = lines
        self._samplers = samplers

    def problem(self, path: Keys, text: str) -> None:
        known = (
            self._lines[path[:length]] for length in range(len(path), 0, -1) if path[:length] in self._lines
        )
        line = next(known, 0)
        where = f"{self._name}:{line}" if line else self._name
        self.found.append((line, f"{where}: {_dotted(path)} {text}"))

    def struct(self, model: type[T], table: Any, path: Keys) -> T | None:
        """`table` as a `model`, or None where a problem was noted."""
        if not isinstance(table, dict):
            self.problem(path, f"= {_shown(table)} is not a table, write [{_dotted(path)}]")
            return None
        fields = {found.name: found for found in msgspec.structs.fields(model)}  # type: ignore[arg-type]
        for key in table.keys() - fields.keys():
            self.problem((*path, key), f"is not a known {_noun(path)}{_hint(key, fields)}")
        before = len(self.found)
        values = {
            key: self._value(fields[key].type, value, (*path, key))
            for key, value in table.items()
            if key in fields
        }
        return model(**values) if len(self.found) == before else None

    def _value(self, wanted: Any, value: Any, path: Keys) -> Any:
        if get_origin(wanted) is dict:
            return self._tables(value, path)
        parser = _parser(wanted)
        if parser is None and isinstance(wanted, type) and issubclass(wanted, msgspec.Struct):
            return self.struct(wanted, value, path)
        try:
            if parser is None:
                return msgspec.convert(value, wanted)
            if not isinstance(value, str):
                raise ValueError("wants a string")
            return parser(value)
        except (msgspec.ValidationError, ValueError) as error:
            self.problem(path, f"= {_shown(value)}: {_plain(str(error), wanted)}")
            return None

    def _tables(self, value: Any, path: Keys) -> dict[str, Sampler]:
        """`[samplers.NAME]`: the names must be known."""
        if not isinstance(value, dict):
            self.problem(path, f"= {_shown(value)} is not a table, write [samplers.NAME]")
            return {}
        found = {}
        for name, table in value.items():
            if name not in self._samplers:
                self.problem((*path, name), f"is not a known sampler{_hint(name, self._samplers)}")
                continue
            read = self.struct(Sampler, table, (*path, name))
            if read is not None:
                found[name] = read
        return found

    def cross_check(self, config: Config) -> None:
        """What no single key shows: a sampler cannot be read more often than the daemon ticks."""
        tick = config.general.interval
        given: dict[Keys, Interval | None] = {("defaults", "interval"): config.defaults.interval}
        given |= {("samplers", name, "interval"): own.interval for name, own in config.samplers.items()}
        for path, interval in given.items():
            if interval is not None and interval < tick:
                self.problem(path, f'= "{interval}" is shorter than general.interval = "{tick}"')


def _parser(wanted: Any) -> Callable[[str], Any] | None:
    """The parser of a type that is written as a string, alone or as an optional."""
    for candidate in (wanted, *get_args(wanted)):
        if isinstance(candidate, type) and issubclass(candidate, Duration | Listen):
            return candidate.parse
    return None


def _noun(path: Keys) -> str:
    return "sink" if path == ("sinks",) else "key" if path else "table"


def _hint(key: str, known: Collection[str]) -> str:
    close = difflib.get_close_matches(key, known, 1)
    return f", did you mean {close[0]}?" if close else f", known are {', '.join(sorted(known))}"


def _dotted(path: Keys) -> str:
    """A key as it may be written in the file, on one line."""
    return ".".join(key if re.fullmatch(r"[\w-]{1,60}", key, re.ASCII) else _shown(key) for key in path)


def _shown(value: Any) -> str:
    """A value of the file on one line, shortened in length and depth."""
    if isinstance(value, str):
        value = value if len(value) <= 60 else f"{value[:57]}..."
        return json.dumps(value, ensure_ascii=False)
    return _SHORT.repr(value)


class _Short(reprlib.Repr):
    def repr_int(self, value: int, level: int) -> str:
        # Python refuses to write thousands of digits.
        return repr(value) if value.bit_length() <= 64 else f"a number of {value.bit_length()} bits"


_SHORT: Final = _Short()
_SHORT.maxlevel = 2


def _plain(message: str, wanted: Any) -> str:
    """A message of msgspec in the words of a configuration file."""
    if message.startswith("Invalid enum value"):
        return "wants one of " + ", ".join(f'"{choice}"' for choice in get_args(wanted))
    message = message.replace("`", "").replace("Expected", "wants").replace(" | null", "")
    return message.replace("str matching regex '^/'", "an absolute path")


_HEADER: Final = re.compile(r"\s*\[{1,2}\s*([\w.\-\"' ]+?)\s*\]{1,2}\s*(?:#.*)?$")
_KEY: Final = re.compile(r"\s*([\w\-]+(?:\s*\.\s*[\w\-]+)*)\s*=")


def _lines(text: str) -> dict[Keys, int]:
    """Line numbers of the tables and keys that are written the usual way; first mention wins."""
    lines: dict[Keys, int] = {}
    for path, number in _mentions(text):
        for length in range(1, len(path) + 1):
            lines.setdefault(path[:length], number)
    return lines


def _mentions(text: str) -> Iterator[tuple[Keys, int]]:
    table: Keys = ()
    for number, line in enumerate(text.split("\n"), 1):
        if header := _HEADER.match(line):
            table = tuple(part.strip(" \"'") for part in header[1].split("."))
            yield table, number
        elif key := _KEY.match(line):
            yield (*table, *(part.strip() for part in key[1].split("."))), number
