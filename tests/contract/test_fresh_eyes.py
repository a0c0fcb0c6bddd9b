"""fresh_eyes over routers: they share whom a conversation has met, also with one that has just started; and need no memory to go on."""

import json
import random
from typing import Any

from reach.backend.port import Backend
from reach.delivery.judge import Judge
from reach.delivery.rates import Rates
from reach.delivery.router import Router
from reach.delivery.trail import Trail
from reach.registry.routes import read_index
from reach.routing.decide import Chooser
from reach.routing.strategies import Memory
from reach.tracing.hops import HopRecorder
from reach.tracing.time_base import TimeBase
from tests.contract.drive import Drive, new_id, retryable
from tests.contract.places import KEYS
from tests.manual_clock import ManualClock

AGENTS = ("a1", "a2", "a3")


async def fleet(drive: Drive, strategy: str = "fresh_eyes") -> None:
    for agent_id in AGENTS:
        declared = {
            "agent_id": agent_id,
            "instance_id": "i",
            "env": drive.backend.env,
            "capabilities": [{"name": "work"}],
        }
        await drive.backend.open_inbox(0, agent_id)
        await drive.backend.register(agent_id, json.dumps(declared).encode(), "i", b'{"state":"ready"}', None)
    await drive.backend.set_meta("routes", "capability:work", json.dumps({"strategy": strategy}).encode())


async def fresh_router(drive: Drive, seed: int = 1) -> Router:
    """One that has just started: it remembers nothing."""
    backend: Backend = await drive.place.connect()
    index, now_ms = await read_index(backend)
    clock, rng = ManualClock(), random.Random(seed)
    by = Chooser(index=index, rng=rng, memory=Memory())
    return Router(
        backend,
        Judge(by, env=backend.env, partitions=1, durability="memory", rng=rng),
        Trail(HopRecorder(backend.record, TimeBase(fallback_us=lambda: now_ms * 1000))),
        worker=f"w{seed}",
        partitions=[0],
        rates=Rates(backend, index, clock),
        now_ms=lambda: now_ms,
        block_ms=1,
        clock=clock,
    )


async def sent(drive: Drive, router: Router, conversation: str = "talk", **fields: Any) -> str:
    """Who got it."""
    envelope = {
        "msg_id": new_id(),
        "type": "request",
        "timestamp": 1,
        "source": {"agent_id": "tester"},
        "target": {"pattern": "capability:work"},
        "correlation_id": conversation,
        **fields,
    }
    before = await lying(drive)
    await drive.backend.submit(0, "normal", json.dumps(envelope).encode())
    await router.run_once()
    (chosen,) = [agent_id for agent_id, count in (await lying(drive)).items() if count > before[agent_id]]
    return chosen


async def lying(drive: Drive) -> dict[str, int]:
    return {agent_id: len(await drive.inbox(agent_id)) for agent_id in AGENTS}


async def test_one_router_sends_each_question_to_somebody_else(drive: Drive) -> None:
    await fleet(drive)
    router = await fresh_router(drive)
    assert sorted([await sent(drive, router) for _ in AGENTS]) == list(AGENTS)
    assert await sent(drive, router) in AGENTS


async def test_so_do_routers_that_have_just_started(drive: Drive) -> None:
    await fleet(drive)
    chosen = [await sent(drive, await fresh_router(drive, seed)) for seed in range(3)]
    assert sorted(chosen) == list(AGENTS)


async def test_several_of_one_batch_are_asked_about_at_once(drive: Drive) -> None:
    await fleet(drive)
    first = await sent(drive, await fresh_router(drive))
    router = await fresh_router(drive, 2)
    assert first not in {await sent(drive, router, "talk"), await sent(drive, router, "talk")}


async def test_a_message_that_comes_back_goes_to_somebody_whom_its_conversation_has_not_met(drive: Drive) -> None:
    await fleet(drive)
    first = await sent(drive, await fresh_router(drive))
    second = await sent(drive, await fresh_router(drive, 2), max_attempts=3)
    (taken,) = (await drive.backend.take(0, second, "i", 1)).taken
    assert await drive.settle_as(second, taken, retryable("handler.error"), "i") == "done"
    router = await fresh_router(drive, 3)
    await router.run_once()  # it waits for its back-off
    await drive.place.pass_time(2_000)
    await drive.backend.due(0)
    await router.run_once()
    assert (await drive.leg(taken.msg_id)).agent not in {first, second}


async def test_other_policies_ask_for_nothing_and_write_nothing(drive: Drive) -> None:
    await fleet(drive, "score")
    await sent(drive, await fresh_router(drive))
    assert await drive.place.type_of(KEYS.met("tester")) == "none"


async def test_what_was_met_is_kept_by_the_source(drive: Drive) -> None:
    await fleet(drive)
    chosen = await sent(drive, await fresh_router(drive))
    (found,) = await drive.backend.met([("tester", "0")])
    assert [(one.agent, one.here) for one in found] == [(chosen, False)]
    assert len(await drive.place.scores(KEYS.met("tester"))) == 2
