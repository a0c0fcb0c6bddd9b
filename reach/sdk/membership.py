"""An instance in the registry: registers, is told yes or no, and takes leave."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from reach.backend.port import Backend
from reach.clock import Clock
from reach.envelope.receipt import Notice
from reach.envelope.records import encode_control, register_entry
from reach.envelope.registration import ControlEntry, ControlOp, Registration
from reach.errors import BackendError, RegistrationRefused
from reach.log import PacedLog, event_log
from reach.service import Report

log = event_log("reach.agent")

ASK_EVERY_MS = 2_000
TWIN_EVERY_MS = 1_000


class Membership:
    """One instance. It is also the service that registers anew when the registry has forgotten it."""

    name = "membership"
    interval_ms = 0

    def __init__(
        self,
        backend: Backend,
        mailbox_id: str,
        clock: Clock,
        registration: Registration,
        prepare: Callable[[], Awaitable[None]],
    ) -> None:
        """`prepare` is awaited before each asking to be registered: what must be there before the registry knows this instance."""
        self._prepare = prepare
        self.registration = registration
        #: why the agent must stop: a registration that was refused after it had been accepted before
        self.refused: asyncio.Future[RegistrationRefused] = asyncio.get_running_loop().create_future()
        self._backend = backend
        self._mailbox_id = mailbox_id
        self._clock = clock
        self._log = PacedLog(log, clock)
        self._forgotten = asyncio.Event()
        self._answer: Notice | None = None
        self._news = asyncio.Event()
        self._asking = asyncio.Lock()

    def forgotten(self) -> None:
        """The registry does not know this instance: after a FLUSHALL, or because it was removed."""
        self._forgotten.set()

    def on_notice(self, notice: Notice) -> None:
        """An answer of the registrar has come."""
        instance_id = notice.fields.get("instance_id", self.registration.instance_id)
        if instance_id == self.registration.instance_id:
            self._answer = notice
            self._news.set()

    async def register(self, twin_ms: int = 0) -> None:
        """Register, and ask again every 2 s until answered: no registrar may be there yet. Cancelling is safe.

        `twin_ms`: how long a conflict is waited for that is with instances that beat no more, as after a kill.

        Raises:
            RegistrationRefused: With all the problems.
        """
        entry = register_entry(self.registration, self._mailbox_id)
        twins: dict[str, int] | None = None
        until_ms = self._clock.monotonic_ms() + twin_ms
        while True:
            try:
                answer = await self._ask(entry, "register", ("registered",))
            except RegistrationRefused as error:
                if error.code != "registration.conflict" or self._clock.monotonic_ms() >= until_ms:
                    raise
                twins = await self._still_silent(error, twins)
                await self._clock.sleep(TWIN_EVERY_MS)
            else:
                log.info(
                    "registered", extra={"agent": self.registration.agent_id, "version": answer.fields.get("version")}
                )
                return

    async def _still_silent(self, error: RegistrationRefused, before: dict[str, int] | None) -> dict[str, int]:
        """The last beats of those whose declaration is in the way. Raises the error if one has beaten since `before`."""
        now_ms = await self._backend.now_ms()
        _, beats = await self._backend.registration(self.registration.agent_id)
        twins = {one: at_ms for one, at_ms in beats.items() if one != self.registration.instance_id}
        if before is not None and any(before.get(one, at_ms) != at_ms for one, at_ms in twins.items()):
            raise error
        last_s = (now_ms - max(twins.values(), default=now_ms)) / 1000
        text = f"{error.message}, last beat {last_s:.0f} s ago; waiting, it may be dead"
        log.warning(text, extra={"agent": self.registration.agent_id, "instances": sorted(twins)})
        return twins

    async def declare(self, registration: Registration) -> None:
        """Change what this agent declares: capabilities and accepts.

        Raises:
            RegistrationRefused: The change was refused; the former declaration stays.
        """
        fields: dict[str, object] = {
            "agent_id": registration.agent_id,
            "instance_id": registration.instance_id,
            "capabilities": registration.capabilities,
            "accepts": registration.accepts,
        }
        if registration.token is not None:
            fields["token"] = registration.token
        await self._ask(self._entry("capabilities", fields), "capabilities", ("done",))
        self.registration = registration

    async def leave(self, ms: int) -> None:
        """Say goodbye, and wait at most `ms` for the answer: without one the reaper finds out by itself."""
        names: dict[str, object] = {
            "agent_id": self.registration.agent_id,
            "instance_id": self.registration.instance_id,
        }
        if self.registration.token is not None:
            names["token"] = self.registration.token
        entry = self._entry("leave", names)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(None) as scope:
                cancel = self._clock.call_later(ms, lambda: scope.reschedule(loop.time()))
                try:
                    await self._ask(entry, "leave", ("done",))
                finally:
                    cancel()
        except (TimeoutError, RegistrationRefused) as error:
            log.info("left without an answer", extra={"agent": self.registration.agent_id, "error": repr(error)})

    async def run_once(self) -> Report:
        """Wait until the registry has forgotten this instance, and register it again."""
        await self._forgotten.wait()
        self._forgotten.clear()
        try:
            await self.register()
        except RegistrationRefused as error:
            if not self.refused.done():
                self.refused.set_result(error)
        return {"registered": 1}

    def _entry(self, op: ControlOp, fields: dict[str, object]) -> ControlEntry:
        raw = {name: msgspec.Raw(msgspec.json.encode(value)) for name, value in fields.items()}
        return ControlEntry(op=op, reply_to=self._mailbox_id, fields=raw)

    async def _ask(self, entry: ControlEntry, op: str, good: tuple[str, ...]) -> Notice:
        async with self._asking:
            return await self._ask_alone(encode_control(entry), op, good)

    def _answered(self) -> Notice | None:
        answer, self._answer = self._answer, None
        return answer

    async def _ask_alone(self, data: bytes, op: str, good: tuple[str, ...]) -> Notice:
        self._answer = None
        while True:
            wait_ms = ASK_EVERY_MS
            try:
                if op == "register":
                    await self._prepare()
                await self._backend.send_control(data)
            except BackendError as error:
                if not error.retryable:
                    raise
                self._log.info("cannot ask the registrar", op=op, error=error.code)
                wait_ms = ASK_EVERY_MS // 4
            cancel = self._clock.call_later(wait_ms, self._news.set)
            try:
                await self._news.wait()
            finally:
                cancel()
                self._news.clear()
            answer = self._answered()
            if answer is None or answer.fields.get("op", op) != op:
                continue
            if answer.notice in good:
                return answer
            if answer.notice == "refused":
                fields = answer.fields
                raise RegistrationRefused(
                    str(fields.get("message", "")), code=str(fields.get("code", "registration.refused")), details=fields
                )
