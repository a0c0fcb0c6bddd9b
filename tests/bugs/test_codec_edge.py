"""Depth, names that stand there twice, and bytes: refused at every door, and nobody dies of them."""

import json
import os
import uuid
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import redis.asyncio

from reach import Context, Reject
from reach.backend.connection import Link
from reach.backend.keys import KeySpace
from reach.envelope import records
from reach.errors import ConfigError, RecordError
from reach.sdk.bodies import BodyError
from tests.bugs.edge import answering, deep, refused, thrown, with_body, written
from tests.bugs.served import served
from tests.contract.places import KEYS
from tests.integration.spine import Spine, envelope, still_serves, until

DEV = KeySpace("dev")

# ---------------------------------------------------------------- B103: depth

DEEP = (b"[" * 20_000, b"[" * 20_000 + b"]" * 20_000, b'{"a":' * 20_000, b'{"a":' * 20_000 + b"1" + b"}" * 20_000)


@pytest.mark.parametrize("data", DEEP, ids=["open lists", "lists", "open objects", "objects"])
async def test_B103_depth_is_refused_at_every_door(spine: Spine, data: bytes) -> None:
    await spine.register("refund-1", "refund")
    # With an end that is missing nothing behind it can be read, so that nobody can be told.
    await spine.put({"e": data})
    await spine.put({"e": with_body(data, msg_id=str(uuid.uuid4()))})
    await spine.backend.send_control(data)
    await spine.backend.send_control(
        b'{"op":"register","reply_to":"box.1","agent_id":"refund-2","instance_id":"i","capabilities":' + data + b"}"
    )
    await spine.place.append(KEYS.receipts(0), {"m": data, "l": b"0", "h": b"1-1", "r": data})

    async def rejected() -> bool:
        return [record["code"] for record in await spine.events() if record["point"] == "message.rejected"] == [
            "envelope.malformed",
            "envelope.malformed",
        ]

    await until(rejected, "both refusals")
    msg_id = await spine.send(envelope(max_attempts=1))
    hand, _ = await spine.work("refund-1")
    await spine.settle(msg_id, hand, b'{"status":"success","output":' + data + b"}")
    assert (await spine.receipt(msg_id))["code"] == "handler.error"
    await still_serves(spine)


@pytest.mark.leaves(r"reach:\{dev\}:.*", why="the junk is its own")
async def test_B103_a_stored_record_that_is_too_deep_hides_no_other(redis_url: str, raw: redis.asyncio.Redis) -> None:
    for number, data in enumerate(DEEP):
        await raw.hset(DEV.agents(), f"deep-{number}", data)
        await raw.hset(DEV.agents(), f"deeper-{number}", b'{"agent_id":"deeper","capabilities":' + data + b"}")
        await raw.hset(DEV.routes(), "capability:echo", data)
    async with served(redis_url, answering(lambda body: body)) as reach:
        assert await reach.ask("echo", 1) == 1


async def test_B103_the_sdk_refuses_depth_and_tells_the_caller_at_once(redis_url: str) -> None:
    agent = answering(
        lambda body: thrown(Reject("deep", at=deep(body["rejected"]))) if "rejected" in body else deep(body["levels"])
    )

    @agent.capability("tell")
    async def tell(body: int, ctx: Context) -> str:
        try:
            await ctx.progress(deep(body))
        except BodyError as error:
            return error.code
        return "told"

    async with served(redis_url, agent) as reach:
        assert await reach.ask("echo", deep(62)) == deep(62)
        assert await reach.ask("make", {"levels": 62}) == deep(62)
        assert await reach.ask("tell", 62) == "told"
        for levels in (63, 64, 65, 100, 900, 20_000):
            receipt = await reach.request("echo", deep(levels))
            assert (receipt.status, receipt.code) == ("failed", "payload.invalid")
            receipt = await reach.request("make", {"levels": levels})
            assert (receipt.status, receipt.code) == ("failed", "handler.error")
            receipt = await reach.request("make", {"rejected": levels})
            assert (receipt.status, receipt.code) == ("failed", "handler.rejected")
            assert await reach.ask("tell", levels) == "payload.invalid"
        for data in DEEP:
            receipt = await reach.request("echo", msgspec.Raw(data))
            assert (receipt.status, receipt.code) == ("failed", "payload.invalid")
            assert await reach.ask("echo", data.decode()) == data.decode()  # a text of brackets is a text


# ---------------------------------------------------------------- B105: a name that stands there twice


#: field -> what stands there a second time
SECOND = {
    "msg_id": json.dumps(str(uuid.uuid4())),
    "target": '{"pattern":"agent_id:other"}',
    "source": '{"agent_id":"other"}',
    "type": '"event"',
    "timestamp": "2",
    "ttl_ms": "1",
    "round": "2",
    "reply_to": '"box.2"',
    "payload": '{"body":2}',
    "headers": '{"auth":"b"}',
    "source.agent_id": '"other"',
    "target.pattern": '"agent_id:other"',
    "payload.body": "2",
    "headers.auth": '"b"',
}


async def test_B105_a_field_that_stands_there_twice_is_refused(spine: Spine) -> None:
    await spine.register("refund-1", "refund")
    for field, second in SECOND.items():
        part, dot, name = field.rpartition(".")
        for known in (f'"{name}"', f'"\\u{ord(name[0]):04x}{name[1:]}"'):
            made = envelope(ttl_ms=30_000, round=1, headers={"auth": "a"})
            first = json.dumps({name: made[part][name] if dot else made[field]})[1:-1]
            data = json.dumps(made)
            assert first in data
            receipt = await refused(spine, data.replace(first, f"{first}, {known}: {second}", 1).encode())
            assert receipt["code"] == "envelope.malformed"
            assert receipt["details"]["field"] == field
    await still_serves(spine)


async def test_B105_a_field_in_other_letters_is_another_one_and_refused(spine: Spine) -> None:
    for field in ("Msg_id", "TTL_MS", "tTl_ms", "Target", "PAYLOAD"):
        assert (await refused(spine, written(**{field: 1})))["code"] == "envelope.unknown_field"


async def test_B105_an_answer_with_two_statuses_is_none(spine: Spine) -> None:
    await spine.register("refund-1", "refund")
    for twice in (b'"status":"failed","status":"success"', b'"output":1,"output":2', b'"code":"ok","\\u0063ode":"ok"'):
        msg_id = await spine.send(envelope(max_attempts=1))
        hand, _ = await spine.work("refund-1")
        await spine.settle(msg_id, hand, b'{"status":"success",' + twice + b"}")
        assert (await spine.receipt(msg_id))["code"] == "handler.error"
    await still_serves(spine)


@pytest.mark.parametrize(
    ("read", "data"),
    [
        (records.decode_receipt, b'{"status":"success","status":"failed"}'),
        (records.decode_receipt, b'{"status":"success","\\u0073tatus":"failed"}'),
        (records.decode_receipt, b'{"status":"success","code":null,"code":"ok"}'),
        (records.decode_receipt, b'{"status":"success","new":1,"new":2}'),
        (records.decode_receipt, b'{"status":"success","code":"ok","code":"ok","details":{"n":1e9,"x":1e9,"y":1e9}}'),
        (records.decode_notice, b'{"notice":"routed","msg_id":"a","msg_id":"b"}'),
        (records.decode_notice, b'{"notice":"routed","msg_id":"a","n":1,"n":1e9}'),
        (records.decode_notice, b'{"notice":"routed","msg_id":"a","\x7f":1,"\x7f":1}'),
        (records.decode_beat, b'{"state":"ready","state":"busy"}'),
        (records.decode_policy, b'{"strategy":"direct","strategy":"score"}'),
        (records.decode_control, b'{"op":"leave","agent_id":"a","agent_id":"b"}'),
        (records.decode_stored_registration, b'{"agent_id":"a","instance_id":"i","agent_id":"b"}'),
        (records.decode_stored_registration, b'{"gone_at":1,"gone_at":2}'),
    ],
)
def test_B105_no_record_that_comes_from_outside_may_say_a_thing_twice(
    read: Callable[[bytes], object], data: bytes
) -> None:
    with pytest.raises(RecordError, match="twice"):
        read(data)


# ---------------------------------------------------------------- B107: bytes

ALL_BYTES = bytes(range(256))


#: What a URL may say about how a client reads and sends: reach decides it by itself.
OPTIONS = (
    "",
    "?decode_responses=True&protocol=3",
    "?encoding=ascii&encoding_errors=ignore",
    "?retry_on_error=x&retry_on_timeout=yes&health_check_interval=1",
)


@pytest.mark.parametrize("options", OPTIONS)
async def test_B107_bytes_in_are_bytes_out_however_the_client_is_set(redis_url: str, options: str) -> None:
    async with served(redis_url + options, answering(lambda body: body)) as reach:
        packed = msgspec.msgpack.encode({"a": [1, b"\xff", "é"]})
        for data in (b"", ALL_BYTES, b"\xff\xfe", packed, os.urandom(700_000)):
            assert await reach.ask("echo_bytes", data, returns=bytes) == data
        assert await reach.ask("echo", {"é": "\U0001f378"}) == {"é": "\U0001f378"}


@pytest.mark.parametrize("option", ["max_connections=5", "single_connection_client=True", "patience=3"])
def test_B107_an_option_of_the_url_that_cannot_be_followed_is_told_at_once(option: str) -> None:
    with pytest.raises(ConfigError, match=option.partition("=")[0]):
        Link(f"redis://127.0.0.1:1/0?{option}")


async def test_B107_bytes_that_are_no_json_are_refused_when_they_are_sent(redis_url: str) -> None:
    agent = answering(lambda body: msgspec.Raw(ALL_BYTES))
    async with served(redis_url, agent) as reach:
        for junk in (ALL_BYTES, b"\xff", b'"\xff"', b"{junk", b'1},"reply_to":"other"', b"1 2", b"\xef\xbb\xbf1"):
            receipt = await reach.request("echo", msgspec.Raw(junk))
            assert (receipt.status, receipt.code) == ("failed", "payload.invalid")
        receipt = await reach.request("make")
        assert (receipt.status, receipt.code) == ("failed", "handler.error")
        assert await reach.ask("echo", msgspec.Raw(b"")) is None


@pytest.mark.leaves(r"reach:\{dev\}:.*", why="the junk is its own")
async def test_B107_bytes_in_any_stream_or_hash_kill_no_reader(redis_url: str, raw: redis.asyncio.Redis) -> None:
    async with served(redis_url, answering(lambda body: body)) as reach:
        junk: dict[Any, Any] = {
            b"\xff": ALL_BYTES,
            b"e": ALL_BYTES,
            b"m": ALL_BYTES,
            b"l": b"\xff",
            b"h": b"\xff",
            b"r": ALL_BYTES,
        }
        junk |= {b"n": ALL_BYTES, b"c": ALL_BYTES, b"b": ALL_BYTES, b"x": b"\xff", b"a": b"\xff", b"k": ALL_BYTES}
        for lane in ("high", "normal", "low"):
            await raw.xadd(DEV.ingress(0, lane), junk)
            await raw.xadd(DEV.inbox(0, "maker", lane), junk)
        for stream in (DEV.again(0), DEV.receipts(0), DEV.control(), DEV.mail(0, reach.mailbox_id), DEV.events(0)):
            await raw.xadd(stream, junk)
        await raw.xadd(DEV.changes(), junk)
        await raw.hset(DEV.agents(), ALL_BYTES, ALL_BYTES)
        await raw.hset(DEV.load(), ALL_BYTES, ALL_BYTES)
        assert await reach.ask("echo", 1) == 1
        for key, group in ((DEV.inbox(0, "maker", "normal"), "agent"), (DEV.receipts(0), "routers")):
            await until(lambda: _idle(raw, key, group), f"nothing pending in {key}")  # noqa: B023


async def _idle(raw: redis.asyncio.Redis, key: str, group: str) -> bool:
    pending = await raw.xpending(key, group)
    return int(pending["pending"]) == 0
