"""A marker in bodies, outputs and errors of all that can happen to a message: who looks at reach finds it only where it is kept."""

import asyncio
import json
import logging
import signal
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reach import Agent, Context, Reach, Receipt, Reject, Retry
from reach.backend import open_backend
from reach.backend.keys import KeySpace
from reach.backend.private_server import PrivateServer
from reach.events.archiver import GROUP, Archiver
from reach.events.opening import open_store
from reach.testing import wait_until
from reach_worker.logs import ConsoleFormatter, JsonFormatter
from tests.collector import Collector
from tests.e2e.plain import PlainAgent, Sender, T, Wire
from tests.e2e.processes import Process, WorkerProcess, free_port, reach
from tests.hearing import told_everything
from tests.unit.events.elastic_server import ElasticServer

pytestmark = pytest.mark.processes

MARK = "zebra4711quagga"
SCHEMA = "secret.order.v1"
STRICT = "secret.strict.v1"
CASE = "case-7"
CODES = ["ok"] * 4 + ["route.not_found"] + ["payload.invalid"] * 2 + ["handler.rejected"] + ["handler.error"] * 2
EVENTS = KeySpace("dev").events(0)


class Lines(logging.Handler):
    """All that is logged in this process, in each form that it has, tracebacks with it."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.forms = (JsonFormatter(), ConsoleFormatter(), logging.Formatter("%(message)s"))
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines += [form.format(record) for form in self.forms]


@pytest.fixture
def logged() -> Iterator[Lines]:
    with told_everything(Lines()) as handler:
        yield handler


def shop() -> Agent:
    """Does everything that a handler can do with what it is given."""
    agent = Agent("shop", concurrency=16, validate=True)

    @agent.capability("echo")
    async def echo(body: Any) -> Any:
        return body

    @agent.capability("fail")
    async def fail(body: Any) -> None:
        try:
            raise KeyError(str(body))
        except KeyError as error:
            raise ValueError(f"cannot use {body}") from error

    @agent.capability("refuse")
    def refuse(body: Any) -> None:
        raise Reject("no_such_order", f"there is no {body}", order=body)

    @agent.capability("again")
    async def again(body: Any, ctx: Context) -> Any:
        if ctx.attempt == 1:
            raise Retry(f"not yet: {body}")
        return body

    @agent.capability("ask")
    async def ask(body: Any, ctx: Context) -> Any:
        return await ctx.input_required({"about": body})

    @agent.capability("tell")
    async def tell(body: Any, ctx: Context) -> Any:
        await ctx.progress({"at": body})
        return await ctx.ask("capability:check", body, schema=SCHEMA)

    @agent.capability("effect")
    async def effect(body: Any, ctx: Context) -> Any:
        def charge() -> None:
            raise RuntimeError(f"cannot charge {body}")

        return await ctx.once("charge", charge)

    return agent


def helper() -> Agent:
    """Is asked by the shop."""
    agent = Agent("helper")

    @agent.capability("check")
    async def check(body: Any) -> Any:
        return body

    return agent


async def by_the_sdk(url: str, backend_schemas: dict[str, Any]) -> list[Receipt[Any]]:
    """Success, failure, retry, refusal, question, progress, dead letter, a body that its schema refuses, hooks that raise."""

    def hears(receipt: Receipt[Any]) -> None:
        raise ValueError(f"I do not like {receipt.output} {receipt.error_message}")

    async with Reach.connect(url, agent_id="caller", on_receipt=hears) as client:
        for name, schema in backend_schemas.items():
            await client.schemas.set(name, schema)
        told: dict[str, Any] = {"schema": SCHEMA, "correlation_id": CASE, "timeout": 20}
        one, three = {**told, "max_attempts": 1}, {**told, "max_attempts": 3}
        return [
            await client.request("capability:echo", {"order": MARK}, **told),
            await client.request("capability:again", {"order": MARK}, **three),
            await client.request("capability:ask", {"order": MARK}, on_input=lambda prompt: [MARK, prompt], **told),
            await client.request("capability:tell", {"order": MARK}, **told),
            await client.request("capability:nobody", {"order": MARK}, **told),
            await client.request("capability:echo", {"order": MARK}, **one | {"schema": STRICT}),
            await client.request("capability:echo", {"order": MARK}, **one | {"schema": STRICT}, validate=True),
            await client.request("capability:refuse", {"order": MARK}, **one),
            await client.request("capability:effect", {"order": MARK}, **one),
            await client.request("capability:fail", {"order": MARK}, **told, max_attempts=2),
        ]


def by_hand(wire: Wire) -> list[str]:
    """The same without the SDK, and what is no envelope and no receipt."""
    agent, sender = PlainAgent(wire, "plain"), Sender(wire)
    agent.register("plain")
    answers: list[dict[str, Any]] = [
        {"status": "success", "output": {"order": MARK}},
        {"status": "failed", "error_message": f"no {MARK}", "details": {"order": MARK}},
        {"status": "retryable", "error_message": f"not {MARK}", "retry_after_ms": 20},
        {"status": "success", "output": MARK, "surplus": MARK},
    ]
    ids: list[str] = []
    for answer in answers:
        if not ids or answers[len(ids) - 1]["status"] != "retryable":
            ids.append(sender.send("capability:plain", payload={"body": MARK, "schema": SCHEMA}, correlation_id=CASE))
        hand, fields = agent.take()
        agent.answer_by_entry(fields, hand, answer)
    for msg_id in ids:
        sender.receipt(msg_id)
    good = {"msg_id": str(uuid.uuid4()), "type": "request", "timestamp": 1, "payload": {"body": MARK, "schema": SCHEMA}}
    for bad in (f'{{"payload":{{"body":"{MARK}', json.dumps(good), json.dumps([MARK])):
        wire("XADD", f"{T}ingress:normal", "*", "e", bad)
    wire("XADD", f"{T}receipts", "*", "m", ids[0], "l", "0", "h", "1-1", "r", f'{{"output":"{MARK}')
    return ids


async def by_the_command_line(url: str, *, kept: bool) -> list[str]:
    """`reach request`, a question that `reach answer` answers, and `reach replay`, which can send only what is `kept`."""

    async def run(*arguments: str, status: int = 0) -> bytes:
        done = await asyncio.to_thread(reach, *arguments, REACH_REDIS_URL=url)
        assert done.returncode == status, done.stderr
        return done.stdout

    told = ("--schema", SCHEMA, "--correlation-id", CASE)
    answered = json.loads(await run("request", "capability:echo", f'"{MARK}"', *told, "-o", "json"))
    msg_id = (await run("send", "capability:ask", f'"{MARK}"', *told, "--as", "asker")).decode().split()[0]
    backend = open_backend(url)
    await backend.open()

    async def state_is(*wanted: str) -> bool:
        record = await backend.inspect(0, msg_id)
        return record is not None and record.legs[0].state.value in wanted

    await wait_until(lambda: state_is("parked"), 20)
    await run("answer", msg_id, f'"{MARK}"', "--as", "asker")
    await wait_until(lambda: state_is("done"), 20)
    await backend.close()
    await run("replay", "--msg-id", answered["msg_id"], "--same-env", status=0 if kept else 1)
    return [answered["msg_id"], msg_id]


async def stored(url: str, wire: Wire, folder: Path) -> dict[str, bytes]:
    """What each other store has of the same records."""
    found = {}
    with ElasticServer().running() as server:
        for kind, address in (("jsonl", f"jsonl:{folder / 'lines'}"), ("elastic", f"es+{server.url}/hops")):
            wire("XGROUP", "DESTROY", EVENTS, GROUP)
            source = open_backend(url)
            await source.open()
            archiver = Archiver(source, open_store(address), [0], "again")
            while await archiver.run_once():
                pass
            await archiver.close()
            await source.close()
            assert archiver.kept
            found[kind] = b"".join(path.read_bytes() for path in (folder / "lines").iterdir())
        found["elastic"] = json.dumps(server.documents).encode() + b"".join(body for *_, body in server.requests)
    return found


async def shown(url: str, store: str, ids: list[str]) -> dict[str, bytes]:
    """What the commands print about all of it."""
    asked: dict[str, tuple[str, ...]] = {
        "trace": ("trace", CASE),
        "trace --json": ("trace", CASE, "--json"),
        "events search": ("events", "search", "--event-store", store, "-n", "10000", "-o", "json"),
        "dead ls": ("dead", "ls"),
        "dead ls -o json": ("dead", "ls", "-o", "json"),
        "events search text": ("events", "search", "--event-store", store, "-n", "10000"),
    }
    asked |= {f"explain {number}": ("explain", msg_id) for number, msg_id in enumerate(ids)}
    done = await asyncio.gather(
        *(asyncio.to_thread(reach, *command, REACH_REDIS_URL=url) for command in asked.values())
    )
    assert [name for name, one in zip(asked, done, strict=True) if not one.stdout] == []
    return {name: one.stdout + one.stderr for name, one in zip(asked, done, strict=True)}


def scraped(port: int) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        return bytes(answer.read())


@pytest.mark.timeout(300)  # a dozen processes
@pytest.mark.parametrize("keeping", ["keep", "hash", "drop"])
async def test_what_is_not_kept_is_nowhere(keeping: str, logged: Lines, tmp_path: Path) -> None:
    places: dict[str, bytes] = {}
    port, store = free_port(), f"sqlite:{tmp_path / 'store'}"
    with PrivateServer.start() as server, Wire(server.url) as wire, Collector() as collector:
        default = "drop" if keeping == "drop" else "hash"
        setting = f"{default},secret.*={keeping}"
        assert reach("settings", "set", "privacy", setting, REACH_REDIS_URL=server.url).returncode == 0
        roles = ("--roles", "router,archiver", "--event-store", store, "--log-level", "debug")
        spans = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_TRACES_SAMPLER": "always_on"}
        with WorkerProcess(server.url, *roles, "--metrics-port", str(port), **spans) as worker:
            worker.wait_ready()
            tail = Process("reach.cli", "tail", "--since", "1h", "-o", "ndjson", REACH_REDIS_URL=server.url)
            with tail:
                async with shop().running(server.url), helper().running(server.url):
                    schemas = {STRICT: {"type": "object", "properties": {"order": {"type": "integer"}}}}
                    receipts = await by_the_sdk(server.url, schemas)
                    ids = [receipt.msg_id for receipt in receipts]
                    ids += await asyncio.to_thread(by_hand, wire)
                    ids += await by_the_command_line(server.url, kept=keeping == "keep")
                assert [receipt.code for receipt in receipts] == CODES

                def all_exported() -> bool:
                    return [span.name for span in collector.spans].count("invoke_agent shop") >= 10

                await wait_until(all_exported, 30, "the spans")
                places["metrics"] = await asyncio.to_thread(scraped, port)
                worker.signal(signal.SIGTERM)
                status, out, log = await asyncio.to_thread(worker.wait)
                assert status == 0
                places["the worker's log"] = (out + log).encode()
                places |= await shown(server.url, store, ids[1:3])
                tail.signal(signal.SIGINT)
                places["tail"] = "".join((await asyncio.to_thread(tail.wait))[1:]).encode()
        places["events"] = b"".join(entry["b"] for _, entry in wire.entries(EVENTS))
        places |= await stored(server.url, wire, tmp_path)
    places["sqlite"] = b"".join(path.read_bytes() for path in (tmp_path / "store").iterdir())
    places["spans"] = repr(collector.spans).encode()
    places["the agent's and the client's log"] = "\n".join(logged.lines).encode()
    assert all(places.values()), [name for name, data in places.items() if not data]
    has_it = {name for name, data in places.items() if MARK.encode() in data}
    kept = {"events", "sqlite", "jsonl", "elastic", "tail", "events search", "dead ls", "dead ls -o json"}
    assert has_it == (kept | {"the agent's and the client's log"} if keeping == "keep" else set()), [
        data[max(data.index(MARK.encode()) - 400, 0) :][:600] for name, data in places.items() if name in has_it - kept
    ]
