"""What is refused: a repeat of it runs nothing later, and whoever asked in a later round hears of it."""

import uuid
from collections.abc import Sequence
from typing import Any

import pytest

from reach.backend.steps import Decision, RouteResult, Send
from reach.errors import ScriptFailed
from tests.unit.delivery.test_router import KEYS, Bench, bench

__all__ = ["bench"]

TWO = {"round": 2}
#: of a valid message, and of what is none; each with the code of its refusal
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a rule": (TWO | {"ttl_ms": 0}, "ttl.zero"),
    "its type": (TWO | {"type": "of.nobody"}, "type.unregistered"),
    "its pattern": (TWO | {"target": {"pattern": "nonsense"}}, "target.bad_pattern"),
    "a field that is none": (TWO | {"rond": 1}, "envelope.unknown_field"),
    "a field of the wrong type": (TWO | {"ttl_ms": "x"}, "envelope.bad_field"),
    "too large": (TWO | {"payload": {"body": "x" * (1 << 20)}}, "envelope.too_large"),
}


@pytest.mark.parametrize("why", REFUSED)
async def test_a_refusal_names_the_round_that_was_asked_for(bench: Bench, why: str) -> None:
    fields, code = REFUSED[why]
    await bench.send(**fields)
    await bench.router.run_once()
    (receipt,) = await bench.receipts()
    assert (receipt["code"], receipt["round"]) == (code, 2)


@pytest.mark.parametrize("written", [True, False])
async def test_a_burial_names_the_round_that_was_asked_for(bench: Bench, written: bool) -> None:
    await bench.send(**TWO)
    bench.backend.fault = failing(bench, once=written)
    await bench.router.run_once()
    (receipt,) = await bench.receipts()
    assert (receipt["code"], receipt["round"]) == ("backend.unavailable", 2)


async def test_what_brought_a_router_down_is_answered_in_its_round(bench: Bench) -> None:
    bench.judge.bad = await bench.send(**TWO)
    for _ in range(2):
        with pytest.raises(RecursionError):
            await bench.router.run_once()
    await bench.router.run_once()
    (receipt,) = await bench.receipts()
    assert (receipt["code"], receipt["round"]) == ("backend.unavailable", 2)


def failing(bench: Bench, *, once: bool) -> Any:
    """A server on which sends fail: the next one, or each but for what ends as a plain refusal."""

    def fault(decisions: Sequence[Decision]) -> list[RouteResult] | None:
        if not any(isinstance(decision, Send) for decision in decisions):
            return None
        if once:
            bench.backend.fault = lambda _: None
        raise ScriptFailed("broken")

    return fault


@pytest.mark.parametrize("scope", ["one", "all"])
async def test_a_repeat_of_what_was_too_many_runs_nothing_once_there_is_room(bench: Bench, scope: str) -> None:
    await bench.backend.set_meta("meta", "max_inflight", b"1")
    await bench.watcher.run_once()
    other = await bench.send()
    refused: dict[str, Any] = {"msg_id": str(uuid.uuid4()), "target": {"pattern": "capability:refund", "scope": scope}}
    await bench.send(**refused)
    await bench.router.run_once()
    (receipt,) = await bench.receipts()
    assert (receipt["code"], receipt["status"], receipt["retry_after_ms"]) == ("overloaded", "retryable", 1_000)
    assert (receipt["details"], receipt["leg"], receipt["stored"]) == ({"bound": "max_inflight"}, 0, False)
    await bench.backend.cancel(0, other, "tester", 1, 0)
    await bench.send(**refused)  # the reply to its sending was lost
    await bench.router.run_once()
    assert bench.delivered() == []
    assert [one["stored"] for one in await bench.receipts() if one["code"] == "overloaded"] == [False, True]
    await bench.send(**refused, round=2)  # its caller asks again
    await bench.router.run_once()
    assert bench.delivered() == [refused["msg_id"]]


async def test_a_repeat_that_was_let_in_meanwhile_is_not_said_to_be_rejected(bench: Bench) -> None:
    """Two routers have the two entries: one lets it in between the other's look and its refusal."""
    msg_id = await bench.send()

    def full(_: Sequence[Decision]) -> list[RouteResult]:
        bench.backend.fault = let_in
        return [RouteResult("full", known="env")]

    def let_in(decisions: Sequence[Decision]) -> list[RouteResult]:
        bench.backend.fault = lambda _: None
        return [RouteResult("done", known="duplicate") for _ in decisions]

    bench.backend.fault = full
    await bench.router.run_once()
    await bench.hops.run_once()
    told = [record async for record in records(bench)]
    assert not any(b"message.rejected" in one for one in told)
    assert any(msg_id.encode() in one for one in told)


async def records(bench: Bench) -> Any:
    """What lies in the events."""
    stream = bench.store.stream(KEYS.events(0))
    assert stream is not None
    for _, fields in stream.all():
        yield fields[b"b"]


async def test_what_ends_at_once_needs_no_room(bench: Bench) -> None:
    await bench.backend.set_meta("meta", "max_inflight", b"1")
    await bench.watcher.run_once()
    await bench.send()
    hops = {"previous_hops": ["refund-1"]}
    await bench.send(traces=hops)
    await bench.router.run_once()
    (receipt,) = await bench.receipts()
    assert receipt["code"] == "loop.detected"


async def test_a_repeat_of_what_was_buried_runs_nothing_and_the_letter_can_be_sent_again(bench: Bench) -> None:
    msg_id = await bench.send()
    bench.backend.fault = failing(bench, once=True)
    await bench.router.run_once()
    assert await bench.dead() == [msg_id]
    await bench.send(msg_id=msg_id)
    await bench.router.run_once()
    assert bench.delivered() == []
    first, second = await bench.receipts()
    assert first["code"] == "backend.unavailable"
    assert "broken" in first["details"]["reason"]
    assert (second["code"], second["stored"]) == ("backend.unavailable", True)
    await bench.send(msg_id=msg_id, round=2)
    await bench.router.run_once()
    assert bench.delivered() == [msg_id]
