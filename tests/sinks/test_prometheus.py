import gzip

import pytest

from config.model import Prometheus
from pipeline.records import Schema
from sinks.answer import Answer, Ask
from sinks.prometheus import OPENMETRICS, TEXT, PrometheusSink
from tests.sinks.world import LATENCY, lines, percentile, reading, samples, slots, snapshot, tasks

WANT_TEXT = Ask()
WANT_OPENMETRICS = Ask(accept="application/openmetrics-text;version=1.0.0")


def test_a_label_that_is_no_unicode_does_not_cost_the_page() -> None:
    sink = PrometheusSink(Prometheus())
    sink.take(snapshot(1, reading(tasks("good", "b\udcffd"), (1, 2), (3, 4))))
    answer = sink.answer(WANT_TEXT)
    assert b'task_count{sampler="tasks",task="good"} 1\n' in answer.body


def test_series_of_the_dead_are_gone_at_the_next_page() -> None:
    sink = PrometheusSink(Prometheus())
    sink.take(snapshot(1, reading(tasks("a", "b"), (1, 2), (3, 4))))
    assert b'"b"' in sink.answer(WANT_TEXT).body
    sink.take(snapshot(2, reading(tasks("a", "c"), (1, 2), (5, 6))))
    body = sink.answer(WANT_TEXT).body
    assert b'"b"' not in body
    assert b'task_count{sampler="tasks",task="c"} 5\n' in body
    sink.take(snapshot(3))
    assert sink.answer(WANT_TEXT).body == b""


def test_series_beyond_the_cap_are_left_out_and_counted() -> None:
    sink = PrometheusSink(Prometheus(max_series=5))
    many = tasks(*(f"t{number}" for number in range(4)))
    sink.take(snapshot(1, reading(many, *((number, number) for number in range(4)))))
    text = sink.answer(WANT_TEXT).body.decode()
    assert len(lines(text)) == 5
    assert len(samples(text)) == 5
    assert sink.left_out == 3
    sink.take(snapshot(2, reading(tasks("t0"), (1, 2))))
    sink.answer(WANT_TEXT)
    assert sink.left_out == 0


def test_before_the_first_snapshot_the_answer_is_not_ready() -> None:
    answer = PrometheusSink(Prometheus()).answer(WANT_TEXT)
    assert answer.status == 503
    assert answer.body.startswith(b"no snapshot yet")


@pytest.fixture
def sink() -> PrometheusSink:
    sink = PrometheusSink(Prometheus())
    sink.take(snapshot(1, reading(tasks("a"), (1, 2))))
    return sink


def test_a_page_is_rendered_once_a_snapshot_and_format(sink: PrometheusSink) -> None:
    first = sink.answer(WANT_TEXT)
    compressed = sink.answer(Ask(accept_encoding="gzip"))
    assert sink.answer(Ask(accept="*/*")) is first
    assert sink.answer(Ask(accept="text/plain", accept_encoding="identity")) is first
    assert sink.answer(Ask(accept_encoding="br, gzip")) is compressed
    assert sink.answer(WANT_OPENMETRICS) is sink.answer(WANT_OPENMETRICS)
    assert sink.answer(WANT_OPENMETRICS) is not first
    sink.take(snapshot(2, reading(tasks("a"), (3, 4))))
    assert sink.answer(WANT_TEXT).body != first.body


def header(answer: Answer, name: str) -> str | None:
    return dict(answer.headers).get(name)


@pytest.mark.parametrize(
    ("ask", "content_type"), [(WANT_TEXT, TEXT), (WANT_OPENMETRICS, OPENMETRICS)], ids=["text", "openmetrics"]
)
def test_an_answer_says_what_it_is(sink: PrometheusSink, ask: Ask, content_type: str) -> None:
    plain = sink.answer(ask)
    packed = sink.answer(Ask(accept=ask.accept, accept_encoding="gzip"))
    assert plain.status == packed.status == 200
    assert plain.content_type == packed.content_type == content_type
    assert header(plain, "content-encoding") is None
    assert header(packed, "content-encoding") == "gzip"
    for answer in (plain, packed):
        assert {word.strip() for word in (header(answer, "vary") or "").split(",")} == {
            "accept",
            "accept-encoding",
        }
    assert gzip.decompress(packed.body) == plain.body
    assert plain.body.endswith(b"# EOF\n") == (ask is WANT_OPENMETRICS)


def test_the_content_types_are_those_of_the_formats() -> None:
    assert TEXT == "text/plain; version=0.0.4; charset=utf-8"
    assert OPENMETRICS == "application/openmetrics-text; version=1.0.0; charset=utf-8"


def test_both_formats_have_percentiles_of_the_same_interval() -> None:
    sink = PrometheusSink(Prometheus())
    schema = Schema(LATENCY, slots("disk", "a"))
    for tick in range(1, 4):
        sink.take(snapshot(tick, reading(schema, [{3: 100 * tick, 7: 1000 * (tick // 3)}])))
    for ask in (WANT_TEXT, WANT_OPENMETRICS):
        assert percentile(sink.answer(ask).body.decode(), "a") == 7


def test_a_new_snapshot_takes_the_place_of_the_old_page() -> None:
    sink = PrometheusSink(Prometheus())
    for tick, name in enumerate("ab", 1):
        sink.take(snapshot(tick, reading(tasks(name), (2 * tick - 1, 2 * tick))))
        assert list(samples(sink.answer(WANT_TEXT).body.decode()).values()) == [2 * tick - 1, 2 * tick]
