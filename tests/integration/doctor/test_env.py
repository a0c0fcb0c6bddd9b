"""Each thing that can be wrong in an env: it is broken on a real server, and the doctor says it."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from reach.backend.survey import ServerFacts, surveyor
from reach.backend.survey.server_side import Asking, look_at_server
from tests.integration.doctor.conftest import KEYS, NOBODY, TAKER, Env

LANE = KEYS.inbox(0, "a", "normal")
RUN = "reach-worker run"
DOOR = KEYS.ingress(0, "normal")
Break = Callable[[Env], Awaitable[Any]]


async def test_a_healthy_env_has_nothing_but_what_its_server_lacks(env: Env) -> None:
    findings = await env.findings()
    told = {check: finding.status for check, finding in findings.items()}
    told.pop("latency")  # of a machine that others use as well
    assert {check for check, status in told.items() if status != "ok"} == {"durability"}, findings
    assert findings["workers"].says == "1 active: w1"
    assert findings["inboxes"].says == "3 lanes of 1 agents"


LONG_MS = 90_000


@pytest.fixture
def long_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server is looked at so long before all the rest, as where there are very many keys between the two."""

    async def look_long_ago(asking: Asking) -> ServerFacts:
        seen = await look_at_server(asking)
        return msgspec.structs.replace(seen, now_ms=seen.now_ms - LONG_MS, local_ms=seen.local_ms - LONG_MS)

    monkeypatch.setattr(surveyor, "look_at_server", look_long_ago)


@pytest.mark.usefixtures("long_look")
async def test_a_look_that_takes_long_is_compared_with_the_time_of_its_end(env: Env) -> None:
    await env.raw.xadd(DOOR, {"e": "{}"})
    await env.raw.xadd(KEYS.control(), {"c": "{}"})
    told = {check: finding.status for check, finding in (await env.findings()).items()}
    assert {check for check, status in told.items() if status != "ok"} == {"durability"}, told


@pytest.mark.parametrize(
    ("check", "says", "break_it"),
    [
        ("due", "1 messages are overdue, the oldest by 60", lambda e: overdue(e, 60_000)),
        ("lag", f"{DOOR} has 1 entries", lambda e: old_entry(e, DOOR, 40_000)),
        ("tick", "due has not run for 10", lambda e: ticked(e, 10_000)),
        ("agents", "a is suspect: silent for 20", lambda e: silent(e, 20_000)),
    ],
)
@pytest.mark.leaves(".*", why="what it breaks is what the doctor sees")
@pytest.mark.usefixtures("long_look")
async def test_a_look_that_takes_long_overlooks_nothing(env: Env, check: str, says: str, break_it: Break) -> None:
    await break_it(env)
    finding = await env.finding(check)
    assert says in finding.says


async def digest(env: Env) -> Any:
    return await env.raw.execute_command("DEBUG", "DIGEST")  # type: ignore[no-untyped-call]


async def test_looking_changes_nothing(env: Env) -> None:
    await env.raw.set(KEYS.agents() + "x", "of no row")
    await env.raw.xadd(DOOR, {"e": "{}"}, id="99999999999999-1")
    await env.raw.delete(KEYS.changes())
    await env.raw.set(KEYS.changes(), "of another type")
    before = await digest(env)
    await env.findings()
    assert await digest(env) == before


async def test_what_anybody_may_have_written_stops_nobody(env: Env) -> None:
    await env.raw.zadd(KEYS.beats(), {f"a/{TAKER}": "inf", "no slash": "-inf"})
    await env.raw.zadd(KEYS.due(0), {"x": "inf", "y": "-inf"})
    await env.raw.hset(KEYS.tick(0), mapping={"last": "1e400", "until": "nan"})
    await env.raw.hset(KEYS.meta(), mapping={b"\xff": b"\xfe", "max_inbox": "-1"})
    await env.raw.hset(KEYS.agents(), mapping={b"\xff": b"\xfe", "deep": "[" * 5000})
    await env.raw.set(b"reach:{dev.0}:m:\xff\n", "x")
    findings = await env.findings()
    assert findings["tick"].says == "partition 0: due has never run: no deadline is kept"
    assert findings["keys"].says.startswith("reach:{dev.0}:m:\\xff")


async def test_another_env_is_not_looked_at(env: Env) -> None:
    await env.raw.set("reach:{dev2}:agents", "of another type")
    await env.raw.set("reach:{dev-2.0}:due", "of another type")
    await env.raw.xadd("reach:{dev2.0}:inbox:ghost:low", {"x": "y"})
    findings = await env.findings()
    assert (findings["keys"].status, findings["inboxes"].status) == ("ok", "ok")


OPEN = '{"until_ms":1,"why":"5 failures in a row"}'


def hset(key: str, name: str, value: object) -> Break:
    return lambda env: env.raw.hset(key, name, str(value))


async def retype(env: Env, key: str) -> None:
    await env.raw.delete(key)
    await env.raw.set(key, "of another type")


async def dead_letter(env: Env) -> None:
    await env.raw.xadd(KEYS.dead(0), {"m": NOBODY})


async def full(env: Env) -> None:
    await env.raw.hset(KEYS.meta(), "max_inbox", "1")
    await env.raw.xadd(LANE, {"x": "y"})


async def old_entry(env: Env, key: str, age_ms: int) -> None:
    await env.raw.delete(key)
    await env.raw.xgroup_create(key, "registrars" if key == KEYS.control() else "routers", "0", mkstream=True)
    await env.raw.xadd(key, {"e": "{}"}, id=f"{await env.ms() - age_ms}-0")


async def overdue(env: Env, late_ms: int) -> None:
    await env.raw.zadd(KEYS.due(0), {NOBODY: await env.ms() - late_ms})


async def ticked(env: Env, age_ms: int, grace_ms: int = 0) -> None:
    now_ms = await env.ms()
    await env.raw.hset(KEYS.tick(0), mapping={"last": now_ms - age_ms, "until": now_ms + grace_ms})


async def silent(env: Env, since_ms: int) -> None:
    await env.raw.zadd(KEYS.beats(), {f"a/{TAKER}": await env.ms() - since_ms})


def without_group(key: str, group: str) -> Break:
    async def break_it(env: Env) -> None:
        await env.raw.xadd(key, {"x": "y"})
        await env.raw.xgroup_destroy(key, group)

    return break_it


def takes(key: str, group: str, consumer: str, idle_ms: int) -> Break:
    return lambda env: env.take(key, group, consumer, idle_ms)


def hostile(key: str) -> Break:
    return lambda env: env.raw.xadd(key, {"e": "{}"}, id="99999999999999-1")


def deletes(*keys: str) -> Break:
    return lambda env: env.raw.delete(*keys)


def beats(state: str, reason: str = "") -> Break:
    return lambda env: env.backend.beat("a", TAKER, msgspec.json.encode({"state": state, "reason": reason}))


async def unread_control(env: Env) -> None:
    await env.raw.xgroup_delconsumer(KEYS.control(), "registrars", "w1")


CASES: list[tuple[str, str, str, str, Break]] = [
    # check, status, what it says, what helps, how it is broken
    ("settings", "fail", "partitions is 'many'", "HDEL 'reach:{dev}:meta' partitions", hset(KEYS.meta(), "partitions", "many")),
    ("settings", "fail", "partitions is '0'", "HDEL", hset(KEYS.meta(), "partitions", 0)),
    ("settings", "fail", "networks cannot be read", "reach settings set networks", hset(KEYS.meta(), "networks", "here")),
    ("settings", "warn", "max_inbox is 'lots'", "HDEL 'reach:{dev}:meta' max_inbox", hset(KEYS.meta(), "max_inbox", "lots")),
    ("settings", "warn", "closed is 'yes', no whole number: 1 holds", "HDEL 'reach:{dev}:meta' closed", hset(KEYS.meta(), "closed", "yes")),
    ("keys", "fail", "reach:{dev}:beats is a string, the table says zset", "redis-cli DEL", lambda e: retype(e, KEYS.beats())),
    ("keys", "fail", "reach:{dev.0}:due is a string", "redis-cli DEL", lambda e: retype(e, KEYS.due(0))),
    ("keys", "fail", "reach:{dev.0}:tock no row of the key table", "redis-cli DEL", lambda e: e.raw.set("reach:{dev.0}:tock", 1)),
    ("keys", "fail", "never expires", "redis-cli DEL", lambda e: e.raw.set(KEYS.message(0, NOBODY), "x")),
    ("keys", "fail", "expires in", "redis-cli DEL", lambda e: e.raw.expire(KEYS.agents(), 900)),
    ("workers", "fail", "no worker reads partition 0", RUN, deletes(*KEYS.work(0), KEYS.tick(0))),
    ("workers", "fail", "no worker reads partition 1", RUN, hset(KEYS.meta(), "partitions", 2)),
    ("workers", "fail", "no worker reads the registrations", RUN, unread_control),
    ("groups", "fail", f"{DOOR} has no group routers: nobody reads its 1 entries", "XGROUP CREATE", without_group(DOOR, "routers")),
    ("groups", "fail", "reach:{dev}:control has no group registrars", "XGROUP CREATE", without_group(KEYS.control(), "registrars")),
    ("groups", "warn", "reach:{dev.0}:again is missing", RUN, deletes(KEYS.again(0))),
    ("agents", "warn", "a is not ready: no credentials", "reach agents", beats("not_ready", "no credentials")),
    ("agents", "warn", "a is draining", "reach agents", beats("draining")),
    ("agents", "warn", "a is suspect: silent for 20", "reach agents", lambda e: silent(e, 20_000)),
    ("agents", "warn", "the circuit of a is open in partition 0: 5 failures", "reach agents", hset(KEYS.circuit(), "a/0", OPEN)),
    ("agents", "fail", "no worker has removed it", RUN, lambda e: silent(e, 90_000)),
    ("agents", "warn", "a is registered and has never beaten", "reach agents", deletes(KEYS.beats())),
    ("agents", "warn", "no agent is registered", "agent.run", deletes(KEYS.agents())),
    ("agents", "fail", "the record of b cannot be read", "restart that agent", hset(KEYS.agents(), "b", "{")),
    ("agents", "fail", "the record of a/a.1 cannot be read", "restart", hset(KEYS.load(), f"a/{TAKER}", "[]")),
    ("agents", "fail", "the record of capability:x cannot be read", "write that policy anew", hset(KEYS.routes(), "capability:x", "[]")),
    ("agents", "fail", "the record of no-x cannot be read: as a rule", "reach rules set no-x", hset(KEYS.rules(), "no-x", "[]")),
    ("due", "fail", "1 messages are overdue", RUN, lambda e: e.raw.zadd(KEYS.due(0), {NOBODY: "-inf"})),
    ("inboxes", "fail", f"{LANE} is missing", "restart a", deletes(LANE)),
    ("inboxes", "fail", f"{LANE} has no group agent", "XGROUP CREATE", without_group(LANE, "agent")),
    ("inboxes", "warn", f"{LANE} is full: 1 entries of 1", "more instances of a", full),
    ("inboxes", "warn", "ghost has an inbox and is not registered", RUN, lambda e: e.backend.open_inbox(0, "ghost")),
    ("lag", "warn", f"{DOOR} has 1 entries, the oldest waits 10", RUN, lambda e: old_entry(e, DOOR, 10_000)),
    ("lag", "fail", "reach:{dev.0}:again has 1 entries", RUN, lambda e: old_entry(e, KEYS.again(0), 40_000)),
    ("lag", "fail", "reach:{dev.0}:receipts has 1 entries", RUN, lambda e: old_entry(e, KEYS.receipts(0), 40_000)),
    ("lag", "fail", "reach:{dev}:control has 1 entries", RUN, lambda e: old_entry(e, KEYS.control(), 40_000)),
    ("due", "warn", "1 messages are overdue, the oldest by 5", RUN, lambda e: overdue(e, 5_000)),
    ("due", "fail", "1 messages are overdue, the oldest by 60", RUN, lambda e: overdue(e, 60_000)),
    ("tick", "fail", "due has never run", RUN, deletes(KEYS.tick(0))),
    ("tick", "fail", "due has not run for 10", RUN, lambda e: ticked(e, 10_000)),
    ("tick", "warn", "in the future", "timedatectl", lambda e: ticked(e, -9_000)),
    ("tick", "warn", "a grace after an outage", "", lambda e: ticked(e, 0, 14_000)),
    ("pending", "fail", f"lies with {TAKER}, which has not renewed for 30", RUN, takes(LANE, "agent", TAKER, 30_000)),
    ("pending", "warn", "1 entries lie with gone.1, which does not beat", RUN, takes(LANE, "agent", "gone.1", 0)),
    ("pending", "fail", "lies with gone.1, which has not renewed", RUN, takes(LANE, "agent", "gone.1", 30_000)),
    ("pending", "fail", "lies with w0 for 15", RUN, takes(DOOR, "routers", "w0", 15_000)),
    ("ids", "fail", f"{DOOR} has had the id 99999999999999-1", "XSETID", hostile(DOOR)),
    ("ids", "fail", f"{LANE} has had the id", "XSETID", hostile(LANE)),
    ("ids", "fail", "reach:{dev}:control has had the id", "XSETID", hostile(KEYS.control())),
    ("dead", "warn", "1 dead letters", "reach dead ls", dead_letter),
]  # fmt: skip


@pytest.mark.leaves(".*", why="what it breaks is what the doctor sees")
@pytest.mark.parametrize(
    ("check", "status", "says", "helps", "break_it"), CASES, ids=[f"{c[0]}-{c[2][:40]}" for c in CASES]
)
async def test_what_is_broken_is_said(
    env: Env, check: str, status: str, says: str, helps: str, break_it: Break
) -> None:
    assert (await env.finding(check)).status == "ok"
    await break_it(env)
    finding = await env.finding(check)
    assert finding.status == status, finding
    assert says in finding.says
    assert helps in finding.helps
    assert any(says in detail for detail in finding.details)


async def test_what_is_taken_and_renewed_is_fine(env: Env) -> None:
    await env.take(LANE, "agent", TAKER, 14_000)
    await env.take(DOOR, "routers", "w1", 4_000)
    assert (await env.finding("pending")).status == "ok"
