"""What one process counts: plain numbers that hop records feed, and that /metrics and OTLP read.

Whoever counts pays for a dict and an integer; what is made of them is paid for by whoever asks.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from reach.tracing.metrics import BOUNDS, known_code
from reach.tracing.propagation import trace_of

#: Point -> the counters that it feeds, each with whether its label is the code.
_COUNTS: Final[dict[str, tuple[tuple[str, bool], ...]]] = {
    "route.sent": (("reach_route_success_total", False),),
    "route.failed": (("reach_route_fail_total", True),),
    "message.rejected": (("reach_route_fail_total", True),),
    "message.retried": (("reach_retries_total", True),),
    "message.reclaimed": (("reach_reclaims_total", True),),
    "message.moved": (("reach_moves_total", False),),
    "message.expired": (("reach_expired_total", True),),
    "message.cancelled": (("reach_cancelled_total", False),),
    "message.dead": (("reach_dead_letters_total", True),),
}


class Sample(NamedTuple):
    """One observation, kept as an example: of which message, in which trace, and when (Unix seconds)."""

    value: float
    msg_id: str
    traceparent: str | None
    at_s: float

    @property
    def trace_id(self) -> str:
        """32 hex digits, as the spans of that message have them."""
        return trace_of(self.msg_id, self.traceparent).trace_id


class Durations:
    """A histogram: how many fell below each bound, their sum, and the last one of each bucket as its example."""

    __slots__ = ("counts", "examples", "sum", "wall_s")

    def __init__(self, wall_s: Callable[[], float]) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)  # each its own, the last those above all bounds
        self.examples: list[Sample | None] = [None] * (len(BOUNDS) + 1)
        self.sum = 0.0
        self.wall_s = wall_s

    def observe(self, seconds: float, msg_id: str, traceparent: str | None) -> None:
        """One more. What is below 0, after a step back of the clock, counts as 0."""
        seconds = max(seconds, 0.0)
        bucket = bisect_left(BOUNDS, seconds)
        self.counts[bucket] += 1
        self.sum += seconds
        self.examples[bucket] = Sample(seconds, msg_id, traceparent, self.wall_s())

    @property
    def count(self) -> int:
        """How many there were."""
        return sum(self.counts)


class Tally:
    """The counters of one process. For one event loop; reading from another thread sees some moment of each number."""

    def __init__(self, wall_s: Callable[[], float]) -> None:
        #: (metric, label value) -> how often; "" where it has no label
        self.counts: Counter[tuple[str, str]] = Counter()
        self.runs: Counter[tuple[str, str]] = Counter()  # (agent, code)
        #: The agents with the SDK that live here: their runs are counted here, and by no router.
        self.agents: set[str] = set()
        self.delivery = Durations(wall_s)
        self.queue = Durations(wall_s)
        self.processing = Durations(wall_s)
        self.request = Durations(wall_s)

    def count(self, metric: str, label: str = "", by: int = 1) -> None:
        """One more, or `by`."""
        self.counts[metric, label] += by

    def hop(self, point: str, msg_id: str, traceparent: str | None, told: Mapping[str, Any]) -> None:
        """A record of this point is made, also where there is no room to keep it. `told`: as `reach.tracing.hops.Told`."""
        was_behind = told.get("code") == "stage.failed"  # nobody was looked for: it is no failure to route
        for metric, by_code in () if was_behind else _COUNTS.get(point, ()):
            self.counts[metric, known_code(told.get("code", "")) if by_code else ""] += 1
        if point == "agent.completed":
            self._ended(msg_id, traceparent, told)
        elif (
            point == "message.delivered" and "duration_us" in told
        ):  # else nobody knows since when its caller has waited
            self.request.observe(told.get("duration_us", 0) / 1e6, msg_id, traceparent)

    def _ended(self, msg_id: str, traceparent: str | None, told: Mapping[str, Any]) -> None:
        agent = told.get("agent", "")
        if agent in self.agents:
            self.runs[agent, known_code(told.get("code", ""))] += 1
            self.processing.observe(told.get("duration_us", 0) / 1e6, msg_id, traceparent)
