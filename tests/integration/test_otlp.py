"""Spans over the wire: what an OTLP collector receives, and what the missing extra says."""

import asyncio
import socket
import sys

import pytest
from oteltap import OtelTapHttpProtobufReceiver, OtelTapHttpProtobufReceiverSettings

from reach.backend import open_backend
from reach.errors import ConfigError
from reach.events.span_service import SpanService
from reach.tracing.exporting import Outlet
from reach.tracing.hops import HopRecorder
from reach.tracing.time_base import TimeBase
from tests.unit.tracing.test_spans import MSG, SENDER

CONSUMER = 5


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def test_a_collector_receives_kind_parent_link_and_resource(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
    backend = open_backend("memory://otlp")
    await backend.open()
    hops = HopRecorder(backend.record, TimeBase(), node="n", worker="w1", flush_ms=0)
    hops.add(0, "message.received", MSG, traceparent=SENDER, correlation_id="c")
    await hops.flush()
    settings = OtelTapHttpProtobufReceiverSettings(http_port=port, listen_on_all_interfaces=False)
    async with OtelTapHttpProtobufReceiver(settings) as receiver:
        service = SpanService(backend, Outlet.over_http(), [0], "w1")
        span, report = await asyncio.gather(
            receiver.await_trace(lambda span: span.name == "process reach.inbox", timeout=10), service.run_once()
        )
        await service.close()
    await backend.close()
    assert report == {"exported": 1}
    assert span.kind == CONSUMER
    assert span.trace_id.hex() == "0af7651916cd43dd8448eb211c80319c"
    assert span.parent_span_id.hex() == "b7ad6b7169203331"
    assert [link.span_id.hex() for link in span.links] == ["b7ad6b7169203331"]


def test_without_the_extra_one_sentence_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(ConfigError, match=r"pip install 'reachmq\[otlp\]'"):
        Outlet.over_http()
