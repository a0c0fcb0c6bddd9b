"""PEL-RECLAIM: what somebody holds who is gone is taken back, by whoever lives, whole, and once."""

import itertools
import logging

import pytest
from msgspec import structs

from reach import settings
from reach.backend import open_backend
from reach.backend.keys import GROUP_AGENT, GROUP_ROUTERS
from tests.contract.drive import AGENT, TO_AGENT, Drive, retryable
from tests.contract.places import ENV, KEYS, Place, RedisPlace
from tests.faults.crash_world import CrashWorld
from tests.faults.flows import plain_agent
from tests.integration.spine import Spine, envelope

INGRESS = KEYS.ingress(0, "normal")
INBOX = KEYS.inbox(0, AGENT, "normal")
CLAIM_IDLE_MS = 5_000
#: all that routers take a lease for
SERVICES = ("reaper", "opener", "spans")
HOW_MANY = 10


async def test_B011_who_died_with_every_lease_holds_up_no_reclaiming(drive: Drive) -> None:
    await drive.past_grace()
    held, at_the_door = await drive.running(), await drive.entry()
    for service in SERVICES:
        assert await drive.backend.lock(service, "router-1", 600_000)
    await drive.live(16_000)
    other = await drive.place.connect()
    assert at_the_door in await other.claim_work("router-2", 0, CLAIM_IDLE_MS)
    leg = await drive.leg(held.msg_id)
    assert (leg.state.value, leg.attempt) == ("returned", 1)


#: for each setting a value that is not its default
VALUES = {
    "redis_url": "redis://elsewhere:1",
    "env": "other",
    "roles": "router",
    "worker_id": "w-1",
    "node_id": "n-1",
    "health_host": "::1",
    "health_port": "1",
    "serve_partitions": "1,3",
    "max_batch": "7",
    "max_envelope_bytes": "4096",
    "drain_ms": "2.5",
    "log_format": "console",
    "log_level": "error",
    "token_keys": "0123456789abcdef0123456789abcdef,another-key-of-thirty-two-chars-x",
    "metrics_port": "1",
    "semantic": "module:function",
    "event_store": "sqlite:elsewhere",
    "event_days": "3",
    "receipt_hook": "http://elsewhere/",
    "receipt_hook_token": "secret",
    "trace_share": "0.5",
    "trace_slow_ms": "7",
    "alert_to": "slack=http://elsewhere/",
    "alert_listen": "127.0.0.1:1",
    "alert_token": "secret",
}


@pytest.mark.parametrize("pair", list(itertools.combinations(VALUES, 2)), ids="-".join)
def test_B014_every_pair_of_settings_takes_effect(pair: tuple[str, str]) -> None:
    table = {setting.field: setting for setting in settings.TABLE}
    assert table.keys() == VALUES.keys()
    first, second = pair
    loaded = settings.load({table[first].variable: VALUES[first]}, {second: VALUES[second]})
    default = settings.load({})
    for field, setting in table.items():
        expected = setting.read(VALUES[field]) if field in pair else getattr(default, field)
        assert getattr(loaded, field) == expected, field


@pytest.mark.parametrize("how", ["XDEL", "XTRIM"])
async def test_B015_what_is_deleted_under_a_dead_holder_ends_once_and_is_claimed_by_nobody(
    world: CrashWorld, how: str
) -> None:
    await plain_agent(world)
    inbox = KEYS.inbox(0, "p1", "normal")
    calls = [world.ask({"do": "ok"}, "agent_id:p1") for _ in range(HOW_MANY)]
    await world.until(lambda: has_entries(world.place, inbox, HOW_MANY), "all of them in the inbox")
    assert len(await world.place.read_plain(inbox, GROUP_AGENT, "p1.1", HOW_MANY)) == HOW_MANY
    await empty(world.place, inbox, how)
    await world.until(lambda: all(call.over for call in calls), "an answer for every caller")
    assert [call.codes for call in calls] == [["backend.unavailable"]] * HOW_MANY
    assert await world.place.pending(inbox, GROUP_AGENT) == []
    await world.finish()


@pytest.mark.long
async def test_B015_what_is_deleted_is_let_go_when_the_lease_is_over(spine: Spine) -> None:
    """In real time: who moves the idle time of an entry on a server makes that forget the entries without a body."""
    await spine.register("refund-1", "refund")
    inbox = KEYS.inbox(0, "refund-1", "normal")
    sent = [await spine.send(envelope(max_attempts=1)) for _ in range(HOW_MANY)]
    for _ in sent:
        await spine.work("refund-1")
    await empty(spine.place, inbox, "XDEL")
    assert len(await spine.place.pending(inbox, GROUP_AGENT)) == HOW_MANY
    receipts = [await spine.receipt(msg_id, 40) for msg_id in sent]
    assert {receipt["status"] for receipt in receipts} == {"retryable"}
    assert await spine.place.pending(inbox, GROUP_AGENT) == []


async def has_entries(place: Place, key: str, count: int) -> bool:
    return len(await place.entries(key)) == count


async def empty(place: Place, key: str, how: str) -> None:
    """Delete the bodies of all entries; what is pending stays pending."""
    if how == "XTRIM" and isinstance(place, RedisPlace):
        await place.raw.xtrim(key, maxlen=0, approximate=False)
    for entry_id, _ in await place.entries(key):
        await place.remove(key, entry_id)


async def test_B015_deleted_entries_are_acknowledged_once_and_told(
    drive: Drive, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(HOW_MANY):
        await drive.entry()
        await drive.backend.send_control(b"{}")
    assert len(await drive.backend.read_control("router-1", 0)) == HOW_MANY
    await empty(drive.place, INGRESS, "XDEL")
    await empty(drive.place, KEYS.control(), "XDEL")
    caplog.set_level(logging.WARNING)
    for _ in range(2):
        assert await drive.backend.claim_work("router-2", 0, 0) == []
        assert await drive.backend.read_control("router-2", 0, 0) == []
    assert await drive.place.pending(INGRESS, GROUP_ROUTERS) == []
    assert await drive.place.pending(KEYS.control(), "registrars") == []
    if drive.place.kind != "memory":  # which has nobody who could delete behind its back
        told = [(record.__dict__["stream"], record.__dict__["count"]) for record in caplog.records]
        assert told == [(INGRESS, HOW_MANY), (KEYS.control(), HOW_MANY)]


#: what a URL can ask of redis-py that changes what it answers
SPEAKS = ["", "?protocol=3", "?protocol=3&decode_responses=true", "?decode_responses=true"]


@pytest.mark.parametrize("speaks", SPEAKS)
async def test_B017_what_is_claimed_is_read_whatever_the_url_asks_of_the_client(redis_url: str, speaks: str) -> None:
    dead, backend = open_backend(redis_url, env=ENV), open_backend(redis_url + speaks, env=ENV)
    for one in (dead, backend):
        await one.open()
    ids = [await dead.submit(0, "normal", b'{"n": "\xc3\xbc"}') for _ in range(3)]
    fresh = await dead.read_work("router-1", [0], 10, 0)
    assert [entry.id for entry in fresh] == ids
    place = RedisPlace("", redis_url)
    await place.remove(INGRESS, ids[1])
    assert await backend.claim_work("router-2", 0, 0) == [fresh[0], fresh[2]]
    assert await backend.own_work("router-2", 0) == [fresh[0], fresh[2]]
    assert [row.id for row in await place.pending(INGRESS, GROUP_ROUTERS)] == [ids[0], ids[2]]
    await place.close()
    for one in (dead, backend):
        await one.close()


ODD = b'{ "a":1.0,\t"b" : 1e2, "c": 9223372036854775808, "d":"\\u00e9\xc3\xa9" }'


@pytest.mark.parametrize("kind", ["ingress", "again", "receipts"])
async def test_B018_what_a_router_takes_over_is_what_the_first_one_read(drive: Drive, kind: str) -> None:
    if kind == "ingress":
        await drive.backend.submit(0, "normal", ODD)
    elif kind == "again":
        await drive.settle(await drive.running(envelope=ODD), retryable())
    else:
        await drive.place.append(KEYS.receipts(0), {"m": b"x", "l": b"0", "h": b"1-1", "r": ODD, "more": b"\xff"})
    (fresh,) = await drive.work(kind)
    await drive.place.pass_time(CLAIM_IDLE_MS + 1)
    (claimed,) = await drive.backend.claim_work("router-2", 0, CLAIM_IDLE_MS)
    (own,) = await drive.backend.own_work("router-2", 0)
    assert fresh == claimed == own


async def test_B018_control_that_is_taken_over_is_what_the_first_one_read(drive: Drive) -> None:
    await drive.backend.send_control(ODD)
    fresh = await drive.backend.read_control("router-1", 0)
    await drive.place.pass_time(CLAIM_IDLE_MS + 1)
    assert await drive.backend.read_control("router-2", 0, CLAIM_IDLE_MS) == fresh
    assert [data for _, data in fresh] == [ODD]


@pytest.mark.parametrize("scope", ["one", "all"])
async def test_B018_work_that_comes_again_is_what_was_handed_over_first(drive: Drive, scope: str) -> None:
    await drive.past_grace()
    await drive.sent(TO_AGENT, envelope=ODD, scope=scope)
    fresh = await drive.taken()
    again = await drive.backend.take(0, AGENT, "i1", 10, [])  # as after a lost connection
    assert [structs.replace(one, now_ms=fresh.now_ms) for one in again.taken] == [fresh]
    await drive.live(16_000)
    await drive.decide(await drive.asked_again(), TO_AGENT)
    taken_over = await drive.taken("i2")
    assert taken_over.envelope == fresh.envelope == ODD
    assert (taken_over.attempt, taken_over.msg_id, taken_over.leg) == (2, fresh.msg_id, fresh.leg)
