"""Rate limits in a router: what is paid, what is given back, and that those who wait do not all come at once."""

import json
from typing import Any

from reach.backend.memory_backend import Store
from reach.backend.memory_backend.backend import MemoryBackend
from reach.envelope.ledger import LegState
from reach.envelope.registration import Rate
from tests.unit.delivery.test_router import Bench

AGENT = "limited"
SIX = Rate(6_000, 0)


class Paid(MemoryBackend):
    """Counts what is spent and given back."""

    def __init__(self, store: Store) -> None:
        super().__init__(store=store)
        self.spent = self.back = 0

    async def spend_rate(self, agent_id: str, rate: Rate, tokens: int, *, back: bool = False) -> int:
        self.spent += not back
        self.back += back
        return await super().spend_rate(agent_id, rate, tokens, back=back)


class Limited(Bench):
    """A router, and an agent that takes six messages a minute."""

    backend: Any

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.rounds = 0

    async def start(self, **fields: Any) -> None:
        await self.open()
        self.paid = Paid(self.store)
        self.router._rates._backend = self.paid
        declared = {
            "agent_id": AGENT,
            "instance_id": "i",
            "env": "dev",
            "capabilities": [{"name": "think"}],
            "rate_limit": 6,
        }
        await self.backend.open_inbox(0, AGENT)
        await self.backend.register(AGENT, json.dumps(declared | fields).encode(), "i", b'{"state":"ready"}', None)
        await self.watcher.run_once()

    async def ask(self, times: int, **fields: Any) -> None:
        for _ in range(times):
            made = {"target": {"pattern": "capability:think"}, "ttl_ms": 600_000, "timeouts": {"total_ms": 600_000}}
            self.ids.append(await self.send(**made | fields))
        await self.router.run_once()

    async def go_on(self, ms: int) -> None:
        """So much later, who waits looks again."""
        self.advance(ms)
        await self.backend.due(0)
        self.rounds += 1
        await self.backend.beat(AGENT, "i", b'{"state":"ready"}')
        await self.backend.set_meta("meta", "round", str(self.rounds).encode())  # what the watcher wakes for
        await self.watcher.run_once()
        await self.router.run_once()

    def turns(self) -> list[int]:
        """In how many ms they are."""
        turns, now_ms = self.router._rates._turns[AGENT], self.clock.monotonic_ms()
        return [at_ms + turns.later_ms - now_ms for at_ms in turns.at_ms.values()]

    async def legs(self) -> list[Any]:
        records = [await self.backend.inspect(0, msg_id) for msg_id in self.ids]
        return [record.legs[0] for record in records if record is not None]

    async def states(self) -> list[str]:
        return [leg.state.value for leg in await self.legs()]


async def test_those_who_wait_have_a_turn_each_and_redis_is_asked_once() -> None:
    bench = Limited()
    await bench.start()
    await bench.ask(10)
    assert bench.paid.spent == 7, "six that were granted, and the one that found out"
    assert bench.turns() == [10_000, 20_000, 30_000, 40_000]
    for more in range(1, 5):
        for _ in range(4):
            await bench.go_on(2_000)
            assert (await bench.states()).count("queued") == 5 + more
        await bench.go_on(2_000)
        assert (await bench.states()).count("queued") == 6 + more
    assert bench.paid.spent == 7 + 4 + 3, (
        "who looks again asks nobody before its turn, but for the first of those left, once"
    )


async def test_who_comes_new_does_not_pass_those_who_wait() -> None:
    bench = Limited()
    await bench.start()
    await bench.ask(8)
    for _ in range(4):
        await bench.go_on(2_000)
    bench.advance(2_000)
    await bench.ask(1)
    assert (await bench.states())[6:] == ["waiting"] * 3, "there is something in it, for the one whose turn it is"
    await bench.go_on(0)
    assert (await bench.states())[6:] == ["queued", "waiting", "waiting"]
    assert bench.turns() == [10_000, 20_000]


async def test_who_finds_nothing_at_its_turn_is_the_first_at_the_next() -> None:
    bench = Limited()
    await bench.start()
    await bench.ask(8)
    for _ in range(4):
        await bench.go_on(2_000)
    bench.advance(2_000)
    await bench.backend.spend_rate(AGENT, SIX, 0)  # another router
    await bench.go_on(0)
    assert (await bench.states())[6:] == ["waiting"] * 2
    await bench.ask(1)
    assert bench.turns() == [10_000, 20_000, 30_000]
    for _ in range(5):
        await bench.go_on(2_000)
    assert (await bench.states())[6:] == ["queued", "waiting", "waiting"]


async def test_turns_of_those_who_wait_no_more_hold_nobody_up() -> None:
    bench = Limited()
    await bench.start()
    await bench.ask(20)
    for msg_id in bench.ids[6:]:
        assert (await bench.backend.cancel(0, msg_id, "tester", 1, 0)).closed == 1
    await bench.go_on(12_000)
    await bench.ask(1)
    assert (await bench.states())[-1] == "queued"


async def test_a_hand_over_that_came_to_nothing_is_given_back() -> None:
    bench = Limited()
    await bench.start()
    await bench.backend.set_meta("routes", "capability:think", b'{"max_inbox":1}')
    await bench.watcher.run_once()
    await bench.ask(3)
    assert await bench.states() == ["queued", "waiting", "waiting"]
    assert bench.paid.spent - bench.paid.back == 1


async def test_a_duplicate_costs_nothing() -> None:
    bench = Limited()
    await bench.start()
    await bench.ask(1)
    await bench.ask(1, msg_id=bench.ids[0])
    assert (bench.paid.spent, bench.paid.back) == (2, 1)


async def test_what_was_decided_again_for_the_same_agent_is_paid_once() -> None:
    bench = Limited()
    await bench.start()
    bench.store.delete("reach:{dev.0}:inbox:limited:normal")

    async def reopen(partition: int, agent_id: str) -> bool:
        return bool(await bench.backend.open_inbox(partition, agent_id))

    bench.router._reopen = reopen
    await bench.ask(1)
    assert await bench.states() == ["queued"]
    assert (bench.paid.spent, bench.paid.back) == (1, 0)


async def test_an_agent_without_a_limit_is_paid_nothing() -> None:
    bench = Limited()
    await bench.start(rate_limit=None)
    await bench.ask(20)
    assert set(await bench.states()) == {"queued"}
    assert bench.paid.spent == 0


async def test_with_on_full_reject_what_is_over_the_limit_ends_at_once() -> None:
    bench = Limited()
    await bench.start()
    await bench.backend.set_meta("routes", "capability:think", b'{"on_full":"reject"}')
    await bench.watcher.run_once()
    await bench.ask(7)
    assert await bench.states() == ["queued"] * 6 + ["done"]
    (last,) = (leg for leg in await bench.legs() if leg.state is LegState.DONE)
    assert (last.status, last.code) == ("retryable", "overloaded")
    assert json.loads(last.core)["retry_after_ms"] == 10_000
