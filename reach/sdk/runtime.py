"""An agent that runs: connects, registers, takes and handles, beats, and goes in an orderly way."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress

import msgspec

from reach.backend.port import Backend
from reach.delivery.hints import Hints
from reach.delivery.inbox import Inbox
from reach.delivery.pulse import Pulse, PulseThread
from reach.envelope.receipt import Notice
from reach.envelope.records import encode_beat
from reach.envelope.registration import Beat, BeatState, Registration
from reach.errors import BackendError, BackendUnavailable, RegistrationRefused
from reach.log import event_log
from reach.sdk.client import Reach
from reach.sdk.handlers import Handlers
from reach.sdk.membership import Membership
from reach.sdk.observed import Observations
from reach.sdk.places import Place
from reach.sdk.readiness import Condition, Readiness, ReadyCheck
from reach.sdk.runs import Runs
from reach.service import Report, Service, Supervisor, Vitals, cut, until_open

log = event_log("reach.agent")

BLOCK_MS = 1_000  # a bell that is gone rings for nobody: after so long it is looked whether it is still there
REST_MS = 1_000
CUT_OFF_MS = 2_000
LEAVE_MS = 1_500


class AgentRun:
    """One instance of an agent, from start to stop."""

    def __init__(
        self,
        place: Place,
        registration: Registration,
        handlers: Handlers,
        *,
        name: str | None,
        ready: ReadyCheck | None,
        peers: "list[AgentRun]",
        observations: Observations,
    ) -> None:
        """`registration` says all but the number of partitions, which the backend knows. `name`: of all replicas.

        `peers`: it stands in that list while it runs. `observations`: where it keeps what it is only shown.
        """
        self.observations = observations
        self._peers = peers
        self.place = place
        self.registration = registration
        self.condition = Condition(not_ready="starting" if ready is not None else None)
        self.backend: Backend = place.backend()
        self.client = Reach(
            place,
            agent_id=registration.agent_id,
            name=name,
            node_id=registration.node_id,
            zone=registration.zone,
            backend=self.backend,
            on_control=self._on_control,
            on_made=self._on_loss,
        )
        self.inbox = Inbox(
            self.backend, registration.agent_id, registration.instance_id, place.clock, on_gone=self._on_loss
        )
        self.runs = Runs(
            backend=self.backend,
            inbox=self.inbox,
            handlers=handlers,
            origin=self.client.origin,
            recorder=self.client.recorder,
            host=registration.node_id or "",
            clock=place.clock,
            on_change=self._changed,
            declared=registration,
        )
        self.membership = Membership(
            self.backend, self.client.mailbox_id, place.clock, registration, self._before_registering
        )
        self._taking = Taking(self)
        self._ready = (
            Readiness(ready, registration.agent_id, self.condition, self.changed, place.clock)
            if ready is not None
            else None
        )
        self._services: Supervisor | None = None
        self._thread: PulseThread | None = None
        self._pulse: Pulse | None = None
        self._stack = AsyncExitStack()
        self._loop = asyncio.get_running_loop()

    def _on_control(self, notice: Notice) -> None:
        self.membership.on_notice(notice)

    def _on_loss(self) -> None:
        """Something of ours is gone from the server. After a FLUSHALL the registration is, too, and the next beat is seconds away."""
        self.membership.forgotten()

    async def _before_registering(self) -> None:
        """The mailbox for the answer; and that it is not ready, if so: from the first moment it may be sent nothing."""
        await self.client.keep_mailbox()
        beat = self.sample()
        if beat.state not in ("ready", "busy"):
            await self.backend.beat(self.registration.agent_id, self.registration.instance_id, encode_beat(beat))

    # ------------------------------------------------------------ life

    async def start(self, wait_ms: int = 0) -> None:
        """Connect (and wait for Redis as long as it takes), register, begin to take. Cancelling undoes it.

        `wait_ms`: how long other instances that declare something else are waited for.

        Raises:
            RegistrationRefused: The registrar said no.
            BackendError: Redis refuses (not: cannot be reached).
        """
        async with AsyncExitStack() as stack:
            await self.place.enter()
            stack.push_async_callback(self.place.leave)
            stack.push_async_callback(self.backend.close)
            await self._patiently(self.backend.open)
            self.registration = msgspec.structs.replace(self.registration, partitions=self.backend.partitions)
            self.membership.registration = self.membership.wanted = self.registration
            await self._patiently(self.client.start)
            stack.push_async_callback(self.client.close)
            try:
                await self.membership.register(wait_ms)
            except asyncio.CancelledError:
                # It is registered by now, or will be when somebody reads that.
                with suppress(BackendError):  # where it cannot be said, the reaper finds out
                    await self.membership.leave(LEAVE_MS)
                raise
            services: list[Service] = [self.inbox, self._taking, self.membership]
            if self._ready is not None:
                services.append(self._ready)
            if self.place.threads:
                self._thread = PulseThread(
                    self.place.backend,
                    self._make_pulse,
                    self.registration.agent_id,
                    lambda backend: [self._make_hints(backend)],
                )
                self._thread.start()
            else:
                self._pulse = self._make_pulse(self.backend)
                services += [self._pulse, self._make_hints(self.backend)]
            self._services = Supervisor(services, clock=self.place.clock, rng=self.place.rng)
            self._services.start()
            self._peers.append(self)
            self._stack = stack.pop_all()

    async def stop(self, grace_ms: int) -> None:
        """Take nothing more, let what runs end for `grace_ms`, give back what does not, say goodbye. Twice is once."""
        if self._services is None:
            return
        self.condition.draining = True
        self._changed()
        self._taking.interrupt()
        await self._taking.ended(CUT_OFF_MS)
        if not await self.runs.wait_empty(grace_ms):
            told = {"running": len(self.runs), "effects": self.runs.effects}
            log.warning("cut off", extra={"agent": self.registration.agent_id, **told})
            self.runs.hand_back_all()
            await self.runs.wait_empty(CUT_OFF_MS)
        await self._end()
        await self._leave_inbox()
        await self.membership.leave(LEAVE_MS)
        await self._stack.aclose()

    async def _leave_inbox(self) -> None:
        """Take this instance out of the groups of its lanes. Where that cannot be done now, the reaper does it some time."""
        try:
            async with asyncio.timeout(LEAVE_MS / 1000):  # real time: what is waited for is a socket
                await self.backend.drop_consumer(
                    self.registration.instance_id, range(self.backend.partitions), self.registration.agent_id
                )
        except (TimeoutError, BackendError) as error:
            log.info("consumers left behind", extra={"agent": self.registration.agent_id, "error": repr(error)})

    async def kill(self) -> None:
        """Stop at once and tell nobody, as a process that was killed."""
        self.client.forsake()
        await self._end()
        await self._stack.aclose()

    async def _end(self) -> None:
        if self in self._peers:
            self._peers.remove(self)
        await self.runs.close()
        services, self._services = self._services, None
        if services is not None:
            await services.stop(drain_ms=0)
        if self._thread is not None:
            await self._thread.stop()

    async def _patiently(self, connect: Callable[[], Awaitable[None]]) -> None:
        """Redis may come later than we do: wait, and do not die for it."""
        place = self.place
        await until_open(connect, clock=place.clock, rng=place.rng, told={"agent": self.registration.agent_id})

    # ------------------------------------------------------------ how it is

    @property
    def vitals(self) -> dict[str, Vitals]:
        """How its services do, by name, with those of its client and of its pulse."""
        found = dict(self._thread.vitals) if self._thread is not None else {}
        return found | self.client.vitals | (self._services.vitals if self._services is not None else {})

    @property
    def threads(self) -> bool:
        """Whether a function of the user runs in a thread."""
        return bool(self.runs.threads) or (self._ready is not None and self._ready.in_thread)

    @property
    def free(self) -> int:
        """The slots that are free and may be filled."""
        if self.condition.draining or self.condition.not_ready is not None:
            return 0
        return max(self.registration.concurrency - len(self.runs), 0)

    def sample(self) -> Beat:
        """How the instance is now. From any thread."""
        condition, running = self.condition, len(self.runs)
        slots = self.registration.concurrency
        blocked = self._thread is not None and self._thread.blocked
        state: BeatState = "ready"
        reason = None
        if condition.draining:
            state = "draining"
        elif condition.not_ready is not None:
            state, reason = "not_ready", condition.not_ready
        elif blocked or condition.busy or running >= slots:
            state = "busy"
            reason = "the event loop is blocked" if blocked else None
        return Beat(
            state=state,
            reason=reason,
            inflight=running,
            load=min(100.0 * running / slots, 100.0),
            success_rate=self.runs.success_rate,
            avg_response_ms=self.runs.mean_ms,
            context_left=condition.context_left,
            partitions=self.registration.partitions,
            declares=self.membership.wanted.declares,
        )

    async def announce(self, wanted: Registration) -> None:
        """Say in a beat what this instance can do from now on, before the registry is asked to declare it: the others must see it."""
        self.membership.wanted = wanted
        with suppress(BackendUnavailable):  # then the next beat says it
            await self.backend.beat(wanted.agent_id, wanted.instance_id, encode_beat(self.sample()))

    def changed(self) -> None:
        """Something that the pulse tells has changed."""
        self._changed()
        if self._thread is not None:
            self._thread.wake()
        elif self._pulse is not None:
            self._pulse.wake()

    def _changed(self) -> None:
        self._taking.stir()
        if self.condition.draining:
            if self._thread is not None:
                self._thread.wake()
            elif self._pulse is not None:
                self._pulse.wake()

    # ------------------------------------------------------------ the pulse

    def _make_pulse(self, backend: Backend) -> Pulse:
        return Pulse(
            backend,
            self.registration.agent_id,
            self.registration.instance_id,
            clock=self.place.clock,
            sample=self.sample,
            holds=self.inbox.holds,
            on_lost=lambda hold: self._in_loop(lambda: self.runs.lost(hold)),
            on_unknown=lambda: self._in_loop(self.membership.forgotten),
        )

    def _make_hints(self, backend: Backend) -> Hints:
        return Hints(
            backend,
            self.registration.agent_id,
            self.registration.instance_id,
            clock=self.place.clock,
            holds=self.inbox.holds,
            on_lost=lambda hold: self._in_loop(lambda: self.runs.lost(hold)),
        )

    def _in_loop(self, call: Callable[[], None]) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call)


class Taking:
    """The service that fills the free slots."""

    name = "take"
    interval_ms = 0

    def __init__(self, run: AgentRun) -> None:
        self._run = run
        self._stir = asyncio.Event()
        self._bell: asyncio.Timeout | None = None
        self._under_way = asyncio.Lock()

    def stir(self) -> None:
        """A slot was freed, or something else has changed."""
        self._stir.set()

    def interrupt(self) -> None:
        """Do not wait at the bell any longer. A take that is under way ends by itself: what it brings must not be lost."""
        if self._bell is not None:
            cut(self._bell)

    async def ended(self, ms: int) -> None:
        """Wait until no take is under way, at most `ms` of real time: what it waits for is a socket."""
        try:
            async with asyncio.timeout(ms / 1000), self._under_way:
                pass
        except TimeoutError:
            log.warning("a take did not end", extra={"agent": self._run.registration.agent_id, "waited_ms": ms})

    async def run_once(self) -> Report:
        """Take as much as there are free slots, and wait for more. Only the waiting may be cancelled."""
        run = self._run
        free = run.free
        if free <= 0:
            await self._rest()
            return {}
        async with self._under_way:
            taken = await run.inbox.take(free)
            for one in taken:
                if one.observed:
                    run.observations.add(one)
                elif run.condition.draining:
                    run.runs.hand_back(one)
                else:
                    run.runs.start(one)
        if len(taken) < free and not run.condition.draining:
            await self._wait()
        return {"taken": len(taken)}

    async def _rest(self) -> None:
        cancel = self._run.place.clock.call_later(REST_MS, self._stir.set)
        self._stir.clear()
        try:
            await self._stir.wait()
        finally:
            cancel()

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(None) as self._bell:
                await self._run.inbox.wait(BLOCK_MS)
        except TimeoutError:
            pass  # interrupted
        except BackendUnavailable:
            pass  # deaf for the moment, and told so after a pause: whether the server is there the next take finds out, at once
        finally:
            self._bell = None


async def until_refused_or(run: AgentRun, stop: asyncio.Event) -> None:
    """Wait until `stop` is set; raise what the registrar refused later on.

    Raises:
        RegistrationRefused: A registration that had been accepted was refused when it was made anew.
    """
    run.membership.refused.add_done_callback(lambda _: stop.set())
    await stop.wait()
    if run.membership.refused.done():
        raise_refused(run.membership.refused.result())


def raise_refused(error: RegistrationRefused) -> None:
    """Raise it."""
    raise error
