"""A collector of spans and metrics that can be told to refuse, and that says what it took."""

import gzip
import http.server
import threading
from types import TracebackType
from typing import Any, Self

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Collector:
    """OTLP over HTTP on a free port of this machine. `status`: what it answers; `poison`: it refuses for good what has a span so named."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.resources: list[dict[str, str]] = []  # whose spans they were, as often as they were told
        self.headers: list[dict[str, str]] = []  # of each request with spans; names in lower case
        self.metrics: set[str] = set()
        self.requests = 0
        self.status = 200
        self.poison = ""
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                take = {"/v1/traces": outer.take, "/v1/metrics": outer.take_metrics}.get(self.path, lambda _: 404)
                data = self.rfile.read(int(self.headers["Content-Length"]))
                if self.path == "/v1/traces":
                    outer.headers.append({name.lower(): value for name, value in self.headers.items()})
                status = take(gzip.decompress(data) if self.headers["Content-Encoding"] == "gzip" else data)
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Nothing."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    @property
    def url(self) -> str:
        """For OTEL_EXPORTER_OTLP_ENDPOINT."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def names(self) -> list[str]:
        """Of the spans that were taken, in their order."""
        return [span.name for span in self.spans]

    def take_metrics(self, data: bytes) -> int:
        """One request with numbers; the status of the answer."""
        message = ExportMetricsServiceRequest.FromString(data)
        scopes = [scope for resource in message.resource_metrics for scope in resource.scope_metrics]
        self.metrics |= {metric.name for scope in scopes for metric in scope.metrics}
        return 200

    def take(self, data: bytes) -> int:
        """One request with spans; the status of the answer."""
        self.requests += 1
        message = ExportTraceServiceRequest.FromString(data)
        found = [span for resource in message.resource_spans for scope in resource.scope_spans for span in scope.spans]
        if self.status != 200:
            return self.status
        if self.poison and any(span.name == self.poison for span in found):
            return 400
        self.spans += found
        self.resources += [
            {each.key: each.value.string_value for each in resource.resource.attributes}
            for resource in message.resource_spans
        ]
        return 200

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
