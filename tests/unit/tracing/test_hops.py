"""The recorder: nothing lost on a graceful stop, gaps marked, work never waits."""

import asyncio
from typing import Any

import msgspec
import pytest

from reach.errors import BackendFull, BackendUnavailable
from reach.tracing import record as record_module
from reach.tracing.contents import Contents, EnvelopeContent
from reach.tracing.hops import BATCH_RECORDS, HopRecorder
from reach.tracing.naming import arrival_span, run_span
from reach.tracing.propagation import TraceContext, trace_of
from reach.tracing.record import Candidate
from reach.tracing.time_base import TimeBase

MSG = "a3f2c1e4-9b8d-4f3a-8c2e-1a2b3c4d5e6f"


class Events:
    """What was written to each partition, batch by batch."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, list[dict[str, Any]]]] = []
        self.away = 0

    async def write(self, partition: int, batch: bytes) -> None:
        if self.away:
            self.away -= 1
            raise BackendUnavailable("away")
        self.batches.append((partition, msgspec.json.decode(batch)))

    @property
    def records(self) -> list[dict[str, Any]]:
        return [record for _, batch in self.batches for record in batch]


def make(events: Events, **options: Any) -> HopRecorder:
    options.setdefault("flush_ms", 0)
    return HopRecorder(events.write, TimeBase(lambda: 5_000_000), node="n1", worker="w1", **options)


async def test_a_record_carries_the_trace_and_its_parents_are_known_without_talking() -> None:
    events = Events()
    hops = make(events)
    traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
    hops.add(0, "message.received", MSG, correlation_id="c", traceparent=traceparent, pattern="capability:x")
    hops.add(0, "route.sent", MSG, leg=2, attempt=1, traceparent=traceparent, agent="a", hand="7-0")
    hops.add(0, "agent.received", MSG, leg=2, attempt=1, traceparent=traceparent, agent="a", hand="7-0")
    await hops.run_once()
    received, sent, taken = events.records
    assert received["parent_span_id"] == "b7ad6b7169203331"
    assert sent["parent_span_id"] == received["span_id"] == arrival_span(MSG, 1)
    assert taken["parent_span_id"] == sent["span_id"] == run_span(MSG, 2, "a", "7-0", "route.sent")
    assert {record["trace_id"] for record in events.records} == {"0af7651916cd43dd8448eb211c80319c"}
    assert received["sampled"] is False
    assert (received["node"], received["worker"], received["leg"], received["attempt"]) == ("n1", "w1", 0, 0)


async def test_work_does_not_wait_for_what_is_made_of_its_records(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def counted(msg_id: str, traceparent: str | None) -> TraceContext:
        asked.append(msg_id)
        return trace_of(msg_id, traceparent)

    monkeypatch.setattr(record_module, "trace_of", counted)
    events = Events()
    hops = make(events)
    hops.add(0, "message.received", MSG)
    assert asked == []
    await hops.flush()
    assert asked == [MSG]


async def test_a_record_from_before_the_first_question_has_the_time_of_redis_all_the_same() -> None:
    own = [1_000_000]

    async def redis_ms() -> int:
        return 1_700_000_000_000 + own[0] // 1000

    events = Events()
    base = TimeBase(lambda: own[0], fallback_us=lambda: 42)  # a machine whose clock is set wrong
    hops = HopRecorder(events.write, base, flush_ms=0, ask_ms=redis_ms)
    hops.add(0, "message.received", MSG)
    mark = base.mark()
    own[0] += 3_000_000
    hops.add(0, "route.sent", MSG)
    hops.add(0, "agent.received", MSG, mark=mark)
    await hops.flush()
    moments = [record["at_us"] - 1_700_000_000_000_000 for record in events.records]
    assert moments == [pytest.approx(at_us, abs=1_000) for at_us in (1_000_000, 4_000_000, 1_000_000)]


async def test_batches_are_at_most_100_and_of_one_partition() -> None:
    events = Events()
    hops = make(events)
    for i in range(250):
        hops.add(i % 3, "message.received", MSG, counts={"n": i})
    await hops.flush()
    assert len(hops) == 0
    assert max(len(batch) for _, batch in events.batches) <= BATCH_RECORDS
    for partition, batch in events.batches:
        assert {record["counts"]["n"] % 3 for record in batch} == {partition}
    for partition in range(3):
        numbers = [r["counts"]["n"] for where, batch in events.batches for r in batch if where == partition]
        assert numbers == list(range(partition, 250, 3))


async def test_a_hundred_records_do_not_wait_for_the_clock() -> None:
    events = Events()
    hops = make(events, flush_ms=3_600_000)
    for _ in range(BATCH_RECORDS):
        hops.add(0, "message.received", MSG)
    await hops.run_once()
    assert len(events.records) == BATCH_RECORDS


async def test_what_could_not_be_written_stays_and_is_written_on_close() -> None:
    events = Events()
    events.away = 3
    hops = make(events)
    for i in range(7):
        hops.add(0, "route.sent", MSG, attempt=i)
    with pytest.raises(BackendUnavailable):
        await hops.run_once()
    assert len(hops) == 7
    assert await hops.close() == 0
    assert [record["attempt"] for record in events.records] == list(range(7))


class Deaf:
    """It writes, and its word of that is lost: `loses` how often. `batches`: as they came."""

    def __init__(self, loses: int, error: type[BaseException]) -> None:
        self.batches: list[bytes] = []
        self._loses, self._error = loses, error

    async def write(self, _partition: int, batch: bytes) -> None:
        self.batches.append(batch)
        if self._loses:
            self._loses -= 1
            raise self._error


@pytest.mark.parametrize("error", [BackendUnavailable, asyncio.CancelledError])
async def test_what_may_have_been_written_comes_again_byte_for_byte(error: type[BaseException]) -> None:
    own = [1_000_000]

    async def redis_ms() -> int:
        return 1_700_000_000_000 + own[0] // 1000

    events = Deaf(2, error)
    base = TimeBase(lambda: own[0], fallback_us=lambda: 42)
    hops = HopRecorder(events.write, base, flush_ms=0)
    hops.add(0, "route.sent", MSG, attempt=1)
    for _ in range(2):
        with pytest.raises(error):
            await hops.flush()
        hops.add(0, "route.sent", MSG, attempt=2)
        await base.sync(
            redis_ms
        )  # the clock of Redis is known now: a record that is made anew would say another moment
    assert await hops.close() == 0
    assert events.batches[0] == events.batches[1] == events.batches[2]
    told = [record["attempt"] for batch in events.batches[2:] for record in msgspec.json.decode(batch)]
    assert told == [1, 2, 2]


async def test_what_was_refused_is_made_anew() -> None:
    own = [1_000_000]
    events = Deaf(1, BackendFull)
    base = TimeBase(lambda: own[0], fallback_us=lambda: 42)
    hops = HopRecorder(events.write, base, flush_ms=0)
    hops.add(0, "route.sent", MSG)
    with pytest.raises(BackendFull):
        await hops.flush()
    hops.add(0, "route.sent", MSG)
    assert await hops.flush() == 2
    assert [len(msgspec.json.decode(batch)) for batch in events.batches] == [1, 2]


async def test_what_may_not_be_kept_any_more_does_not_come_again() -> None:
    meta = {"privacy": "keep"}

    async def asked() -> dict[str, str]:
        return meta

    events = Deaf(1, BackendUnavailable)
    contents = Contents("dev", asked, every_ms=0)
    hops = HopRecorder(events.write, TimeBase(lambda: 5_000_000), flush_ms=0, contents=contents)
    hops.add(0, "message.received", MSG, envelope=EnvelopeContent(b'{"payload":{"body":"secret"}}', b'"secret"'))
    with pytest.raises(BackendUnavailable):
        await hops.flush()
    meta["privacy"] = "drop"
    assert await hops.close() == 0
    assert [b"secret" in batch for batch in events.batches] == [True, False]


async def test_close_says_what_it_could_not_write() -> None:
    events = Events()
    events.away = 10**9
    hops = make(events)
    hops.add(0, "route.sent", MSG)
    assert await hops.close(timeout_ms=10) == 1


async def test_a_full_buffer_drops_and_marks_the_gap() -> None:
    events = Events()
    hops = make(events, max_records=3)
    for i in range(5):
        hops.add(0, "route.sent", MSG, attempt=i)
    await hops.flush()
    hops.add(0, "route.sent", MSG, attempt=5)
    await hops.flush()
    assert [(r["point"], r["attempt"], r.get("counts")) for r in events.records] == [
        ("route.sent", 0, None),
        ("route.sent", 1, None),
        ("route.sent", 2, None),
        ("gap", 0, {"missing": 2}),
        ("route.sent", 5, None),
    ]
    assert hops.dropped == 2


async def test_records_that_come_while_a_batch_is_written_are_kept() -> None:
    started, release = asyncio.Event(), asyncio.Event()
    written: list[Any] = []

    async def slow(_partition: int, batch: bytes) -> None:
        started.set()
        await release.wait()
        written.extend(msgspec.json.decode(batch))

    hops = HopRecorder(slow, TimeBase(lambda: 0), flush_ms=0)
    hops.add(0, "route.sent", MSG, attempt=1)
    flushing = asyncio.get_running_loop().create_task(hops.flush())
    await started.wait()
    hops.add(0, "route.sent", MSG, attempt=2)
    release.set()
    await flushing
    await hops.close()
    assert [record["attempt"] for record in written] == [1, 2]


async def test_candidates_are_bounded() -> None:
    events = Events()
    hops = make(events)
    hops.add(0, "route.matched", MSG, candidates=tuple(Candidate(f"a{i}", "ready", "draining") for i in range(50)))
    await hops.flush()
    assert len(events.records[0]["candidates"]) == 20
    assert events.records[0]["candidates"][0] == {"agent": "a0", "filter": "ready", "reason": "draining"}


async def test_the_time_base_follows_redis_whatever_the_own_clock_says() -> None:
    own, ahead_us = [1_000_000], 1_699_999_999_123_456
    base = TimeBase(lambda: own[0], fallback_us=lambda: 42)
    assert base.now_us() == 42

    async def redis_ms() -> int:
        own[0] += 130  # on the way there
        told = (own[0] + ahead_us) // 1000
        own[0] += 170  # and back
        return told

    assert base.stale()
    await base.sync(redis_ms)
    assert abs(base.now_us() - own[0] - ahead_us) <= 150
    assert not base.stale()
    own[0] += 11_000_000
    assert base.stale()
    ahead_us -= 3_600_000_000  # the clock of Redis was set back
    await base.sync(redis_ms)
    assert abs(base.now_us() - own[0] - ahead_us) <= 150


async def test_an_answer_that_was_held_up_does_not_move_the_time_base() -> None:
    own = [1_000_000]
    skew_us = 1_700_000_000_000_000
    base = TimeBase(lambda: own[0], fallback_us=lambda: 42)

    async def redis_ms(before_us: int, after_us: int) -> int:
        own[0] += before_us
        moment = own[0] + skew_us
        own[0] += after_us
        return moment // 1000

    async def sync(before_us: int, after_us: int) -> int:
        """How wrong it is afterwards, in ms."""
        await base.sync(lambda: redis_ms(before_us, after_us))
        return abs(base.now_us() - own[0] - skew_us) // 1000

    assert await sync(3_000_000, 0) > 1_000  # nothing better is known
    own[0] += 1_100_000
    assert base.stale()
    assert await sync(1_000, 1_000) <= 1
    own[0] += 9_000_000
    assert not base.stale()
    own[0] += 2_000_000
    assert await sync(3_000_000, 0) <= 1
    skew_us -= 60_000_000  # the clock of Redis steps back: that is news, however late it comes
    assert await sync(300_000, 0) <= 151
    own[0] += 1_100_000
    assert base.stale()
    assert await sync(1_000, 1_000) <= 1
