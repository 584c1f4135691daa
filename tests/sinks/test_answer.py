import pytest

from sinks.answer import preferred, takes_gzip
from sinks.prometheus import OFFERS

TEXT, OPENMETRICS = OFFERS

PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,"
    "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
WANTS_TEXT = {
    "nothing said": "",
    "anything": "*/*",
    "any text": "text/*",
    "text": "text/plain",
    "text of this version": "text/plain;version=0.0.4",
    "text of this version and charset": "text/plain; version=0.0.4; charset=utf-8",
    "Prometheus 2.0, VictoriaMetrics": "text/plain;version=0.0.4;q=1,*/*;q=0.1",
    "Firefox": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    "both alike": "application/openmetrics-text;version=1.0.0, text/plain;version=0.0.4",
    "text first": "application/openmetrics-text;version=1.0.0;q=0.8, text/plain;version=0.0.4;q=0.9",
    "openmetrics never": "*/*, application/openmetrics-text;version=1.0.0;q=0",
    "openmetrics never, nothing else": "application/openmetrics-text;version=1.0.0;q=0",
    "openmetrics of another version": "application/openmetrics-text;version=2.0.0",
    "something else": "application/json, image/png;q=0.1",
    "no header at all": ";;;,,,q=",
    "nonsense": "garbage, text/plain;q=nonsense, \xff/\xfe",
    "far too long": "a" * 100_000,
}
WANTS_OPENMETRICS = {
    "Prometheus 2.42": "application/openmetrics-text;version=1.0.0,"
    "application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
    "Prometheus 2.49": "application/openmetrics-text;version=1.0.0;q=0.5,"
    "application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
    "Prometheus with protobuf": "application/vnd.google.protobuf;"
    "proto=io.prometheus.client.MetricFamily;encoding=delimited,"
    "application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
    "Prometheus 3": PROMETHEUS_3,
    "Prometheus 3 with underscores": PROMETHEUS_3.replace("allow-utf-8", "underscores"),
    "this version": "application/openmetrics-text;version=1.0.0",
    "this version and charset": "application/openmetrics-text; version=1.0.0; charset=utf-8",
    "any version": "application/openmetrics-text",
    "in capitals": "Application/OpenMetrics-Text;Version=1.0.0",
    "text less": "text/plain;version=0.0.4;q=0.2, application/openmetrics-text;version=1.0.0;q=0.9",
    "text of any version less": "text/plain;q=0.9, application/openmetrics-text;version=1.0.0",
    "anything but text": "text/plain;q=0.1, */*;q=0.9",
}


@pytest.mark.parametrize("accept", WANTS_TEXT.values(), ids=WANTS_TEXT)
def test_who_does_not_prefer_openmetrics_gets_text(accept: str) -> None:
    assert preferred(accept, OFFERS) == TEXT


@pytest.mark.parametrize("accept", WANTS_OPENMETRICS.values(), ids=WANTS_OPENMETRICS)
def test_who_prefers_openmetrics_gets_it(accept: str) -> None:
    assert preferred(accept, OFFERS) == OPENMETRICS


@pytest.mark.parametrize(
    ("accept", "offer"),
    [
        (WANTS_TEXT["Firefox"], "text/html"),
        ("text/html;q=0.1", "text/html"),
        ("text/plain;q=0.5, text/*", "text/html"),
        ("*/*", "text/plain"),
        ("", "text/plain"),
        ("text/html;q=0.5, text/plain;q=0.6", "text/plain"),
        ("text/html;q=0, */*", "text/plain"),
        ("image/png", "text/plain"),
    ],
)
def test_offers_need_no_version(accept: str, offer: str) -> None:
    assert preferred(accept, ("text/plain", "text/html")) == offer


@pytest.mark.parametrize(
    "encodings",
    [
        "gzip",
        "GZIP",
        "gzip, deflate, br",
        "br;q=1.0, gzip;q=0.8, *;q=0.1",
        "gzip;q=0.001",
        "*",
        "deflate, *;q=0.5",
    ],
)
def test_who_takes_gzip(encodings: str) -> None:
    assert takes_gzip(encodings)


@pytest.mark.parametrize(
    "encodings",
    [
        "",
        "identity",
        "br",
        "gzip;q=0",
        "gzip; q=0.0",
        "gzip;q=0, *",
        "*, gzip;q=0",
        "*;q=0",
        "gzipped",
        ",;=",
    ],
)
def test_who_does_not(encodings: str) -> None:
    assert not takes_gzip(encodings)
