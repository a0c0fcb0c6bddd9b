"""Gather: everybody's receipts, together and as they come."""

import asyncio
from typing import Any

import pytest

from reach import Agent, BackendDenied, ConfigError, Context, Receipts, Status, Timeout
from reach.testing import TestReach
from tests.unit.sdk.shops import client_of


class Crew:
    """Agents that answer when they are told to."""

    def __init__(self, *names: str) -> None:
        self.go = {name: asyncio.Event() for name in names}
        self.runs: list[str] = []
        self.agents = [self._agent(name) for name in names]

    def _agent(self, name: str) -> Agent:
        agent = Agent(name, groups=("crew",))

        @agent.capability("work")
        async def work(body: Any, ctx: Context) -> str:
            self.runs.append(name)
            await self.go[name].wait()
            return name

        return agent

    def let(self, *names: str) -> None:
        for name in names:
            self.go[name].set()


async def test_awaiting_gives_the_receipts_of_all_in_the_order_of_the_legs() -> None:
    crew = Crew("a", "b", "c")
    crew.let("a", "b", "c")
    async with TestReach(*crew.agents) as bus:
        receipts = await bus.gather("group:crew", 1, returns=str)
        assert isinstance(receipts, Receipts)
        assert [(r.leg, r.output) for r in receipts] == [(0, "a"), (1, "b"), (2, "c")]
        assert len({r.msg_id for r in receipts}) == 1
        assert bus.sent[-1].target.scope == "all"
        assert bus.reach.outstanding == 0


@pytest.mark.parametrize("target", ["group:crew", ["agent_id:a", "b", "agent_id:c"]])
async def test_iterating_gives_each_receipt_as_it_comes(target: Any) -> None:
    crew = Crew("a", "b", "c")
    async with TestReach(*crew.agents) as bus:
        group = bus.gather(target)
        each = aiter(group)
        for name in ("c", "a", "b"):
            crew.let(name)
            assert (await anext(each)).output == name
        with pytest.raises(StopAsyncIteration):
            await anext(each)
        # a second look gives the same, whole and in order
        assert [r.output async for r in group] == ["c", "a", "b"]
        assert [r.output for r in await group] == ["a", "b", "c"]
        assert (await group).ok


async def test_two_may_wait_for_one_group_and_leaving_ends_only_that_wait() -> None:
    crew = Crew("a", "b")
    async with TestReach(*crew.agents) as bus:
        group = bus.gather("group:crew")

        async def whole() -> list[Any]:
            return [r.output for r in await group]

        first, second = asyncio.create_task(whole()), asyncio.create_task(whole())
        crew.let("a")
        async for receipt in group:
            assert receipt.output == "a"
            break
        first.cancel()
        await asyncio.wait([first])
        crew.let("b")
        assert await second == ["a", "b"]
        assert sorted(crew.runs) == ["a", "b"]


async def test_a_list_is_a_message_for_each_target_and_none_of_them_raises() -> None:
    crew = Crew("a")
    crew.let("a")
    async with TestReach(*crew.agents) as bus:
        group = bus.gather(["agent_id:a", "capability:nobody", "NO PATTERN", "agent_id:a"])
        await bus.advance(4)
        receipts = await group
        assert [r.code for r in receipts] == ["ok", "route.not_found", "target.bad_pattern", "ok"]
        assert len({r.msg_id for r in receipts}) == 4
        assert not receipts.ok
        assert receipts.outputs == ["a", "a"]


async def test_nobody_there_is_a_receipt() -> None:
    async with TestReach() as bus:
        group = bus.gather("capability:nobody")
        await bus.advance(4)
        (receipt,) = await group
        assert (receipt.code, receipt.status) == ("route.not_found", Status.FAILED)
        assert [r.code async for r in group] == ["route.not_found"]


async def test_a_key_makes_one_message_per_target() -> None:
    crew = Crew("a", "b")
    crew.let("a", "b")
    async with TestReach(*crew.agents) as bus:
        first = await bus.gather(["a", "b", "a"], key="k")
        again = await bus.gather(["a", "b"], key="k")
        assert [r.output for r in first] == ["a", "b", "a"]
        assert [r.task_id for r in first] == ["k/a", "k/b", "k/a"]
        assert [r.msg_id for r in again] == [first[0].msg_id, first[1].msg_id]
        assert sorted(crew.runs) == ["a", "b"]
        together = [await bus.gather("group:crew", key="g") for _ in range(2)]
        assert [[r.output for r in receipts] for receipts in together] == [["a", "b"]] * 2
        assert sorted(crew.runs) == ["a", "a", "b", "b"]


async def test_it_ends_by_the_callers_timeout_with_what_has_come() -> None:
    crew = Crew("a", "b")
    crew.let("a")
    async with TestReach(*crew.agents) as bus:
        await bus.stop_router()
        group = bus.gather(["a", "b"], timeout=2)
        await bus.advance(2.25)
        assert [r.code for r in await group] == ["timeout.total"] * 2
        assert bus.reach.outstanding == 0


async def test_what_a_client_may_not_do_is_raised_to_who_waits() -> None:
    crew = Crew("a")
    async with TestReach(*crew.agents) as bus:
        client_of(bus).fail("submit", error=BackendDenied("no"), times=2)
        group = bus.gather(["a", "a"])
        with pytest.raises(BackendDenied):
            await group
        with pytest.raises(BackendDenied):
            await anext(aiter(group))
        group = bus.gather(["a"], ttl=-1)
        with pytest.raises(ValueError, match="ttl"):
            await group
        assert bus.reach.outstanding == 0


async def test_a_wait_may_end_before_the_group() -> None:
    crew = Crew("a", "b")
    crew.let("a")
    async with TestReach(*crew.agents) as bus:
        group = bus.gather(["a", "b"])
        with pytest.raises(Timeout) as caught:
            await group.receipts(0)
        waiting = asyncio.create_task(group.receipts(1))
        await bus.advance(1)
        with pytest.raises(Timeout):
            await waiting
        assert (caught.value.code, caught.value.retryable) == ("wait.over", True)
        crew.let("b")
        assert [r.output for r in await group.receipts(1)] == ["a", "b"]


async def test_closing_the_client_ends_a_group() -> None:
    crew = Crew("a", "b")
    async with TestReach(*crew.agents) as bus:
        group = bus.gather("group:crew", timeout=20)
        await bus.settle()
        await bus.reach.close()
        assert {r.code for r in await group} == {"backend.unavailable"}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"want": 2}, "want=2"),
        ({"until": "success"}, "until='success'"),
        ({"best_by": "confidence"}, "best_by='confidence'"),
    ],
)
async def test_what_gather_cannot_do_is_refused(options: dict[str, Any], told: str) -> None:
    async with TestReach() as bus:
        with pytest.raises(ValueError, match=told):
            bus.gather("group:crew", **options)
        assert bus.reach.outstanding == 0


async def test_bad_calls_send_nothing() -> None:
    async with TestReach() as bus:
        for call, error in (
            (lambda: bus.gather([]), ValueError),
            (lambda: bus.gather(["a"] * 1001), ValueError),
            (lambda: bus.gather("a", timeout=-1), ValueError),
            (lambda: bus.gather("a", prio=1), TypeError),  # type: ignore[call-overload]
        ):
            with pytest.raises(error):
                call()
        assert bus.reach.outstanding == 0
        assert bus.sent == []


async def test_a_handler_gathers_within_its_own_deadline() -> None:
    crew = Crew("a", "b")
    crew.let("a", "b")
    boss = Agent("boss")

    @boss.capability("lead")
    async def lead(body: Any, ctx: Context) -> list[Any]:
        return [r.output for r in await ctx.gather("group:crew")]

    async with TestReach(boss, *crew.agents) as bus:
        assert await bus.ask("lead") == ["a", "b"]
        assert bus.sent[-1].traces.previous_hops == ("boss",)


async def test_a_key_needs_a_name() -> None:
    from reach import Reach

    async with Reach.embedded() as reach:
        with pytest.raises(ConfigError):
            reach.gather("a", key="k")
