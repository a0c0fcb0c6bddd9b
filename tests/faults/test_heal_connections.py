"""Connections that are killed, cut, deaf, dumb, late or half-open: at the client, the router and the agent, under load.

Two seconds after the fault is over all that was asked is answered, nothing ran twice, nothing was taken from who held it.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import product

import pytest
import redis.asyncio

from reach.backend.private_server import PrivateServer
from tests.faults.proxy import FaultProxy
from tests.faults.wired import PARTIES, RECOVERY_S, Note, Wired, kill_connections

#: so many requests are sent while a fault lasts: some 1.5 s, longer than it takes to be noticed
LASTS = 50

each_party = pytest.mark.parametrize("party", PARTIES)


@pytest.fixture
async def wired(server: PrivateServer) -> AsyncIterator[Wired]:
    async with Wired(server.port, server.url) as made:
        yield made


def half_open(proxy: FaultProxy) -> None:
    proxy.half_open()


def swallow_replies(proxy: FaultProxy) -> None:
    proxy.swallow_replies()


def swallow_requests(proxy: FaultProxy) -> None:
    proxy.swallow_requests()


def late(proxy: FaultProxy) -> None:
    proxy.delay(300)


def refuse(proxy: FaultProxy) -> None:
    proxy.refuse()
    proxy.reset()


FAULTS = (half_open, swallow_replies, swallow_requests, late, refuse)
#: one of each kind, and each party; the others run in `make chaos`
SHORT = {(half_open, "agent"), (swallow_replies, "router"), (swallow_requests, "client"), (late, "client")}


def faults() -> Iterator[object]:
    for fault, party in product(FAULTS, PARTIES):
        marks = () if (fault, party) in SHORT else (pytest.mark.long,)
        yield pytest.param(fault, party, marks=marks, id=f"{fault.__name__}-{party}")


@pytest.mark.parametrize(("fault", "party"), list(faults()))
async def test_after_a_fault_of_its_network_everything_goes_on(
    wired: Wired, fault: Callable[[FaultProxy], None], party: str, record_property: Note
) -> None:
    async with wired.holding() as held, wired.load():
        fault(wired.proxies[party])
        await wired.asks(LASTS)
        wired.proxies[party].heal()
        record_property("recovery", (fault.__name__, party, await wired.recovers(time.monotonic())))
    assert {one.output for one in held} == {1}
    wired.check()


@each_party
async def test_connections_that_are_silent_for_good_are_left_within_two_seconds(
    wired: Wired, party: str, record_property: Note
) -> None:
    """Half-open: nobody closes them, and nothing comes any more. New ones are well."""
    async with wired.holding() as held, wired.load():
        proxy = wired.proxies[party]
        proxy.half_open(*proxy.links)
        record_property("recovery", ("silent for good", party, await wired.recovers(time.monotonic())))
    assert {one.output for one in held} == {1}
    wired.check()


@each_party
async def test_who_has_nothing_to_do_notices_too(wired: Wired, party: str, record_property: Note) -> None:
    """Then only the reads that block can tell."""
    proxy = wired.proxies[party]
    proxy.half_open(*proxy.links)
    record_property("recovery", ("silent for good, idle", party, await wired.recovers(time.monotonic())))
    wired.check()


@pytest.mark.long
@each_party
async def test_any_one_connection_may_fall_silent(wired: Wired, party: str, record_property: Note) -> None:
    """While all others are well: nothing but what is asked by it, and nothing for longer than by all of them."""
    proxy = wired.proxies[party]
    took_s = []
    async with wired.holding() as held, wired.load():
        for link in tuple(proxy.links):
            proxy.half_open(link)
            took_s.append(await wired.recovers(time.monotonic()))
        record_property("recovery", ("one of its connections silent", party, max(took_s)))
    assert len(took_s) >= 3
    assert {one.output for one in held} == {1}
    wired.check()


@pytest.mark.long
async def test_who_falls_silent_again_and_again_keeps_what_it_holds(wired: Wired) -> None:
    """For longer than a lease: the thread that beats and renews finds its way each time."""
    proxy = wired.proxies["agent"]
    async with wired.holding() as held:
        end_s = time.monotonic() + 25
        while time.monotonic() < end_s:
            proxy.half_open(*proxy.links)
            assert await wired.recovers(time.monotonic()) < RECOVERY_S
            await asyncio.sleep(2)
    assert {one.output for one in held} == {1}
    wired.check()


@pytest.mark.long
@each_party
async def test_a_network_that_is_silent_for_longer_than_anybody_waits(
    wired: Wired, party: str, record_property: Note
) -> None:
    """What was given up meanwhile arrives when it is over, all at once, in any order, beside what was asked instead."""
    proxy = wired.proxies[party]
    async with wired.load(0.1):
        proxy.half_open()
        await wired.asks(120)
        proxy.heal()
        record_property("recovery", ("half_open for 12 s", party, await wired.recovers(time.monotonic())))
    wired.check({"ok", "timeout.total"})


@each_party
async def test_connections_that_are_cut_in_the_middle_of_a_frame(
    wired: Wired, party: str, record_property: Note
) -> None:
    async with wired.holding() as held, wired.load():
        for cut in range(1, 40, 6):
            for link in tuple(wired.proxies[party].links):
                wired.proxies[party].cut("replies" if cut % 4 == 1 else "requests", cut, link)
            assert (await wired.probe()).ok
        record_property("recovery", ("cut", party, await wired.recovers(time.monotonic())))
    assert {one.output for one in held} == {1}
    wired.check()


@pytest.mark.parametrize("lasts_s", [2, pytest.param(20, marks=pytest.mark.long)])
async def test_killed_connections_under_load(
    wired: Wired, raw: redis.asyncio.Redis, lasts_s: int, record_property: Note
) -> None:
    """BUGS: taskforcesh/bullmq#4484."""
    kills = 0
    async with wired.holding() as held, wired.load():
        end_s = time.monotonic() + lasts_s
        while time.monotonic() < end_s:
            kills += await kill_connections(raw)
            await asyncio.sleep(0.1)
        record_property("recovery", (f"killed for {lasts_s} s", "all", await wired.recovers(time.monotonic())))
    assert kills > 20
    assert {one.output for one in held} == {1}
    wired.check()
