import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from config.load import MAX_BYTES, ConfigError, load, parse
from config.model import Config, Interval, Listen, Sampler

SAMPLERS = ("cpu_cores", "memory_meminfo", "memory_vmstat")
SECOND = 1_000_000_000


def problems(text: str) -> list[str]:
    """What is wrong with the text, as `file:line: ...`."""
    with pytest.raises(ConfigError) as raised:
        parse(text, SAMPLERS, "it.toml")
    assert str(raised.value) == "\n".join(raised.value.problems)
    return raised.value.problems


def test_nothing_in_the_file_means_all_defaults() -> None:
    assert parse("", SAMPLERS) == Config()
    assert (
        parse("# nothing\n[general]\n[log]\n[defaults]\n[samplers]\n[sinks.prometheus]\n", SAMPLERS)
        == Config()
    )


def test_the_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "it.toml"
    path.write_text('[general]\ninterval = "2s"\nlisten = "[::1]:0"\n[samplers.cpu_cores]\nenabled = false\n')
    config = load(path, SAMPLERS)
    assert config.general.interval == Interval(2 * SECOND)
    assert config.general.listen == Listen("::1", 0)
    assert config.samplers == {"cpu_cores": Sampler(enabled=False)}


def test_dotted_keys_inline_tables_and_crlf_mean_the_same_as_headers() -> None:
    headers = '[general]\ninterval = "2s"\n[samplers.cpu_cores]\nenabled = false\ninterval = "1m"\n'
    dotted = (
        'general.interval = "2s"\nsamplers.cpu_cores.enabled = false\nsamplers.cpu_cores.interval = "1m"\n'
    )
    inline = 'general = {interval = "2s"}\nsamplers = {cpu_cores = {enabled = false, interval = "1m"}}\n'
    config = parse(headers, SAMPLERS)
    assert config.samplers["cpu_cores"] == Sampler(False, Interval(60 * SECOND))
    assert parse(dotted, SAMPLERS) == config
    assert parse(inline, SAMPLERS) == config
    assert parse(headers.replace("\n", "\r\n"), SAMPLERS) == config


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[generall]", "it.toml:1: generall is not a known table, did you mean general?"),
        (
            "[zzz]",
            "it.toml:1: zzz is not a known table, "
            "known are bpf, cgroups, defaults, general, log, samplers, sinks, tasks",
        ),
        (
            '[general]\nintervall = "1s"',
            "it.toml:2: general.intervall is not a known key, did you mean interval?",
        ),
        ("[log]\nzzz = 1", "it.toml:2: log.zzz is not a known key, known are format, level"),
        (
            "[samplers.memory_vmstats]",
            "it.toml:1: samplers.memory_vmstats is not a known sampler, did you mean memory_vmstat?",
        ),
        (
            "[samplers.zzz]",
            "it.toml:1: samplers.zzz is not a known sampler, "
            "known are cpu_cores, memory_meminfo, memory_vmstat",
        ),
        (
            "[samplers.cpu_cores]\nenable = true",
            "it.toml:2: samplers.cpu_cores.enable is not a known key, did you mean enabled?",
        ),
        (
            "[sinks.promethus]",
            "it.toml:1: sinks.promethus is not a known sink, did you mean prometheus?",
        ),
        (
            "[sinks.prometheus]\nname = 1",
            "it.toml:2: sinks.prometheus.name is not a known key, did you mean naming?",
        ),
    ],
)  # fmt: skip
def test_an_unknown_name_is_said_with_its_line_and_what_comes_near(text: str, problem: str) -> None:
    assert problems(text) == [problem]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[general]\ninterval = 5", "2: general.interval = 5: wants a string"),
        ("[general]\nproc = 5", "2: general.proc = 5: wants str, got int"),
        ('[general]\nproc = "proc"', '2: general.proc = "proc": wants an absolute path'),
        ('[general]\nsys = ""', '2: general.sys = "": wants an absolute path'),
        ('[defaults]\nenabled = "yes"', '2: defaults.enabled = "yes": wants bool, got str'),
        ("[defaults]\nenabled = 1", "2: defaults.enabled = 1: wants bool, got int"),
        (
            "[sinks.prometheus]\nmax_series = 1.5",
            "2: sinks.prometheus.max_series = 1.5: wants int, got float",
        ),
        ("[sinks.prometheus]\nmax_series = 0", "2: sinks.prometheus.max_series = 0: wants int >= 1"),
        ("[sinks.prometheus]\ngrouping_power = 4", "2: sinks.prometheus.grouping_power = 4: wants int <= 3"),
        (
            "[sinks.prometheus]\ngrouping_power = -1",
            "2: sinks.prometheus.grouping_power = -1: wants int >= 0",
        ),
        ("general = 5", "1: general = 5 is not a table, write [general]"),
        ("samplers = 5", "1: samplers = 5 is not a table, write [samplers.NAME]"),
        ("samplers.cpu_cores = 5", "1: samplers.cpu_cores = 5 is not a table, write [samplers.cpu_cores]"),
        ("sinks.prometheus = true", "1: sinks.prometheus = True is not a table, write [sinks.prometheus]"),
    ],
)
def test_a_wrong_type_is_said_with_what_is_wanted(text: str, problem: str) -> None:
    (found,) = problems(text)
    assert found.lower() == f"it.toml:{problem}".lower()  # TOML's true and Python's True are both fine


def test_a_sampler_flag_of_the_wrong_type_is_said() -> None:
    (found,) = problems("[samplers.cpu_cores]\nenabled = 1\n")
    assert found.startswith("it.toml:2: samplers.cpu_cores.enabled = 1: wants bool")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            '[log]\nlevel = "trace"',
            'it.toml:2: log.level = "trace": wants one of "error", "warn", "info", "debug"',
        ),
        ('[log]\nformat = "Json"', 'it.toml:2: log.format = "Json": wants one of "text", "json"'),
        (
            '[sinks.prometheus]\nnaming = "x"',
            'it.toml:2: sinks.prometheus.naming = "x": wants one of "rezolus", "prometheus"',
        ),
        (
            '[sinks.prometheus]\nhistograms = ""',
            'it.toml:2: sinks.prometheus.histograms = "": wants one of "summary", "classic", "off"',
        ),
    ],
)
def test_a_value_that_is_none_of_the_choices_is_said_with_the_choices(text: str, problem: str) -> None:
    assert problems(text) == [problem]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("1ms", "out of range, an interval is from 10ms to 1day"),
        ("2days", "out of range, an interval is from 10ms to 1day"),
        ("1 fortnight", "unknown unit 'fortnight', known are ns us ms s m h d w M y"),
        ("soon", 'not a duration, write a whole number and a unit such as "500ms", "1s" or "1m 30s"'),
    ],
)
def test_a_bad_interval_is_said_with_what_an_interval_is(text: str, problem: str) -> None:
    assert problems(f'[general]\ninterval = "{text}"') == [
        f'it.toml:2: general.interval = "{text}": {problem}'
    ]


def test_a_bad_address_is_said_with_what_an_address_is() -> None:
    assert problems('[general]\nlisten = "4241"') == [
        'it.toml:2: general.listen = "4241": not an address, write host:port, [ipv6]:port or unix:/path'
    ]


def test_everything_wrong_is_said_at_once_in_the_order_of_the_lines() -> None:
    text = """
[sinks.prometheus]
naming = "x"
[samplers.cpu_core]
[general]
listen = "4241"
interval = "1ms"
[log]
level = 3
colour = "blue"
[defaults]
enabled = "no"
"""
    found = problems(text)
    assert [problem.split(" ")[:2] for problem in found] == [
        ["it.toml:3:", "sinks.prometheus.naming"],
        ["it.toml:4:", "samplers.cpu_core"],
        ["it.toml:6:", "general.listen"],
        ["it.toml:7:", "general.interval"],
        ["it.toml:9:", "log.level"],
        ["it.toml:10:", "log.colour"],
        ["it.toml:12:", "defaults.enabled"],
    ]


def test_lines_are_in_numeric_order_not_in_that_of_their_digits() -> None:
    text = "[log]\n" + "\n" * 7 + "b = 1\n" + "a = 1\n"
    assert [problem.split(":")[1] for problem in problems(text)] == ["9", "10"]


def test_an_interval_shorter_than_the_tick_is_said_wherever_it_stands() -> None:
    text = """[general]
interval = "2s"
[defaults]
interval = "1s"
[samplers.cpu_cores]
interval = "1500ms"
[samplers.memory_vmstat]
interval = "2s"
"""
    assert problems(text) == [
        'it.toml:4: defaults.interval = "1s" is shorter than general.interval = "2s"',
        'it.toml:6: samplers.cpu_cores.interval = "1s 500ms" is shorter than general.interval = "2s"',
    ]


def test_an_interval_shorter_than_the_default_tick_is_said() -> None:
    assert problems('[samplers.cpu_cores]\ninterval = "999ms"') == [
        'it.toml:2: samplers.cpu_cores.interval = "999ms" is shorter than general.interval = "1s"'
    ]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('general.interval = "x"', 1),
        ('[samplers."cpu_cores"]\ninterval = "x"', 2),
        ('[ samplers . cpu_cores ]\n  interval   = "x"', 2),
        ('[samplers]\ncpu_cores.interval = "x"', 2),
        ('\r\n[defaults]\r\n# no\r\ninterval = "x"\r\n', 4),
    ],
)
def test_the_line_is_found_however_the_key_is_written(text: str, line: int) -> None:
    (found,) = problems(text)
    assert found.startswith(f"it.toml:{line}: ")


@pytest.mark.parametrize(
    "text",
    [
        '[log]\n[samplers]\ncpu_cores = { interval = "x" }\n',
        "\n\ngenerall.interval = 1\n",
        "[log]\n\n[samplers.zzz.more]\n",
        "[log]\n\n[[general]]\n",
    ],
    ids=["inline table", "dotted key", "table in a table", "array of tables"],
)
def test_what_has_no_line_of_its_own_is_said_with_the_line_it_is_part_of(text: str) -> None:
    (found,) = problems(text)
    assert found.startswith("it.toml:3: ")


def test_separators_that_are_no_line_ends_in_toml_do_not_shift_the_lines() -> None:
    (found,) = problems("# a comment with \u2028 and \x85 in it\n[log]\nlevel = 3\n")
    assert found.startswith("it.toml:3: log.level")


@pytest.mark.parametrize(
    "text", ['[log]\nlevel = "a\\nb"', "[log]\nlevel = '''a\nb'''", '[log]\n"a\\nb" = 1']
)
def test_a_problem_is_one_line_whatever_the_value_holds(text: str) -> None:
    (found,) = problems(text)
    assert "\n" not in found


def test_a_long_value_is_shortened() -> None:
    (found,) = problems(f'[log]\nlevel = "{"x" * 1000}"')
    assert len(found) < 200


@pytest.mark.parametrize(
    "text",
    [
        "[general", "x = ", "a = 1\na = 2", "[a]\n[a]", "x = [1", "= 1", "\x00", "x = 1979-13-45",
        "\ufeff[general]", 'x = "unclosed',
    ],
)  # fmt: skip
def test_what_is_not_toml_is_said_in_one_line(text: str) -> None:
    (found,) = problems(text)
    assert found.startswith("it.toml: not TOML: ")
    assert "line 1" in found or "line 2" in found or "end of document" in found


@pytest.mark.parametrize("value", ["[" * 20_000 + "]" * 20_000, "{a = " * 20_000 + "1" + "}" * 20_000])
def test_lists_and_tables_nested_too_deeply_are_said(value: str) -> None:
    assert problems(f"x = {value}") == ["it.toml: not TOML: nested too deeply"]


def test_a_dotted_key_nested_deeply_is_a_problem_like_another() -> None:
    (found,) = problems("general.interval." + ".".join("a" * 3000) + " = 1\n")
    assert "general.interval" in found


@pytest.mark.parametrize(
    "number",
    ["9" * 5000, "0x" + "f" * 5000, f"[0x{'f' * 5000}]", f"{{a = 0x{'f' * 5000}}}"],
    ids=["decimal", "hexadecimal", "in a list", "in a table"],
)
def test_a_number_of_thousands_of_digits_is_a_problem_like_another(number: str) -> None:
    (found,) = problems(f"[general]\ninterval = {number}\n")
    assert found.startswith("it.toml:")


def cannot_load(path: Path) -> list[str]:
    with pytest.raises(ConfigError) as raised:
        load(path, SAMPLERS)
    return raised.value.problems


def test_a_file_is_named_in_its_problems(tmp_path: Path) -> None:
    path = tmp_path / "it.toml"
    path.write_text("\n[log]\nlevel = 5\n")
    assert cannot_load(path) == [f"{path}:3: log.level = 5: wants str, got int"]


def test_a_missing_file(tmp_path: Path) -> None:
    path = tmp_path / "none.toml"
    assert cannot_load(path) == [f"{path}: cannot be read: No such file or directory"]


def test_a_directory(tmp_path: Path) -> None:
    assert cannot_load(tmp_path) == [f"{tmp_path}: cannot be read: Is a directory"]


@pytest.mark.parametrize(("raw", "byte"), [(b"\xff", 0), (b"# caf\xe9\n", 5), (b'x = "\xed\xa0\x80"', 5)])
def test_a_file_that_is_not_utf8(tmp_path: Path, raw: bytes, byte: int) -> None:
    path = tmp_path / "it.toml"
    path.write_bytes(raw)
    assert cannot_load(path) == [f"{path}: not UTF-8 at byte {byte}"]


def test_a_file_that_is_too_large(tmp_path: Path) -> None:
    path = tmp_path / "it.toml"
    path.write_bytes(b"#" * MAX_BYTES)
    assert load(path, SAMPLERS) == Config()
    path.write_bytes(b"#" * (MAX_BYTES + 1))
    assert cannot_load(path) == [f"{path}: larger than {MAX_BYTES} bytes, this is no configuration file"]


KNOWN = (
    "general log defaults samplers sinks prometheus cpu_cores memory_vmstat interval enabled listen proc sys "
    "level format naming histograms grouping_power max_series"
)
STRINGS = (
    "1s",
    "10ms",
    "5m",
    "127.0.0.1:0",
    "unix:/a",
    "/proc",
    "info",
    "text",
    "json",
    "rezolus",
    "summary",
)
keys = st.sampled_from(KNOWN.split()) | st.text(max_size=8)
leaves: st.SearchStrategy[Any] = (
    st.sampled_from(STRINGS)
    | st.text(max_size=8)
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.dates()
    | st.times()
    | st.datetimes(timezones=st.none() | st.just(datetime.UTC))
)
trees = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)


def only_config_error(attempt: Callable[[], Config]) -> None:
    try:
        assert isinstance(attempt(), Config)
    except ConfigError as error:
        assert error.problems  # noqa: PT017 - both outcomes are right, but an error says something


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(keys, st.dictionaries(keys, trees, max_size=4) | trees, max_size=5))
def test_any_tree_of_toml_is_a_configuration_or_a_config_error(tree: dict[str, Any]) -> None:
    text = tomli_w.dumps(tree)
    only_config_error(lambda: parse(text, SAMPLERS))


@settings(max_examples=200, deadline=None)
@given(
    st.text()
    | st.lists(st.sampled_from(["[", "]", "general", ".", "=", '"', "'", "\n", "1s", "#", "{", "}"]))
)
def test_any_text_is_a_configuration_or_a_config_error(text: str | list[str]) -> None:
    only_config_error(lambda: parse("".join(text), SAMPLERS))
