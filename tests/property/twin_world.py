"""One backend with everything that a random walk does to it, and what can be seen of it, free of ids."""

import re
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from reach.backend.keys import GROUP_AGENT
from reach.backend.port import Backend
from reach.backend.steps import Again, Answer, Plan, Refuse, RouteResult, Send, Settlement, WorkEntry
from reach.envelope.ledger import Head, Leg, LegState
from tests.contract.drive import core, head_of
from tests.contract.places import KEYS, Place

AGENTS = ("a1", "a2", "a3")  # a3 has no inbox at first
BOXES = ("b1", "b2", "b3", "b4", "b5")
MESSAGES = 4

_TIMES = re.compile(rb'"(duration_ms|queue_ms|finished_at|at|gone_at)":(-?\d+)')
_MESSAGE = re.compile(rb'"msg_id":"([^"]+)"')
_LETTER = re.compile(rb'"dead_letter":"[0-9-]+"')


class Ms(int):
    """A span of time; the spans of two worlds are equal when they are near."""


class Hand(NamedTuple):
    """Something that an instance was given: it may be settled, renewed and reported on at any later time."""

    agent: str
    instance: str
    lane: str
    msg_id: str
    leg: int
    hand: str


def msg_id_of(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"


def plan_of(act: str, agent: str = "", *, dead: bool = False, wait_ms: int = 0, max_inbox: int = 0) -> Plan:
    kinds: dict[str, Literal["deliver", "delay", "finish", "move", "stay"]] = {
        "deliver": "deliver",
        "delay": "delay",
        "finish": "finish",
        "move": "move",
        "stay": "stay",
    }
    answer = answer_of("failed", "route.not_found") if act == "finish" else None
    return Plan(kinds[act], agent, max_inbox, wait_ms, answer, dead)


def answer_of(status: str, code: str, details: str = '{"k":1}') -> Answer:
    statuses: dict[str, Literal["success", "failed", "retryable"]] = {
        "success": "success",
        "failed": "failed",
        "retryable": "retryable",
    }
    return Answer(statuses[status], code, core(status, code, output='{"é/":[1.0, 1e400]}'), details)


ANSWERS = {
    "success": answer_of("success", "ok"),
    "reject": answer_of("failed", "handler.rejected", "{}"),
    "error": answer_of("retryable", "handler.error"),
    "retry": answer_of("retryable", "handler.retry", "{}"),
    "bare": Answer("failed", "", '{ "output" : {"é/":[1.0, 1e400]} }'),
    "bare error": Answer("retryable", "a/code", "{}", '{"k":1}'),
}


class World:
    """The steps of one walk on one backend. Each returns what its caller sees."""

    def __init__(self, place: Place, backend: Backend) -> None:
        self.place, self.backend = place, backend
        self.hands: list[Hand] = []
        self.pending: list[WorkEntry] = []
        self._seen = dict.fromkeys(BOXES, "0")
        self._mail: list[tuple[str, str, bytes]] = []
        self.start_ms = 0

    async def begin(self) -> None:
        await self.backend.due(0)
        for agent in AGENTS[:2]:
            await self.backend.open_inbox(0, agent)
        for box in BOXES[:4]:
            await self.backend.keep_mailbox(box, [0], 3_600_000)

    # ---------------------------------------------------------------- steps

    async def send(
        self, message: int, plans: Sequence[Plan], scope: str, reply_to: str, sender: str, odd: str, large: bool
    ) -> object:
        msg_id = msg_id_of(message)
        envelope = b"e" * (40_000 if large else 10) + str(message).encode()
        changes: dict[str, Any] = {
            "sender": sender,
            "scope": scope,
            "lane": ("high", "normal", "low", "normal")[message],
        }
        if odd == "fingerprint":
            changes["fingerprint"] = "0" * 16
        if odd == "round":
            changes["round"] = 2
        if odd == "short":
            changes |= {"ttl_ms": 5_000, "total_ms": 10_000}
        if odd == "slow":
            changes |= {"total_ms": 300_000, "processing_ms": 60_000, "ttl_ms": 100_000}
        entry_id = await self.backend.submit(0, "normal", envelope)
        entry = next(each for each in await self._work() if each.id == entry_id)
        notice = '{"x":1}' if odd != "silent" else ""
        used = tuple(plans) if scope == "all" else tuple(plans[:1])
        send = Send(entry, msg_id, head_of(msg_id, **changes), used, envelope, reply_to, notice)
        (result,) = await self.backend.route(0, [send])
        if result.verdict in {"full", "gone"}:
            await self.backend.route(0, [Refuse(entry)])
        return self._result(result)

    async def decide(self, plan: Plan, lie: str) -> object:
        """Decide about everything that came through the internal door, in one batch."""
        await self._work()
        # Messages that fall due within the same few milliseconds may come in either order.
        self.pending.sort(key=lambda entry: (entry.fields[b"m"], entry.fields[b"l"]))
        decisions = [await self._again(entry, plan, lie) for entry in self.pending]
        results = await self.backend.route(0, decisions)
        self.pending = [
            entry
            for entry, result in zip(self.pending, results, strict=True)
            if result.verdict not in {"done", "skipped"}
        ]
        return [self._result(result) for result in results]

    async def _again(self, entry: WorkEntry, plan: Plan, lie: str) -> Again:
        msg_id, number = entry.fields[b"m"].decode(), int(entry.fields[b"l"])
        record = await self.backend.inspect(0, msg_id, number)
        leg = record.legs.get(number) if record is not None else None
        hand = entry.fields[b"h"].decode()
        return Again(
            entry,
            msg_id,
            number,
            "7-7" if lie == "hand" else hand,
            leg.state if leg is not None else LegState.RETURNED,
            (leg.attempt if leg is not None else 0) + (lie == "attempt"),
            plan,
            25_000 if lie == "processing" else 0,
        )

    async def take(self, agent: str, instance: str, free: int, keep: int | None, turn: int = 0) -> object:
        """`keep`: after a lost connection, only the newest so many hands are still held."""
        held = None
        if keep is not None:
            own = [(hand.lane, hand.hand) for hand in self.hands if (hand.agent, hand.instance) == (agent, instance)]
            held = own[len(own) - min(keep, len(own)) :]
        result = await self.backend.take(0, agent, instance, free, held, turn=turn)
        for each in result.taken:
            self.hands.append(Hand(agent, instance, each.lane, each.msg_id, each.leg, each.hand))
        return [
            (t.lane, t.msg_id, t.leg, t.attempt, t.envelope, self._ms(t.total_at_ms - t.now_ms), t.processing_ms)
            for t in result.taken
        ] + [(result.gone, result.expired, result.more)]

    async def forge(self, agent: str, lane: str, message: int, leg: str) -> object:
        """Somebody writes into an inbox what no route has written."""
        key = KEYS.inbox(0, agent, lane)
        if await self.place.type_of(key) == "stream":
            await self.place.append(key, {"m": msg_id_of(message).encode(), "l": leg.encode(), "e": b"x"})
        return None

    async def read_plain(self, agent: str, lane: str) -> object:
        """An agent without scripts reads one entry."""
        key = KEYS.inbox(0, agent, lane)
        if await self.place.type_of(key) != "stream":
            return "none"
        ids = await self.place.read_plain(key, GROUP_AGENT, "plain")
        entries = dict(await self.place.entries(key))
        for hand in ids:
            fields = entries[hand]
            if not fields[b"l"].isdigit():
                continue  # forged
            self.hands.append(Hand(agent, "plain", lane, fields[b"m"].decode(), int(fields[b"l"]), hand))
        return len(ids)

    async def settle(self, pick: int, answer: str, as_whom: str, wait_ms: int) -> object:
        if not self.hands:
            return "nothing"
        hand = self.hands[-1 - pick % len(self.hands)]
        instance = {"self": hand.instance, "router": "", "other": "x9"}[as_whom]
        if hand.instance == "plain" and as_whom == "self":
            instance = ""
        settlement = Settlement(hand.msg_id, hand.leg, hand.hand, ANSWERS[answer], instance, wait_ms)
        return await self.backend.settle(0, hand.agent, [settlement])

    async def renew(self, pick: int) -> object:
        if not self.hands:
            return "nothing"
        hand = self.hands[-1 - pick % len(self.hands)]
        return len(await self.backend.renew(0, hand.agent, hand.instance, {hand.lane: [hand.hand]}))

    async def progress(self, pick: int) -> object:
        if not self.hands:
            return "nothing"
        hand = self.hands[-1 - pick % len(self.hands)]
        return await self.backend.progress(0, hand.msg_id, hand.leg, hand.hand, b'{"notice":"progress"}')

    async def due(self, message: int | None) -> object:
        report = await self.backend.due(0, "" if message is None else msg_id_of(message))
        events = sorted((e.msg_id, e.leg, e.what, e.agent, e.instance, e.attempt, e.code) for e in report.events)
        moments = (report.next_at_ms, report.grace_until_ms, report.deadline_at_ms)
        return events, report.more, [self._ms(at_ms - report.now_ms) if at_ms else None for at_ms in moments]

    async def cancel(self, message: int, sender: str, round_: int) -> object:
        return await self.backend.cancel(0, msg_id_of(message), sender, round_, 60_000)

    async def inboxes(self, act: str, agent: str) -> object:
        if act == "open":
            await self.backend.open_inbox(0, agent)
            return None
        return await self.backend.close_inbox(0, agent)

    async def lose(self, what: str, pick: int) -> object:
        """Something vanishes, or turns into something else."""
        agent, message = AGENTS[pick % 2], msg_id_of(pick % MESSAGES)
        if what == "inbox":
            await self.place.delete(KEYS.inbox(0, agent, "normal"))
        elif what == "entry" and self.hands:
            hand = self.hands[-1 - pick % len(self.hands)]
            if await self.place.type_of(KEYS.inbox(0, hand.agent, hand.lane)) == "stream":
                await self.place.remove(KEYS.inbox(0, hand.agent, hand.lane), hand.hand)
                # Time passes in the real place by XCLAIM, which forgets what has no body: so let both forget it now.
                await self.place.acknowledge(KEYS.inbox(0, hand.agent, hand.lane), GROUP_AGENT, hand.hand)
        elif what == "bytes":
            await self.place.delete(KEYS.envelope(0, message))
        elif what == "record":
            await self.place.delete(KEYS.message(0, message))
        elif what == "tick":
            await self.place.delete(KEYS.tick(0))
        elif what == "due":
            await self.place.delete(KEYS.due(0))
        elif what == "mailbox":
            await self.place.spoil(KEYS.mail(0, BOXES[pick % 4]))
        return None

    # ---------------------------------------------------------------- what can be seen

    async def look(self) -> dict[str, object]:
        """Everything visible. Moments are counted from now, ids are left out."""
        now_ms = await self.backend.now_ms()
        due = await self.place.due() if await self.place.type_of(KEYS.due(0)) == "zset" else {}
        seen: dict[str, object] = {
            "keys": {
                key: (await self._kind(key), self._ms(await self.place.ttl_ms(key))) for key in await self.place.keys()
            },
            "due": {member: self._ms(at_ms - now_ms) for member, at_ms in due.items()},
        }
        for number in range(MESSAGES):
            record = await self.backend.inspect(0, msg_id_of(number), envelope=True)
            if record is not None:
                seen[f"record {number}"] = (
                    self._head(record.head, now_ms),
                    {n: self._leg(leg, now_ms) for n, leg in record.legs.items()},
                    record.envelope,
                    {n: self._text(receipt) for n, receipt in record.receipts.items()},
                )
        for agent in AGENTS:
            for lane in ("high", "normal", "low"):
                key = KEYS.inbox(0, agent, lane)
                if await self.place.type_of(key) == "stream":
                    entries = await self.place.entries(key)
                    pending = await self.place.pending(key, GROUP_AGENT)
                    seen[key] = (
                        [{name: value for name, value in fields.items() if name != b"x"} for _, fields in entries],
                        [(row.consumer, self._ms(row.idle_ms)) for row in pending],
                    )
        for box in BOXES:
            if await self.place.type_of(KEYS.mail(0, box)) == "stream":
                mail = await self.backend.read_mail(box, {0: self._seen[box]}, 0)
                self._seen[box] = mail[-1].id if mail else self._seen[box]
                by_message = sorted(mail, key=lambda each: _MESSAGE.findall(each.data))
                seen[f"mail {box}"] = [(each.kind, self._text(each.data)) for each in by_message]
        letters = await self.backend.dead_letters(0)
        letters.sort(key=lambda letter: letter[1][b"m"])
        seen["dead"] = [{name: self._text(value) for name, value in fields.items()} for _, fields in letters]
        return seen

    async def _kind(self, key: str) -> str:
        """The type; of a spoilt mailbox only that it is none: each place spoils in its own way."""
        kind = await self.place.type_of(key)
        return "spoilt" if ":mail:" in key and kind != "stream" else kind

    async def _work(self) -> list[WorkEntry]:
        entries = await self.backend.read_work("router", [0], 1_000, 0)
        self.pending += [entry for entry in entries if entry.kind == "again"]
        return [entry for entry in entries if entry.kind != "again"]

    @staticmethod
    def _ms(ms: int) -> Ms:
        return Ms(ms)

    def _head(self, head: Head, now_ms: int) -> dict[str, object]:
        fields = msgspec.structs.asdict(head)
        return {
            name: self._ms(value - now_ms) if name.endswith("_at_ms") and value else value
            for name, value in fields.items()
        }

    def _leg(self, leg: Leg, now_ms: int) -> dict[str, object]:
        fields = msgspec.structs.asdict(leg)
        for name, value in fields.items():
            if name in {"queued_at_ms", "taken_at_ms", "alive_at_ms", "due_at_ms", "until_ms", "finished_at_ms"}:
                fields[name] = self._ms(value - now_ms) if value else None
            elif name in {"duration_ms", "queue_ms"}:
                fields[name] = self._ms(value) if value >= 0 else None
        fields["hand"] = "0" if leg.hand == "0" else "given"
        fields["history"] = [self._text(entry.encode()) for entry in leg.history]
        fields["details"] = self._text(leg.details.encode())
        return fields

    def _text(self, data: bytes) -> tuple[bytes, list[Ms]]:
        """Bytes as they are, without ids and moments; and the durations in them."""
        spans = [Ms(int(found[2])) for found in _TIMES.finditer(data) if found[1].endswith(b"_ms")]
        return _LETTER.sub(b'"dead_letter":""', _TIMES.sub(rb'"\1":0', data)), spans

    @staticmethod
    def _result(result: RouteResult) -> object:
        return result.verdict, result.known, [bool(hand) for hand in result.hands]
