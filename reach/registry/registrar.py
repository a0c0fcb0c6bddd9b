"""Reads `control`: registrations, changes of capabilities, farewells, and cancels of those who have no scripts. Answers each."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any

import msgspec

from reach import ids
from reach.backend import Backend
from reach.envelope import records
from reach.envelope.message import Source
from reach.envelope.receipt import Notice
from reach.envelope.registration import ControlEntry
from reach.envelope.rules import (
    DEFAULT_TOTAL_MS,
    MAX_ROUND,
    MAX_TIMEOUT_MS,
    partition_of,
    sender_of,
)
from reach.errors import BackendError, ReachError, RecordError, RegistrationRefused
from reach.log import PacedLog, event_log
from reach.registry.admission import OPEN, Admission
from reach.registry.changes import asked_of
from reach.registry.declaring import Declaring
from reach.registry.removing import remove_agent
from reach.registry.whereabouts import Whereabouts
from reach.service import Report, Wait

log = event_log("reach.registry")

BLOCK_MS = 1_000
#: So much of somebody else's text goes into a line of the log.
MAX_TOLD = 300


_Where = Callable[[], Awaitable[Sequence[str] | None]]


class _Named(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    agent_id: str
    instance_id: str


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
        admission: Admission = OPEN,
    ) -> None:
        """`admission`: who may register at all."""
        self._backend = backend
        self._admission = admission
        self._worker = worker
        self._log = PacedLog(log)
        self._declaring = Declaring(backend, admission, self._log)
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
        page = Whereabouts(self._backend, [data for _, data in entries])
        for entry_id, data in entries:
            if entry_id == culprit:  # it brought the last run down, and would stop all others for ever
                self._log.error("given up", of=entry_id, entry=entry_id)
                await self._backend.finish_control(entry_id)
                counts["given_up"] = 1
                continue
            self._in_hand = entry_id
            try:
                mailbox, notice = await self._answer(data, page)
                _tell_who_starts_agents(self._log, entry_id, data, mailbox, notice)
                await self._backend.finish_control(entry_id, mailbox, records.encode_notice(notice))
            except (BackendError, asyncio.CancelledError):
                self._in_hand = ""  # no fault of the entry
                raise
            self._in_hand = ""
            counts[notice.notice] = counts.get(notice.notice, 0) + 1
        return counts

    async def _answer(self, data: bytes, page: Whereabouts) -> tuple[str, Notice]:
        try:
            entry = records.decode_control(data)
        except RecordError as error:
            code = "registration.malformed"
            return _reply_to(data), Notice("refused", "", {"op": None, "code": code, "message": error.message})
        try:
            notice = await self._handle(entry, lambda: page.of(data))
        except (RecordError, RegistrationRefused) as error:
            notice = _refused(entry, error)
        except BackendError as error:
            if error.retryable:
                raise  # nothing was decided: the entry stays and is handled again
            notice = _refused(entry, error)
        mailbox = entry.reply_to or ""
        return mailbox if ids.is_name(mailbox) else "", notice

    async def _handle(self, entry: ControlEntry, where: _Where) -> Notice:
        if entry.op != "cancel":  # which only its sender may ask for, from wherever
            await self._admission.check_place(where)
        if entry.op == "register":
            return await self._declaring.register(entry.fields)
        if entry.op == "capabilities":
            return await self._declaring.change(asked_of(entry))
        if entry.op == "leave":
            return await self._leave(records.control_fields(entry, _Leave))
        return await self._cancel(records.control_fields(entry, _Cancel))

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
            if result.what != "tombstone":
                what, closed = result.what, result.closed
            if result.what not in ("tombstone", "denied"):
                break  # with another order_key the same id may be a stranger's, and hides nothing
        fields: dict[str, Any] = {"op": "cancel", "what": what, "closed": closed}
        if what == "denied":
            fields |= {"code": "auth.denied", "message": "another sender's message"}
        return Notice("refused" if what == "denied" else "done", asked.msg_id, fields)


def _refused(entry: ControlEntry, error: ReachError) -> Notice:
    code = error.code
    if code == RecordError.default_code:
        code = "envelope.bad_field" if entry.op == "cancel" else "registration.malformed"
    fields: dict[str, Any] = {"op": entry.op, "code": code, "message": error.message, **error.details}
    for name in ("agent_id", "instance_id", "msg_id", "declares"):
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
