"""What is recorded, asked by a program without an event loop."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from reach import ConfigError, Events, Query, SyncReach
from reach.sdk.sync_events import SyncEvents
from tests.unit.sdk.shops import Order, shop
from tests.waiting import eventually


@pytest.fixture
def reach() -> Iterator[SyncReach]:
    with SyncReach.embedded(shop("shop"), agent_id="asker") as opened:
        yield opened


def test_it_has_what_events_has() -> None:
    """What is missing is the raw material of a trace."""
    missing = {name for name in dir(Events) if not name.startswith("_")} - set(dir(SyncEvents))
    assert missing == {"records_of"}


def test_a_message_is_found_traced_and_explained(reach: SyncReach) -> None:
    began_us = reach.events.now_us()
    receipt = reach.request("capability:refund", Order("ORD-1"))
    of_it = Query(fields={"msg_id": (receipt.msg_id,)})
    eventually(lambda: "agent.completed" in [record["point"] for record in reach.events.find(of_it)])
    trace = reach.events.trace(receipt.msg_id)
    assert trace is not None
    assert [(message.pattern, message.runs[0].agent) for message in trace.walk()] == [("capability:refund", "shop")]
    why = reach.events.explain(receipt.msg_id)
    assert why is not None
    assert why.pattern == "capability:refund"
    (recording,) = reach.events.recordings(msg_ids=[receipt.msg_id])
    assert recording.msg_id == receipt.msg_id
    assert reach.events.trace("nobody") is None
    (page,) = reach.events.pages(of_it)
    assert page == reach.events.find(of_it)
    first = next(reach.events.follow(Query(fields={"msg_id": (receipt.msg_id,)}, since_us=began_us)))
    assert first["msg_id"] == receipt.msg_id
    assert next(reach.events.follow_trace(receipt.msg_id)).walk()


def test_a_store_is_asked_as_well_and_let_go(reach: SyncReach, tmp_path: Path) -> None:
    kept = reach.events.with_store(f"sqlite:{tmp_path}")
    assert kept.find(Query(fields={"msg_id": ("nobody",)})) == []
    kept.close()
    kept.close()
    with pytest.raises(ConfigError):
        reach.events.with_store("nothing:like/this")
