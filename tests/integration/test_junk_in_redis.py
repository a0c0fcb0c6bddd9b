"""What anybody may have written into Redis by hand is read as what it is: an error of reach, or nothing. Never as a crash."""

import uuid
from collections.abc import AsyncIterator

import msgspec
import pytest
import redis.asyncio

from reach import Agent, Reach
from reach.backend.keys import KeySpace
from reach.backend.redis_backend import RedisBackend
from reach.errors import BackendError
from reach.registry.registrar import Registrar
from tests.integration.sdk import world

KEYS = KeySpace("dev")
MOMENTS = {"at": 1, "fa": 1, "ta": 1, "op": 1, "ls": 1}
HEAD = {
    "fp": "f",
    "s": "me",
    "sc": "one",
    "la": "normal",
    "tt": 1,
    "ne": 1,
    "pr": 1,
    "to": 1,
    "ma": 1,
    "j": "",
    **MOMENTS,
}
NO_HEADS = [{**HEAD, "fp": 1}, {**HEAD, "s": "\u00e9"}, {**HEAD, "sc": "some"}]


@pytest.fixture
async def backend(redis_url: str) -> AsyncIterator[RedisBackend]:
    made = RedisBackend(redis_url, env="dev")
    await made.open()
    yield made
    await made.close()


@pytest.mark.parametrize("head", NO_HEADS)
async def test_a_record_without_a_head_is_an_error_of_the_backend(
    backend: RedisBackend, raw: redis.asyncio.Redis, head: dict[str, object]
) -> None:
    msg_id = str(uuid.uuid4())
    packed = msgspec.msgpack.encode([head, {"st": "queued"}]).replace("\u00e9".encode(), b"\xff\xff")
    await raw.set(KEYS.message(0, msg_id), packed, px=60_000)
    with pytest.raises(BackendError) as caught:
        await backend.inspect(0, msg_id)
    assert caught.value.details["msg_id"] == msg_id
    assert not caught.value.retryable


@pytest.mark.parametrize("head", [{}, {**HEAD, "ta": "soon"}, {**HEAD, "ls": 1e300}, {**HEAD, "la": 1}])
async def test_a_head_that_no_step_can_count_with_is_no_record(
    backend: RedisBackend, raw: redis.asyncio.Redis, head: dict[str, object]
) -> None:
    msg_id = str(uuid.uuid4())
    await raw.set(KEYS.message(0, msg_id), msgspec.msgpack.encode([head, {"st": "queued"}]), px=60_000)
    assert await backend.inspect(0, msg_id) is None


async def test_a_record_whose_leg_is_none_is_an_error_of_the_backend(
    backend: RedisBackend, raw: redis.asyncio.Redis
) -> None:
    msg_id = str(uuid.uuid4())
    await raw.set(KEYS.message(0, msg_id), msgspec.msgpack.encode([HEAD, {"st": "flying"}]), px=60_000)
    with pytest.raises(BackendError):
        await backend.inspect(0, msg_id)


@pytest.mark.leaves(r"reach:\{dev\}:.*", why="the junk is its own")
async def test_names_that_are_no_text_are_read_around(backend: RedisBackend, raw: redis.asyncio.Redis) -> None:
    await raw.zadd(KEYS.beats(), {b"\xff/\xff": 1, b"a1/\xff": 2, b"a1/i1": 3})
    await raw.zadd(KEYS.due(0), {b"\xff\xfe": 1})
    _, beats = await backend.registration("a1")
    assert beats["i1"] == 3
    assert len((await backend.last_beats(0))[1]) == 3
    assert len(await backend.overdue_beats(5)) == 3
    assert (await backend.due(0)).more is False


@pytest.mark.leaves(r"reach:\{dev\}:.*", why="the junk is its own")
async def test_a_beat_at_no_moment_hides_no_other_beat(backend: RedisBackend, raw: redis.asyncio.Redis) -> None:
    await raw.zadd(KEYS.beats(), {"a1/i1": 3, "a1/i2": "inf", "a2/i1": "-inf"})
    _, beats = await backend.registration("a1")
    assert beats == {"i1": 3, "i2": 0}
    assert {(last.instance_id, last.at_ms) for last in (await backend.last_beats(0))[1]} == {("i1", 3), ("i2", 0)}
    assert sorted(await backend.overdue_beats(5)) == [("a1", "i1", 3), ("a2", "i1", 0)]


@pytest.mark.leaves(r"reach:\{dev\}:.*", r"reach:\{dev\.0\}:.*", why="the junk is its own")
async def test_junk_at_every_door_brings_nobody_down(redis_url: str, raw: redis.asyncio.Redis) -> None:
    """A reference to a record that is none, and a name whose registration is none: the next message is served all the same."""
    agent = Agent("helper")

    @agent.capability("refund")
    async def refund() -> str:
        return "done"

    msg_id = str(uuid.uuid4())
    returned = {"st": "returned", "h": "1-1", "rc": "{junk", "n": 1}
    async with world.router(redis_url) as supervisor, agent.running(redis_url, "dev"):
        await raw.set(KEYS.message(0, msg_id), msgspec.msgpack.encode([{**HEAD, "s": 5}, returned]), px=60_000)
        await raw.xadd(KEYS.again(0), {"m": msg_id, "l": "0", "h": "1-1"})
        await raw.hset(KEYS.agents(), "refund", b"{junk")
        async with Reach.connect(redis_url) as reach:
            assert (await reach.request("refund", timeout=5)).code in {"ok", "route.not_found"}
            assert (await reach.request("capability:refund", timeout=5)).output == "done"
        assert supervisor.vitals["router"].failures == 0
        assert await raw.xlen(KEYS.dead(0)) == 0


@pytest.mark.leaves_work(why="the registrar is run once and not ended as a worker ends it")
@pytest.mark.parametrize(
    "junk", [{f"f{n:05}": 1 for n in range(60_000)}, {"capabilities": [{}] * 200_000}, {"groups": ["a b"] * 100_000}]
)
async def test_the_answer_to_a_large_registration_that_is_junk_is_small(
    backend: RedisBackend, raw: redis.asyncio.Redis, junk: dict[str, object]
) -> None:
    mailbox = "tester.0123456789abcdef01234567"
    await backend.keep_mailbox(mailbox, [0])
    entry = {"op": "register", "reply_to": mailbox, "agent_id": "a", "instance_id": "i", **junk}
    await raw.xadd(KEYS.control(), {"c": msgspec.json.encode(entry)})
    assert await Registrar(backend, "w1").run_once() == {"refused": 1}
    (notice,) = [entry for entry in await backend.read_mail(mailbox, {0: "0"}, 0) if entry.kind == "notice"]
    assert len(notice.data) < 16 << 10
    assert await raw.xlen(KEYS.control()) == 0
