"""A pulse in a thread of its own, which sees whether the agent's loop still turns."""

import asyncio
import threading

import pytest

from reach.backend.memory_backend import MemoryBackend, Store
from reach.backend.port import Backend
from reach.clock import SystemClock
from reach.delivery.pulse import Pulse, PulseThread
from reach.envelope.registration import Beat
from reach.errors import BackendUnavailable
from reach.testing import wait_until
from tests.waiting import eventually


async def test_a_thread_beats_while_the_loop_is_blocked_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    store = Store()
    beats: list[Beat] = []
    thread: PulseThread

    def sample() -> Beat:
        beats.append(Beat(state="busy" if thread.blocked else "ready"))
        return beats[-1]

    def make(backend: Backend) -> Pulse:
        return Pulse(
            backend,
            "one",
            "i1",
            clock=SystemClock(),
            sample=sample,
            holds=dict,
            on_lost=lambda *_: None,
            on_unknown=lambda: None,
        )

    thread = PulseThread(lambda: MemoryBackend(store=store), make, "one")
    thread.start()
    try:
        await wait_until(lambda: beats)
        first = beats[-1].state
        eventually(lambda: beats[-1].state == "busy", what="the beat that says busy")  # blocks the loop
        assert first == "ready"
        (told,) = [record for record in caplog.records if record.message.startswith("event loop blocked")]
        assert "eventually" in told.where  # type: ignore[attr-defined]
        assert told.blocked_ms > 1_000  # type: ignore[attr-defined]
        await wait_until(lambda: beats[-1].state == "ready")
        thread.wake()
    finally:
        await thread.stop()
    await thread.stop()
    thread.wake()
    assert not thread._thread.is_alive()


def test_a_thread_ends_with_the_loop_of_its_agent() -> None:
    store, sampled = Store(), threading.Event()
    threads: list[threading.Thread] = []

    async def forget_to_stop() -> None:
        thread: PulseThread

        def sample() -> Beat:
            sampled.set()
            return Beat(state="busy" if thread.blocked else "ready")

        def make(backend: Backend) -> Pulse:
            return Pulse(
                backend,
                "one",
                "i1",
                clock=SystemClock(),
                sample=sample,
                holds=dict,
                on_lost=lambda *_: None,
                on_unknown=lambda: None,
            )

        thread = PulseThread(lambda: MemoryBackend(store=store), make, "one")
        thread.start()
        threads.append(thread._thread)
        await wait_until(sampled.is_set)

    asyncio.run(forget_to_stop())
    eventually(lambda: not threads[0].is_alive(), what="the end of the thread")


async def test_a_thread_waits_for_its_backend_and_can_be_stopped_meanwhile() -> None:
    tries = 0

    class Away(MemoryBackend):
        async def open(self) -> None:
            nonlocal tries
            tries += 1
            raise BackendUnavailable("away")

    def never(_: Backend) -> Pulse:
        raise AssertionError("it never opened")

    thread = PulseThread(Away, never, "one")
    thread.start()
    await wait_until(lambda: tries >= 2)
    await thread.stop()
    assert not thread._thread.is_alive()


async def test_a_thread_that_hangs_while_it_connects_can_be_stopped() -> None:
    hanging = threading.Event()

    class Hanging(MemoryBackend):
        async def open(self) -> None:
            hanging.set()
            await asyncio.Event().wait()

    def never(_: Backend) -> Pulse:
        raise AssertionError("it never opened")

    thread = PulseThread(Hanging, never, "one")
    thread.start()
    await wait_until(hanging.is_set)
    async with asyncio.timeout(2):
        await thread.stop()
    assert not thread._thread.is_alive()


async def test_a_thread_that_was_never_started_is_stopped_at_once() -> None:
    thread = PulseThread(MemoryBackend, lambda _: None, "one")  # type: ignore[arg-type,return-value]
    async with asyncio.timeout(1):
        await thread.stop()


async def test_stopping_holds_up_nobody() -> None:
    """The thread is not through with its first words yet: the agent's loop turns all the same."""
    let = threading.Event()

    def slowly() -> Backend:
        let.wait(5)
        return MemoryBackend()

    def make(backend: Backend) -> Pulse:
        return Pulse(
            backend,
            "one",
            "i1",
            clock=SystemClock(),
            sample=Beat,
            holds=dict,
            on_lost=lambda *_: None,
            on_unknown=lambda: None,
        )

    thread = PulseThread(slowly, make, "one")
    thread.start()
    stopping = asyncio.ensure_future(thread.stop())
    turns = 0
    while turns < 50:
        await asyncio.sleep(0)
        turns += 1
    assert not stopping.done()
    let.set()
    async with asyncio.timeout(2):
        await stopping
    assert not thread._thread.is_alive()
