"""The examples about effects: what docs/effects.md says of them is what they do."""

import asyncio
from typing import Any

import pytest

from examples.refund.accident import ACCIDENTS, Accident, happen
from examples.trip.agents import Ledger, agents
from examples.trip.booking import book_trip
from reach import Reach, Status
from reach.testing import TestReach


@pytest.mark.parametrize("accident", ACCIDENTS)
@pytest.mark.parametrize(("guarded", "transfers"), [(False, 2), (True, 1)])
async def test_the_refund_accident(accident: Accident, guarded: bool, transfers: int) -> None:
    story = await happen(accident, guarded=guarded)
    assert (story.receipt.status, story.receipt.attempts) == (Status.SUCCESS, 2)
    assert len(story.booked) == transfers
    assert story.receipt.output == f"T-{transfers}"
    # The history says that it ran twice, in whose hands, and why: the first was given up.
    (retried,) = [line.split()[1:] for line in story.history if line.startswith("message.retried")]
    assert retried[0] != story.receipt.target_agent
    assert retried[1] == "timeout.processing"
    assert f"agent.completed {story.receipt.target_agent} ok" in story.history


@pytest.mark.parametrize("hotel_is_full", [False, True])
async def test_a_trip_is_booked_whole_or_not_at_all(hotel_is_full: bool) -> None:
    ledger = Ledger()
    async with Reach.embedded(*agents(ledger, hotel_is_full=hotel_is_full), agent_id="desk") as reach:
        trips = [await book_trip(reach, "trip-1") for _ in range(2)]
    assert [trip.ok for trip in trips] == [not hotel_is_full] * 2
    assert list(ledger.booked) == ([] if hotel_is_full else ["flight/trip-1", "hotel/trip-1", "car/trip-1"])
    assert len(ledger.lines) == (2 if hotel_is_full else 3), "the second call did nothing twice"


async def test_what_may_have_happened_is_undone_too() -> None:
    """The answer about the hotel never came: nobody knows, so it is undone."""
    ledger = Ledger()
    desks = agents(ledger, hotel_is_full=False)
    async with TestReach(*desks, agent_id="desk") as bus:
        bus.backend_of(desks[1]).fail("settle", times=1_000)
        booking = asyncio.ensure_future(book_trip(bus.reach, "trip-1"))
        await bus.advance(25)
        assert set(ledger.booked) == {"flight/trip-1", "hotel/trip-1"}
        await bus.kill(desks[1])  # with the answer about the hotel, and too late for anybody else to give it
        await bus.start(agents(ledger, hotel_is_full=False)[1])
        await bus.advance(40)
        trip: Any = await booking
    assert (trip.ok, ledger.booked) == (False, {})


async def test_what_was_undone_is_not_done_by_a_run_that_comes_late() -> None:
    ledger = Ledger()
    async with Reach.embedded(*agents(ledger, hotel_is_full=False), agent_id="desk") as reach:
        undone = await reach.request("capability:hotel.undo", {"order": "trip-1"})
        late = await reach.request("capability:hotel.book", {"order": "trip-1"})
    assert (undone.output, late.code, late.details["reject"]) == (False, "handler.rejected", "undone")
    assert ledger.booked == {}
