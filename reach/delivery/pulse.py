"""Beats and renewals: what says that an instance lives, and keeps what it holds.

On a server it runs in a thread of its own, with a loop and a backend of its own, so that a handler that blocks the event loop is busy and
not dead. Beats only steer routing; possession of work is judged by the leases.
"""

import asyncio
import random
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence

from reach.backend.port import Backend
from reach.clock import Clock, SystemClock
from reach.delivery.inbox import Hands, Hold
from reach.envelope.records import encode_beat
from reach.envelope.registration import Beat
from reach.errors import BackendUnavailable
from reach.log import PacedLog, event_log
from reach.service import Report, Service, Supervisor, Vitals, until_open

log = event_log("reach.agent")

EVERY_MS = 5_000
AGAIN_MS = 1_000  # after a failure: 3 s after Redis is back everything must be renewed
TICK_MS = 250
CALL_MS = 1_500
BLOCKED_MS = 1_000
STOP_S = 5.0
#: So many calls are told of where a blocked loop stands: the handler is among them.
STACK = 4


class Pulse:
    """The service: one run is one tick. For one event loop, its own or the agent's."""

    name = "pulse"
    interval_ms = 0

    def __init__(
        self,
        backend: Backend,
        agent_id: str,
        instance_id: str,
        *,
        clock: Clock,
        sample: Callable[[], Beat],
        holds: Callable[[], Hands],
        on_lost: Callable[[Hold], None],
        on_unknown: Callable[[], None],
    ) -> None:
        """The callables may be called from another thread than theirs.

        Args:
            backend: Open; of this loop alone when the loop is a thread's own.
            agent_id: Whose pulse.
            instance_id: Whose pulse.
            clock: For waiting.
            sample: How the instance is now.
            holds: What must be renewed.
            on_lost: What is no longer held.
            on_unknown: The registry does not know this agent.
        """
        self._backend = backend
        self._agent_id = agent_id
        self._instance_id = instance_id
        self._clock = clock
        self._sample = sample
        self._holds = holds
        self._on_lost = on_lost
        self._on_unknown = on_unknown
        self._wake = asyncio.Event()
        self._beat_at_ms = self._renew_at_ms = self._changed_at_ms = 0
        self._told: tuple[str, str | None] = ("", None)

    def wake(self) -> None:
        """Look now: something has changed. From the pulse's own loop."""
        self._wake.set()

    async def run_once(self) -> Report:
        """Wait for the next tick, renew and beat where it is time. Twice does no harm."""
        cancel = self._clock.call_later(TICK_MS, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            cancel()
            self._wake.clear()
        now = self._clock.monotonic_ms()
        lost = 0
        if now >= self._renew_at_ms:
            self._renew_at_ms = now + AGAIN_MS
            lost = await self._renew()
            self._renew_at_ms = now + EVERY_MS
            if lost:
                self._beat_at_ms = (
                    now  # where everything was lost, the registration was as well: the beat's answer says so
                )
        beat = self._sample()
        if now >= self._beat_at_ms or self._has_changed(beat, now):
            self._beat_at_ms = now + AGAIN_MS
            await self._beat(beat)
            self._beat_at_ms = now + EVERY_MS
        return {"lost": lost} if lost else {}

    def _has_changed(self, beat: Beat, now: int) -> bool:
        if (beat.state, beat.reason) == self._told:
            return False
        # Between ready and busy it may go back and forth with every message; what takes the agent out of routing is told at once.
        calm = {beat.state, self._told[0]} <= {"ready", "busy"}
        return not calm or now - self._changed_at_ms >= AGAIN_MS

    async def _renew(self) -> int:
        lost = 0
        for partition, lanes in self._holds().items():
            for lane, hands in lanes.items():  # lane by lane: the same id in two lanes is two entries
                async with _bounded():
                    still = await self._backend.renew(partition, self._agent_id, self._instance_id, {lane: hands})
                for hand in set(hands) - still:
                    lost += 1
                    self._on_lost(Hold(partition, lane, hand))
        return lost

    async def _beat(self, beat: Beat) -> None:
        async with _bounded():
            result = await self._backend.beat(self._agent_id, self._instance_id, encode_beat(beat))
        self._told = (beat.state, beat.reason)
        self._changed_at_ms = self._clock.monotonic_ms()
        if not result.known:
            self._on_unknown()


class _bounded:  # noqa: N801  reads as a statement
    """A call that hangs is a failure: the next one goes by a new connection. Real time, since what hangs is a socket."""

    async def __aenter__(self) -> None:
        self._scope = asyncio.timeout(CALL_MS / 1000)
        await self._scope.__aenter__()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        try:
            await self._scope.__aexit__(kind, error, None)
        except TimeoutError:
            raise BackendUnavailable(f"no answer within {CALL_MS} ms") from error


def standing(thread: int) -> str:
    """Where a thread of this process stands now, the innermost call last; "" where it has ended."""
    frame = sys._current_frames().get(thread)  # noqa: SLF001 - the documented way to look at another thread
    calls = traceback.extract_stack(frame)[-STACK:] if frame is not None else []
    return " > ".join(f"{call.name} ({call.filename}:{call.lineno})" for call in calls)


class PulseThread:
    """A pulse in a thread of its own, which also sees whether the agent's loop still turns."""

    def __init__(
        self,
        make_backend: Callable[[], Backend],
        make_pulse: Callable[[Backend], Pulse],
        name: str,
        make_beside: Callable[[Backend], Sequence[Service]] = lambda _: (),
    ) -> None:
        """To be made in the agent's loop. `make_backend` is called in the thread; `make_beside`: what else runs there."""
        self._make_backend = make_backend
        self._make_pulse = make_pulse
        self._make_beside = make_beside
        self._agent_loop = asyncio.get_running_loop()
        self._agent_thread = threading.get_ident()
        self._ended = self._agent_loop.create_future()
        self._stop = asyncio.Event()  # of the thread's loop, once there is one
        self._stopping = False  # set from any thread: whichever of both comes second sees the other
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pulse: Pulse | None = None
        #: How the services of the thread do, by name; empty before Redis has answered it. To be read from any thread.
        self.vitals: Mapping[str, Vitals] = {}
        self._clock = SystemClock()
        self._rng = random.Random()  # noqa: S311 - jitter, no secret
        self._asked_at_ms: int | None = None
        self._log = PacedLog(log, self._clock)
        self._thread = threading.Thread(target=self._run, name=f"reach-pulse {name}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def blocked(self) -> bool:
        """Whether the agent's loop has not turned for over a second. Asked by the pulse; each asking is also the next question."""
        now = self._clock.monotonic_ms()
        asked = self._asked_at_ms
        if asked is None:
            self._asked_at_ms = now
            try:
                self._agent_loop.call_soon_threadsafe(self._turned)
            except (
                RuntimeError
            ):  # the loop is closed: the agent has gone without a farewell, and nobody else ends this thread
                self._stop.set()
                return True
            return False
        lag_ms = now - asked
        if lag_ms <= BLOCKED_MS:
            return False
        self._log.warning(
            "event loop blocked", of=self._thread.name, blocked_ms=lag_ms, where=standing(self._agent_thread)
        )
        return True

    def _turned(self) -> None:
        self._asked_at_ms = None

    def wake(self) -> None:
        """Make the pulse look now. From any thread."""
        loop, pulse = self._loop, self._pulse
        if loop is not None and pulse is not None and not loop.is_closed():
            loop.call_soon_threadsafe(pulse.wake)

    async def stop(self) -> None:
        """End the thread and wait for its end, at most 5 s, without holding up the loop. Twice is once."""
        self._stopping = True
        if self._thread.ident is None:
            return  # it was never started
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._stop.set)
        try:
            async with asyncio.timeout(STOP_S):
                await asyncio.shield(self._ended)
        except TimeoutError:
            log.warning("the pulse's thread did not end", extra={"of": self._thread.name})
            return
        self._thread.join(STOP_S)  # it has said its last word: this takes no time

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        finally:
            if not self._agent_loop.is_closed():
                self._agent_loop.call_soon_threadsafe(self._finish)

    def _finish(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        if self._stopping:
            self._stop.set()
        backend = self._make_backend()
        try:
            told = {"of": self._thread.name}
            if not await until_open(
                backend.open, clock=self._clock, rng=self._rng, told=told, stop=self._stop, gives_up=False
            ):
                return
            self._pulse = self._make_pulse(backend)
            services = [self._pulse, *self._make_beside(backend)]
            async with Supervisor(services, clock=self._clock) as supervisor:
                self.vitals = supervisor.vitals
                await self._stop.wait()
                await supervisor.stop(drain_ms=0)
        finally:
            await backend.close()
