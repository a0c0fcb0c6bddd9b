"""All numbers of a process, asked for at the moment when somebody wants them: /metrics and OTLP read the same."""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from reach.tracing.metrics import METRICS, Metric, Who
from reach.tracing.tally import Durations, Tally

Source = Callable[[], Iterable["Reading"]]
"""Tells numbers, each time what they are then. It must not wait."""


class Reading(NamedTuple):
    """One number: of which metric, with the values of its labels in the order of the list."""

    metric: str
    value: float
    labels: tuple[str, ...] = ()


class Readings:
    """Where the numbers of one process come from. For one event loop; `add` and `count` as its parts come up."""

    def __init__(self) -> None:
        self._sources: list[Source] = []
        self._tallies: list[Tally] = []
        self._plays: set[Who] = {"every process"}

    def plays(self, *parts: Who) -> None:
        """This process is one of these: what they count begins with 0."""
        self._plays.update(parts)

    def add(self, source: Source) -> None:
        """Ask it, too."""
        self._sources.append(source)

    def count(self, tally: Tally) -> None:
        """What it has counted is told as well; of several the sum."""
        self._tallies.append(tally)

    def numbers(self) -> list[tuple[Metric, Mapping[tuple[str, ...], float]]]:
        """Every counter and gauge that there is something to say of, in the order of the list."""
        found: dict[str, dict[tuple[str, ...], float]] = {}
        for metric, value, labels in self._all():
            of = found.setdefault(metric, {})
            of[labels] = of.get(labels, 0) + value
        return [
            (one, begun | found.get(one.name, {}))
            for one in METRICS
            if one.kind != "histogram" and ((begun := self._begins(one)) or one.name in found)
        ]

    def durations(self) -> list[tuple[Metric, list[Durations]]]:
        """The histograms of the parts that this process plays, each as all tallies have it."""
        names = {
            "reach_delivery_duration_seconds": "delivery",
            "reach_queue_duration_seconds": "queue",
            "reach_processing_duration_seconds": "processing",
            "reach_request_duration_seconds": "request",
        }
        return [
            (one, [getattr(tally, names[one.name]) for tally in self._tallies])
            for one in METRICS
            if one.kind == "histogram" and one.who in self._plays
        ]

    def _begins(self, metric: Metric) -> dict[tuple[str, ...], float]:
        if metric.kind != "counter" or metric.who not in self._plays:
            return {}
        if not metric.labels:
            return {(): 0}
        return {(value,): 0 for value in metric.begins}

    def _all(self) -> Iterable[Reading]:
        for tally in self._tallies:
            for (metric, label), value in list(tally.counts.items()):
                yield Reading(metric, value, (label,) if label else ())
            for labels, value in list(tally.runs.items()):
                yield Reading("reach_runs_total", value, labels)
        for source in self._sources:
            yield from source()
