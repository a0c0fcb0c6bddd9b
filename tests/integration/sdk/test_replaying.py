"""What was recorded in one env runs once more in another, and the answers are compared."""

import json
from typing import Any

from reach import Agent, Context, Reach
from reach.backend import open_backend
from reach.backend.private_server import PrivateServer
from reach.events.recordings import Difference
from reach.sdk.replaying import REPLAY_OF, replay
from reach.testing import wait_until
from tests.envelopes import fields as minimal
from tests.integration.sdk.world import router


def recorded(at_us: int, msg_id: str, body: object, output: object, **fields: Any) -> list[dict[str, Any]]:
    told = {"leg": 0, "attempt": 0, "msg_id": msg_id, "correlation_id": "case"}
    envelope = {
        **minimal(msg_id=msg_id),
        "target": {"pattern": "capability:double"},
        "payload": {"body": body},
        **fields,
    }
    receipt = {"status": "success", "code": "ok", "output": output, "target_agent": "old"}
    return [
        {**told, "at_us": at_us, "point": "message.received", "envelope": envelope},
        {**told, "at_us": at_us + 1, "point": "agent.completed", "code": "ok", "receipt": receipt},
    ]


async def test_a_conversation_runs_once_more_in_order_and_what_has_changed_is_told(server: PrivateServer) -> None:
    seen: list[tuple[object, str, str]] = []
    shadow = Agent("new")

    @shadow.capability("double")
    async def double(body: int, ctx: Context) -> int:
        seen.append((body, ctx.headers[REPLAY_OF], ctx.headers["shop"]))
        return body * 2

    live = open_backend(server.url, env="live")
    await live.open()
    headers = {"shop": "7", "reach-history": "[]"}
    try:
        records = [
            *recorded(2_000_000, "m2", 2, 5, headers=headers),
            *recorded(1_000_000, "m1", 1, 2, headers=headers),
            *recorded(3_000_000, "m3", 3, 6, in_reply_to="m2", headers=headers),
            {
                "at_us": 4_000_000,
                "point": "message.received",
                "msg_id": "m4",
                "correlation_id": "case",
                "left_out": {"why": "drop"},
            },
        ]
        await live.record(0, json.dumps(records).encode())
        async with (
            Reach.connect(server.url, "live") as source,
            router(server.url, env="shadow"),
            shadow.running(url=server.url, env="shadow"),
            Reach.connect(server.url, "shadow") as client,
        ):
            found = await source.events.recordings(correlation_ids=["case"])
            assert [(one.msg_id, one.envelope is None) for one in found] == [("m1", False), ("m2", False), ("m4", True)]
            told = [one async for one in replay(client, found)]
            assert [(one.replay_of, one.codes, one.compared) for one in told] == [
                ("m1", ("ok",), "answers"),
                ("m2", ("ok",), "answers"),
            ]
            assert [one.differences for one in told] == [(), (Difference("output", 5, 4),)]
            assert seen == [(1, "m1", "7"), (2, "m2", "7")]
            assert len({one.correlation_id for one in told}) == 1
            assert not {told[0].correlation_id, *(one.msg_id for one in told)} & {"case", "m1", "m2"}
            (one,) = await source.events.recordings(msg_ids=["m3"])
            (again,) = [one async for one in replay(client, [one], to="agent_id:new")]
            assert (again.target, again.codes, again.differences) == ("agent_id:new", ("ok",), ())
    finally:
        await live.close()


async def test_what_only_the_ledger_remembers_can_be_sent_again(server: PrivateServer) -> None:
    agent = Agent("echo")

    @agent.capability("echo")
    async def echo(body: object) -> object:
        return body

    async with (
        router(server.url),
        agent.running(url=server.url),
        Reach.connect(server.url) as client,
    ):
        handle = await client.send("capability:echo", "later", delay=600)

        async def waits() -> bool:
            return bool(await client.events.recordings(msg_ids=[handle.msg_id]))

        await wait_until(waits)
        (one,) = await client.events.recordings(msg_ids=[handle.msg_id])
        assert one.envelope is not None
        (told,) = [told async for told in replay(client, [one])]
        assert (told.codes, told.compared) == (("ok",), "codes")
        await handle.cancel()
