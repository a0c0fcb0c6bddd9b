"""The numbers of /metrics over OTLP: observable instruments that read them when the exporter asks, so that work pays nothing."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader

from reach.errors import ConfigError
from reach.settings import otel_disabled
from reach.tracing.exporting import grpc_module, wants_grpc
from reach.tracing.metrics import BOUNDS, METRICS
from reach.tracing.readings import Readings

MISSING = "OTLP metrics are asked for, but the exporter is not installed: pip install 'reachmq[otlp]'"
#: prometheus: the page /metrics, which is there in any case
EXPORTERS: Final = frozenset({"otlp", "prometheus", "none"})
Observe = Callable[[CallbackOptions], Iterable[Observation]]


def otlp_metrics_wanted(environ: Mapping[str, str]) -> bool:
    """Whether the environment asks for metrics over OTLP: by OTEL_METRICS_EXPORTER, or, where that says nothing, by an endpoint.

    Raises:
        ConfigError: An exporter that reach does not have.
    """
    if otel_disabled(environ):
        return False
    said = {name.strip() for name in environ.get("OTEL_METRICS_EXPORTER", "").split(",")} - {""}
    unknown = sorted(said - EXPORTERS)
    if unknown:
        raise ConfigError(f"OTEL_METRICS_EXPORTER: {unknown[0]!r} is not one of {', '.join(sorted(EXPORTERS))}")
    if said:
        return "otlp" in said
    return bool(environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or environ.get("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"))


def otlp_reader(environ: Mapping[str, str]) -> MetricReader:
    """The reader that the `OTEL_*` variables describe, every OTEL_METRIC_EXPORT_INTERVAL (60 s); the exporter reads the others itself.

    Raises:
        ConfigError: A protocol that there is not, or an extra that is missing; the message has the command.
    """
    if wants_grpc(environ, "METRICS"):
        return PeriodicExportingMetricReader(grpc_module("metric_exporter").OTLPMetricExporter())
    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    except ModuleNotFoundError as error:
        raise ConfigError(MISSING) from error
    return PeriodicExportingMetricReader(OTLPMetricExporter())


def observed(readings: Readings, reader: MetricReader) -> MeterProvider:
    """All of it, as instruments of one meter. A histogram goes as the three counters that Prometheus makes of it. `shutdown` ends it."""
    provider = MeterProvider(metric_readers=[reader])
    meter = provider.get_meter("reach")
    look = _Look(readings)
    for metric in METRICS:
        if metric.kind == "histogram":
            for part in _PARTS:
                name = metric.name + part
                meter.create_observable_counter(name, [look.at(name)], description=metric.help)
        elif metric.kind == "counter":
            meter.create_observable_counter(metric.name, [look.at(metric.name)], description=metric.help)
        else:
            meter.create_observable_gauge(metric.name, [look.at(metric.name)], description=metric.help)
    return provider


_PARTS: Final = ("_bucket", "_count", "_sum")


class _Look:
    """All numbers of one moment, each handed out once: whoever comes for his second one opens the next look."""

    def __init__(self, readings: Readings) -> None:
        self._readings = readings
        self._left: dict[str, list[Observation]] = {}

    def at(self, name: str) -> Observe:
        """What an instrument asks."""

        def observe(_: CallbackOptions) -> Iterable[Observation]:
            if name not in self._left:
                self._left = self._all()
            return self._left.pop(name)

        return observe

    def _all(self) -> dict[str, list[Observation]]:
        found: dict[str, list[Observation]] = {}
        for metric in METRICS:
            for name in (metric.name + part for part in _PARTS) if metric.kind == "histogram" else (metric.name,):
                found[name] = []
        for metric, values in self._readings.numbers():
            found[metric.name] = [
                Observation(value, dict(zip(metric.labels, labels, strict=False))) for labels, value in values.items()
            ]
        for metric, durations in self._readings.durations():
            total = 0
            for at, bound in enumerate((*BOUNDS, float("inf"))):
                total += sum(each.counts[at] for each in durations)
                le = "+Inf" if bound == float("inf") else repr(bound)
                found[f"{metric.name}_bucket"].append(Observation(total, {"le": le}))
            found[f"{metric.name}_count"].append(Observation(total))
            found[f"{metric.name}_sum"].append(Observation(sum(each.sum for each in durations)))
        return found
