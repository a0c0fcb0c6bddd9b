"""What is over a bound is told so at once, or waits, as the policy says; and it is told which bound that is."""

import json
from typing import Any

import pytest

from reach.envelope.ledger import LegState
from tests.contract.places import ENV, KEYS
from tests.integration.spine import BOX, Spine, envelope, until


async def has_policy(spine: Spine, policy: bytes) -> None:
    """refund-1 is there, and every router knows this policy of it."""
    await spine.register("refund-1", "refund")
    await spine.backend.set_meta("routes", "capability:refund", policy)
    index = next(service for service in spine.services if service.name == "watcher").index  # type: ignore[attr-defined]

    async def known() -> bool:
        return "refund-1" in index.agents and index.policy("capability:refund").max_inbox is not None

    await until(known, "the policy")


def by(sender: str) -> dict[str, object]:
    return envelope(source={"agent_id": sender})


@pytest.mark.leaves_work(why="nobody reads the inbox")
async def test_one_sender_over_its_share_is_told_so_and_another_gets_in(spine: Spine) -> None:
    await has_policy(spine, b'{"max_inbox":4,"on_full":"reject"}')
    noisy = [by("noisy") for _ in range(3)]
    for made in noisy:
        await spine.send(made)
    receipt = await spine.receipt(str(noisy[2]["msg_id"]))
    assert (receipt["status"], receipt["code"], receipt["retry_after_ms"]) == ("retryable", "overloaded", 1_000)
    assert receipt["error_message"] == "this sender fills its share of every inbox"
    (reason,) = receipt["details"]["reasons"]
    assert (reason["filter"], reason["reason"]) == ("capacity", "this sender fills its share of the inbox")
    await spine.send(by("quiet"))
    await until(lambda: _queued(spine, 3), "the other sender's message in the inbox")


async def _queued(spine: Spine, count: int) -> bool:
    return len(await spine.place.entries(KEYS.inbox(0, "refund-1", "normal"))) == count


@pytest.mark.leaves_work(why="nobody reads the inbox")
async def test_two_routers_keep_one_rate_limit(spine: Spine) -> None:
    async with Spine(spine.place, await spine.place.connect(), "w2"):
        await spine.register("refund-1", "refund", rate_limit=6)
        made = [by("anybody") | {"timeouts": {"total_ms": 5_000}} for _ in range(12)]
        for one in made:
            await spine.send(one)
        receipts = [one for one in [await _told(spine, str(each["msg_id"])) for each in made] if one is not None]
    assert await _queued(spine, 6)
    assert {receipt["code"] for receipt in receipts} == {"overloaded"}
    assert all(5_000 < receipt["retry_after_ms"] <= 60_000 for receipt in receipts)
    assert len(receipts) == 6


async def test_a_registration_with_a_bad_limit_is_refused_with_its_field(spine: Spine) -> None:
    declared = {"op": "register", "reply_to": BOX, "agent_id": "a", "instance_id": "a.1", "env": ENV, "rate_limit": 0}
    await spine.backend.send_control(json.dumps(declared).encode())

    async def refused() -> list[Any]:
        entries = await spine.place.entries(KEYS.mail(0, BOX))
        return [json.loads(fields[b"n"]) for _, fields in entries if b"n" in fields]

    (notice,) = await until(refused, "the registrar's answer")
    assert (notice["notice"], notice["code"]) == ("refused", "registration.bad_field")
    assert "rate_limit" in json.dumps(notice)


async def _told(spine: Spine, msg_id: str) -> dict[str, Any] | None:
    """Its receipt; None for one that lies in the inbox."""

    async def known() -> list[Any]:
        entries = await spine.place.entries(KEYS.inbox(0, "refund-1", "normal"))
        there = [None for _, fields in entries if fields[b"m"].decode() == msg_id]
        return there or await spine.mail(msg_id)

    found: list[dict[str, Any] | None] = await until(known, f"an inbox or an end for {msg_id}")
    return found[0]


async def has_setting(spine: Spine, name: str, value: bytes) -> None:
    """Every router knows this field of meta."""
    await spine.backend.set_meta("meta", name, value)
    index = next(service for service in spine.services if service.name == "watcher").index  # type: ignore[attr-defined]

    async def known() -> bool:
        return bool(index.setting(name, 0) == int(value))

    await until(known, f"{name} in the index")


@pytest.mark.leaves_work(why="nobody reads the inbox")
@pytest.mark.parametrize("name", ["max_inflight", "max_inflight_per_sender"])
async def test_over_what_may_be_open_it_is_refused_and_only_its_next_round_runs(spine: Spine, name: str) -> None:
    await spine.register("refund-1", "refund")
    await has_setting(spine, name, b"2")
    made = [by("noisy") for _ in range(3)]
    for one in made:
        await spine.send(one)
    receipt = await spine.receipt(str(made[2]["msg_id"]))
    assert (receipt["status"], receipt["code"], receipt["retry_after_ms"]) == ("retryable", "overloaded", 1_000)
    assert receipt["details"] == {"bound": name}
    ended = await spine.backend.inspect(0, str(made[2]["msg_id"]))
    assert ended is not None
    assert ended.head.open == 0
    points = ("message.received", "message.rejected", "message.delivered")
    record = (await spine.points(str(made[2]["msg_id"]), *points))[1]
    assert record["code"] == "overloaded"
    await spine.backend.cancel(0, str(made[0]["msg_id"]), "noisy", 1, 0)
    await spine.send(made[2])  # a repeat of it runs nothing, a new round may
    await until(lambda: _stored(spine, str(made[2]["msg_id"])), "the stored end")
    await spine.send(made[2] | {"round": 2})
    await until(lambda: _queued(spine, 2), "the message in the inbox")


@pytest.mark.leaves_work(why="nobody reads the inbox")
async def test_an_agent_with_as_much_as_it_may_have_makes_others_wait(spine: Spine) -> None:
    await spine.register("refund-1", "refund")
    await has_setting(spine, "max_inflight_per_agent", b"1")
    first, second = by("anybody"), by("anybody") | {"priority": 9}
    await spine.send(first)
    await until(lambda: _queued(spine, 1), "the first in the inbox")
    await spine.send(second)
    await until(lambda: _waits(spine, str(second["msg_id"])), "the second waits")
    await spine.backend.cancel(0, str(first["msg_id"]), "anybody", 1, 0)
    hand, fields = await spine.work("refund-1", "high")
    assert (hand, fields[b"m"].decode()) == (hand, second["msg_id"])


async def _stored(spine: Spine, msg_id: str) -> bool:
    return any(one["stored"] for one in await spine.mail(msg_id))


async def _waits(spine: Spine, msg_id: str) -> bool:
    record = await spine.backend.inspect(0, msg_id)
    return record is not None and record.legs[0].state is LegState.WAITING
