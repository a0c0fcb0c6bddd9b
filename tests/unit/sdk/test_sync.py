"""SyncReach on memory: the calls, threads, and what it refuses."""

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

import msgspec
import pytest

from reach import Agent, BackendUnavailable, ConfigError, Context, Reach, Rejected, SyncReach, Timeout
from reach.sdk.loop_thread import LoopThread
from tests.unit.sdk.refunds import Approval, Desk, refunds
from tests.unit.sdk.shops import Order, Refund, shop
from tests.waiting import eventually


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("reach-sync")]


class World:
    def __init__(self) -> None:
        self.go = threading.Event()
        self.cancelled = 0
        self.started = threading.Event()
        self.gate = Agent("gate", groups=("crew",))

        @self.gate.capability("hang")
        async def hang(body: Any, ctx: Context) -> str:
            self.started.set()
            try:
                while not self.go.is_set():
                    await asyncio.sleep(0.002)
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
            return "let go"

        @self.gate.capability("trace")
        async def trace(body: Any, ctx: Context) -> str | None:
            return ctx._envelope.traces.traceparent


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def reach(world: World) -> Iterator[SyncReach]:
    with SyncReach.embedded(shop("shop"), world.gate, agent_id="asker") as opened:
        yield opened
        world.go.set()
    assert threads() == []


def test_the_calls_are_those_of_reach(reach: SyncReach) -> None:
    receipt = reach.request("refund", Order("ORD-1"), returns=Refund)
    assert (receipt.ok, receipt.output) == (True, Refund("ORD-1"))
    assert reach.request("refund", Order("none")).code == "handler.rejected"
    assert reach.ask("capability:refund", Order("ORD-2"), returns=Refund) == Refund("ORD-2")
    with pytest.raises(Rejected):
        reach.ask("refund", Order("none"))
    with pytest.raises(Timeout):
        reach.ask("agent_id:nobody", timeout=0.1)
    (leg,) = reach.request("capability:refund", Order("ORD-3"), returns=Refund, scope="all")
    assert leg.output == Refund("ORD-3")
    handle = reach.send("refund", Order("ORD-5"), order_key="k")
    assert handle.receipt(5, returns=Refund).output == Refund("ORD-5")
    first, again = (reach.request("refund", Order("ORD-4"), key="k") for _ in range(2))
    assert (first.msg_id, again.stored) == (again.msg_id, True)
    with pytest.raises(TypeError):
        reach.request("refund", prio=1)  # type: ignore[call-overload]
    assert (reach.env, reach.agent_id, reach.outstanding) == ("dev", "asker", 0)


def test_a_handle_tells_and_cancels(reach: SyncReach, world: World) -> None:
    handle = reach.send("tell")
    assert [msgspec.to_builtins(step.data) for step in handle.progress()] == [{"step": n} for n in range(3)]
    assert handle.receipt(5, returns=str).output == "told"
    assert [r.output for r in handle.receipts()] == ["told"]
    assert handle.status().state == "ended"
    assert handle.cancel() is False
    handle = reach.send("hang")
    eventually(lambda: handle.status().state == "open")
    with pytest.raises(Timeout) as caught:
        handle.receipt(0.01)
    assert caught.value.code == "wait.over"
    assert handle.cancel() is True
    assert handle.receipt(5).code == "cancelled"


def test_gather_gives_receipts_as_they_come_and_together(reach: SyncReach, world: World) -> None:
    group = reach.gather(["hang", "tell"], returns=str)
    with pytest.raises(Timeout):
        group.receipts(0)
    came = []
    for receipt in group:
        came.append(receipt.output)
        world.go.set()
    assert came == ["told", "let go"]
    assert [r.output for r in group.receipts(5)] == ["let go", "told"]
    assert [r.output for r in group] == came
    with pytest.raises(ValueError, match="want=2"):
        reach.gather("group:crew", want=2)  # type: ignore[call-overload]


def test_many_threads_share_one_client(reach: SyncReach) -> None:
    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(lambda n: reach.ask("refund", Order(f"ORD-{n}"), returns=Refund).refunded, range(200)))
    assert got == [f"ORD-{n}" for n in range(200)]
    assert threads() == ["reach-sync"]
    assert reach.outstanding == 0


def test_the_callers_span_goes_along(reach: SyncReach) -> None:
    from opentelemetry import trace

    span = trace.NonRecordingSpan(trace.SpanContext(7, 9, is_remote=False, trace_flags=trace.TraceFlags(1)))
    with trace.use_span(span):
        got = reach.ask("trace")
    assert got.startswith(f"00-{7:032x}-")


def test_a_handler_in_a_thread_may_use_it() -> None:
    opened: list[SyncReach] = []
    agent = Agent("outer")

    @agent.capability("outer")
    def outer(body: Any) -> Any:
        return opened[0].ask("refund", Order("ORD-9"), returns=Refund).refunded

    with SyncReach.embedded(shop("shop"), agent) as reach:
        opened.append(reach)
        assert reach.ask("outer") == "ORD-9"


# ---------------------------------------------------------------- the end


def test_closing_ends_who_waits(world: World) -> None:
    reach = SyncReach.embedded(world.gate)
    with ThreadPoolExecutor(4) as pool:
        request = pool.submit(reach.request, "hang")
        handle = reach.send("hang")
        steps = pool.submit(list, handle.progress())
        wait = pool.submit(handle.receipt)
        eventually(lambda: reach.outstanding == 2)
        closing = pool.submit(reach.close)
        assert request.result(5).code == "backend.unavailable"
        assert wait.result(5).code == "backend.unavailable"
        assert steps.result(5) == []
        world.go.set()
        closing.result(5)
    assert threads() == []
    reach.close()
    for call in (lambda: reach.request("hang"), handle.status, lambda: reach.gather("a")):
        with pytest.raises(BackendUnavailable) as caught:
            call()
        assert (caught.value.code, caught.value.retryable) == ("backend.closed", False)


def test_what_does_not_open_leaves_no_thread() -> None:
    cases: list[tuple[Callable[[], object], type[Exception]]] = [
        (lambda: SyncReach.connect("unix:///no/such/socket"), BackendUnavailable),
        (lambda: SyncReach.connect("http://x"), ConfigError),
        (lambda: SyncReach.connect(env="a.b"), ConfigError),
        (lambda: SyncReach.embedded(agent_id="no id"), ConfigError),
    ]
    for open_it, error in cases:
        with pytest.raises(error):
            open_it()
    assert threads() == []


def test_an_exception_in_the_caller_cancels_the_call(monkeypatch: pytest.MonkeyPatch, world: World) -> None:
    """Ctrl-C comes out of the wait for the result; the rest of it is in tests/integration, with a real signal."""
    import concurrent.futures

    with SyncReach.embedded(world.gate) as reach:
        result = concurrent.futures.Future.result

        def interrupted(self: Any, timeout: float | None = None) -> Any:
            assert world.started.wait(5)
            raise KeyboardInterrupt

        monkeypatch.setattr(concurrent.futures.Future, "result", interrupted)
        with pytest.raises(KeyboardInterrupt):
            reach.request("hang")
        monkeypatch.setattr(concurrent.futures.Future, "result", result)
        eventually(lambda: reach.outstanding == 0)
        eventually(lambda: world.cancelled == 1, what="the end of the handler that it has asked for")


class Stubborn:
    """Something that does not close when it is told to; `deaf`: not even when it is cut off."""

    def __init__(self, *, deaf: bool = False) -> None:
        self.deaf = deaf
        self.cut = threading.Event()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self.cut.set()


def test_what_does_not_close_is_cut_off() -> None:
    stubborn = Stubborn()
    thread = LoopThread(lambda: stubborn, "reach-sync")
    thread.stop(close_s=0.05)
    assert stubborn.cut.is_set()
    assert threads() == []


def test_a_loop_that_dies_ends_its_callers() -> None:
    class Quiet(Stubborn):
        async def __aexit__(self, *exc_info: object) -> None: ...

    thread = LoopThread(Quiet, "reach-sync")

    async def dies() -> None:
        raise SystemExit(3)

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(thread.call, asyncio.Event().wait)
        with pytest.raises((SystemExit, BackendUnavailable)):
            thread.call(dies)
        with pytest.raises(BackendUnavailable):
            waiting.result(5)
    with pytest.raises(BackendUnavailable):
        thread.call(dies)
    thread.stop()
    assert threads() == []


# ---------------------------------------------------------------- where it may not be used


def test_never_in_a_thread_whose_loop_runs(reach: SyncReach) -> None:
    handle = reach.send("hang")

    async def misuse() -> None:
        for call in (
            SyncReach.embedded,
            lambda: SyncReach.connect("memory://"),
            lambda: reach.ask("tell"),
            handle.receipt,
            lambda: next(handle.progress()),
            reach.close,
        ):
            with pytest.raises(ConfigError) as caught:
                call()
            assert caught.value.code == "config.event_loop"
        # the right way in a program that has a loop after all
        assert await asyncio.to_thread(reach.ask, "tell") == "told"

    asyncio.run(misuse())


@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
def test_a_forked_child_is_refused_and_harms_nothing(reach: SyncReach) -> None:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        said = b"nothing"
        try:
            reach.request("tell")
        except ConfigError as error:
            said = error.code.encode()
            reach.close()  # leaves the parent's alone, and does not hang
        finally:
            os.write(write, said)
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 100) == b"config.forked"
    os.close(read)
    os.close(write)
    assert reach.ask("tell") == "told"


def test_questions_are_answered_from_a_program_without_a_loop() -> None:
    with SyncReach.embedded(refunds(Desk()), agent_id="asker") as reach:
        assert reach.request("refund", 500, on_input=lambda _: Approval(True)).output == "paid"
        handle = reach.send("refund", 600)
        asked = next(handle.progress())
        assert (asked.kind, asked.data) == ("input_required", {"refund": 600})
        handle.answer(Approval(False))
        assert handle.receipt().output == "refused"
        later = reach.send("refund", 700)
        eventually(lambda: later.status().legs[:1] and later.status().legs[0].state == "parked")
        reach.answer(later.msg_id, Approval(True))
        assert later.receipt().output == "paid"


def test_it_has_what_reach_has() -> None:
    """What is missing is for those who run a loop, or inside of reach."""
    inside = {"draft", "forsake", "keep_mailbox", "mailbox_id", "origin", "recorder", "start", "vitals"}
    missing = {name for name in dir(Reach) if not name.startswith("_")} - set(dir(SyncReach))
    assert missing == inside


def test_schemas_and_capacity_wait() -> None:
    heard: list[str] = []
    with SyncReach.embedded(shop(), on_receipt=lambda receipt: heard.append(receipt.code)) as reach:
        assert reach.schemas.set("a.b.v1", {"type": "string"})
        assert reach.schemas.check("a.b.v2", {"type": "null"}).verdict.ok is False
        assert reach.schemas.get("a.b.v1") == {"type": "string"}
        reach.schemas.set_compatibility("a.b", "none")
        assert reach.schemas.list()["a.b"].compatibility == "none"
        assert reach.schemas.remove("a.b.v1")
        assert reach.capacity() == []
        reach.request("capability:nobody", timeout=0.1)
    assert heard == ["timeout.total"]
