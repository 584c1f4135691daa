import decimal as std
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.records import Kind, Metric
from sinks.exposition import Naming, decimal, escape, family, label_text

U64_MAX = (1 << 64) - 1


def metric(name: str, kind: Kind, unit: str = "", help: str = "It") -> Metric:
    return Metric(name, kind, unit, help)


@pytest.mark.parametrize("openmetrics", [False, True])
@pytest.mark.parametrize("kind", list(Kind))
def test_under_rezolus_a_name_stays_as_it_is(kind: Kind, openmetrics: bool) -> None:
    found = family(metric("memory_swap_in", kind, "nanoseconds"), "rezolus", openmetrics, "summary")
    assert (found.sample, found.name, found.digits) == ("memory_swap_in", "memory_swap_in", 0)


@pytest.mark.parametrize(
    ("kind", "histograms", "openmetrics", "type"),
    [
        (Kind.COUNTER, "summary", False, "counter"),
        (Kind.COUNTER, "summary", True, "unknown"),
        (Kind.GAUGE, "summary", False, "gauge"),
        (Kind.GAUGE, "summary", True, "gauge"),
        (Kind.HISTOGRAM, "summary", False, "gauge"),
        (Kind.HISTOGRAM, "summary", True, "gauge"),
        (Kind.HISTOGRAM, "classic", False, "histogram"),
        (Kind.HISTOGRAM, "classic", True, "histogram"),
    ],
)
def test_the_type_under_rezolus(kind: Kind, histograms: str, openmetrics: bool, type: str) -> None:
    assert family(metric("it", kind), "rezolus", openmetrics, histograms).type == type


@pytest.mark.parametrize("naming", ["rezolus", "prometheus"])
def test_only_classic_histograms_have_a_name_of_their_own(naming: Naming) -> None:
    it = metric("it", Kind.HISTOGRAM)
    assert family(it, naming, False, "classic").sample == "it_distribution"
    assert family(it, naming, False, "summary").sample == "it"


@pytest.mark.parametrize(
    ("name", "kind", "unit", "sample", "base", "digits"),
    [
        ("cpu_usage", Kind.COUNTER, "nanoseconds", "cpu_usage_seconds_total", "seconds", 9),
        ("memory_free", Kind.GAUGE, "bytes", "memory_free_bytes", "bytes", 0),
        ("network_bytes", Kind.COUNTER, "bytes", "network_bytes_total", "bytes", 0),
        ("memory_swap_in", Kind.COUNTER, "pages", "memory_swap_in_total", "", 0),
        ("cpu_cores", Kind.GAUGE, "", "cpu_cores", "", 0),
        ("energy", Kind.COUNTER, "microjoules", "energy_joules_total", "joules", 6),
        ("gpu_energy", Kind.COUNTER, "milliJoules", "gpu_energy_joules_total", "joules", 3),
        ("power", Kind.GAUGE, "milliwatts", "power_watts", "watts", 3),
        ("core", Kind.GAUGE, "millivolts", "core_volts", "volts", 3),
        ("load", Kind.GAUGE, "percentage", "load_ratio", "ratio", 2),
        ("temperature", Kind.GAUGE, "millidegrees Celsius", "temperature_celsius", "celsius", 3),
        ("clock", Kind.GAUGE, "Hz", "clock_hertz", "hertz", 0),
        ("speed", Kind.GAUGE, "bytes/second", "speed_bytes_per_second", "bytes_per_second", 0),
        ("latency", Kind.HISTOGRAM, "nanoseconds", "latency_seconds", "seconds", 9),
    ],
)
def test_under_prometheus_units_are_base_units_and_end_the_name(
    name: str, kind: Kind, unit: str, sample: str, base: str, digits: int
) -> None:
    found = family(metric(name, kind, unit), "prometheus", True, "summary")
    assert (found.sample, found.unit, found.digits) == (sample, base, digits)
    assert found.name == sample.removesuffix("_total")
    text = family(metric(name, kind, unit), "prometheus", False, "summary")
    assert (text.sample, text.digits) == (found.sample, found.digits)
    assert text.name == text.sample


def test_a_classic_histogram_under_prometheus_has_its_unit_behind_distribution() -> None:
    found = family(metric("latency", Kind.HISTOGRAM, "nanoseconds"), "prometheus", True, "classic")
    assert (found.sample, found.type, found.digits) == ("latency_distribution_seconds", "histogram", 9)


@pytest.mark.parametrize("naming", ["rezolus", "prometheus"])
@pytest.mark.parametrize("unit", ["nanoseconds", "bytes", "pages", "", "Hz", "percentage", "operations"])
@pytest.mark.parametrize("kind", list(Kind))
def test_a_unit_is_only_named_where_it_ends_the_name(naming: Naming, unit: str, kind: Kind) -> None:
    for name in ("it", "it_bytes", "it_seconds", "memory_total"):
        found = family(metric(name, kind, unit), naming, True, "classic")
        assert not found.unit or found.name.endswith(f"_{found.unit}")


def test_a_header_is_help_type_and_unit_with_the_help_escaped() -> None:
    it = metric("it", Kind.GAUGE, "bytes", 'a "word", a \\ and\nanother line, 100%')
    assert family(it, "prometheus", False, "summary").header(False) == (
        '# HELP it_bytes a "word", a \\\\ and\\nanother line, 100%\n'
        "# TYPE it_bytes gauge\n# UNIT it_bytes bytes\n"
    )
    assert family(it, "prometheus", True, "summary").header(True) == (
        '# HELP it_bytes a \\"word\\", a \\\\ and\\nanother line, 100%\n'
        "# TYPE it_bytes gauge\n# UNIT it_bytes bytes\n"
    )


def test_labels_are_sorted_escaped_and_without_internal_ones() -> None:
    labels = {"unit": "bytes", "op": 'a"b\\c\nd', "__uid__": "1", "_one": "2", "a": ""}
    assert label_text(labels) == r'_one="2",a="",op="a\"b\\c\nd",unit="bytes"'
    assert label_text({}) == ""
    assert label_text({"__uid__": "1"}) == ""


@given(st.text())
def test_an_escaped_value_is_one_line_that_can_be_taken_back(value: str) -> None:
    text = escape(value)
    assert "\n" not in text
    assert re.sub(r"\\(.)", lambda found: {"n": "\n"}.get(found[1], found[1]), text) == value
    assert re.fullmatch(r'(?:[^"\\]|\\["\\n])*', text)


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (0, 0, "0"), (0, 9, "0"), (7, 0, "7"), (-7, 0, "-7"), (100, 0, "100"), (100, 2, "1"), (110, 2, "1.1"),
        (1, 9, "0.000000001"), (-1, 9, "-0.000000001"), (-1500, 3, "-1.5"), (-1000, 3, "-1"), (10**9, 9, "1"),
        ((1 << 53) + 1, 0, "9007199254740993"), (U64_MAX, 0, "18446744073709551615"),
        (U64_MAX, 9, "18446744073.709551615"), (-(1 << 63), 0, "-9223372036854775808"),
        (-(1 << 63), 6, "-9223372036854.775808"),
    ],
)  # fmt: skip
def test_a_number_is_exact(value: int, digits: int, text: str) -> None:
    assert decimal(value, digits) == text


@given(st.integers(-(1 << 70), 1 << 70), st.integers(0, 12))
def test_any_number_is_exact_and_short(value: int, digits: int) -> None:
    text = decimal(value, digits)
    with std.localcontext(prec=60):
        assert std.Decimal(text) == std.Decimal(value).scaleb(-digits)
    assert re.fullmatch(r"-?(?:0|[1-9]\d*)(?:\.\d*[1-9])?", text)
    assert text != "-0"
