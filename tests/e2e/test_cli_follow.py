"""`reach trace --follow`: a conversation that grows before one's eyes, and ends."""

import asyncio
import json
import signal
import threading
from collections.abc import Callable
from itertools import pairwise
from typing import Self

import msgspec
import pytest

from reach import Agent, Context, Reach
from reach.backend.private_server import PrivateServer
from reach.events.traced import Message, Trace
from reach.testing import wait_until
from tests.e2e.conftest import StartWorker
from tests.e2e.plain import PlainAgent, Sender, Wire
from tests.e2e.processes import Process
from tests.e2e.test_without_sdk import published
from tests.waiting import eventually

pytestmark = pytest.mark.processes

WITHIN_S = 60.0


class Shown(Process):
    """The command, with its pictures as they come."""

    def __init__(self, name: str, url: str) -> None:
        super().__init__("reach.cli", "trace", name, "--follow", "--json", "--redis-url", url)
        self.pictures: list[Trace] = []
        self._reading = threading.Thread(target=self._read, daemon=True)

    def _read(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            self.pictures.append(msgspec.json.decode(line, type=Trace))

    def __enter__(self) -> Self:
        self._reading.start()
        return self

    def __exit__(self, *of: object) -> None:
        if self.running:
            self._child.kill()
        self._child.wait()
        self._reading.join()
        for pipe in (self._child.stdout, self._child.stderr):
            assert pipe is not None
            pipe.close()

    def messages(self) -> list[Message]:
        """Those of the last picture."""
        return self.pictures[-1].walk() if self.pictures else []

    def ended(self) -> tuple[int, str]:
        """Its status once it has ended, and what it said."""
        status = self._child.wait(WITHIN_S)
        self._reading.join()
        assert self._child.stderr is not None
        return status, self._child.stderr.read().decode()


def runs(message: Message) -> list[tuple[str, bool, str]]:
    """Who has run it, whether that has begun, and how it ended."""
    return [(run.agent, run.began_at_us is not None, run.code) for run in message.runs]


def check_growth(pictures: list[Trace]) -> None:
    """Nothing that was told is ever gone, and no picture is shown twice."""
    counts = [picture.records for picture in pictures]
    assert counts == sorted(set(counts))
    for before, after in pairwise(pictures):
        assert {one.msg_id for one in before.walk()} <= {one.msg_id for one in after.walk()}


async def test_it_grows_with_each_message_and_ends_with_the_last(
    server: PrivateServer, start_worker: StartWorker
) -> None:
    start_worker().wait_ready()
    asks, answers = asyncio.Event(), asyncio.Event()
    desk, bank = Agent("desk"), Agent("bank")

    @desk.capability("help")
    async def help_(body: int, ctx: Context) -> object:
        await asks.wait()
        return await ctx.ask("capability:pay", body)

    @bank.capability("pay")
    async def pay(body: int) -> int:
        await answers.wait()
        return body

    with Shown("case 7", server.url) as shown:
        async with (
            desk.running(url=server.url),
            bank.running(url=server.url),
            Reach.connect(server.url, agent_id="shop") as reach,
        ):
            handle = await reach.send("capability:help", 1, correlation_id="case 7")

            async def seen(wanted: dict[str, list[tuple[str, bool, str]]]) -> None:
                await wait_until(lambda: {one.pattern: runs(one) for one in shown.messages()} == wanted, WITHIN_S)
                assert shown.running

            await seen({"capability:help": [("desk", True, "")]})
            assert shown.messages()[0].open
            asks.set()
            await seen({"capability:help": [("desk", True, "")], "capability:pay": [("bank", True, "")]})
            answers.set()
            assert (await handle.receipt(WITHIN_S)).ok
            status, said = await asyncio.to_thread(shown.ended)
        assert (status, said) == (0, "")
        (root,) = shown.pictures[-1].messages
        (child,) = root.children
        assert [(one.pattern, one.code, one.open, runs(one)) for one in (root, child)] == [
            ("capability:help", "ok", False, [("desk", True, "ok")]),
            ("capability:pay", "ok", False, [("bank", True, "ok")]),
        ]
        assert [mark.point for mark in root.marks][-1] == "message.delivered"
        check_growth(shown.pictures)


def test_a_message_of_a_plain_agent_ends_it_too(server: PrivateServer, client: Wire, start_worker: StartWorker) -> None:
    """What its agent has done comes with the end of the run: a router records it, which the script has told."""
    start_worker().wait_ready()
    agent = PlainAgent(client, "plain-refund", {name: published(name) for name in ("beat", "settle")})
    agent.register("refund")
    msg_id = Sender(client).send(timeouts={"total_ms": 120_000}, ttl_ms=120_000)

    def is_seen(shown: Shown, check: Callable[[Message], bool]) -> bool:
        agent.beat()  # however long the command takes to start
        return any(check(one) for one in shown.messages())

    with Shown(msg_id, server.url) as shown:
        eventually(lambda: is_seen(shown, lambda one: runs(one) == [("plain-refund", False, "")]), WITHIN_S)
        assert shown.messages()[0].open
        hand, fields = agent.take()
        assert agent.answer_by_script(fields, hand, "done") == "done"
        assert shown.ended() == (0, "")
        (message,) = shown.messages()
        assert (message.msg_id, message.code, message.open) == (msg_id, "ok", False)
        assert runs(message) == [("plain-refund", True, "ok")]
        assert [mark.point for mark in message.marks] == ["route.matched", "message.delivered"]
        check_growth(shown.pictures)
    assert [record["point"] for record in client.records() if record["msg_id"] == msg_id][-4:] == [
        "agent.received",
        "agent.responding",
        "agent.completed",
        "message.delivered",
    ]


@pytest.mark.leaves_work(why="nobody takes it")
def test_ctrl_c_ends_it_while_it_runs(server: PrivateServer, client: Wire, start_worker: StartWorker) -> None:
    start_worker().wait_ready()
    agent = PlainAgent(client, "plain-refund")
    agent.register("refund")
    msg_id = Sender(client).send()
    with Shown(msg_id, server.url) as shown:
        eventually(lambda: bool(shown.messages()), WITHIN_S)
        assert shown.running
        shown.signal(signal.SIGINT)
        status, said = shown.ended()
        assert status == 130
        assert "Traceback" not in said


def test_what_has_ended_is_shown_once(server: PrivateServer, client: Wire) -> None:
    record = {"at_us": 1, "point": "message.expired", "code": "timeout.total", "msg_id": "m1", "final": True, "leg": 0}
    client("XADD", "reach:{dev.0}:events", "*", "b", json.dumps([record]))
    with Shown("m1", server.url) as shown:
        assert shown.ended() == (0, "")
        assert [(one.code, one.open) for one in shown.messages()] == [("timeout.total", False)]
        assert len(shown.pictures) == 1
