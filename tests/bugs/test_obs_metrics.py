"""OBS: how many series a process tells does not hang on ids, names or codes of others."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client.parser import text_string_to_metric_families

from reach.backend.depth_port import Depth, Depths
from reach.registry import env_gauges
from reach.registry.capacity import Capacity
from reach.tracing.exposition import MetricsPage
from reach.tracing.hops import HopRecorder
from reach.tracing.metrics import MAX_NAMES, METRICS, OTHER
from reach.tracing.readings import Readings
from reach.tracing.time_base import TimeBase
from tests.manual_clock import ManualClock

POINTS = (
    "route.sent",
    "route.failed",
    "message.rejected",
    "message.retried",
    "message.dead",
    "agent.completed",
    "message.delivered",
)
MESSAGES, AGENTS, PATTERNS = 50_000, 5_000, 1_000


async def _nowhere(_partition: int, _batch: bytes) -> None:
    """Keep no record."""


def series(readings: Readings) -> set[tuple[str, tuple[tuple[str, str], ...]]]:
    """All that a scrape shows."""
    page = MetricsPage(readings)(b"GET /metrics HTTP/1.1\r\n\r\n").content.decode()
    families = text_string_to_metric_families(page)
    return {(sample.name, tuple(sorted(sample.labels.items()))) for one in families for sample in one.samples}


def test_B123_ids_names_and_codes_of_others_make_no_series() -> None:
    recorder, readings = HopRecorder(_nowhere, TimeBase()), Readings()
    readings.plays("router", "agent", "caller")
    readings.count(recorder.tally)
    recorder.tally.agents.add("refund-1")

    def work(first: int, last: int) -> None:
        for number in range(first, last):
            for point in POINTS:
                told: dict[str, Any] = {
                    "agent": f"agent-{number % AGENTS}" if number % 2 else "refund-1",
                    "pattern": f"capability:c{number % PATTERNS}",
                    "correlation_id": f"talk-{number}",
                    "code": f"own.{number}",
                    "attempt": number,
                }
                recorder.tally.hop(point, f"m-{number}", None, told)

    work(0, 100)
    before, counters = series(readings), len(recorder.tally.counts)
    work(100, MESSAGES)
    assert series(readings) == before
    assert len(recorder.tally.counts) == counters
    labels = {value for _, pairs in before for name, value in pairs if name in {"reason", "code"}}
    assert OTHER in labels
    assert not any(value.startswith("own.") for value in labels)
    assert not any("-" in value for _, pairs in before for name, value in pairs if name not in {"agent", "le"})


class Fleet:
    """Thousands of agents, with new names at each start; as a watcher, its index and a backend show them."""

    loaded = True
    circuits: Mapping[str, Any] = {}

    def __init__(self) -> None:
        self.agents: dict[str, Any] = {}
        self.index = self.offline = self

    def start(self, turn: int) -> None:
        agent = SimpleNamespace(alive=lambda _: True, history=lambda _: SimpleNamespace(inflight=1))
        self.agents = dict.fromkeys((f"agent-{turn}-{number}" for number in range(AGENTS)), agent)

    def now_ms(self) -> int:
        return 1

    def alive_since_ms(self, now_ms: int) -> int:
        return now_ms

    def counts(self, now_ms: int) -> dict[str, int]:
        return {"left": AGENTS * now_ms}

    async def lock(self, *_: object) -> bool:
        return True

    async def depths(self, names: list[str], _: str) -> Depths:
        return Depths(1, tuple(Depth("inbox", name, waiting=1) for name in names))


async def test_B123_of_thousands_of_agents_and_capabilities_a_hundred_have_series_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wanted = [
        Capacity(capability=f"c{number}", agents=1, instances=1, slots=1, inflight=0, backlog=0, waiting=0,
                 arrivals_per_s=0, wanted=2)
        for number in range(PATTERNS)
    ]  # fmt: skip

    async def capacity(_: object) -> tuple[list[Capacity], int]:
        return wanted, 1

    monkeypatch.setattr(env_gauges, "read_capacity", capacity)
    fleet, readings = Fleet(), Readings()
    gauges = env_gauges.EnvGauges(cast("Any", fleet), cast("Any", fleet), "w1", ManualClock())
    readings.add(gauges)
    for turn in range(3):
        fleet.start(turn)
        await gauges.run_once()
        told = series(readings)
        names = {value for _, pairs in told for name, value in pairs if name == "agent"} - {"", OTHER}
        assert len(names) == MAX_NAMES
        assert all(name.startswith(f"agent-{turn}-") for name in names)
        capabilities = {value for _, pairs in told for name, value in pairs if name == "capability"}
        assert len(capabilities) == MAX_NAMES + 1
        assert len(told) < 4 * MAX_NAMES + 4 * len(METRICS)
        sums = [sum(values.values()) for metric, values in readings.numbers() if metric.name == "reach_stream_lag"]
        assert sums == [env_gauges.MAX_LOOKED_AT]  # nothing is lost in `other`
