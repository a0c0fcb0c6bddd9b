"""One request through three agents, one of which fails once: the span tree as an OTLP receiver is given it."""

import asyncio
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
import requests
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.requests import RequestsInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from oteltap import OtelTapHttpProtobufReceiver, OtelTapHttpProtobufReceiverSettings

from reach import Agent, Context, Reach
from reach.backend.private_server import PrivateServer
from tests.e2e.conftest import StartWorker
from tests.e2e.processes import free_port

pytestmark = [pytest.mark.processes, pytest.mark.leaves_work(why="the group of the spans stays, as in life")]

KINDS = {1: "INTERNAL", 2: "SERVER", 3: "CLIENT", 4: "PRODUCER", 5: "CONSUMER"}

EXPECTED = """\
checkout INTERNAL
  send reach.inbox PRODUCER
    process reach.inbox CONSUMER links its parent
      route INTERNAL
      send reach.agent.{agent} PRODUCER clerk run 1
        process reach.agent.{agent} CONSUMER clerk run 1
          asks the teller INTERNAL
            send reach.inbox PRODUCER
              process reach.inbox CONSUMER links its parent
                message.retried INTERNAL teller run 1 handler.error
                route INTERNAL
                route INTERNAL run 2
                send reach.agent.{agent} PRODUCER teller run 1
                  process reach.agent.{agent} CONSUMER teller run 1
                    invoke_agent teller INTERNAL teller run 1 handler.error
                    send reach.reply PRODUCER teller run 1 handler.error
                send reach.agent.{agent} PRODUCER teller run 2
                  process reach.agent.{agent} CONSUMER teller run 2
                    POST CLIENT
                    invoke_agent teller INTERNAL teller run 2
                    send reach.inbox PRODUCER
                      process reach.inbox CONSUMER links its parent
                        route INTERNAL
                        send reach.agent.{agent} PRODUCER booker run 1
                          process reach.agent.{agent} CONSUMER booker run 1
                            in a thread INTERNAL
                            invoke_agent booker INTERNAL booker run 1
                            send reach.reply PRODUCER booker run 1
                              process reach.reply CONSUMER booker run 1
                    send reach.reply PRODUCER teller run 2
                      process reach.reply CONSUMER teller run 2
          invoke_agent clerk INTERNAL clerk run 1
          send reach.reply PRODUCER clerk run 1
            process reach.reply CONSUMER clerk run 1
"""


def agents(till: str) -> list[Agent]:
    tracer = trace.get_tracer("shop")
    clerk, teller, booker = Agent("clerk"), Agent("teller"), Agent("booker")

    @clerk.capability("checkout")
    async def checkout(ctx: Context) -> Any:
        with tracer.start_as_current_span("asks the teller"):
            return await ctx.ask("capability:pay")

    @teller.capability("pay")
    async def pay(ctx: Context) -> Any:
        if ctx.attempt == 1:
            raise RuntimeError("the till is stuck")
        await asyncio.to_thread(requests.post, till, data=b"1", timeout=20)
        return await ctx.ask("capability:book")

    @booker.capability("book")
    def book() -> str:
        with tracer.start_as_current_span("in a thread"):
            return "booked"

    return [clerk, teller, booker]


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Where this process, which is the caller and all the agents, exports its own spans."""
    port = free_port()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(f"http://127.0.0.1:{port}/v1/traces")))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    yield port
    provider.shutdown()


class Till:
    """A web server that an agent asks, by a client that traces by itself: `asked` has the trace contexts that came."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer.asked.append(self.headers["traceparent"])
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture
def till(port: int) -> Iterator[Till]:
    """After `port`: the client traces by the provider that there is when it is instrumented."""
    till = Till()
    thread = Thread(target=till.server.serve_forever, kwargs={"poll_interval": 0.05}, name="pytest till")
    thread.start()
    RequestsInstrumentor().instrument()
    yield till
    RequestsInstrumentor().uninstrument()
    till.server.shutdown()
    till.server.server_close()
    thread.join()


def attributes(span: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes}


def line(span: Any) -> str:
    told = attributes(span)
    parts = [span.name, KINDS[span.kind]]
    if span.links:
        assert [link.span_id for link in span.links] == [span.parent_span_id]
        parts.append("links its parent")
    if told.get("reach.point", "").startswith(("agent.", "message.retried", "message.delivered", "route.sent")):
        parts.append(told["gen_ai.agent.name"])
    if told.get("reach.attempt", 0) > (1 if span.name == "route" else 0):
        parts.append(f"run {told['reach.attempt']}")
    parts.append(told.get("error.type", ""))
    return " ".join(filter(None, parts))


def tree(spans: list[Any], parent: bytes = b"", depth: int = 0) -> str:
    below = sorted(((line(span), span) for span in spans if span.parent_span_id == parent), key=lambda pair: pair[0])
    return "".join(f"{'  ' * depth}{said}\n{tree(spans, span.span_id, depth + 1)}" for said, span in below)


async def call(url: str, till: str) -> str:
    tracer = trace.get_tracer("shop")
    clerk, teller, booker = agents(till)
    async with (
        clerk.running(url, grace=0),
        teller.running(url, grace=0),
        booker.running(url, grace=0),
        Reach.connect(url) as reach,
    ):
        with tracer.start_as_current_span("checkout") as span:
            assert await reach.ask("capability:checkout") == "booked"
            return f"{span.get_span_context().trace_id:032x}"


async def test_the_span_tree_is_the_expected_one(
    server: PrivateServer, start_worker: StartWorker, port: int, till: Till
) -> None:
    settings = OtelTapHttpProtobufReceiverSettings(http_port=port, listen_on_all_interfaces=False)
    seen: dict[bytes, Any] = {}

    def whole(span: Any) -> bool:
        seen[span.span_id] = span
        return len(seen) >= EXPECTED.count("\n")

    async with OtelTapHttpProtobufReceiver(settings) as receiver:
        worker = start_worker(OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{port}")
        await asyncio.to_thread(worker.wait_ready)
        receiving = asyncio.gather(receiver.await_trace(whole, timeout=30), call(server.url, till.url))
        try:
            _, trace_id = await receiving
        except TimeoutError:
            trace_id = ""
    assert tree(list(seen.values())) == EXPECTED
    assert {span.trace_id.hex() for span in seen.values()} == {trace_id}
    client = next(span for span in seen.values() if span.name == "POST")
    assert [asked.split("-")[1:3] for asked in till.asked] == [[trace_id, client.span_id.hex()]]
    points = {attributes(span).get("reach.point") for span in seen.values()}
    assert points >= {
        "message.received",
        "route.matched",
        "route.sent",
        "agent.received",
        "agent.responding",
        "agent.completed",
        "message.delivered",
    }
    sent = next(span for span in seen.values() if line(span) == "send reach.agent.{agent} PRODUCER booker run 1")
    told = attributes(sent)
    assert told.pop("messaging.message.id") != told["messaging.message.conversation_id"]
    assert told.pop("messaging.client.id")
    assert told.pop("messaging.message.conversation_id")
    assert {name: value for name, value in told.items() if name != "reach.node"} == {
        "messaging.system": "reach",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.template": "reach.agent.{agent}",
        "messaging.destination.name": "reach.agent.booker",
        "messaging.destination.partition.id": "0",
        "gen_ai.agent.name": "booker",
        "reach.point": "route.sent",
        "reach.leg": 0,
        "reach.attempt": 1,
    }
