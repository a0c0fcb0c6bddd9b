"""A worker that is asked to exports its numbers over OTLP."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from tests.e2e.conftest import StartWorker
from tests.waiting import eventually

pytestmark = pytest.mark.processes


class Collector:
    """Takes what is posted to /v1/metrics."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                asked = ExportMetricsServiceRequest.FromString(body)
                scopes = [scope for resource in asked.resource_metrics for scope in resource.scope_metrics]
                outer.names |= {metric.name for scope in scopes for metric in scope.metrics}
                self.send_response(200)
                self.end_headers()

            def log_message(self, *args: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    made.thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    made.thread.join()


def test_a_worker_exports_what_it_counts(collector: Collector, start_worker: StartWorker) -> None:
    where = f"http://127.0.0.1:{collector.server.server_address[1]}/v1/metrics"
    worker = start_worker(
        OTEL_METRICS_EXPORTER="otlp",
        OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=where,
        OTEL_METRIC_EXPORT_INTERVAL="200",
    ).wait_ready()
    wanted = {"reach_messages_in_total", "reach_redis_up", "reach_delivery_duration_seconds_count"}
    eventually(lambda: wanted <= collector.names, 20.0, "the numbers of the worker")
    assert worker.drain()[0] == 0
