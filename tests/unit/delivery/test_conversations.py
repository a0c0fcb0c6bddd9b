"""What routers ask about conversations, and what is counted for agents without scripts."""

import json
import random
from collections.abc import Sequence
from typing import Any

import pytest

from reach.backend.bounds import MOST_SPENT
from reach.backend.spent import Spent
from reach.backend.steps import Answer, Over, Turn
from reach.delivery.conversations import MAX_PAIR_RATE, MAX_SAME_CONTENT, end_of, turn_of
from reach.delivery.judge import Judge
from reach.delivery.rates import Rates
from reach.delivery.router import Router
from reach.delivery.spending import Used, millionths, used_by
from reach.delivery.trail import Trail
from reach.envelope.message import Budget, Envelope, Needs, Source, Target, Traces
from reach.errors import BackendUnavailable, ScriptFailed
from reach.routing.decide import Chooser
from reach.routing.strategies import Memory
from reach.testing import FaultyBackend
from tests.unit.delivery.test_router import KEYS, Bench

CONV = "c"
BUDGET = {"correlation_id": CONV, "budget": {"hops": 1}}


@pytest.fixture
async def bench() -> Bench:
    made = Bench()
    await made.open()
    return made


def router_with(bench: Bench, worker: str) -> tuple[Router, FaultyBackend]:
    """One more router on the same store."""
    faulty = FaultyBackend(bench.backend)
    rng = random.Random(7)
    by = Chooser(index=bench.index, rng=rng, memory=Memory())
    judge = Judge(by, env="dev", partitions=1, durability="memory", rng=rng)
    router = Router(
        faulty.backend,
        judge,
        Trail(bench.hops),
        worker=worker,
        partitions=[0],
        rates=Rates(faulty.backend, bench.index, bench.clock),
        now_ms=bench.watcher.now_ms,
        block_ms=0,
        clock=bench.clock,
    )
    return router, faulty


async def codes(bench: Bench, msg_ids: Sequence[str]) -> list[str]:
    """How they have ended; "" = they are with the agent."""
    found = {receipt["msg_id"]: receipt["code"] for receipt in await bench.receipts()}
    return [found.get(msg_id, "") for msg_id in msg_ids]


async def test_a_batch_asks_once_and_plain_messages_ask_nothing(bench: Bench) -> None:
    router, faulty = router_with(bench, "w2")
    await bench.send()
    await bench.send(budget={})
    await router.run_once()
    assert "converse" not in faulty.calls
    sent = [await bench.send(**BUDGET) for _ in range(3)] + [await bench.send(traces={"previous_hops": ["x"]})]
    await router.run_once()
    assert faulty.calls.count("converse") == 1
    assert await codes(bench, sent) == ["", "", "budget.exceeded", ""]


async def test_two_routers_count_together(bench: Bench) -> None:
    other, _ = router_with(bench, "w2")
    sent = []
    for router in (bench.router, other, bench.router, other):
        sent.append(await bench.send(**BUDGET))
        await router.run_once()
    assert await codes(bench, sent) == ["", "", "budget.exceeded", "budget.exceeded"]


@pytest.mark.parametrize("step", ["converse", "route"])
@pytest.mark.parametrize("before", [True, False])
async def test_a_router_that_is_cut_off_counts_nothing_twice(bench: Bench, step: str, before: bool) -> None:
    router, faulty = router_with(bench, "w2")
    sent = [await bench.send(**BUDGET)]
    faulty.fail(step, before=before)
    with pytest.raises(BackendUnavailable):
        await router.run_once()
    await router.run_once()
    sent += [await bench.send(**BUDGET), await bench.send(**BUDGET)]
    await router.run_once()
    assert await codes(bench, sent) == ["", "", "budget.exceeded"]


async def test_what_a_dead_router_has_counted_another_one_does_not_count_again(bench: Bench) -> None:
    router, faulty = router_with(bench, "w2")
    sent = [await bench.send(**BUDGET)]
    faulty.fail("route")
    with pytest.raises(BackendUnavailable):
        await router.run_once()
    bench.advance(6_000)
    await bench.router.run_once()
    sent += [await bench.send(**BUDGET), await bench.send(**BUDGET)]
    await bench.router.run_once()
    assert await codes(bench, sent) == ["", "", "budget.exceeded"]


async def test_where_it_cannot_be_counted_nobody_is_refused(bench: Bench) -> None:
    router, faulty = router_with(bench, "w2")
    faulty.fail("converse", error=ScriptFailed("the script broke"), times=3)
    sent = []
    for _ in range(3):
        sent.append(await bench.send(**BUDGET))
        await router.run_once()
    assert await codes(bench, sent) == ["", "", ""]


async def test_what_is_refused_stays_refused(bench: Bench) -> None:
    sent = [await bench.send(**BUDGET) for _ in range(3)]
    await bench.router.run_once()
    bench.store.delete(KEYS.conversation(CONV))
    await bench.send(msg_id=sent[2], **BUDGET)
    await bench.router.run_once()
    found = [receipt for receipt in await bench.receipts() if receipt["msg_id"] == sent[2]]
    assert [(receipt["code"], receipt["stored"]) for receipt in found] == [
        ("budget.exceeded", False),
        ("budget.exceeded", True),
    ]


@pytest.mark.parametrize(
    ("receipt", "used"),
    [
        ({"cost": 0.4}, (400_000, 0)),
        ({"details": {"tokens": 70}}, (0, 20)),
        ({"cost": -1, "details": {"tokens": 7}}, (0, 0)),
        ({"details": {"tokens": "many"}}, (0, 0)),
    ],
)
async def test_an_agent_without_scripts_tells_what_it_used(
    bench: Bench, receipt: dict[str, Any], used: tuple[int, int]
) -> None:
    msg_id = await bench.send(correlation_id=CONV, budget={"cost": 9, "tokens": 900}, needs={"context_tokens": 50})
    await bench.router.run_once()
    stream = bench.store.stream(KEYS.inbox(0, "refund-1", "normal"))
    assert stream is not None
    (hand,) = [entry_id for entry_id, _ in stream.all()]
    fields = {b"m": msg_id.encode(), b"l": b"0", b"h": hand.encode()}
    fields[b"r"] = json.dumps({"status": "success"} | receipt).encode()
    for _ in range(2):
        bench.store.append(KEYS.receipts(0), fields)
    await bench.router.run_once()
    assert (await bench.receipts())[-1]["code"] == "ok"
    stored = bench.store.hash(KEYS.conversation(CONV))
    assert stored is not None
    assert (int(stored.get("c", b"0")), int(stored.get("t", b"0")) - 50) == used


async def test_each_run_is_paid_also_where_its_return_burns_no_attempt(bench: Bench) -> None:
    msg_id = await bench.send(correlation_id=CONV, budget={"cost": 9}, ttl_ms=60_000, timeouts={"total_ms": 60_000})
    await bench.router.run_once()
    stream = bench.store.stream(KEYS.inbox(0, "refund-1", "normal"))
    assert stream is not None
    told = b'{"status":"retryable","cost":0.4,"retry_after_ms":1000}'
    for run in range(1, 4):
        ((hand, _),) = stream.all()
        entry = {b"m": msg_id.encode(), b"l": b"0", b"h": hand.encode(), b"r": told}
        for _ in range(2):
            bench.store.append(KEYS.receipts(0), entry)
        await bench.router.run_once()
        stored = bench.store.hash(KEYS.conversation(CONV))
        assert stored is not None
        assert int(stored["c"]) == run * 400_000
        await bench.router.run_once()  # decides how long it waits
        bench.advance(3_000)
        await bench.backend.due(0)
        await bench.backend.beat("refund-1", "i", b'{"state":"ready"}')
        await bench.backend.set_meta("meta", "run", str(run).encode())  # what the watcher wakes for
        await bench.watcher.run_once()
        await bench.router.run_once()
    record = await bench.backend.inspect(0, msg_id)
    assert record is not None
    assert record.legs[0].attempt == 0


async def test_where_the_message_cannot_be_read_any_more_all_that_was_used_is_counted(bench: Bench) -> None:
    msg_id = await bench.send(correlation_id=CONV, budget={"tokens": 900}, needs={"context_tokens": 50})
    await bench.router.run_once()
    stream = bench.store.stream(KEYS.inbox(0, "refund-1", "normal"))
    assert stream is not None
    ((hand, entry),) = stream.all()
    entry[b"e"] = b"junk"
    receipt = b'{"status":"success","details":{"tokens":70}}'
    bench.store.append(KEYS.receipts(0), {b"m": msg_id.encode(), b"l": b"0", b"h": hand.encode(), b"r": receipt})
    await bench.router.run_once()
    stored = bench.store.hash(KEYS.conversation(CONV))
    assert stored is not None
    assert stored["t"] == b"120"


@pytest.mark.parametrize(
    ("receipt", "cost"),
    [
        ({"status": "success"}, 2.0),
        ({"status": "success", "cost": 0.25}, 0.25),
        ({"status": "success", "cost": 0}, 0.0),
        ({"status": "failed"}, None),
        ({"status": "failed", "cost": 0.5}, 0.5),
    ],
)
async def test_an_agent_without_scripts_costs_what_it_says_else_what_is_declared(
    bench: Bench, receipt: dict[str, Any], cost: float | None
) -> None:
    declared = {"agent_id": "refund-1", "instance_id": "i", "cost": 9, "capabilities": [{"name": "refund", "cost": 2}]}
    stored = await bench.backend.registered("refund-1")
    assert (await bench.backend.register("refund-1", json.dumps(declared).encode(), "i", b"{}", stored)).ok
    await bench.watcher.run_once()
    msg_id = await bench.send(correlation_id=CONV)
    await bench.router.run_once()
    stream = bench.store.stream(KEYS.inbox(0, "refund-1", "normal"))
    assert stream is not None
    ((hand, _),) = stream.all()
    told = {b"m": msg_id.encode(), b"l": b"0", b"h": hand.encode(), b"r": json.dumps(receipt).encode()}
    for _ in range(2):
        bench.store.append(KEYS.receipts(0), told)
    await bench.router.run_once()
    assert (await bench.receipts())[-1]["cost"] == cost
    found = await bench.backend.used_in(CONV)
    assert found == (Spent(1, millionths(cost)) if cost else None)


@pytest.mark.parametrize("budget", [{"hops": -1}, {"cost": -0.5}, {"tokens": -1}])
async def test_a_budget_below_nothing_is_refused(bench: Bench, budget: dict[str, Any]) -> None:
    await bench.send(budget=budget)
    await bench.router.run_once()
    (receipt,) = await bench.receipts()
    assert (receipt["code"], receipt["details"]["field"]) == ("envelope.bad_field", f"budget.{next(iter(budget))}")


# ---------------------------------------------------------------- in and out


def envelope(**fields: Any) -> Envelope:
    base: dict[str, Any] = {
        "msg_id": "m",
        "type": "request",
        "timestamp": 0,
        "source": Source(agent_id="a-1", name="a"),
    }
    return Envelope(**base | {"target": Target(pattern="capability:b")} | fields)


def test_what_is_asked_of_a_message() -> None:
    assert turn_of(envelope()) is turn_of(envelope(budget=Budget())) is None
    made = turn_of(envelope(budget=Budget(cost=0.0000004, hops=1 << 62), needs=Needs(context_tokens=1 << 62)))
    assert made == Turn(conversation="m", msg_id="m", tokens=MOST_SPENT, max_hops=MOST_SPENT, max_cost=0)
    sent = envelope(correlation_id="c", round=2, in_reply_to="n", traces=Traces(previous_hops=("x", "y")))
    turn = turn_of(sent)
    assert turn is not None
    assert (turn.conversation, turn.round, turn.in_reply_to, turn.depth, turn.max_cost) == ("c", 2, "n", 2, None)
    assert len(turn.pair) == len(turn.content) == 16


def test_replicas_of_one_name_are_one_sender() -> None:
    hops = Traces(previous_hops=("x",))
    pairs = {
        turn.pair
        for source in (Source(agent_id="a-1", name="a"), Source(agent_id="a-2", name="a"), Source(agent_id="b"))
        if (turn := turn_of(envelope(traces=hops, source=source))) is not None
    }
    assert len(pairs) == 2


@pytest.mark.parametrize(
    ("over", "code", "details"),
    [
        (Over("pair", 13, 12), "loop.detected", {"loop": "pair", "turns": 13, "allowed": 12}),
        (Over("content", 9, 8), "loop.detected", {"loop": "content", "turns": 9, "allowed": 8}),
        (Over("hops", 6, 5), "budget.exceeded", {"limit": "hops", "spent": 6, "allowed": 5}),
        (Over("cost", 1_200_000, 1_000_000), "budget.exceeded", {"limit": "cost", "spent": 1.2, "allowed": 1.0}),
        (Over("tokens", 70, 60), "budget.exceeded", {"limit": "tokens", "spent": 70, "allowed": 60}),
    ],
)
def test_how_a_message_ends_that_is_too_much(over: Over, code: str, details: dict[str, Any]) -> None:
    end = end_of(over)
    assert end is not None
    assert (end.code, end.details) == (code, details)
    assert end.message.startswith("with this message ") is (over.what in {"hops", "tokens"}), "what is refused counts"
    assert end_of(Over()) is None


@pytest.mark.parametrize(
    ("core", "details", "used"),
    [
        ('{"cost":0.25}', '{"tokens":7}', Used(250_000, 7)),
        ('{"cost":null}', "{}", Used()),
        ('{"cost":1e300}', '{"tokens":99999999999999999999}', Used(MOST_SPENT, MOST_SPENT)),
        ('{"cost":"much"}', '{"tokens":1.5}', Used()),
        ('{"cost":-1}', '{"tokens":-1}', Used()),
        ("junk", "\ud800", Used()),
    ],
)
def test_what_an_answer_tells(core: str, details: str, used: Used) -> None:
    assert used_by(Answer("success", "ok", core, details)) == used


def test_costs_are_counted_to_the_millionth() -> None:
    assert [millionths(cost) for cost in (0.1 + 0.2, 1e-7, -3.0, float("inf"))] == [300_000, 0, 0, MOST_SPENT]
    assert (MAX_PAIR_RATE, MAX_SAME_CONTENT) == (12, 8)
