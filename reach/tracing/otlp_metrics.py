"""The numbers of /metrics over OTLP: observable instruments that read them when the exporter asks, so that work pays nothing."""

from collections.abc import Callable, Iterable, Mapping

from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader

from reach.errors import ConfigError
from reach.tracing.metrics import BOUNDS, METRICS, Metric
from reach.tracing.readings import Readings

MISSING = "OTLP metrics are asked for, but the exporter is not installed: pip install 'reachmq[otlp]'"
Observe = Callable[[CallbackOptions], Iterable[Observation]]


def otlp_metrics_wanted(environ: Mapping[str, str]) -> bool:
    """Whether the environment asks for metrics over OTLP: by OTEL_METRICS_EXPORTER=otlp, or by an endpoint of their own."""
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or environ.get("OTEL_METRICS_EXPORTER") == "none":
        return False
    return environ.get("OTEL_METRICS_EXPORTER") == "otlp" or bool(environ.get("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"))


def otlp_reader() -> MetricReader:
    """The reader that the `OTEL_*` variables describe: HTTP and protobuf, every OTEL_METRIC_EXPORT_INTERVAL (60 s).

    Raises:
        ConfigError: The extra is not installed; the message has the command.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    except ModuleNotFoundError as error:
        raise ConfigError(MISSING) from error
    return PeriodicExportingMetricReader(OTLPMetricExporter())


def observed(readings: Readings, reader: MetricReader) -> MeterProvider:
    """All of it, as instruments of one meter. A histogram goes as the three counters that Prometheus makes of it. `shutdown` ends it."""
    provider = MeterProvider(metric_readers=[reader])
    meter = provider.get_meter("reach")
    for metric in METRICS:
        if metric.kind == "histogram":
            for part in ("bucket", "count", "sum"):
                meter.create_observable_counter(
                    f"{metric.name}_{part}", [_part_of(readings, metric, part)], description=metric.help
                )
        elif metric.kind == "counter":
            meter.create_observable_counter(metric.name, [_value_of(readings, metric)], description=metric.help)
        else:
            meter.create_observable_gauge(metric.name, [_value_of(readings, metric)], description=metric.help)
    return provider


def _value_of(readings: Readings, metric: Metric) -> Observe:
    def observe(_: CallbackOptions) -> Iterable[Observation]:
        for one, values in readings.numbers():
            if one is metric:
                for labels, value in values.items():
                    yield Observation(value, dict(zip(metric.labels, labels, strict=False)))

    return observe


def _part_of(readings: Readings, metric: Metric, part: str) -> Observe:
    def observe(_: CallbackOptions) -> Iterable[Observation]:
        for one, durations in readings.durations():
            if one is not metric:
                continue
            if part == "count":
                yield Observation(sum(each.count for each in durations))
            elif part == "sum":
                yield Observation(sum(each.sum for each in durations))
            else:
                total = 0
                for at, bound in enumerate((*BOUNDS, float("inf"))):
                    total += sum(each.counts[at] for each in durations)
                    yield Observation(total, {"le": "+Inf" if bound == float("inf") else repr(bound)})

    return observe
