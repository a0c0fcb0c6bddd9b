"""From Redis to a collector: whoever is away, each span arrives, and what was lost before is told."""

import asyncio
import os
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pytest
from opentelemetry.sdk.trace import ReadableSpan

from reach.backend.port import Backend
from reach.errors import BackendUnavailable, ConfigError
from reach.events.span_service import SpanService
from reach.tracing.exporting import Outlet, Sent, open_outlet
from reach.tracing.record import HopRecord, Point
from reach.tracing.sampling import Sampling
from tests.collector import Collector
from tests.integration.spine import Connect

pytestmark = pytest.mark.leaves_work(why="the group of the spans stays, as in life")


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with Collector() as one:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", one.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.2")  # else it tries again for 10 s by itself
        yield one


def service(backend: Backend, owner: str = "w1", **more: Any) -> SpanService:
    return SpanService(backend, open_outlet(os.environ), range(backend.partitions), owner, **more)


async def write(backend: Backend, *names: str, trace: int = 1, code: str = "") -> None:
    """A batch of records: runs of agents of these names, or other points."""
    now_us = await backend.now_ms() * 1000
    records = [
        HopRecord(
            at_us=now_us,
            point=name if "." in name else "agent.responding",  # type: ignore[arg-type]
            agent=name,
            msg_id=f"m{trace}",
            leg=0,
            attempt=1,
            trace_id=f"{trace:032x}",
            span_id=f"{abs(hash(name)) % (1 << 60) + 1:016x}",
            code=code,
        )
        for name in names
    ]
    await backend.record(0, msgspec.json.encode(records))


def names(collector: Collector) -> list[str]:
    return [name.removeprefix("invoke_agent ") for name in collector.names]


async def drain(spans: SpanService) -> None:
    while await spans.run_once():
        pass


async def test_nothing_is_lost_while_the_collector_is_away_and_nothing_is_read(
    backend: Backend, collector: Collector
) -> None:
    spans = service(backend)
    await write(backend, "a", "b")
    collector.status = 503
    for _ in range(2):
        with pytest.raises(BackendUnavailable, match="did not take 2 of 2 spans"):
            await spans.run_once()
    await write(backend, "c")
    collector.status = 200
    await drain(spans)
    assert sorted(names(collector)) == ["a", "b", "c"]
    await drain(spans)
    await spans.close()
    assert len(names(collector)) == 3


async def test_whoever_takes_over_goes_on_where_the_last_one_stopped(backend: Backend, collector: Collector) -> None:
    await write(backend, "a")
    first, second = service(backend, "w1"), service(backend, "w2")
    await drain(first)
    await write(backend, "b")
    await drain(second)
    assert names(collector) == ["a"]  # one at a time
    collector.status = 503
    with pytest.raises(BackendUnavailable):
        await first.run_once()  # it holds b, and dies
    collector.status = 200
    assert await backend.lock("spans", "w1", 1)
    while not await backend.lock("spans", "w2", 30_000):
        pass
    await drain(second)
    assert names(collector) == ["a", "b"]
    await drain(first)
    await write(backend, "c")
    await drain(second)
    assert names(collector) == ["a", "b", "c"]
    await first.close()
    await second.close()


async def test_what_was_trimmed_meanwhile_is_a_span_that_says_so(
    connect: Connect, backend: Backend, collector: Collector
) -> None:
    await backend.set_meta("meta", "max_events", b"2")
    bounded = await connect()
    spans = service(bounded)
    await write(bounded, "a")
    await drain(spans)
    for name in "bcdef":
        await write(bounded, name)
    await drain(spans)
    assert sorted(names(collector)) == ["a", "e", "f", "gap"]
    gap = next(span for span in collector.spans if span.name == "gap")
    assert {at.key: at.value.int_value for at in gap.attributes}["reach.count.batches"] == 3
    assert (spans.exported, spans.missed) == (4, 3)
    await spans.close()


async def test_a_span_that_is_refused_for_good_stops_no_other(backend: Backend, collector: Collector) -> None:
    spans = service(backend)
    collector.poison = "invoke_agent d"
    await write(backend, *"abcdefgh")
    await drain(spans)
    assert sorted(names(collector)) == list("abcefgh")
    assert (spans.exported, spans.refused, spans.missed) == (7, 1, 0)
    collector.status = 401  # whoever runs it puts that right: nothing is lost
    await write(backend, "i")
    with pytest.raises(BackendUnavailable):
        await spans.run_once()
    collector.status = 200
    await drain(spans)
    assert names(collector)[-1] == "i"
    await spans.close()


async def test_a_collector_that_is_not_there_leaves_everything_in_redis(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Collector() as gone:
        url = gone.url
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.2")
    spans = service(backend)
    await write(backend, "a")
    with pytest.raises(BackendUnavailable):
        await spans.run_once()
    await spans.close()
    assert len((await backend.follow_events(0, "spans", "spans")).batches) == 1


async def test_what_is_held_is_not_finished_and_what_is_dropped_is(backend: Backend, collector: Collector) -> None:
    spans = service(backend, sampling=Sampling(share=0.0))
    way: list[Point] = ["message.received", "agent.completed"]
    await write(backend, *way, trace=1)
    await write(backend, *way, trace=2, code="ok")
    await write(backend, "route.failed", trace=2, code="route.not_found")
    await spans.run_once()
    assert sorted(names(collector)) == ["process reach.inbox", "route.failed", "send reach.reply"]
    pending = await backend.follow_events(0, "spans", "spans")
    assert len(pending.batches) == 1
    for held in list(spans._sampler._traces.values()):  # as if it had ended longer ago
        held.first_us = held.last_us = held.last_us - 3_000_000
    spans._sampler._swept_us = 0
    await spans.run_once()
    assert (await backend.follow_events(0, "spans", "spans")).batches == ()
    assert len(names(collector)) == 3
    await spans.close()


async def test_junk_in_events_stops_nothing_and_is_told(
    backend: Backend, collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    spans = service(backend)
    for batch in [b"\xff", b"[" * 5_000, b'{"a":1}', b"[1,null,{}]", b""]:
        await backend.record(0, batch)
    await write(backend, "a")
    await drain(spans)
    assert names(collector) == ["a"]
    assert "unreadable record" in caplog.text
    assert (await backend.follow_events(0, "spans", "spans")).batches == ()
    await spans.close()


async def test_half_a_character_in_a_batch_hides_no_span(backend: Backend, collector: Collector) -> None:
    spans = service(backend)
    await write(backend, "a", "b")
    ((_, batch),) = await backend.read_events(0, "0", 1)
    await backend.record(0, batch.replace(b'"agent":"a"', rb'"agent":"c","chosen":"\ud83d"'))
    await drain(spans)
    assert sorted(names(collector)) == ["a", "b", "b", "c"]
    await spans.close()


async def test_a_batch_is_as_large_as_the_variable_says(backend: Backend, collector: Collector) -> None:
    spans = service(backend, environ={"OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "3", "OTEL_BSP_SCHEDULE_DELAY": "1234"})
    await write(backend, *"abcdefgh")
    await drain(spans)
    assert (collector.requests, len(names(collector))) == (3, 8)
    assert spans.interval_ms == 1234
    await spans.close()


@pytest.mark.parametrize(
    ("environ", "text"),
    [
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "'zipkin' is not one of"),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, "'http/json' is not one of"),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "pip install opentelemetry-exporter-otlp-proto-grpc"),
    ],
)
def test_an_exporter_that_there_is_not_is_told(environ: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        open_outlet(environ)


def test_the_console_is_an_exporter_too(capsys: pytest.CaptureFixture[str]) -> None:
    outlet = open_outlet({"OTEL_TRACES_EXPORTER": "console"})
    assert isinstance(outlet, Outlet)
    assert outlet.send([]) == "taken"
    outlet.close()


async def test_what_was_taken_and_not_answered_is_sent_again_with_the_same_ids(
    backend: Backend, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever sends cannot know that it was taken: the same spans come twice, and a collector sees one of each."""
    take = collector.take

    def taken_and_lost(data: bytes) -> int:
        take(data)
        return 503

    monkeypatch.setattr(collector, "take", taken_and_lost)
    spans = service(backend)
    await write(backend, *"abc")
    with pytest.raises(BackendUnavailable):
        await spans.run_once()
    first = [span.SerializeToString() for span in collector.spans]
    assert len(first) >= 3
    monkeypatch.setattr(collector, "take", take)
    collector.spans.clear()
    await drain(spans)
    assert [span.SerializeToString() for span in collector.spans] == first[:3]
    assert spans.exported == 3
    await spans.close()


async def test_the_loop_turns_while_spans_are_sent(backend: Backend) -> None:
    """It may serve a router: a collector that is slow holds up nobody."""
    turned = threading.Event()

    class Slow(Outlet):
        def __init__(self) -> None:
            """No exporter."""

        def send(self, spans: Sequence[ReadableSpan]) -> Sent:
            return "taken" if turned.wait(30) else "away"

        def close(self) -> None:
            """Nothing to end."""

    spans = SpanService(backend, Slow(), range(backend.partitions), "w1")
    await write(backend, *"abc")
    sending = asyncio.create_task(spans.run_once())
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_later(0.05, turned.set)
    assert await sending == {"exported": 3}
    await spans.close()
