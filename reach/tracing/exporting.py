"""Where spans go: what the `OTEL_*` variables say, and whether it was taken, cannot be taken now, or never will be."""

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SpanExporter, SpanExportResult

from reach.errors import ConfigError

INSTALL = "pip install 'reachmq[otlp]'"
MISSING = f"OTEL_EXPORTER_OTLP_ENDPOINT is set, but the exporter is not installed: {INSTALL}"
HTTP = "http/protobuf"
GRPC = "opentelemetry.exporter.otlp.proto.grpc"
#: answers that say that these spans will never be taken; all others may be another time (401, 404: whoever runs it puts it right)
REFUSALS: Final = frozenset({400, 413, 422})

Sent = Literal["taken", "away", "refused"]


class Outlet:
    """An exporter, and what became of what it was given."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self._status = 0

    def send(self, spans: Sequence[ReadableSpan]) -> Sent:
        """Blocks until they are taken or not: call it in a thread."""
        self._status = 0
        if self._exporter.export(spans) is SpanExportResult.SUCCESS:
            return "taken"
        return "refused" if self._status in REFUSALS else "away"

    def answered(self, response: Any, *_: Any, **__: Any) -> None:
        """A hook of the HTTP session: which status came last."""
        self._status = response.status_code

    def close(self) -> None:
        """End the exporter, also in the middle of its own attempts."""
        self._exporter.shutdown()

    @classmethod
    def over_http(cls) -> "Outlet":
        """As the `OTEL_EXPORTER_OTLP_*` variables describe it (HTTP, protobuf).

        Raises:
            ConfigError: The extra is not installed; the message has the command.
        """
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        except ModuleNotFoundError as error:
            raise ConfigError(MISSING) from error
        session = importlib.import_module("requests").Session()
        outlet = cls(OTLPSpanExporter(session=session))
        session.hooks["response"].append(outlet.answered)
        return outlet


def open_outlet(environ: Mapping[str, str]) -> Outlet:
    """What `OTEL_TRACES_EXPORTER` and `OTEL_EXPORTER_OTLP_(TRACES_)PROTOCOL` name; the exporters read the other variables themselves.

    Raises:
        ConfigError: Something that reach does not have, or that is not installed; the message has the command.
    """
    name = environ.get("OTEL_TRACES_EXPORTER") or "otlp"
    if name == "console":
        return Outlet(ConsoleSpanExporter())
    if name != "otlp":
        raise ConfigError(f"OTEL_TRACES_EXPORTER: {name!r} is not one of otlp, console, none")
    if wants_grpc(environ, "TRACES"):
        return Outlet(grpc_module("trace_exporter").OTLPSpanExporter())
    return Outlet.over_http()


def wants_grpc(environ: Mapping[str, str], signal: Literal["TRACES", "METRICS"]) -> bool:
    """What `OTEL_EXPORTER_OTLP_PROTOCOL` says, or the one of the signal alone.

    Raises:
        ConfigError: Something that reach does not have.
    """
    variables = (f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    protocol = next((environ[variable] for variable in variables if environ.get(variable)), HTTP)
    if protocol not in {HTTP, "grpc"}:
        raise ConfigError(f"OTEL_EXPORTER_OTLP_PROTOCOL: {protocol!r} is not one of {HTTP}, grpc")
    return protocol == "grpc"


def grpc_module(name: str) -> Any:
    """A module of the exporter over gRPC.

    Raises:
        ConfigError: It is not installed; the message has the command.
    """
    try:
        return importlib.import_module(f"{GRPC}.{name}")
    except ModuleNotFoundError as error:
        install = "pip install opentelemetry-exporter-otlp-proto-grpc"
        raise ConfigError(
            f"OTEL_EXPORTER_OTLP_PROTOCOL is grpc, but its exporter is not installed: {install}"
        ) from error
