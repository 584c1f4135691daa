from decimal import Decimal

import pytest

from config.model import Prometheus
from pipeline.records import Group, Kind, Metric, Reading, Schema, Slot, Snapshot
from sinks.page import Renderer
from tests.sinks.world import (
    LATENCY,
    TASKS,
    U64_MAX,
    headers,
    lines,
    percentile,
    reading,
    samples,
    slots,
    snapshot,
    sole,
    tasks,
)


def page(*readings: Reading, settings: Prometheus | None = None, before: Snapshot | None = None) -> str:
    """The text page of these readings."""
    return Renderer(settings or Prometheus(), False).render(snapshot(2, *readings), before)


def test_a_page_as_it_stands() -> None:
    assert page(reading(tasks("a", "b"), (1, -2), (3, None))) == (
        "# HELP task_count Tasks there were\n"
        "# TYPE task_count counter\n"
        'task_count{sampler="tasks",task="a"} 1\n'
        'task_count{sampler="tasks",task="b"} 3\n'
        "# HELP task_level Memory of the task\n"
        "# TYPE task_level gauge\n"
        "# UNIT task_level bytes\n"
        'task_level{sampler="tasks",task="a",unit="bytes"} -2\n'
    )


def test_without_readings_a_page_is_empty() -> None:
    assert page() == ""
    assert page(reading(tasks("a"), (None, None))) == ""
    assert Renderer(Prometheus(), True).render(snapshot(1), None) == "# EOF\n"


def test_large_numbers_are_exact() -> None:
    text = page(reading(tasks("a", "b"), (U64_MAX, -(1 << 63)), ((1 << 53) + 1, (1 << 63) - 1)))
    assert [line.rsplit(" ", 1)[1] for line in lines(text)] == [
        "18446744073709551615",
        "9007199254740993",
        "-9223372036854775808",
        "9223372036854775807",
    ]


def test_a_family_in_two_groups_stands_together_under_one_header() -> None:
    one = Group(
        "one", "main", (Metric("shared", Kind.COUNTER, "", "Shared"), Metric("tail", Kind.GAUGE, "", "T"))
    )
    two = Group(
        "two", "main", (Metric("head", Kind.GAUGE, "", "H"), Metric("shared", Kind.COUNTER, "", "Shared"))
    )
    text = page(sole(one, 1, 2), sole(two, 3, 4))
    assert lines(text) == [
        'head{sampler="two"} 3',
        'shared{sampler="one"} 1',
        'shared{sampler="two"} 4',
        'tail{sampler="one"} 2',
    ]
    assert [line for line in headers(text) if "shared" in line] == [
        "# HELP shared Shared",
        "# TYPE shared counter",
    ]


def test_a_family_whose_metrics_are_apart_in_their_group_keeps_its_numbers() -> None:
    apart = Group(
        "it",
        "main",
        (
            Metric("a", Kind.COUNTER, "", "A", (("op", "read"),)),
            Metric("b", Kind.COUNTER, "", "B"),
            Metric("a", Kind.COUNTER, "", "A", (("op", "write"),)),
            Metric("c", Kind.COUNTER, "", "C"),
        ),
    )
    assert lines(page(sole(apart, 1, 2, 3, 4))) == [
        'a{op="read",sampler="it"} 1',
        'a{op="write",sampler="it"} 3',
        'b{sampler="it"} 2',
        'c{sampler="it"} 4',
    ]


def test_a_percent_sign_in_a_label_is_just_that() -> None:
    text = page(reading(tasks("100%", "%s", "%%d"), (1, 4), (2, 5), (3, 6)))
    assert 'task_count{sampler="tasks",task="%s"} 2\n' in text
    assert 'task_level{sampler="tasks",task="%%d",unit="bytes"} 6\n' in text


def test_the_numbers_change_with_the_snapshot_and_the_lines_do_not() -> None:
    renderer = Renderer(Prometheus(), False)
    schema = tasks("a", "b")
    first = renderer.render(snapshot(1, reading(schema, (1, 2), (3, 4))), None)
    second = renderer.render(snapshot(2, reading(schema, (5, 6), (7, 8))), None)
    assert samples(first).keys() == samples(second).keys()
    assert sorted(samples(second).values()) == [5, 6, 7, 8]


def test_what_has_no_reading_any_more_is_gone_and_comes_back() -> None:
    renderer = Renderer(Prometheus(), False)
    schema = tasks("a", "b")
    whole = reading(schema, (1, 2), (3, 4))
    first = renderer.render(snapshot(1, whole), None)
    part = renderer.render(snapshot(2, reading(schema, (1, None), (None, 4))), None)
    again = renderer.render(snapshot(3, whole), None)
    assert first == again
    assert sorted(samples(part).values()) == [1, 4]


def test_nothing_is_kept_of_schemas_that_are_gone() -> None:
    renderer = Renderer(Prometheus(), False)
    for tick in range(50):
        renderer.render(snapshot(tick + 1, reading(tasks(f"t{tick}"), (1, 2))), None)
    assert len(renderer._prepared) == 1


def test_a_family_left_out_whole_leaves_no_header() -> None:
    text = page(reading(tasks("a", "b"), (1, 2), (3, 4)), settings=Prometheus(max_series=2))
    assert "task_level" not in text
    assert len(lines(text)) == 2


def test_the_lines_of_a_histogram_count_against_the_cap() -> None:
    settings = Prometheus(histograms="classic", grouping_power=0, max_series=150)
    schema = Schema(LATENCY, slots("disk", "sda", "sdb", "sdc"))
    renderer = Renderer(settings, False)
    text = renderer.render(snapshot(1, reading(schema, *[[{5: 1}]] * 3)), None)
    assert 68 <= len(lines(text)) <= 150
    assert renderer.left_out > 0


def test_percentiles_are_of_the_time_since_the_snapshot_before() -> None:
    schema = Schema(LATENCY, slots("disk", "sda"))
    before = snapshot(1, reading(schema, [{200: 1_000_000}]))
    text = page(reading(schema, [{200: 1_000_000, 16: 50, 36: 49, 63: 1}]), before=before)
    assert [percentile(text, "sda", q) for q in ("0.5", "0.9", "0.99", "0.999", "0.9999")] == [
        17,
        103,
        103,
        1023,
        1023,
    ]
    assert len(lines(text)) == 5


def test_without_a_snapshot_before_there_are_no_percentiles() -> None:
    schema = Schema(LATENCY, slots("disk", "sda"))
    assert lines(page(reading(schema, [{16: 50}]))) == []
    other = snapshot(1, reading(tasks("a"), (1, 2)))
    assert lines(page(reading(schema, [{16: 50}]), before=other)) == []


def test_percentiles_find_their_slot_when_slots_change_their_order() -> None:
    a, b, c = slots("disk", "a", "b", "c")
    before = snapshot(1, reading(Schema(LATENCY, (a, b)), [{1: 100}], [{2: 100}]))
    text = page(
        reading(Schema(LATENCY, (c, b, a)), [{7: 1}], [{2: 100, 9: 1}], [{1: 100, 8: 1}]), before=before
    )
    assert [percentile(text, name) for name in "abc"] == [8, 9, 7]


def test_a_slot_that_had_no_reading_before_has_no_percentiles_yet() -> None:
    schema = Schema(LATENCY, slots("disk", "a", "b"))
    before = snapshot(1, reading(schema, [{1: 100}], [None]))
    text = page(reading(schema, [{1: 100, 8: 1}], [{2: 100, 9: 1}]), before=before)
    assert percentile(text, "a") == 8
    assert percentile(text, "b") is None


def test_a_histogram_that_began_anew_has_no_percentiles_for_once() -> None:
    schema = Schema(LATENCY, slots("disk", "a"))
    before = snapshot(1, reading(schema, [{5: 100}]))
    assert lines(page(reading(schema, [{5: 1}]), before=before)) == []


def test_percentiles_have_their_label_even_without_others() -> None:
    group = Group("", "x", (Metric("it", Kind.HISTOGRAM, "", "It"),))
    before = snapshot(1, sole(group, {}))
    text = page(sole(group, {3: 1}), before=before)
    assert 'it{percentile="0.5",sampler=""} 3\n' in text or 'it{sampler="",percentile="0.5"} 3\n' in text


def test_histograms_can_be_off() -> None:
    mixed = Group("m", "m", (LATENCY.metrics[0], TASKS.metrics[0]))
    before = snapshot(1, sole(mixed, {}, 1))
    text = page(sole(mixed, {5: 1}, 2), before=before, settings=Prometheus(histograms="off"))
    assert lines(text) == ['task_count{sampler="m"} 2']
    assert "latency" not in text


def test_a_classic_histogram_is_cumulative_and_exact() -> None:
    text = page(
        sole(LATENCY, {0: 1, 16: 2, 495: 3}), settings=Prometheus(histograms="classic", grouping_power=3)
    )
    found = samples(text)
    base = frozenset({("sampler", "disk"), ("unit", "nanoseconds")})

    def bucket(le: str) -> Decimal:
        return found["latency_distribution_bucket", base | {("le", le)}]

    assert [bucket(le) for le in ("0", "15", "17", "19")] == [1, 1, 3, 3]
    assert [bucket(le) for le in (str((15 << 60) - 1), str(U64_MAX), "+Inf")] == [3, 6, 6]
    assert found["latency_distribution_count", base] == 6
    assert found["latency_distribution_sum", base] == 2 * 17 + 3 * U64_MAX
    assert len(found) == 496 + 3
    assert "# TYPE latency_distribution histogram\n" in text


@pytest.mark.parametrize(("power", "size"), [(0, 65), (1, 128), (2, 252), (3, 496)])
def test_a_classic_histogram_is_as_fine_as_it_is_set(power: int, size: int) -> None:
    text = page(sole(LATENCY, {100: 4}), settings=Prometheus(histograms="classic", grouping_power=power))
    assert len(lines(text)) == size + 3


def test_the_occupants_word_wins_over_the_metrics() -> None:
    group = Group("it", "main", (Metric("m", Kind.GAUGE, "bytes", "M", (("op", "metric"), ("k", "v"))),))
    text = page(reading(Schema(group, (Slot((("op", "slot"), ("__hidden", "x"))),)), [1]))
    assert lines(text) == ['m{k="v",op="slot",sampler="it",unit="bytes"} 1']


def test_a_slots_own_unit_label_stays_under_either_naming() -> None:
    group = Group("cgroups", "x", (Metric("memory", Kind.GAUGE, "bytes", "Memory"),))
    own = Slot((("unit", "cron.service"),))
    for naming in ("rezolus", "prometheus"):
        text = page(reading(Schema(group, (own,)), (1,)), settings=Prometheus(naming=naming))
        assert 'unit="cron.service"' in text
