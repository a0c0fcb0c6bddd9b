"""What the `OTEL_*` variables of a process say is done: where and how a worker exports, and what a sender lets travel."""

import subprocess
import sys

import pytest

from tests.collector import Collector
from tests.e2e.conftest import StartWorker
from tests.e2e.plain import PlainAgent, Sender, Wire
from tests.e2e.processes import WorkerProcess, environ
from tests.waiting import eventually

pytestmark = [pytest.mark.processes, pytest.mark.leaves_work(why="the group of the spans stays, as in life")]


def one_failure(client: Wire, worker: WorkerProcess) -> None:
    """A message that is worth a trace wherever any is kept."""
    worker.wait_ready()
    agent = PlainAgent(client, "plain-refund")
    agent.register("refund")
    sender = Sender(client)
    msg_id = sender.send()
    hand, fields = agent.take()
    agent.answer_by_entry(fields, hand, {"status": "failed", "code": "handler.rejected"})
    assert sender.receipt(msg_id)["status"] == "failed"


def test_a_worker_exports_where_and_as_it_is_told(client: Wire, start_worker: StartWorker) -> None:
    with Collector() as collector:
        worker = start_worker(
            OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:1/not-for-traces",
            OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=f"{collector.url}/v1/traces",
            OTEL_EXPORTER_OTLP_HEADERS="x-tenant=acme,authorization=Bearer%20k",
            OTEL_EXPORTER_OTLP_COMPRESSION="gzip",
            OTEL_METRICS_EXPORTER="none",
            OTEL_SERVICE_NAME="desk",
            OTEL_RESOURCE_ATTRIBUTES="deployment.environment.name=stage,service.name=another",
        )
        one_failure(client, worker)
        eventually(lambda: "send reach.reply" in collector.names, 20.0, "the last span")
        assert worker.drain()[0] == 0
    for told in collector.headers:
        assert (told["x-tenant"], told["authorization"], told["content-encoding"]) == ("acme", "Bearer k", "gzip")
    assert {(one["service.name"], one["deployment.environment.name"]) for one in collector.resources} == {
        ("desk", "stage")
    }


@pytest.mark.parametrize(
    ("variable", "value"),
    [("OTEL_SDK_DISABLED", "true"), ("OTEL_TRACES_EXPORTER", "none"), ("OTEL_TRACES_SAMPLER", "always_off")],
)
def test_a_worker_that_is_told_to_export_no_spans_exports_none(
    client: Wire, start_worker: StartWorker, variable: str, value: str
) -> None:
    with Collector() as collector:
        worker = start_worker(**{"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, variable: value})
        one_failure(client, worker)
        assert worker.drain()[0] == 0, "at its end it would have sent the last ones"
        assert collector.spans == []
        assert bool(collector.metrics) is (variable != "OTEL_SDK_DISABLED")


#: A sender that traces by itself, as one does that is started by opentelemetry-instrument, and an agent that looks at what has come.
SENDER = """
import asyncio
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.trace import TracerProvider
from reach import Agent, Context, Reach

agent = Agent("looker")

@agent.capability("look")
async def look(ctx: Context) -> None:
    current = trace.get_current_span().get_span_context()
    print(current.trace_id == sent.trace_id, *ctx.headers.items())

async def main() -> None:
    global sent
    trace.set_tracer_provider(TracerProvider())
    context.attach(baggage.set_baggage("tenant", "acme"))
    async with Reach.embedded(agent) as reach:
        with trace.get_tracer("shop").start_as_current_span("checkout") as span:
            sent = span.get_span_context()
            await reach.ask("capability:look")

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({}, "True ('baggage', 'tenant=acme')"),
        ({"OTEL_PROPAGATORS": "tracecontext"}, "True"),
        ({"OTEL_PROPAGATORS": "baggage"}, "False ('baggage', 'tenant=acme')"),
        ({"OTEL_PROPAGATORS": "none"}, "False"),
        ({"OTEL_SDK_DISABLED": "true"}, "False ('baggage', 'tenant=acme')"),
    ],
    ids=["nothing said", "tracecontext", "baggage", "none", "disabled"],
)
def test_what_travels_with_a_message_is_what_the_propagators_of_its_sender_say(said: dict[str, str], told: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SENDER], env=environ(**said), capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, told), done.stderr
