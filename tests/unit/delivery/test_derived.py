"""What a router records of runs that nobody records who was there."""

from typing import Any

import msgspec
import pytest

from reach.backend.steps import Answer, Record
from reach.delivery.derived import Derived
from reach.delivery.judge import Reference
from reach.envelope.ledger import Head, Leg, LegState
from reach.tracing.hops import HopRecorder
from reach.tracing.time_base import TimeBase

MSG = "a3f2c1e4-9b8d-4f3a-8c2e-1a2b3c4d5e6f"


@pytest.mark.parametrize(
    ("step_us", "began_us"),
    [(0, 4_800_000), (150_000, 4_950_000), (900_000, 5_000_000)],
    ids=["at once", "slowly", "longer than the run"],
)
async def test_a_run_does_not_begin_before_it_was_sent_where_the_step_was_slow(step_us: int, began_us: int) -> None:
    """The duration ends with the step. What follows from it comes after the mark, and so does what is recorded of it."""
    now_us, events = [5_000_000], list[dict[str, Any]]()

    async def write(_: int, batch: bytes) -> None:
        events.extend(msgspec.json.decode(batch))

    hops = HopRecorder(write, TimeBase(lambda: now_us[0], fallback_us=lambda: now_us[0]), flush_ms=0)
    head = Head("f", "s", "one", "normal", 1, 1, 1, 1, 1, "")
    before = Record(MSG, head, {0: Leg(state=LegState.QUEUED, agent="a", hand="7-0")})
    left = Leg(state=LegState.RETURNED, agent="a", hand="7-0", attempt=1, duration_ms=200)
    mark = hops.base.mark()
    now_us[0] += step_us
    answer = Answer("retryable", "handler.error", "{}")
    Derived(hops).settled(0, before, Reference(MSG, 0, "7-0"), answer, Record(MSG, head, {0: left}), mark)
    await hops.run_once()
    assert [(record["point"], record["at_us"]) for record in events] == [
        ("agent.received", began_us),
        ("agent.responding", 5_000_000),
        ("agent.completed", 5_000_000),
    ]
