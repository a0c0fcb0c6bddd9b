"""/metrics as a page: both forms, exemplars, and what it says where prometheus-client is missing."""

import sys

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as plain

from reach.tracing.exposition import MetricsPage
from reach.tracing.metrics import BOUNDS
from reach.tracing.readings import Reading, Readings
from reach.tracing.tally import Tally

MSG = "a3f2c1e4-9b8d-4f3a-8c2e-1a2b3c4d5e6f"
TRACED = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
ASK = b"GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: application/openmetrics-text;version=1.0.0,text/plain\r\n\r\n"


@pytest.fixture
def readings() -> Readings:
    made, tally = Readings(), Tally(lambda: 1_796_000_000.5)
    made.plays("router")
    made.count(tally)
    made.count(Tally(lambda: 0.0))
    made.add(lambda: [Reading("reach_build", 1, ("1.2", "3.11")), Reading("reach_redis_up", 1)])
    tally.count("reach_messages_in_total", by=3)
    tally.delivery.observe(0.003, MSG, TRACED)
    tally.delivery.observe(0.004, MSG, None)
    tally.delivery.observe(99.0, MSG, None)
    return made


def test_the_older_text_form(readings: Readings) -> None:
    page = MetricsPage(readings)(b"GET /metrics HTTP/1.1\r\n\r\n")
    assert page.status == "200 OK"
    assert page.content_type.startswith("text/plain; version=0.0.4")
    samples = {(s.name, tuple(s.labels.items())): s.value for f in plain(page.content.decode()) for s in f.samples}
    assert samples["reach_messages_in_total", ()] == 3
    assert samples["reach_build_info", (("python", "3.11"), ("version", "1.2"))] == 1
    assert samples["reach_delivery_duration_seconds_count", ()] == 3
    assert samples["reach_delivery_duration_seconds_sum", ()] == pytest.approx(99.007)
    counts = [samples["reach_delivery_duration_seconds_bucket", (("le", str(bound)),)] for bound in BOUNDS]
    assert counts == [0, 0, *[2] * (len(BOUNDS) - 2)]
    assert samples["reach_delivery_duration_seconds_bucket", (("le", "+Inf"),)] == 3


def test_openmetrics_names_the_trace_of_the_newest_of_each_bucket(readings: Readings) -> None:
    page = MetricsPage(readings)(ASK)
    assert page.content_type.startswith("application/openmetrics-text; version=1.0.0")
    text = page.content.decode()
    families = list(openmetrics(text))  # type: ignore[no-untyped-call]
    (family,) = [one for one in families if one.name == "reach_delivery_duration_seconds"]
    examples = {s.labels["le"]: s.exemplar for s in family.samples if s.exemplar is not None}
    assert set(examples) == {"0.005", "+Inf"}
    assert examples["0.005"].labels == {"trace_id": MSG.replace("-", "")}
    assert (examples["0.005"].value, float(examples["0.005"].timestamp)) == (0.004, 1_796_000_000.5)
    assert text.endswith("# EOF\n")


def test_without_prometheus_client_it_says_what_to_install(readings: Readings, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*sys.modules]:
        if name.partition(".")[0] == "prometheus_client":
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    page = MetricsPage(readings)(ASK)
    assert page.status.startswith("501")
    assert b"pip install 'reachmq[metrics]'" in page.content
