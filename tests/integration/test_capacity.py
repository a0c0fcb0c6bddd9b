"""Where a message finds no room: who stands in, which code tells what was missing, and when to come again (docs/routing.md, the table)."""

import json
from typing import Any

import pytest

from tests.contract.places import KEYS
from tests.integration.spine import Spine, envelope, until

WORK, CHEAP = "capability:work", "capability:cheap"
SHORT: dict[str, Any] = {"timeouts": {"total_ms": 600}}


async def knows(spine: Spine, *agents: str, **policies: bytes) -> None:
    """The agents are registered, and the router knows them and the policies of these capabilities."""
    index = next(service for service in spine.services if service.name == "watcher").index  # type: ignore[attr-defined]
    for name, policy in policies.items():
        await spine.backend.set_meta("routes", f"capability:{name}", policy)
    for agent in agents:
        await spine.register(agent, agent.partition("-")[0], concurrency=1)

    async def known() -> bool:
        return all(a in index.agents and index.agents[a].last_beat_ms() for a in agents) and all(
            index.policy(f"capability:{name}") != index.policy("") for name in policies
        )

    await until(known, "what the router knows")
    index.settling_until_ms = 0  # an env that is new is waited for: this one is not


async def beats(spine: Spine, agent: str, **beat: Any) -> None:
    """It says so, and the router has heard it."""
    index = next(service for service in spine.services if service.name == "watcher").index  # type: ignore[attr-defined]
    await spine.backend.beat(agent, f"{agent}.1", json.dumps(beat).encode())

    async def heard() -> bool:
        told = [one.beat for one in index.agents[agent].instances.values()]
        return all(getattr(one, name) == value for one in told for name, value in beat.items())

    await until(heard, f"the beat of {agent}")


def to(pattern: str, *, sender: str = "tester", **fields: Any) -> dict[str, Any]:
    return envelope(target={"pattern": pattern}, source={"agent_id": sender}, **fields)


async def fill(spine: Spine, agent: str) -> None:
    """One message lies in its inbox."""
    await spine.send(to(f"agent_id:{agent}", sender="somebody"))

    async def lies() -> bool:
        return bool(await spine.place.entries(KEYS.inbox(0, agent, "normal")))

    await until(lies, "the message that fills it")


@pytest.mark.leaves_work(why="nobody reads the inbox")
async def test_a_full_inbox_rejects_as_overloaded(spine: Spine) -> None:
    await knows(spine, "work-1", work=b'{"max_inbox":1,"on_full":"reject"}')
    await fill(spine, "work-1")
    receipt = await spine.receipt(await spine.send(to(WORK)))
    assert (receipt["status"], receipt["code"], receipt["retry_after_ms"]) == ("retryable", "overloaded", 1_000)


@pytest.mark.leaves_work(why="nobody reads the inbox")
async def test_taken_slots_reject_as_exhausted_where_nothing_may_lie_in_an_inbox(spine: Spine) -> None:
    await knows(spine, "work-1", work=b'{"max_inbox":0,"on_full":"reject"}')
    await beats(spine, "work-1", avg_response_ms=3_000.0)
    await spine.send(to(WORK, sender="somebody"))
    await until(lambda: spine.place.entries(KEYS.inbox(0, "work-1", "normal")), "the message that takes the slot")
    receipt = await spine.receipt(await spine.send(to(WORK)))
    assert (receipt["status"], receipt["code"], receipt["retry_after_ms"]) == ("retryable", "capacity.exhausted", 3_000)
    assert receipt["details"]["reasons"][0]["reason"] == "all its 1 slots are taken"


@pytest.mark.leaves_work(why="nobody reads the inbox")
async def test_what_waits_for_room_in_vain_ends_as_exhausted(spine: Spine) -> None:
    await knows(spine, "work-1", work=b'{"max_inbox":1}')
    await fill(spine, "work-1")
    receipt = await spine.receipt(await spine.send(to(WORK, **SHORT)))
    assert (receipt["status"], receipt["code"], receipt["retry_after_ms"]) == ("retryable", "capacity.exhausted", 1_000)


async def test_what_fits_no_context_ends_as_exceeded(spine: Spine) -> None:
    await knows(spine, "work-1")
    await beats(spine, "work-1", context_left=10)
    receipt = await spine.receipt(await spine.send(to(WORK, needs={"context_tokens": 11}, **SHORT)))
    assert (receipt["status"], receipt["code"], receipt["retry_after_ms"]) == ("retryable", "context.exceeded", 5_000)
    assert receipt["details"]["reasons"][0]["reason"] == "has 10 tokens of context left, 11 are needed"


async def test_who_drains_is_no_candidate(spine: Spine) -> None:
    await knows(spine, "work-1")
    await beats(spine, "work-1", state="draining")
    receipt = await spine.receipt(await spine.send(to(WORK, **SHORT)))
    assert (receipt["status"], receipt["code"], receipt["retry_after_ms"]) == ("retryable", "route.no_candidate", None)
    assert receipt["details"]["reasons"] == [{"agent": "work-1", "filter": "ready", "reason": "draining"}]


# ---------------------------------------------------------------- the fallback


async def answer(spine: Spine, agent: str, receipt: dict[str, Any], within_s: float = 5.0) -> str:
    hand, fields = await spine.work(agent, within_s=within_s)
    await spine.settle(fields[b"m"].decode(), hand, receipt)
    return fields[b"m"].decode()


async def test_nobody_fits_and_the_fallback_answers_and_says_so(spine: Spine) -> None:
    await knows(spine, "work-1", "cheap-1", work=b'{"fallback":"capability:cheap"}')
    await beats(spine, "work-1", state="draining")
    msg_id = await spine.send(to(WORK))
    await answer(spine, "cheap-1", {"status": "success", "output": "short"})
    receipt = await spine.receipt(msg_id)
    assert (receipt["code"], receipt["via"], receipt["target_agent"]) == ("ok", "fallback", "cheap-1")

    async def told() -> list[dict[str, Any]]:
        entries = await spine.place.entries(KEYS.events(0))
        records = [one for _, fields in entries for one in json.loads(fields[b"b"])]
        return [one for one in records if one["point"] == "route.matched" and one["msg_id"] == msg_id]

    (matched,) = await until(told, "its record")
    assert (matched["via"], matched["fallback"], matched["chosen"]) == ("fallback", CHEAP, "cheap-1")
    assert {"agent": "work-1", "filter": "ready", "reason": "draining"} in matched["candidates"]


@pytest.mark.leaves_work(why="nobody reads the inbox of work-1")
async def test_a_full_inbox_falls_back_before_anybody_waits_or_is_rejected(spine: Spine) -> None:
    policy = b'{"max_inbox":1,"on_full":"reject","fallback":"capability:cheap"}'
    await knows(spine, "work-1", "cheap-1", work=policy)
    await fill(spine, "work-1")
    msg_id = await spine.send(to(WORK))
    await answer(spine, "cheap-1", {"status": "success"})
    assert (await spine.receipt(msg_id))["via"] == "fallback"


async def test_a_retry_that_would_come_too_late_goes_to_the_fallback(spine: Spine) -> None:
    await knows(spine, "work-1", "cheap-1", work=b'{"fallback":"capability:cheap"}')
    msg_id = await spine.send(to(WORK, timeouts={"total_ms": 4_000}))
    await answer(spine, "work-1", {"status": "retryable", "code": "handler.retry", "retry_after_ms": 30_000})
    await answer(spine, "cheap-1", {"status": "success"})
    receipt = await spine.receipt(msg_id)
    assert (receipt["code"], receipt["via"], receipt["target_agent"]) == ("ok", "fallback", "cheap-1")


async def test_what_both_fail_at_ends_with_the_last_word_of_the_fallback(spine: Spine) -> None:
    await knows(spine, "work-1", "cheap-1", work=b'{"fallback":"capability:cheap"}')
    msg_id = await spine.send(to(WORK, timeouts={"total_ms": 4_000}))
    late = {"status": "retryable", "code": "handler.retry", "retry_after_ms": 30_000}
    await answer(spine, "work-1", late)
    await answer(spine, "cheap-1", late)
    receipt = await spine.receipt(msg_id)
    assert (receipt["code"], receipt["via"], receipt["target_agent"]) == ("handler.retry", "fallback", "cheap-1")


async def test_two_that_name_each_other_end_all_the_same(spine: Spine) -> None:
    await knows(
        spine, "work-1", "cheap-1", work=b'{"fallback":"capability:cheap"}', cheap=b'{"fallback":"capability:work"}'
    )
    for agent in ("work-1", "cheap-1"):
        await beats(spine, agent, state="draining")
    receipt = await spine.receipt(await spine.send(to(WORK, **SHORT)))
    assert (receipt["code"], receipt["via"]) == ("route.no_candidate", None)
    assert {one["agent"] for one in receipt["details"]["reasons"]} == {"work-1", "cheap-1"}


async def test_a_leg_of_a_broadcast_has_no_fallback(spine: Spine) -> None:
    await knows(spine, "work-1", "cheap-1", work=b'{"fallback":"capability:cheap"}')
    await beats(spine, "work-1", state="draining")
    broadcast = envelope(target={"pattern": WORK, "scope": "all"}, **SHORT)
    receipt = await spine.receipt(await spine.send(broadcast))
    assert (receipt["code"], receipt["target_agent"], receipt["via"]) == ("route.no_candidate", "work-1", None)
