"""How an agent's declaration is written: judged, agreed with its other instances, its inboxes open before anybody learns of it."""

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from reach import ids
from reach.backend import Backend
from reach.envelope import records
from reach.envelope.declarations import differing
from reach.envelope.receipt import Notice
from reach.envelope.registration import Beat, Registration, StoredRegistration
from reach.envelope.rules import BUILT_IN_TYPES
from reach.errors import RecordError, RegistrationRefused
from reach.log import PacedLog
from reach.registry.admission import Admission
from reach.registry.agreeing import Verdict, judge, others_of
from reach.registry.changes import Asked, Fields, changed
from reach.registry.declared_schemas import keep, take_out
from reach.registry.removing import open_inboxes

BEAT_MS = 5_000
#: Two registrars that write one agent at once: the slower one reads again, so often.
MAX_TRIES = 8
#: So many other instances are named in an answer.
MAX_NAMED = 20

Op = Literal["register", "capabilities"]


class Declaring:
    """For one registrar. What it raises is the answer: RegistrationRefused, RecordError."""

    def __init__(self, backend: Backend, admission: Admission, paced: PacedLog) -> None:
        self._backend, self._admission, self._log = backend, admission, paced

    async def register(self, fields: Fields) -> Notice:
        """An instance comes, or says again what it declares."""
        wanted = records.read_registration(fields, env=self._backend.env)
        return await self._write("register", wanted.agent_id, lambda _known: wanted)

    async def change(self, asked: Asked) -> Notice:
        """A running instance declares other capabilities of its agent."""
        agent_id = asked.agent_id

        def wanted(known: StoredRegistration | None) -> Registration:
            if known is None:
                raise RegistrationRefused(f"{agent_id[:128]} is not registered", code="registration.unknown_agent")
            return records.read_registration(changed(known, asked), env=self._backend.env)

        if not ids.is_name(agent_id):
            wanted(None)
        return await self._write("capabilities", agent_id, wanted)

    async def _write(self, op: Op, agent_id: str, make: Callable[[StoredRegistration | None], Registration]) -> Notice:
        for _ in range(MAX_TRIES):
            # One lookup: when a fleet starts, nobody may look through the beats of all the others.
            stored = await self._backend.registered(agent_id)
            known = stored_registration(stored, self._log)
            wanted, schemas = take_out(make(known))
            await self._admission.check(wanted, self._backend.now_ms)
            verdict, beats = await self._judged(wanted, known, less=op == "capabilities")
            form = records.encode_registration(msgspec.structs.replace(wanted, token=None, declares=None))
            if verdict.what == "joins" and stored is not None and known is not None:
                if beats:
                    return self._told(op, wanted, known.v, verdict)
                form = _without_version(stored)
            types = sorted({accept.type for accept in wanted.accepts} - BUILT_IN_TYPES)
            await keep(self._backend, schemas, agent_id)
            await open_inboxes(self._backend, agent_id)
            beat = records.encode_beat(Beat(declares=wanted.declares))
            done = await self._backend.register(agent_id, form, wanted.instance_id, beat, stored, types)
            if done.ok:
                return self._told(op, wanted, done.version, verdict)
        text = f"the registration of {agent_id} was changed by others {MAX_TRIES} times; register again"
        raise RegistrationRefused(text, code="backend.unavailable")

    async def _judged(
        self, wanted: Registration, known: StoredRegistration | None, *, less: bool
    ) -> tuple[Verdict, bool]:
        """What becomes of it, and whether this instance beats already. Raises RegistrationRefused for a conflict."""
        if known is None:
            return Verdict("write"), False
        verdict = judge(wanted, known, (), less=less)
        if verdict.what == "same":
            return verdict, False
        now_ms, beats = await self._backend.now_ms(), await self._backend.instances(wanted.agent_id)
        verdict = judge(wanted, known, others_of(beats, wanted.instance_id, now_ms), less=less)
        if verdict.what == "conflict":
            differ = differing(known, wanted)
            raise RegistrationRefused(
                f"{wanted.agent_id} is alive with another declaration ({', '.join(differ)})",
                code="registration.conflict",
                details={"differ": differ, "instances": list(verdict.others[:MAX_NAMED])},
            )
        return verdict, any(last.instance_id == wanted.instance_id for last in beats)

    def _told(self, op: Op, wanted: Registration, version: int, verdict: Verdict) -> Notice:
        fields: dict[str, Any] = {
            "op": op,
            "agent_id": wanted.agent_id,
            "instance_id": wanted.instance_id,
            "env": self._backend.env,
            "partitions": self._backend.partitions,
            "version": version,
            "beat_ms": BEAT_MS,
        }
        if wanted.declares is not None:
            fields["declares"] = wanted.declares
        if verdict.what == "joins":
            fields["waits_for"] = list(verdict.others[:MAX_NAMED])
        return Notice("registered" if op == "register" else "done", "", fields)


def stored_registration(data: bytes | None, paced: PacedLog) -> StoredRegistration | None:
    """What is registered; None too for bytes that no registrar wrote: they are overwritten."""
    if data is None:
        return None
    try:
        known = records.decode_stored_registration(data)
    except RecordError as error:
        paced.warning("unreadable registration", error=error.message)
        return None
    return known if isinstance(known, StoredRegistration) else None


def _without_version(stored: bytes) -> bytes:
    """The same, with what a later version may have said in it, as the step wants it."""
    fields = msgspec.json.decode(stored, type=Fields)
    fields.pop("v", None)
    return msgspec.json.encode(fields)
