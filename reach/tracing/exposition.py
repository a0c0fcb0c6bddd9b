"""/metrics: what `Readings` tell, as Prometheus reads it. Needs the extra `metrics`; without it the page says so (501)."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from reach.tracing.metrics import BOUNDS, Metric
from reach.tracing.pages import Page, header
from reach.tracing.readings import Readings
from reach.tracing.tally import Durations, Sample

if TYPE_CHECKING:
    from prometheus_client.core import Metric as Family
    from prometheus_client.samples import Exemplar

INSTALL = "pip install 'reachmq[metrics]'"
_MISSING: Final = f"/metrics needs prometheus-client: {INSTALL}\n"


class MetricsPage:
    """The page; `Readings` may grow while it is served."""

    def __init__(self, readings: Readings) -> None:
        self._readings = readings

    def __call__(self, head: bytes) -> Page:
        """The answer to a request with this head: OpenMetrics (with exemplars) where it is accepted, else the older text form."""
        try:
            from prometheus_client.exposition import choose_encoder
        except ModuleNotFoundError:
            return Page("501 Not Implemented", "text/plain; charset=utf-8", _MISSING.encode())
        encode, content_type = choose_encoder(header(head, "accept"))
        return Page("200 OK", content_type, encode(_Collector(self._readings)))


class _Collector:
    """What prometheus-client asks."""

    def __init__(self, readings: Readings) -> None:
        self._readings = readings

    def collect(self) -> "Iterable[Family]":
        from prometheus_client import PROCESS_COLLECTOR
        from prometheus_client.core import HistogramMetricFamily

        for metric, values in self._readings.numbers():
            yield _family(metric, values.items())
        for metric, durations in self._readings.durations():
            buckets = [
                *zip(map(_text, (*BOUNDS, float("inf"))), _running(durations), _examples(durations), strict=True)
            ]
            seconds = sum(one.sum for one in durations)
            told = [(le, count, example) if example is not None else (le, count) for le, count, example in buckets]
            yield HistogramMetricFamily(metric.name, metric.help, buckets=told, sum_value=seconds)
        yield from PROCESS_COLLECTOR.collect()


def _family(metric: Metric, values: Iterable[tuple[tuple[str, ...], float]]) -> "Family":
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily

    if metric.kind == "info":
        info = InfoMetricFamily(metric.name, metric.help, labels=())
        for labels, _ in values:
            info.add_metric((), dict(zip(metric.labels, labels, strict=True)))
        return info
    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    family = kind(metric.name, metric.help, labels=metric.labels)
    for labels, value in values:
        family.add_metric(labels, value)
    return family


def _text(bound: float) -> str:
    return "+Inf" if bound == float("inf") else repr(bound)


def _running(durations: list[Durations]) -> list[int]:
    """How many are at most as long as each bound."""
    total, found = 0, []
    for each in zip(*(one.counts for one in durations), strict=True):
        total += sum(each)
        found.append(total)
    return found or [0] * (len(BOUNDS) + 1)


def _examples(durations: list[Durations]) -> "list[Exemplar | None]":
    """The newest of each bucket."""
    if not durations:
        return [None] * (len(BOUNDS) + 1)
    return [
        _exemplar([one for one in each if one is not None])
        for each in zip(*(d.examples for d in durations), strict=True)
    ]


def _exemplar(samples: list[Sample]) -> "Exemplar | None":
    from prometheus_client.samples import Exemplar

    if not samples:
        return None
    newest = max(samples, key=lambda one: one.at_s)
    return Exemplar({"trace_id": newest.trace_id}, newest.value, newest.at_s)
