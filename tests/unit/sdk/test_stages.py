"""process_order from the outside: stages one after the other, whoever only observes, and what the caller sees of it."""

import asyncio
from typing import Any

import msgspec
import pytest

from reach import Agent, Observed, Receipts, Reject, Status
from reach.backend.steps import Taken
from reach.envelope.codec import encode
from reach.sdk.observed import MAX_OBSERVED, Observations
from reach.testing import TestReach
from tests.contract.drive import new_id
from tests.unit.sdk.test_gather import Crew

ORDER = [["agent_id:a", "agent_id:b"], ["agent_id:c"]]


def codes(receipts: Receipts[Any]) -> list[str]:
    return [receipt.code for receipt in receipts]


async def test_a_stage_begins_when_the_one_before_has_ended() -> None:
    crew = Crew("a", "b", "c", "d")
    async with TestReach(*crew.agents) as bus:
        group = bus.gather("group:crew", 1, process_order=ORDER)
        each = aiter(group)
        await bus.settle()
        assert sorted(crew.runs) == ["a", "b"]
        crew.let("a")
        assert (await anext(each)).target_agent == "a"
        await bus.settle()
        assert sorted(crew.runs) == ["a", "b"]
        crew.let("b", "c")
        receipts = await group
        assert crew.runs[2:] == ["c"]
        assert [[receipt.target_agent for receipt in stage] for stage in receipts.stages] == [["a", "b"], ["c"]]
        assert receipts.ok


async def test_a_bare_name_is_a_stage() -> None:
    crew = Crew("a", "b")
    crew.let("a", "b")
    async with TestReach(*crew.agents) as bus:
        receipts = await bus.gather("group:crew", 1, process_order=[["b"], ["work"]])
        assert [[receipt.target_agent for receipt in stage] for stage in receipts.stages] == [["b"], ["a"]]


async def test_a_stage_that_fails_ends_those_behind_it() -> None:
    bad, good = Agent("a", groups=("crew",)), Agent("c", groups=("crew",))
    ran: list[str] = []

    @bad.capability("work")
    async def reject(body: Any) -> None:
        raise Reject("no", "not today")

    @good.capability("work")
    async def work(body: Any) -> None:
        ran.append("c")

    async with TestReach(bad, good) as bus:
        receipts = await bus.request("group:crew", 1, scope="all", process_order=[["a"], ["c"]])
        assert codes(receipts) == ["handler.rejected", "stage.failed"]
        assert receipts[1].details == {"state": "held", "stage": 0}
        assert receipts[1].status is Status.FAILED
        assert ran == []


async def test_who_is_in_no_stage_only_observes() -> None:
    crew = Crew("a", "o")
    crew.let("a", "o")
    async with TestReach(*crew.agents) as bus:
        receipts = await bus.gather("group:crew", {"n": 1}, process_order=[["a"]], correlation_id="talk")
        assert codes(receipts) == ["ok"]
        observer = crew.agents[1]
        await bus.settle()
        assert len(observer.observed) == 1
        (seen,) = observer.observed
        assert seen == Observed(
            msg_id=receipts[0].msg_id,
            type="request",
            body={"n": 1},
            source=seen.source,
            correlation_id="talk",
        )
        assert crew.runs == ["a"]
        assert crew.agents[0].observed == ()


async def test_a_handle_waits_for_no_observer() -> None:
    crew = Crew("a", "o")
    crew.let("a")
    async with TestReach(*crew.agents) as bus:
        handle = await bus.send("group:crew", 1, scope="all", process_order=[["a"]])
        receipts = await handle.receipts()
        assert codes(receipts) == ["ok"]
        assert len(receipts.stages) == 1


async def test_an_empty_stage_is_told() -> None:
    crew = Crew("a")
    async with TestReach(*crew.agents) as bus:
        receipts = await bus.request("group:crew", 1, scope="all", process_order=[["nobody"], ["a"]])
        assert codes(receipts) == ["stage.failed"]
        assert receipts[0].details == {"state": "new", "stage": 0, "empty": True}


async def test_a_cancel_ends_all_stages() -> None:
    crew = Crew("a", "c")
    async with TestReach(*crew.agents) as bus:
        handle = await bus.send("group:crew", 1, scope="all", process_order=[["a"], ["c"]])
        await bus.settle()
        assert crew.runs == ["a"]
        assert await handle.cancel()
        assert codes(await handle.receipts()) == ["cancelled", "cancelled"]
        assert crew.runs == ["a"]


async def test_a_stage_is_retried_before_the_next_begins() -> None:
    first, second = Agent("a", groups=("crew",)), Agent("c", groups=("crew",))
    ran: list[str] = []

    @first.capability("work")
    async def fail_once(body: Any) -> None:
        ran.append("a")
        if len(ran) == 1:
            raise RuntimeError("not yet")

    @second.capability("work")
    async def work(body: Any) -> None:
        ran.append("c")

    async with TestReach(first, second) as bus:
        handle = await bus.send("group:crew", 1, scope="all", process_order=[["a"], ["c"]])
        waiting = asyncio.create_task(handle.receipts())
        while not waiting.done():
            await bus.advance(0.5)
        assert codes(await waiting) == ["ok", "ok"]
        assert ran == ["a", "a", "c"]


@pytest.mark.parametrize("order", ["agent_id:a", [["a"], "b"], [[1]], 7, {"a": 1}])
async def test_what_is_no_order_is_told_at_once(order: Any) -> None:
    async with TestReach() as bus:
        with pytest.raises(TypeError, match="process_order"):
            bus.gather("group:crew", 1, process_order=order)


async def test_scope_one_has_no_order() -> None:
    async with TestReach() as bus:
        receipt = await bus.request("group:crew", 1, process_order=[["agent_id:a"]])
        assert (receipt.code, receipt.details["field"]) == ("envelope.bad_field", "process_order")


async def test_what_is_observed_is_bounded() -> None:
    crew = Crew("a", "o")
    crew.let("a")
    async with TestReach(*crew.agents) as bus:
        await bus.gather("group:crew", 1, process_order=[["a"]])
        await bus.settle()
        assert bool(crew.agents[1].observed)
        envelope = bus.sent[-1]
    kept = Observations()

    def copy(n: int) -> Taken:
        data = encode(msgspec.structs.replace(envelope, msg_id=new_id(), correlation_id=str(n)))
        return Taken(0, "normal", "1-1", "m", 0, 0, data, 0, 0, 0, observed=True)

    for n in range(MAX_OBSERVED + 5):
        kept.add(copy(n))
    assert [seen.correlation_id for seen in kept()][:2] == ["5", "6"]
    assert len(kept()) == MAX_OBSERVED
    kept.add(Taken(0, "normal", "1-1", "m", 0, 0, b"no envelope", 0, 0, 0, observed=True))
    assert len(kept()) == MAX_OBSERVED
