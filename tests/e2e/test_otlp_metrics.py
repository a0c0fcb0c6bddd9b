"""A worker that is asked to exports its numbers over OTLP."""

import pytest

from tests.collector import Collector
from tests.e2e.conftest import StartWorker
from tests.waiting import eventually

pytestmark = pytest.mark.processes

WANTED = {"reach_messages_in_total", "reach_redis_up", "reach_delivery_duration_seconds_count"}


@pytest.mark.parametrize("variable", ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"])
def test_a_worker_exports_what_it_counts(variable: str, start_worker: StartWorker) -> None:
    with Collector() as collector:
        where = collector.url + ("/v1/metrics" if "METRICS" in variable else "")
        worker = start_worker(**{variable: where, "OTEL_METRIC_EXPORT_INTERVAL": "200"}).wait_ready()
        eventually(lambda: collector.metrics >= WANTED, 20.0, "the numbers of the worker")
        assert worker.drain()[0] == 0
    assert set(collector.names) == set(), "no message, no span"


def test_a_worker_that_is_told_not_to_exports_none(start_worker: StartWorker) -> None:
    with Collector() as collector:
        variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_METRICS_EXPORTER": "none"}
        worker = start_worker(**variables, OTEL_METRIC_EXPORT_INTERVAL="50").wait_ready()
        assert worker.drain()[0] == 0, "at its end it would have sent the last ones"
    assert collector.metrics == set()
