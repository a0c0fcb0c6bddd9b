"""The same numbers over OTLP as at /metrics."""

from typing import Any

import pytest
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from reach.errors import ConfigError
from reach.tracing.otlp_metrics import observed, otlp_metrics_wanted, otlp_reader
from reach.tracing.readings import Reading, Readings
from reach.tracing.tally import Tally

MSG = "a3f2c1e4-9b8d-4f3a-8c2e-1a2b3c4d5e6f"


def told(reader: InMemoryMetricReader) -> dict[str, dict[tuple[Any, ...], float]]:
    data = reader.get_metrics_data()
    assert data is not None
    (resource,) = data.resource_metrics
    (scope,) = resource.scope_metrics
    return {
        one.name: {tuple((point.attributes or {}).values()): point.value for point in one.data.data_points}  # type: ignore[union-attr]
        for one in scope.metrics
    }


def test_every_number_is_read_when_it_is_asked_for() -> None:
    readings, tally, reader = Readings(), Tally(lambda: 1.0), InMemoryMetricReader()
    readings.plays("router")
    readings.count(tally)
    readings.add(lambda: [Reading("reach_inflight", 4, ("a",)), Reading("reach_build", 1, ("1", "3.11"))])
    provider = observed(readings, reader)
    tally.count("reach_messages_in_total", by=3)
    tally.count("reach_retries_total", "agent.lost")
    tally.delivery.observe(0.002, MSG, None)
    tally.delivery.observe(70.0, MSG, None)
    found = told(reader)
    assert found["reach_messages_in_total"] == {(): 3}
    assert found["reach_retries_total"] == {("handler.error",): 0, ("agent.lost",): 1}
    assert found["reach_inflight"] == {("a",): 4}
    assert found["reach_build"] == {("1", "3.11"): 1}
    assert found["reach_delivery_duration_seconds_count"] == {(): 2}
    assert found["reach_delivery_duration_seconds_sum"] == {(): 70.002}
    buckets = found["reach_delivery_duration_seconds_bucket"]
    assert (buckets["0.001",], buckets["0.0025",], buckets["60.0",], buckets["+Inf",]) == (0, 1, 1, 2)
    tally.count("reach_messages_in_total")
    assert told(reader)["reach_messages_in_total"] == {(): 4}
    provider.shutdown()


def test_all_numbers_of_an_export_are_of_one_look() -> None:
    looks = 0

    def source() -> list[Reading]:
        nonlocal looks
        looks += 1
        return [Reading("reach_inflight", looks, ("a",)), Reading("reach_agents", looks)]

    readings, reader = Readings(), InMemoryMetricReader()
    readings.add(source)
    provider = observed(readings, reader)
    for number in (1, 2, 3):
        found = told(reader)
        assert (found["reach_inflight"], found["reach_agents"]) == ({("a",): number}, {(): number})
    provider.shutdown()


def test_what_there_is_not_is_refused() -> None:
    with pytest.raises(ConfigError, match="'statsd' is not one of none, otlp, prometheus"):
        otlp_metrics_wanted({"OTEL_METRICS_EXPORTER": "otlp,statsd"})
    with pytest.raises(ConfigError, match="'http/json' is not one of"):
        otlp_reader({"OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "http/json"})


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://x"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_METRICS_EXPORTER": "none"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_METRICS_EXPORTER": "prometheus"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_SDK_DISABLED": " True"}, False),
        ({"OTEL_METRICS_EXPORTER": "prometheus, otlp"}, True),
        ({"OTEL_METRICS_EXPORTER": "otlp"}, True),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://x"}, True),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://x", "OTEL_METRICS_EXPORTER": "none"}, False),
        ({"OTEL_METRICS_EXPORTER": "otlp", "OTEL_SDK_DISABLED": "true"}, False),
    ],
)
def test_who_asks_for_them(environ: dict[str, str], wanted: bool) -> None:
    assert otlp_metrics_wanted(environ) is wanted
