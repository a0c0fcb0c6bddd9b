"""Reads `control`: registrations, changes of capabilities, farewells, and cancels of those who have no scripts. Answers each."""

import asyncio
from collections.abc import Callable
from typing import Annotated, Any

import msgspec

from reach import ids
from reach.backend import Backend
from reach.backend.steps import Record
from reach.envelope import records
from reach.envelope.message import Source
from reach.envelope.receipt import Notice, NoticeKind
from reach.envelope.registration import Beat, ControlEntry, Registration, StoredRegistration
from reach.envelope.rules import (
    BUILT_IN_TYPES,
    DEFAULT_TOTAL_MS,
    MAX_ROUND,
    MAX_TIMEOUT_MS,
    partition_of,
    sender_of,
)
from reach.errors import BackendError, ReachError, RecordError, RegistrationRefused
from reach.log import PacedLog, event_log
from reach.registry.admission import OPEN, Admission
from reach.registry.declared_schemas import keep, take_out
from reach.registry.removing import open_inboxes, remove_agent
from reach.routing.agents import SUSPECT_MS
from reach.service import Report, Wait

log = event_log("reach.registry")

BLOCK_MS = 1_000
BEAT_MS = 5_000
#: Two registrars that write one agent at once: the slower one reads again, so often.
MAX_TRIES = 8
#: Of an instance that has not said yet how it is.
_FIRST_BEAT = records.encode_beat(Beat())
#: So much of somebody else's text goes into a line of the log.
MAX_TOLD = 300
#: What may differ between the instances of one agent.
OF_THE_INSTANCE = frozenset({"instance_id", "node_id", "partitions", "token"})


class _Named(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    agent_id: str
    instance_id: str


class _Capabilities(_Named, frozen=True, kw_only=True, forbid_unknown_fields=True):
    capabilities: msgspec.Raw
    accepts: msgspec.Raw = msgspec.Raw()
    token: msgspec.Raw = msgspec.Raw()


class _Leave(_Named, frozen=True, kw_only=True, forbid_unknown_fields=True):
    token: str | None = None


class _Cancel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`source` as in the envelope, or just the sender's name."""

    msg_id: str
    source: Source | str
    order_key: str | None = None
    round: Annotated[int, msgspec.Meta(ge=1, le=MAX_ROUND)] = 1
    total_ms: Annotated[int, msgspec.Meta(ge=1, le=MAX_TIMEOUT_MS)] = DEFAULT_TOTAL_MS


class Registrar:
    """A service that blocks in its run; several share the work. An entry whose answer was lost is handled again: the same comes out."""

    name = "registrar"
    interval_ms = 0

    def __init__(
        self,
        backend: Backend,
        worker: str,
        on_cancelled: Callable[[int, Record], None] = lambda _partition, _record: None,
        admission: Admission = OPEN,
    ) -> None:
        """`on_cancelled` hears of each message that a control entry has ended: its partition, and its record afterwards.

        `admission`: who may register at all.
        """
        self._backend = backend
        self._on_cancelled = on_cancelled
        self._admission = admission
        self._worker = worker
        self._log = PacedLog(log)
        self._wait = Wait()
        self._in_hand = ""  # the entry that is being handled; if it brings the run down, it is given up

    def interrupt(self) -> None:
        """Wait for nothing to come."""
        self._wait.end()

    async def run_once(self) -> Report:
        """Handle what has come, or wait a second for something to come."""
        counts: dict[str, int] = {}
        culprit, self._in_hand = self._in_hand, ""
        entries = await self._wait.on(self._backend.read_control(self._worker, BLOCK_MS))
        if entries is None:  # cut short: what was read in that moment is pending to this worker
            entries = await self._backend.read_control(self._worker, 0)
        for entry_id, data in entries:
            if entry_id == culprit:  # it brought the last run down, and would stop all others for ever
                self._log.error("given up", of=entry_id, entry=entry_id)
                await self._backend.finish_control(entry_id)
                counts["given_up"] = 1
                continue
            self._in_hand = entry_id
            try:
                mailbox, notice = await self._answer(data)
                _tell_who_starts_agents(self._log, entry_id, data, mailbox, notice)
                await self._backend.finish_control(entry_id, mailbox, records.encode_notice(notice))
            except (BackendError, asyncio.CancelledError):
                self._in_hand = ""  # no fault of the entry
                raise
            self._in_hand = ""
            counts[notice.notice] = counts.get(notice.notice, 0) + 1
        return counts

    async def _answer(self, data: bytes) -> tuple[str, Notice]:
        try:
            entry = records.decode_control(data)
        except RecordError as error:
            code = "registration.malformed"
            return _reply_to(data), Notice("refused", "", {"op": None, "code": code, "message": error.message})
        try:
            notice = await self._handle(entry)
        except (RecordError, RegistrationRefused) as error:
            notice = _refused(entry, error)
        except BackendError as error:
            if error.retryable:
                raise  # nothing was decided: the entry stays and is handled again
            notice = _refused(entry, error)
        mailbox = entry.reply_to or ""
        return mailbox if ids.is_name(mailbox) else "", notice

    async def _handle(self, entry: ControlEntry) -> Notice:
        if entry.op == "register":
            return await self._register(records.read_registration(entry.fields, env=self._backend.env))
        if entry.op == "capabilities":
            return await self._change(records.control_fields(entry, _Capabilities))
        if entry.op == "leave":
            return await self._leave(records.control_fields(entry, _Leave))
        return await self._cancel(records.control_fields(entry, _Cancel))

    # ---------------------------------------------------------------- register
    async def _register(self, wanted: Registration, kind: NoticeKind = "registered") -> Notice:
        """Write it, unless another declaration of this agent is alive; its inboxes are open before anybody learns of it."""
        await self._admission.check(wanted, self._backend.now_ms)
        types = sorted({accept.type for accept in wanted.accepts} - BUILT_IN_TYPES)
        wanted, schemas = take_out(wanted)
        stored_form = records.encode_registration(msgspec.structs.replace(wanted, token=None))
        for _ in range(MAX_TRIES):
            # One lookup: when a fleet starts, nobody may look through the beats of all the others.
            stored = await self._backend.registered(wanted.agent_id)
            await self._refuse_conflict(wanted, stored)
            await keep(self._backend, schemas, wanted.agent_id)
            await open_inboxes(self._backend, wanted.agent_id)
            done = await self._backend.register(
                wanted.agent_id, stored_form, wanted.instance_id, _FIRST_BEAT, stored, types
            )
            if done.ok:
                return Notice(
                    kind,
                    "",
                    {
                        "op": "register" if kind == "registered" else "capabilities",
                        "agent_id": wanted.agent_id,
                        "instance_id": wanted.instance_id,
                        "env": self._backend.env,
                        "partitions": self._backend.partitions,
                        "version": done.version,
                        "beat_ms": BEAT_MS,
                    },
                )
        text = f"the registration of {wanted.agent_id} was changed by others {MAX_TRIES} times; register again"
        raise RegistrationRefused(text, code="backend.unavailable")

    async def _refuse_conflict(self, wanted: Registration, stored: bytes | None) -> None:
        known = _stored(stored, self._log)
        if known is None or _declaration(known) == _declaration(wanted):
            return
        _, beats = await self._backend.registration(wanted.agent_id)
        now_ms = await self._backend.now_ms()
        others = sorted(
            instance_id
            for instance_id, at_ms in beats.items()
            if instance_id != wanted.instance_id and now_ms - at_ms < SUSPECT_MS
        )
        if others:
            differ = sorted(name for name, value in _declaration(known).items() if _declaration(wanted)[name] != value)
            raise RegistrationRefused(
                f"{wanted.agent_id} is alive with another declaration ({', '.join(differ)})",
                code="registration.conflict",
                details={"differ": differ, "instances": others[:20]},
            )

    async def _change(self, asked: _Capabilities) -> Notice:
        """Declare other capabilities for an agent that is registered."""
        stored = await self._backend.registered(asked.agent_id) if ids.is_name(asked.agent_id) else None
        known = _stored(stored, self._log)
        if known is None:
            raise RegistrationRefused(f"{asked.agent_id[:128]} is not registered", code="registration.unknown_agent")
        fields = msgspec.json.decode(records.encode_registration(known), type=dict[str, msgspec.Raw])
        fields.pop("v", None)
        fields["instance_id"] = msgspec.Raw(msgspec.json.encode(asked.instance_id))
        fields["capabilities"] = asked.capabilities
        if bytes(asked.accepts):
            fields["accepts"] = asked.accepts
        if bytes(asked.token):
            fields["token"] = asked.token
        return await self._register(records.read_registration(fields, env=self._backend.env), "done")

    # ---------------------------------------------------------------- leave, cancel
    async def _leave(self, asked: _Leave) -> Notice:
        """Forget an instance, and with the last one the agent. What it still holds is left to the reaper."""
        fields: dict[str, Any] = {"op": "leave", "agent_id": asked.agent_id, "instance_id": asked.instance_id}
        if not (ids.is_name(asked.agent_id) and ids.is_name(asked.instance_id)):
            raise RegistrationRefused("agent_id or instance_id is no name", code="registration.bad_field")
        await self._admission.check_agent(asked.agent_id, asked.token, self._backend.now_ms)
        fields["last"] = await self._backend.leave(asked.agent_id, asked.instance_id)
        if fields["last"]:
            # Read again: another instance may have registered since, and needs its inboxes.
            stored, beats = await self._backend.registration(asked.agent_id)
            fields["last"] = not beats
            if stored is not None and not beats:
                await remove_agent(self._backend, asked.agent_id, stored, before_ms=0, why="left")
        return Notice("done", "", fields)

    async def _cancel(self, asked: _Cancel) -> Notice:
        """End a message for its sender. Without its order_key it is looked for in every partition, its own first."""
        if not ids.is_uuid(asked.msg_id):
            raise RecordError("control cancel: msg_id is no UUID", code="envelope.bad_field")
        sender = asked.source if isinstance(asked.source, str) else sender_of(asked.source)
        own = partition_of(asked.msg_id, asked.order_key, self._backend.partitions)
        others = [p for p in range(self._backend.partitions) if p != own] if asked.order_key is None else []
        what, closed = "tombstone", 0
        for partition in (own, *others):
            result = await self._backend.cancel(partition, asked.msg_id, sender, asked.round, asked.total_ms)
            if result.what == "cancelled":
                await self._tell(partition, asked.msg_id)
            if result.what != "tombstone":
                what, closed = result.what, result.closed
            if result.what not in ("tombstone", "denied"):
                break  # with another order_key the same id may be a stranger's, and hides nothing
        fields: dict[str, Any] = {"op": "cancel", "what": what, "closed": closed}
        if what == "denied":
            fields |= {"code": "auth.denied", "message": "another sender's message"}
        return Notice("refused" if what == "denied" else "done", asked.msg_id, fields)

    async def _tell(self, partition: int, msg_id: str) -> None:
        try:
            record = await self._backend.inspect(partition, msg_id)
        except BackendError as error:  # it is cancelled all the same; only nobody can read afterwards who had it
            self._log.info("cancelled without a record of it", msg_id=msg_id, error=error.code)
            return
        if record is not None:
            self._on_cancelled(partition, record)


def _stored(data: bytes | None, paced: PacedLog) -> StoredRegistration | None:
    """What is registered; None too for bytes that no registrar wrote: they are overwritten."""
    if data is None:
        return None
    try:
        known = records.decode_stored_registration(data)
    except RecordError as error:
        paced.warning("unreadable registration", error=error.message)
        return None
    return known if isinstance(known, StoredRegistration) else None


def _declaration(registration: Registration) -> dict[str, Any]:
    """What all instances of an agent must agree on; the order of lists means nothing."""
    declared: dict[str, Any] = {}
    for name in Registration.__struct_fields__:
        if name not in OF_THE_INSTANCE:
            value = getattr(registration, name)
            declared[name] = sorted(map(repr, value)) if isinstance(value, tuple) else value
    return declared


def _refused(entry: ControlEntry, error: ReachError) -> Notice:
    code = error.code
    if code == RecordError.default_code:
        code = "envelope.bad_field" if entry.op == "cancel" else "registration.malformed"
    fields: dict[str, Any] = {"op": entry.op, "code": code, "message": error.message, **error.details}
    for name in ("agent_id", "instance_id", "msg_id"):
        said = _text(entry.fields.get(name))
        if said is not None:
            fields[name] = said
    return Notice("refused", fields.pop("msg_id", ""), fields)


class _Answerable(msgspec.Struct, frozen=True):
    reply_to: str = ""


def _tell_who_starts_agents(paced: PacedLog, entry_id: str, data: bytes, mailbox: str, notice: Notice) -> None:
    """What cannot be read, and an answer that nobody gets, stand in the log: else the author of a plain agent sees nothing at all."""
    if notice.fields.get("op") is None:
        problem = str(notice.fields.get("message")) if data else "it has no field c"
        paced.warning("unreadable control entry", entry=entry_id, error=problem[:MAX_TOLD], begins=ascii(data[:40]))
    if not mailbox:
        told: dict[str, object] = {
            "entry": entry_id,
            "op": notice.fields.get("op"),
            "answer": notice.notice,
            "code": notice.fields.get("code"),
        }
        paced.warning("control entry without a usable reply_to", **told)


def _reply_to(data: bytes) -> str:
    """The mailbox in an entry that cannot be read otherwise; "" where there is none."""
    try:
        mailbox = msgspec.json.decode(data, type=_Answerable).reply_to
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    return mailbox if ids.is_name(mailbox) else ""


def _text(raw: msgspec.Raw | None) -> str | None:
    try:
        return msgspec.json.decode(raw, type=str)[:128] if raw is not None else None
    except msgspec.DecodeError:  # no text, or half a character
        return None
