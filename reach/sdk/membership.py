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
#: Who waits for other instances asks again after this, then after twice as long and so on.
AGREE_EVERY_MS, AGREE_AT_LEAST_MS = 500, 6_000
#: When the registry has forgotten everybody, those whom somebody waits for must be back before that one asks again.
OTHERS_FIRST_MS = 3_000

#: So often an entry is added again that no connection vouched for.
MAX_UNSEEN = 3


class Membership:
    """One instance. It is also the service that registers anew when the registry has forgotten it, and waits until others agree.

    Attributes:
        registration: What the registry has been told and all instances have agreed on: what is told again when it was forgotten.
        wanted: What this instance can do. It is something else while other instances of the agent cannot do it, too.
    """

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
        self.registration = self.wanted = registration
        #: why the agent must stop: a registration that was refused after it had been accepted before
        self.refused: asyncio.Future[RegistrationRefused] = asyncio.get_running_loop().create_future()
        self._backend = backend
        self._mailbox_id = mailbox_id
        self._clock = clock
        self._log = PacedLog(log, clock)
        self._forgotten = asyncio.Event()
        self._stir = asyncio.Event()
        self._waits = 0  # how often it has been told to wait for others, since it last was not
        self._answer: Notice | None = None
        self._news = asyncio.Event()
        self._asking = asyncio.Lock()

    def forgotten(self) -> None:
        """The registry does not know this instance: after a FLUSHALL, or because it was removed."""
        self._forgotten.set()
        self._stir.set()

    @property
    def agreed(self) -> bool:
        """Whether what this instance can do is what its agent declares."""
        return self._waits == 0

    def on_notice(self, notice: Notice) -> None:
        """An answer of the registrar has come."""
        instance_id = notice.fields.get("instance_id", self.wanted.instance_id)
        if instance_id == self.wanted.instance_id:
            self._answer = notice
            self._news.set()

    async def register(self, wait_ms: int = 0) -> None:
        """Register, and ask again every 2 s until answered: no registrar may be there yet. Cancelling is safe.

        `wait_ms`: how long instances that live and declare something else are waited for; they leave, drain or fall silent, as in a
        deployment.

        Raises:
            RegistrationRefused: With all the problems.
        """
        entry = register_entry(self.registration, self._mailbox_id)
        until_ms = self._clock.monotonic_ms() + wait_ms
        while True:
            try:
                answer = await self._ask(entry, "register", ("registered",), self.registration)
            except RegistrationRefused as error:
                if error.code != "registration.conflict" or self._clock.monotonic_ms() >= until_ms:
                    raise
                self._log.warning(
                    f"{error.message}; waiting until they leave or drain",
                    of=self.registration.agent_id,
                    agent=self.registration.agent_id,
                    instances=error.details.get("instances"),
                )
                await self._clock.sleep(AGREE_EVERY_MS)
            else:
                log.info(
                    "registered", extra={"agent": self.registration.agent_id, "version": answer.fields.get("version")}
                )
                self._heard(answer, self.registration)
                return

    async def declare(self) -> bool:
        """Change what this agent declares to what this instance can do; False: when the other instances can do it, too.

        Raises:
            RegistrationRefused: The change was refused; the former declaration stays, and `take_back` says that this instance keeps to it.
        """
        wanted = self.wanted
        fields: dict[str, object] = {
            "agent_id": wanted.agent_id,
            "instance_id": wanted.instance_id,
            "capabilities": wanted.capabilities,
            "accepts": wanted.accepts,
            "declares": wanted.declares,
        }
        if wanted.token is not None:
            fields["token"] = wanted.token
        answer = await self._ask(self._entry("capabilities", fields), "capabilities", ("done",), wanted)
        self._heard(answer, wanted)
        return self.agreed

    def take_back(self, wanted: Registration) -> None:
        """It was refused, to this instance or to another one of its process: this one can do what all have agreed on."""
        if self.wanted is wanted:
            self.wanted = self.registration

    def _heard(self, answer: Notice, said: Registration) -> None:
        """What the registrar makes of what was said, as far as others are concerned."""
        waits_for = answer.fields.get("waits_for")
        if waits_for:
            self._waits += 1
            self._log.info(
                "other instances can do less: the rest is offered when they can do it, too, or are gone",
                of=said.agent_id,
                agent=said.agent_id,
                instances=waits_for,
            )
        else:
            self.registration = said
            self._waits = 0 if said is self.wanted else max(self._waits, 1)
        self._stir.set()

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
                    await self._ask(entry, "leave", ("done",), None)
                finally:
                    cancel()
        except (TimeoutError, RegistrationRefused) as error:
            log.info("left without an answer", extra={"agent": self.registration.agent_id, "error": repr(error)})

    async def run_once(self) -> Report:
        """Wait until the registry has forgotten this instance, and register it again; or until it is time to ask others once more."""
        await self._until_stirred()
        try:
            if self._forgotten.is_set():
                self._forgotten.clear()
                if not self.agreed and self.registration is self.wanted:
                    await self._clock.sleep(OTHERS_FIRST_MS)  # else what they declare would be the one that conflicts
                await self.register()
                if not self.agreed:
                    self._waits = AGREE_AT_LEAST_MS // AGREE_EVERY_MS
                return {"registered": 1}
            if not self.agreed:
                return {"agreed": int(await self._agree())}
        except RegistrationRefused as error:
            if not self.refused.done():
                self.refused.set_result(error)
        return {}

    async def _until_stirred(self) -> None:
        if self._forgotten.is_set():
            return
        pause_ms = min(AGREE_EVERY_MS * self._waits, AGREE_AT_LEAST_MS)
        cancel = self._clock.call_later(pause_ms, self._stir.set) if pause_ms else None
        self._stir.clear()
        try:
            await self._stir.wait()
        finally:
            if cancel is not None:
                cancel()

    async def _agree(self) -> bool:
        """Ask whether the others can do by now what this instance can."""
        wanted = self.wanted
        if await self._backend.registered(wanted.agent_id) is None:  # forgotten: first comes what all have agreed on
            self.forgotten()
            return False
        entry = register_entry(wanted, self._mailbox_id)
        try:
            answer = await self._ask(entry, "register", ("registered",), wanted)
        except RegistrationRefused as error:
            if error.code != "registration.conflict":
                raise
            self._waits += 1  # something else was declared meanwhile; it works as what it was
            self._log.warning(f"{error.message}; it goes on as declared", of=wanted.agent_id, agent=wanted.agent_id)
            return False
        self._heard(answer, wanted)
        return self.agreed

    def _entry(self, op: ControlOp, fields: dict[str, object]) -> ControlEntry:
        raw = {name: msgspec.Raw(msgspec.json.encode(value)) for name, value in fields.items()}
        return ControlEntry(op=op, reply_to=self._mailbox_id, fields=raw)

    async def _ask(self, entry: ControlEntry, op: str, good: tuple[str, ...], said: Registration | None) -> Notice:
        async with self._asking:
            return await self._ask_alone(encode_control(entry), op, good, said.declares if said is not None else None)

    def _answered(self) -> Notice | None:
        answer, self._answer = self._answer, None
        return answer

    async def _ask_alone(self, data: bytes, op: str, good: tuple[str, ...], label: str | None) -> Notice:
        self._answer = None
        unseen = 0
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
            if answer is None or answer.fields.get("op", op) != op or answer.fields.get("declares", label) != label:
                continue  # none, or one to something that was asked before
            if answer.fields.get("code") == "registration.bad_address" and not answer.fields.get("addresses"):
                unseen += 1  # the connection that had added the entry was gone before anybody looked
                if unseen < MAX_UNSEEN:
                    continue
            if answer.notice in good:
                return answer
            if answer.notice == "refused":
                fields = answer.fields
                raise RegistrationRefused(
                    str(fields.get("message", "")), code=str(fields.get("code", "registration.refused")), details=fields
                )
