"""The registry on real servers: told to every router at once, and whole again after whatever happens to the server."""

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import msgspec
import pytest
import redis.asyncio

from reach.backend import Backend, open_backend
from reach.registry.reaper import Reaper
from reach.registry.registrar import Registrar
from reach.registry.watcher import Watcher
from reach.registry.written import Looking
from reach.routing.index import CapabilityIndex
from reach.routing.pattern import parse
from reach.service import Supervisor
from tests.lag import in_time, lagging
from tests.manual_clock import ManualClock

MAILBOX = "tester.0123456789abcdef01234567"
WORK = parse("capability:work")


class Registry(NamedTuple):
    """Two routers' watchers and one registrar at work, and the plain client of somebody without an SDK."""

    watchers: list[Watcher]
    raw: redis.asyncio.Redis
    backend: Backend


async def until(check: Callable[[], Any], what: str, within_ms: float = 10_000) -> float:
    """Wait for a condition; says how many ms it took."""
    began = time.monotonic()
    async with in_time(within_ms / 1_000):
        while not check():
            assert time.monotonic() - began < 10, f"{what}: not within 10 s"
            await asyncio.sleep(0.001)
        return (time.monotonic() - began) * 1_000


@asynccontextmanager
async def running(url: str, raw: redis.asyncio.Redis) -> AsyncIterator[Registry]:
    backends = [open_backend(url) for _ in range(3)]
    for backend in backends:
        await backend.open()
    watchers = [Watcher(backend, CapabilityIndex()) for backend in backends[:2]]
    supervisor = Supervisor([*watchers, Registrar(backends[2], "w1")])
    supervisor.start()
    try:
        await asyncio.wait_for(asyncio.gather(*(watcher.wait_loaded() for watcher in watchers)), 5)
        yield Registry(watchers, raw, backends[2])
    finally:
        await supervisor.stop(drain_ms=0)
        await backends[2].drop_consumer("w1", [0])  # as a worker does that ends
        for backend in backends:
            await backend.close()


@pytest.fixture
async def registry(redis_url: str, raw: redis.asyncio.Redis) -> AsyncIterator[Registry]:
    async with running(redis_url, raw) as found:
        yield found


def states(watcher: Watcher) -> list[tuple[str, str]]:
    since_ms = watcher.index.alive_since_ms(watcher.now_ms())
    return [(agent.agent_id, agent.state(since_ms)) for agent in watcher.index.match(WORK)]


def all_see(registry: Registry, *wanted: tuple[str, str]) -> Callable[[], bool]:
    return lambda: all(states(watcher) == list(wanted) for watcher in registry.watchers)


async def register(registry: Registry, agent_id: str, **declared: Any) -> dict[str, Any]:
    """What a program without the SDK does: a mailbox, an entry into `control`, and a look at the answer."""
    mail = "reach:{dev.0}:mail:" + MAILBOX
    hello = await registry.raw.xadd(mail, {"hello": "1"}, maxlen=1_000, approximate=True)
    await registry.raw.pexpire(mail, 60_000)
    fields = {
        "op": "register",
        "reply_to": MAILBOX,
        "agent_id": agent_id,
        "instance_id": f"{agent_id}.1",
        "capabilities": [{"name": "work"}],
        **declared,
    }
    await registry.raw.xadd("reach:{dev}:control", {"c": msgspec.json.encode(fields)})
    reply: Any = await registry.raw.xread({mail: hello}, block=5_000)
    answer: dict[str, Any] = msgspec.json.decode(reply[0][1][0][1][b"n"])
    return answer


async def test_a_registration_is_seen_by_every_router_within_100_ms(registry: Registry) -> None:
    seen: list[tuple[str, str]] = []
    took = []
    async with lagging() as lag:
        for agent_id in "abcde":
            seen.append((agent_id, "ready"))
            assert (await register(registry, agent_id))["notice"] == "registered"
            took.append(await until(all_see(registry, *seen), "the registration in both routers"))
    assert statistics.median(took) < 100 + lag.allowed_s * 1_000, (
        f"one slow one is the machine's, three are ours: {took}"
    )
    assert await registry.raw.exists(*(f"reach:{{dev.0}}:inbox:a:{lane}" for lane in ("high", "normal", "low"))) == 3


async def test_draining_is_seen_within_200_ms(registry: Registry) -> None:
    await register(registry, "a")
    await until(all_see(registry, ("a", "ready")), "the registration")
    await registry.backend.beat("a", "a.1", b'{"state":"draining"}')
    await until(all_see(registry, ("a", "draining")), "the change of state in both routers", 200)


async def test_refusals_come_back(registry: Registry) -> None:
    await register(registry, "a")
    answer = await register(registry, "a", instance_id="a.2", zone="z")
    assert (answer["notice"], answer["code"]) == ("refused", "registration.conflict")
    answer = await register(registry, "b", env="prod", speed=1)
    assert {problem["code"] for problem in answer["problems"]} == {
        "registration.unknown_field",
        "registration.wrong_env",
    }


async def test_after_flushall_everybody_is_back_as_soon_as_they_register(registry: Registry) -> None:
    await register(registry, "a")
    await register(registry, "b")
    await until(all_see(registry, ("a", "ready"), ("b", "ready")), "both")
    await registry.raw.flushall()
    assert not (await registry.backend.beat("a", "a.1", b"{}")).known
    assert (await register(registry, "a"))["notice"] == "registered"
    await until(all_see(registry, ("a", "ready")), "the one that came back")
    assert (await register(registry, "c"))["notice"] == "registered"
    await until(all_see(registry, ("a", "ready"), ("c", "ready")), "the next one")


async def test_killed_connections_lose_no_change(registry: Registry) -> None:
    for at in range(5):
        await registry.raw.client_kill_filter(_type="normal", skipme=True)
        assert (await register(registry, f"a{at}"))["notice"] == "registered"
    wanted = [(f"a{at}", "ready") for at in range(5)]
    await until(all_see(registry, *wanted), "all five")


@pytest.mark.parametrize("key", ["control", "changes", "agents", "beats", "load", "meta"])
async def test_a_key_of_the_wrong_type_is_made_anew(registry: Registry, key: str) -> None:
    await register(registry, "a")
    name = "reach:{dev}:" + key
    await registry.raw.delete(name)
    await registry.raw.set(name, "junk")
    if key == "control":  # whoever writes it by hand can do so when the registrar has looked
        async with asyncio.timeout(2):
            while await registry.raw.type(name) == b"string":
                await asyncio.sleep(0.005)
    assert (await asyncio.wait_for(register(registry, "b"), 5))["notice"] == "registered"
    await until(lambda: all(("b", "ready") in states(watcher) for watcher in registry.watchers), "the new one")


async def test_the_silent_are_removed_and_everybody_hears_of_it(registry: Registry) -> None:
    await register(registry, "a")
    await register(registry, "b")
    await until(all_see(registry, ("a", "ready"), ("b", "ready")), "both")
    beats = "reach:{dev}:beats"
    await registry.raw.zincrby(beats, -31_000, "a/a.1")
    clock = ManualClock()
    reaper = Reaper(registry.backend, "w1", clock=clock)
    removed = 0
    for _ in range(17):  # it looks for 15 s before it believes a silence; only its own clock moves here
        clock.advance(1_000)
        removed += (await reaper.run_once()).get("removed", 0)
    assert removed == 1
    await until(all_see(registry, ("b", "ready")), "the removal in both routers")
    assert await registry.raw.keys("reach:{dev.0}:inbox:a:*") == []
    assert await registry.raw.zrange(beats, 0, -1) == [b"b/b.1"]


async def test_a_large_env_is_loaded_and_asked_quickly(redis_url: str, raw: redis.asyncio.Redis) -> None:
    count = 10_000
    now_s, now_us = await raw.time()
    now_ms = now_s * 1_000 + now_us // 1_000
    agents: Any = {
        f"n{at}": f'{{"agent_id":"n{at}","instance_id":"i","capabilities":[{{"name":"c{at % 500}"}}],"v":1}}'
        for at in range(count)
    }
    await raw.hset("reach:{dev}:agents", mapping=agents)
    await raw.zadd("reach:{dev}:beats", {f"n{at}/i": now_ms - at % 5_000 for at in range(count)})
    async with running(redis_url, raw) as registry:
        assert len(registry.watchers[0].index.agents) == count
        assert len(registry.watchers[0].index.match(parse("capability:c7"))) == 20
        assert (await register(registry, "x"))["notice"] == "registered"
        await until(all_see(registry, ("x", "ready")), "one more among 10,000")


async def test_what_is_written_by_hand_is_followed_by_every_router_within_100_ms(registry: Registry) -> None:
    looking = Supervisor([Looking(watcher) for watcher in registry.watchers])
    looking.start()
    took = []
    async with lagging() as lag:
        for strategy in ("direct", "sticky", "round_robin", "fresh_eyes", "direct"):
            await registry.raw.hset(
                "reach:{dev}:routes", "capability:work", msgspec.json.encode({"strategy": strategy})
            )

            def follow(wanted: str = strategy) -> bool:
                return all(watcher.index.policy("capability:work").strategy == wanted for watcher in registry.watchers)

            took.append(await until(follow, "the policy in both routers"))
    await looking.stop(drain_ms=0)
    assert statistics.median(took) < 100 + lag.allowed_s * 1_000, (
        f"one slow one is the machine's, three are ours: {took}"
    )
