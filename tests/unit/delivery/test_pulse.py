"""Beats and renewals: their pace, what they say, and what a thread of their own sees."""

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest

from reach.backend.memory_backend import MemoryBackend, Store
from reach.backend.port import Backend
from reach.clock import Clock
from reach.delivery.inbox import Hands, Hold
from reach.delivery.pulse import Pulse
from reach.envelope.registration import Beat
from reach.errors import BackendUnavailable
from reach.testing import FaultyBackend, ManualClock


class Owner:
    """What a pulse asks, and whom it tells."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = Store(self.clock)
        self.backend = FaultyBackend(MemoryBackend(store=self.store))
        self.beat = Beat()
        self.held: Hands = {}
        self.lost: list[Hold] = []
        self.unknown = 0

    def pulse(self, backend: Backend | None = None, clock: Clock | None = None) -> Pulse:
        return Pulse(
            backend or self.backend.backend,
            "one",
            "i1",
            clock=clock or self.clock,
            sample=lambda: self.beat,
            holds=lambda: self.held,
            on_lost=self.lost.append,
            on_unknown=self._forgotten,
        )

    def _forgotten(self) -> None:
        self.unknown += 1

    def count(self, step: str) -> int:
        return self.backend.calls.count(step)

    async def ticks(self, pulse: Pulse, ms: int) -> None:
        """Let so much time pass, tick by tick."""
        for _ in range(ms // 250):
            run = asyncio.create_task(pulse.run_once())
            await asyncio.sleep(0)
            self.clock.advance(250)
            await asyncio.wait([run])
            error = run.exception()
            if error is not None and not isinstance(error, BackendUnavailable):
                raise error


@pytest.fixture
async def owner() -> AsyncIterator[Owner]:
    made = Owner()
    await made.backend.backend.open()
    yield made
    await made.backend.backend.close()


async def test_it_beats_at_once_and_then_every_five_seconds(owner: Owner) -> None:
    pulse = owner.pulse()
    await owner.ticks(pulse, 250)
    assert owner.count("beat") == 1
    await owner.ticks(pulse, 4_750)
    assert owner.count("beat") == 1
    await owner.ticks(pulse, 250)
    assert owner.count("beat") == 2


async def test_a_failed_beat_is_tried_again_after_a_second(owner: Owner) -> None:
    pulse = owner.pulse()
    owner.backend.fail("beat")
    await owner.ticks(pulse, 1_250)
    assert owner.count("beat") == 2


async def test_it_says_when_the_registry_does_not_know_it(owner: Owner) -> None:
    await owner.ticks(owner.pulse(), 250)
    assert owner.unknown == 1


@pytest.mark.parametrize("state", ["draining", "not_ready"])
async def test_what_takes_it_out_of_routing_is_told_at_the_next_tick(owner: Owner, state: str) -> None:
    pulse = owner.pulse()
    await owner.ticks(pulse, 250)
    owner.beat = msgspec.convert({"state": state, "reason": "why"}, Beat)
    await owner.ticks(pulse, 250)
    assert owner.count("beat") == 2
    owner.beat = Beat()
    await owner.ticks(pulse, 250)
    assert owner.count("beat") == 3


async def test_waking_it_does_not_wait_for_the_tick(owner: Owner) -> None:
    pulse = owner.pulse()
    await owner.ticks(pulse, 250)
    owner.beat = Beat(state="draining")
    run = asyncio.create_task(pulse.run_once())
    await asyncio.sleep(0)
    pulse.wake()
    await run
    assert owner.count("beat") == 2


async def test_ready_and_busy_in_turns_do_not_flood_the_registry(owner: Owner) -> None:
    pulse = owner.pulse()
    for turn in range(40):
        owner.beat = Beat(state="busy" if turn % 2 else "ready")
        await owner.ticks(pulse, 250)
    assert owner.count("beat") <= 11


async def test_what_is_held_is_renewed_every_five_seconds(owner: Owner) -> None:
    owner.held = {0: {"normal": ["1-1"]}, 1: {"high": ["2-2"]}}
    pulse = owner.pulse()
    await owner.ticks(pulse, 250)
    assert owner.count("renew") == 2
    assert sorted(owner.lost) == [(0, "normal", "1-1"), (1, "high", "2-2")]  # the ledger has none of them
    owner.held = {}
    await owner.ticks(pulse, 6_000)
    assert owner.count("renew") == 2


async def test_a_failed_renewal_is_tried_again_within_two_seconds_and_loses_nothing(owner: Owner) -> None:
    owner.held = {0: {"normal": ["1-1"]}}
    owner.backend.fail("renew")
    pulse = owner.pulse()
    await owner.ticks(pulse, 250)
    assert (owner.count("renew"), owner.lost) == (1, [])
    await owner.ticks(pulse, 1_250)
    assert owner.count("renew") == 2
    assert owner.count("beat") >= 1  # a renewal that fails does not stop the beats


@pytest.mark.parametrize("away_s", [1, 6, 20, 120])
async def test_everything_is_renewed_within_three_seconds_after_redis_is_back(owner: Owner, away_s: int) -> None:
    """However long it was away, and whenever the last renewal was: over all lanes and partitions."""
    owner.held = {partition: {lane: ["1-1"] for lane in ("high", "normal", "low")} for partition in range(4)}
    pulse = owner.pulse()
    for early_ms in (250, 1_500, 4_750):
        await owner.ticks(pulse, early_ms)
        owner.backend.fail("renew", times=10 * away_s)
        await owner.ticks(pulse, away_s * 1_000)
        owner.backend.heal()
        before = owner.count("renew")
        await owner.ticks(pulse, 3_000)
        missed = early_ms + away_s * 1_000 >= 5_000  # else the last renewal is still good
        assert owner.count("renew") - before == (12 if missed else 0)
        await owner.ticks(pulse, 5_000)


async def test_a_call_that_hangs_is_a_failure(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reach.delivery.pulse.CALL_MS", 20)
    owner.backend.pause()
    pulse = owner.pulse()
    pulse.wake()
    with pytest.raises(BackendUnavailable, match="no answer within"):
        await pulse.run_once()
    owner.backend.resume()


async def test_the_same_id_in_two_lanes_is_two_entries(owner: Owner) -> None:
    inbox = owner.backend.backend
    await inbox.open_inbox(0, "one")
    owner.held = {0: {"high": ["1-1"], "normal": ["1-1"]}}
    await owner.ticks(owner.pulse(), 250)
    assert sorted(owner.lost) == [(0, "high", "1-1"), (0, "normal", "1-1")]
