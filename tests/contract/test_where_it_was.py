"""A receipt of a timeout says which one it was, and where the message was then: state, agent, runs, the last code."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from reach.backend.steps import Plan
from tests.contract.drive import AGENT, TO_AGENT, Drive, retryable

Bring = Callable[[Drive, dict[str, Any]], Awaitable[None]]
SHORT = {"total_ms": 20_000, "ttl_ms": 20_000}


@pytest.fixture
async def late(drive: Drive) -> Drive:
    """A drive whose router has run for so long that no grace holds anything up."""
    await drive.past_grace()
    await drive.backend.open_inbox(0, "a2")
    return drive


async def queued(late: Drive, head: dict[str, Any]) -> None:
    await late.sent(**head)


async def moved(late: Drive, head: dict[str, Any]) -> None:
    await late.sent(network_ms=500, **head)
    await late.live(600)
    assert (await late.decide(await late.asked_again(), Plan("move", "a2"))).verdict == "done"


async def running(late: Drive, head: dict[str, Any]) -> None:
    taken = await late.running(processing_ms=60_000, **head)
    await late.live(2_000, renew=(taken.hand,))


async def returned(late: Drive, head: dict[str, Any]) -> None:
    await late.returned(**head)


async def waiting(late: Drive, head: dict[str, Any]) -> None:
    await late.sent(Plan("delay", wait_ms=60_000), **head)


async def waiting_for_a_retry(late: Drive, head: dict[str, Any]) -> None:
    _, entry = await late.returned("handler.retry", **head)
    await late.decide(entry, Plan("delay", wait_ms=60_000))


async def queued_again(late: Drive, head: dict[str, Any]) -> None:
    _, entry = await late.returned(**head)
    await late.decide(entry, TO_AGENT)


@pytest.mark.parametrize(
    ("bring", "state", "agent", "attempts", "last_code"),
    [
        (queued, "queued", AGENT, 0, None),
        (moved, "queued", "a2", 0, None),
        (queued_again, "queued", AGENT, 1, "handler.error"),
        (running, "running", AGENT, 1, None),
        (returned, "returned", AGENT, 1, "handler.error"),
        (waiting, "waiting", None, 0, None),
        (waiting_for_a_retry, "waiting", AGENT, 1, "handler.retry"),
    ],
)
@pytest.mark.parametrize("by", ["due", "a caller"])
async def test_total(
    late: Drive, bring: Bring, state: str, agent: str | None, attempts: int, last_code: str | None, by: str
) -> None:
    await bring(late, SHORT)
    await late.place.pass_time(20_001)
    (msg_id,) = await late.place.due()
    await late.backend.due(0, msg_id if by == "a caller" else "")
    receipt = await late.receipt()
    assert (receipt["code"], receipt["status"], receipt["stored"]) == ("timeout.total", "retryable", False)
    assert receipt["details"] == {"state": state} | ({"last_code": last_code} if last_code else {})
    assert (receipt["target_agent"], receipt["attempts"]) == (agent, attempts)
    assert receipt["retry_count"] == max(attempts - 1, 0)


@pytest.mark.parametrize(
    ("bring", "state", "agent"), [(queued, "queued", AGENT), (moved, "queued", "a2"), (waiting, "waiting", None)]
)
async def test_ttl(late: Drive, bring: Bring, state: str, agent: str | None) -> None:
    """It bounds the first hand-over alone: what runs, or has run, has no ttl any more."""
    await bring(late, {"ttl_ms": 4_000})
    await late.place.pass_time(4_001)
    await late.backend.due(0)
    receipt = await late.receipt()
    assert (receipt["code"], receipt["status"]) == ("ttl.expired", "retryable")
    assert receipt["details"] == {"state": state}
    assert (receipt["target_agent"], receipt["attempts"]) == (agent, 0)


async def test_processing(late: Drive) -> None:
    """With no attempt left the router ends it with what `due` has said of the run."""
    taken = await late.running(processing_ms=5_000)
    await late.live(5_001, renew=(taken.hand,))
    leg = await late.leg(taken.msg_id)
    assert (leg.code, leg.details) == ("timeout.processing", '{"state":"running"}')


@pytest.mark.parametrize(("head", "code"), [(SHORT, "timeout.total"), ({"ttl_ms": 20_000}, "ttl.expired")])
async def test_network_ends_nothing_by_itself(late: Drive, head: dict[str, Any], code: str) -> None:
    """Nobody picks it up, and nobody else could have it: it stays, and another timeout ends it where it is."""
    await late.sent(network_ms=500, **head)
    for ms in (600, 3_100, 6_100):
        await late.live(ms)
        assert (await late.decide(await late.asked_again(), Plan("stay"))).known == "stay"
    assert await late.receipts() == []
    await late.live(12_000)
    receipt = await late.receipt()
    assert (receipt["code"], receipt["details"]) == (code, {"state": "queued"})
    assert (receipt["target_agent"], receipt["attempts"]) == (AGENT, 0)


async def test_what_the_last_run_said_stands_beside_where_it_was(late: Drive) -> None:
    taken = await late.running(processing_ms=60_000, **SHORT)
    await late.settle(taken, retryable("my.code", '{"n":1}'))
    await late.decide(await late.asked_again(), TO_AGENT)
    again = await late.taken()
    await late.live(20_001, renew=(again.hand,))
    receipt = await late.receipt()
    assert receipt["details"] == {"state": "running", "last_code": "my.code"}
    assert (receipt["attempts"], receipt["target_instance"]) == (2, "i1")
