"""The moves that contract tests are made of: one message, one box, an agent called a1."""

import json
import uuid
from typing import Any, Self

from reach.backend.port import Backend
from reach.backend.steps import (
    Again,
    Answer,
    DueEvent,
    MailEntry,
    Plan,
    RouteResult,
    Send,
    Settlement,
    SettleVerdict,
    Taken,
    WorkEntry,
)
from reach.envelope.ledger import Head, Leg, LegState
from tests.contract.places import KEYS, Place

ENVELOPE = b'{"body": [1.0, 1e400, 9223372036854775808, "\\u00e9"],  "odd":   "spacing"}'
AGENT = "a1"
BOX = "box"
TO_AGENT = Plan("deliver", AGENT)
STEP_MS = 2_500  # a router that lives runs `due` at least that often


def core(status: str = "success", code: str = "ok", output: str = "1.0", confidence: str = "null") -> str:
    return (
        f'{{"status":"{status}","code":"{code}","output":{output},"error_message":null,"schema":null,"processing_host":null,'
        f'"confidence":{confidence},"partial":false,"cost":null,"via":null,"retry_after_ms":null}}'
    )


def success(output: str = "1.0", confidence: str = "null") -> Answer:
    return Answer("success", "ok", core(output=output, confidence=confidence))


def failure(code: str = "handler.rejected") -> Answer:
    return Answer("failed", code, core("failed", code))


def retryable(code: str = "handler.error", details: str = "{}") -> Answer:
    return Answer("retryable", code, core("retryable", code), details)


def new_id() -> str:
    return str(uuid.uuid4())


def head_of(msg_id: str, **changes: Any) -> Head:
    fields: dict[str, Any] = {
        "fingerprint": "f" * 16,
        "sender": "sender-1",
        "scope": "one",
        "lane": "normal",
        "ttl_ms": 30_000,
        "network_ms": 3_000,
        "processing_ms": 15_000,
        "total_ms": 30_000,
        "max_attempts": 6,
        "members": f'"msg_id":"{msg_id}","task_id":"task","correlation_id":"conv","version":"1.0","durability":"memory"',
    }
    return Head(**fields | changes)


class Drive:
    """A backend and the messages that go through it. Everything happens in partition 0."""

    def __init__(self, place: Place, backend: Backend) -> None:
        self.place, self.backend = place, backend
        self._seen: dict[str, str] = {}

    @classmethod
    async def start(cls, place: Place) -> Self:
        drive = cls(place, await place.connect())
        await drive.keep_box()
        await drive.backend.open_inbox(0, AGENT)
        return drive

    def remember(self) -> dict[str, str]:
        """How far each mailbox was read."""
        return dict(self._seen)

    def rewind(self, seen: dict[str, str]) -> None:
        """Read the mailboxes from there again."""
        self._seen = dict(seen)

    async def keep_box(self, box: str = BOX) -> None:
        """Keep a mailbox as its owner does: one that had to be made is read from its beginning."""
        if await self.backend.keep_mailbox(box, [0]):
            self._seen.pop(box, None)

    # ---------------------------------------------------------------- router

    async def work(self, kind: str = "") -> list[WorkEntry]:
        """What the doors hold now, of one kind or of all."""
        entries = await self.backend.read_work("router-1", [0], 100, 0)
        return [entry for entry in entries if entry.kind == (kind or entry.kind)]

    async def entry(self, envelope: bytes = ENVELOPE, lane: str = "normal") -> WorkEntry:
        """One envelope through the public door, read by router-1."""
        entry_id = await self.backend.submit(0, lane, envelope)
        return next(entry for entry in await self.work("ingress") if entry.id == entry_id)

    async def route(self, decision: Any) -> RouteResult:
        (result,) = await self.backend.route(0, [decision])
        return result

    async def send(
        self,
        *plans: Plan,
        msg_id: str = "",
        entry: WorkEntry | None = None,
        envelope: bytes = ENVELOPE,
        reply_to: str = BOX,
        notice: str = "{}",
        **head: Any,
    ) -> tuple[str, RouteResult]:
        """A message from ingress to where its plans put it."""
        msg_id = msg_id or new_id()
        decision = Send(
            entry or await self.entry(envelope),
            msg_id,
            head_of(msg_id, **head),
            plans or (TO_AGENT,),
            envelope,
            reply_to,
            notice,
        )
        return msg_id, await self.route(decision)

    async def sent(self, *plans: Plan, **options: Any) -> str:
        """As `send`, for tests in which it is only the beginning."""
        msg_id, result = await self.send(*plans, **options)
        assert result.verdict == "done", result
        return msg_id

    async def asked_again(self) -> WorkEntry:
        """The one entry of the internal door."""
        (entry,) = await self.work("again")
        return entry

    async def decide(self, entry: WorkEntry, plan: Plan, **changes: Any) -> RouteResult:
        """Route an `again` for the leg as it is now."""
        msg_id, leg_no = entry.fields[b"m"].decode(), int(entry.fields[b"l"])
        leg = await self.leg(msg_id, leg_no)
        fields: dict[str, Any] = {
            "entry": entry,
            "msg_id": msg_id,
            "leg": leg_no,
            "hand": entry.fields[b"h"].decode(),
            "state": leg.state,
            "attempt": leg.attempt,
            "plan": plan,
        }
        return await self.route(Again(**fields | changes))

    async def route_again(self, entry: WorkEntry, plan: Plan, state: LegState, attempt: int) -> RouteResult:
        """Route an `again` as somebody who saw the leg in that state."""
        msg_id, leg, hand = entry.fields[b"m"].decode(), int(entry.fields[b"l"]), entry.fields[b"h"].decode()
        return await self.route(Again(entry, msg_id, leg, hand, state, attempt, plan))

    async def live(self, ms: int, *, renew: tuple[str, ...] = ()) -> list[DueEvent]:
        """Let time go by while a router runs `due` all the while (and `i1` renews those hands)."""
        events: list[DueEvent] = []
        while ms > 0:
            step = min(ms, STEP_MS)
            await self.place.pass_time(step)
            ms -= step
            if renew:
                await self.backend.renew(0, AGENT, "i1", {"normal": list(renew)})
            events += (await self.backend.due(0)).events
        return events

    async def past_grace(self) -> None:
        """A router has run for so long that no grace holds anything up."""
        await self.backend.due(0)
        await self.live(16_000)

    # ---------------------------------------------------------------- agent

    async def take(self, instance: str = "i1", free: int = 10, agent: str = AGENT) -> list[Taken]:
        return list((await self.backend.take(0, agent, instance, free)).taken)

    async def taken(self, instance: str = "i1") -> Taken:
        (taken,) = await self.take(instance)
        return taken

    async def running(self, **options: Any) -> Taken:
        """A message that i1 runs."""
        await self.sent(**options)
        return await self.taken()

    async def running_by(self, plan: Plan, **options: Any) -> Taken:
        """A message that i1 runs, handed over by this plan."""
        await self.sent(plan, **options)
        return await self.taken()

    async def settle(self, taken: Taken, answer: Answer, instance: str = "i1", **options: Any) -> SettleVerdict:
        return await self.settle_as(AGENT, taken, answer, instance, **options)

    async def settle_as(
        self, agent: str, taken: Taken, answer: Answer, instance: str = "i1", **options: Any
    ) -> SettleVerdict:
        settlement = Settlement(taken.msg_id, taken.leg, taken.hand, answer, instance, **options)
        (verdict,) = await self.backend.settle(0, agent, [settlement])
        return verdict

    async def returned(self, code: str = "handler.error", **options: Any) -> tuple[str, WorkEntry]:
        """A message whose first run failed, and the entry that asks for a new decision."""
        taken = await self.running(**options)
        assert await self.settle(taken, retryable(code)) == "done"
        return taken.msg_id, await self.asked_again()

    # ---------------------------------------------------------------- what can be seen

    async def leg(self, msg_id: str, leg: int = 0) -> Leg:
        record = await self.backend.inspect(0, msg_id, leg)
        assert record is not None, f"no record of {msg_id}"
        return record.legs[leg]

    async def head(self, msg_id: str) -> Head:
        record = await self.backend.inspect(0, msg_id)
        assert record is not None, f"no record of {msg_id}"
        return record.head

    async def bytes_of(self, msg_id: str, leg: int = 0) -> bytes:
        record = await self.backend.inspect(0, msg_id, leg, envelope=True)
        assert record is not None, f"no record of {msg_id}"
        return record.envelope

    async def mail(self, box: str = BOX) -> list[MailEntry]:
        """What came into a mailbox since the last look."""
        found = await self.backend.read_mail(box, {0: self._seen.get(box, "0")}, 0)
        if found:
            self._seen[box] = found[-1].id
        return found

    async def receipts(self, box: str = BOX) -> list[dict[str, Any]]:
        return [json.loads(entry.data) for entry in await self.mail(box) if entry.kind == "receipt"]

    async def receipt(self, box: str = BOX) -> dict[str, Any]:
        """The one receipt that has come."""
        (receipt,) = await self.receipts(box)
        return receipt

    async def notices(self, box: str = BOX) -> list[dict[str, Any]]:
        return [json.loads(entry.data) for entry in await self.mail(box) if entry.kind == "notice"]

    async def inbox(self, agent: str = AGENT, lane: str = "normal") -> list[tuple[str, dict[bytes, bytes]]]:
        return await self.place.entries(KEYS.inbox(0, agent, lane))
