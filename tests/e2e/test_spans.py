"""Spans of a real worker, at a real receiver; and a collector that is away stops nothing."""

import asyncio

import pytest
from oteltap import OtelTapHttpProtobufReceiver, OtelTapHttpProtobufReceiverSettings

from tests.e2e.conftest import StartWorker
from tests.e2e.plain import PlainAgent, Sender, Wire
from tests.e2e.processes import WorkerProcess, free_port

pytestmark = [pytest.mark.processes, pytest.mark.leaves_work(why="the group of the spans stays, as in life")]

TRACE = "0af7651916cd43dd8448eb211c80319c"
NAMES = {"process reach.inbox", "route", "send reach.agent.{agent}", "send reach.reply"}


def one_message(client: Wire, worker: WorkerProcess) -> None:
    worker.wait_ready()
    agent = PlainAgent(client, "plain-refund")
    agent.register("refund")
    sender = Sender(client)
    msg_id = sender.send(traces={"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"})
    hand, fields = agent.take()
    agent.answer_by_entry(fields, hand, {"status": "success"})
    assert sender.receipt(msg_id)["status"] == "success"


async def test_a_worker_exports_one_span_per_record(client: Wire, start_worker: StartWorker) -> None:
    port = free_port()
    settings = OtelTapHttpProtobufReceiverSettings(http_port=port, listen_on_all_interfaces=False)
    async with OtelTapHttpProtobufReceiver(settings) as receiver:
        worker = start_worker(OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{port}")
        seen: set[str] = set()

        def whole(span: object) -> bool:
            name = getattr(span, "name", "")
            if getattr(span, "trace_id", b"").hex() == TRACE:  # also what a router records of a foreign agent's answer
                seen.add(name)
            return seen >= NAMES

        await asyncio.gather(receiver.await_trace(whole, timeout=20), asyncio.to_thread(one_message, client, worker))
        status, lines = await asyncio.to_thread(worker.drain)
    assert status == 0
    assert [line["event"] for line in lines if line["level"] in {"error", "warning"}] == []


def test_a_collector_that_is_away_stops_nothing(client: Wire, start_worker: StartWorker) -> None:
    worker = start_worker("--drain-timeout", "3", OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{free_port()}")
    one_message(client, worker)
    assert worker.probe("/readyz")[0] == 200
    status, _ = worker.drain(within_s=10)
    assert status == 0
