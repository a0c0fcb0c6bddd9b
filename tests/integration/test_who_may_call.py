"""Who may call whom, on whole routers: refused at once, everywhere, as long as the rule stands."""

import json
from typing import Any

import pytest

from reach.registry.call_rules import Rules
from reach.routing.access import Access
from tests.contract.places import KEYS
from tests.integration.spine import Spine, envelope, until


def by(sender: str, **fields: Any) -> dict[str, Any]:
    return envelope(source={"agent_id": sender}, **fields)


def rule(source: str, target: str, effect: str) -> bytes:
    return json.dumps({"source": source, "target": target, "effect": effect}).encode()


def access_of(spine: Spine) -> Access:
    watcher = next(one for one in spine.services if one.name == "watcher")
    return watcher.index.access  # type: ignore[attr-defined, no-any-return]


async def followed(spine: Spine, *, count: int, closed: bool = False) -> None:
    """Wait until this router has so many rules, and the env is open or closed to it."""
    access = access_of(spine)

    async def known() -> bool:
        return (len(access.names), access.closed) == (count, closed)

    await until(known, "the rules")


async def test_both_routers_refuse_at_once_what_a_rule_denies(spine: Spine) -> None:
    rules = Rules(spine.backend)
    async with Spine(spine.place, await spine.place.connect(), "w2") as second:
        await spine.register("refund-1", "refund")
        await rules.set("no-interns", rule("intern-*", "capability:refund", "deny"))
        await followed(spine, count=1)
        await followed(second, count=1)
        made = [by(f"intern-{number}", timeouts={"network_ms": 60_000, "total_ms": 120_000}) for number in range(8)]
        for one in made:
            await spine.send(one)
        for one in made:
            receipt = await spine.receipt(one["msg_id"])
            assert (receipt["status"], receipt["code"], receipt["attempts"]) == ("failed", "auth.denied", 0)
            (reason,) = receipt["details"]["reasons"]
            assert reason["filter"] == "rules"
            assert reason["reason"].startswith("the rule no-interns denies intern-")
        assert await spine.place.entries(KEYS.inbox(0, "refund-1", "normal")) == []
        await rules.remove("no-interns")
        await followed(spine, count=0)
        await followed(second, count=0)
        msg_id = await spine.send(by("intern-1"))
        hand, _ = await spine.work("refund-1")
        await spine.settle(msg_id, hand, {"status": "success", "output": 1})
        assert (await spine.receipt(msg_id))["status"] == "success"
        await spine.quiet()


async def test_it_is_recorded_who_was_refused_and_by_which_rule(spine: Spine) -> None:
    await spine.register("refund-1", "refund")
    await spine.backend.set_meta("meta", "closed", b"1")
    await followed(spine, count=0, closed=True)
    msg_id = await spine.send(by("ann"))
    await spine.receipt(msg_id)
    points = ("message.received", "route.matched", "route.failed", "message.delivered")
    _, matched, failed, _ = await spine.points(msg_id, *points)
    assert failed["code"] == "auth.denied"
    assert matched["counts"] == {"matched": 1, "fit": 0, "rules": 1}
    (seen,) = matched["candidates"]
    assert (seen["agent"], seen["filter"]) == ("refund-1", "rules")
    assert "no rule allows ann" in seen["reason"]


async def test_a_closed_env_whose_rules_are_junk_stays_closed(spine: Spine) -> None:
    await spine.register("refund-1", "refund")
    await spine.backend.set_meta("meta", "closed", b"1")
    await Rules(spine.backend).set("all", rule("*", "*", "allow"))
    await followed(spine, count=1, closed=True)
    await spine.backend.set_meta("rules", "all", b"\xff{")
    await followed(spine, count=1, closed=True)
    access = access_of(spine)
    await until(lambda: _junk(access), "the junk")
    assert (await spine.receipt(await spine.send(by("ann"))))["code"] == "auth.denied"


async def _junk(access: Access) -> bool:
    return bool(access.unread)


async def test_an_open_env_whose_rules_are_no_hash_allows_nothing_to_a_router_that_starts(spine: Spine) -> None:
    """And what is set then makes them anew."""
    await spine.register("refund-1", "refund")
    await spine.place.spoil(KEYS.rules())
    async with Spine(spine.place, await spine.place.connect(), "w2") as second:
        access = access_of(second)

        async def is_closed() -> bool:
            return bool(access.closed)

        await until(is_closed, "the second router")
        rules = Rules(spine.backend)
        await rules.set("one", rule("ann", "capability:refund", "deny"))
        await followed(spine, count=1)
        await followed(second, count=1)
        assert (await spine.receipt(await spine.send(by("ann"))))["code"] == "auth.denied"
        msg_id = await spine.send(by("bob"))
        hand, _ = await spine.work("refund-1")
        await spine.settle(msg_id, hand, {"status": "success"})
        assert (await spine.receipt(msg_id))["status"] == "success"


@pytest.mark.leaves_work(why="the answer is not taken")
async def test_who_had_a_message_answers_its_sender_through_all_rules(spine: Spine) -> None:
    """What is asked back with in_reply_to is no call of its own; without it, or by somebody who had nothing, it is one."""
    for agent_id in ("asker", "asked", "other"):
        await spine.register(agent_id, agent_id)
    await Rules(spine.backend).set("ask", rule("asker", "capability:asked", "allow"))
    await spine.backend.set_meta("meta", "closed", b"1")
    await followed(spine, count=1, closed=True)
    asked = await spine.send(by("asker", target={"pattern": "capability:asked"}))
    await spine.work("asked")
    back = {"target": {"pattern": "agent_id:asker"}, "in_reply_to": asked}
    stranger = await spine.send(by("other", **back))
    assert (await spine.receipt(stranger))["code"] == "auth.denied"
    plain = await spine.send(by("asked", target={"pattern": "agent_id:asker"}))
    assert (await spine.receipt(plain))["code"] == "auth.denied"
    elsewhere = await spine.send(by("asked", target={"pattern": "agent_id:other"}, in_reply_to=asked))
    assert (await spine.receipt(elsewhere))["code"] == "auth.denied"
    answer = await spine.send(by("asked", **back))
    _, fields = await spine.work("asker")
    assert fields[b"m"].decode() == answer
