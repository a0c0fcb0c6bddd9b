"""The records of the last minute, read where Redis keeps them: each once, and what was trimmed is noticed."""

import json

import pytest

from reach.backend.memory_backend import MemoryBackend, Store
from reach.events import catching_up
from reach.events.catching_up import CatchingUp
from reach.events.pace import Pace, Window
from tests.manual_clock import ManualClock


class Env:
    """A server whose clock the test moves, and what `reach top` keeps of it."""

    def __init__(self, max_events: int | None = None, partitions: int = 1) -> None:
        self.clock = ManualClock()
        self.backend = MemoryBackend(env="dev", store=Store(self.clock))
        self.settings = {"partitions": partitions} | ({"max_events": max_events} if max_events else {})
        self.window = Window()
        self.reader = CatchingUp(self.backend, self.window)

    async def begin(self) -> None:
        for name, value in self.settings.items():
            await self.backend.set_meta("meta", name, str(value).encode())
        await self.backend.open()

    async def run(self, seconds: int, partition: int = 0) -> None:
        """Ten runs in each second, written as one batch."""
        for _ in range(seconds):
            self.clock.advance(1_000)
            end = {"point": "agent.completed", "agent": "a", "code": "ok", "msg_id": "m", "duration_us": 1_000}
            records = [end | {"at_us": (await self.backend.now_ms() - 1) * 1000} for _ in range(10)]
            await self.backend.record(partition, json.dumps(records).encode())

    async def pace(self) -> Pace:
        await self.reader.run()
        return self.window.paces(await self.backend.now_ms() * 1000).get("a", Pace())


async def test_a_new_env_has_all_of_its_minute() -> None:
    env = Env()
    await env.begin()
    assert await env.pace() == Pace()
    await env.run(30)
    pace = await env.pace()
    assert (pace.runs, pace.per_s, pace.of_s) == (300, 5.0, 60.0)


async def test_each_batch_is_counted_once_and_only_for_a_minute() -> None:
    env = Env(partitions=2)
    await env.begin()
    await env.run(90)
    assert (await env.pace()).runs == 600
    for _ in range(3):
        await env.run(5, partition=1)
        await env.pace()
    pace = await env.pace()
    assert (pace.runs, pace.of_s) == (450 + 150, 60.0)


async def test_what_was_trimmed_before_it_was_read_is_not_taken_for_silence() -> None:
    env = Env(max_events=6)
    await env.begin()
    await env.run(50)
    pace = await env.pace()
    assert (pace.runs, pace.per_s) == (50, 10.0)
    assert pace.of_s == 5.0, "since the oldest batch that is kept"


async def test_whoever_reads_on_has_more_than_is_kept() -> None:
    env = Env(max_events=6)
    await env.begin()
    await env.run(4)
    for _ in range(11):
        assert (await env.pace()).of_s == 60.0
        await env.run(5)
    assert (await env.pace()).runs == 590


async def test_who_is_too_slow_begins_anew_where_the_records_do() -> None:
    env = Env(max_events=6)
    await env.begin()
    await env.run(4)
    await env.pace()
    await env.run(30)
    pace = await env.pace()
    assert (pace.of_s, pace.per_s) == (5.0, 10.0)
    env.clock.advance(58_000)
    assert (await env.pace()).of_s == 60.0


async def test_more_pages_than_one_are_read_to_their_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catching_up, "PAGE", 3)
    env = Env()
    await env.begin()
    await env.run(20)
    assert (await env.pace()).runs == 200
    await env.run(20)
    assert (await env.pace()).runs == 400
