"""Who does the steps of a random walk: routers, agents, clients, a registrar, and strangers, each with what it remembers.

One method is one thing that somebody does: mostly a few steps of the port one after another, as the product does them. Where its caller
dies (`Crash`), the rest is not done, and what it remembered is forgotten.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from reach.backend.followed import Trimmed
from reach.backend.keys import GROUP_AGENT
from reach.backend.steps import Again, Answer, Decision, Parking, Plan, Refuse, Send, Settlement, WorkEntry
from reach.delivery.staging import held_beside
from reach.envelope.ledger import LegState, Stage
from tests.contract.drive import core, head_of
from tests.contract.places import KEYS
from tests.property.trio import Crash, Trio

AGENTS = ("a1", "a2", "a3")  # a3 has no inbox at first
BOXES = ("b1", "b2", "b3", "b4", "b5")
WORKERS = ("w1", "w2")
MESSAGES = 4
LINE = "1" * 32
STAGES = (Stage(0, 1, 1), Stage(1, 2, 2))
LANES = ("high", "normal", "low", "normal")  # of each message


class Hand(NamedTuple):
    """Something that an instance was given: it may be settled, renewed and reported on at any later time."""

    agent: str
    instance: str
    lane: str
    msg_id: str
    leg: int
    hand: str


class Meant(NamedTuple):
    """How an ingress entry is to be decided about."""

    msg_id: str
    changes: dict[str, Any]
    plans: tuple[Plan, ...]
    reply_to: str
    notice: str


def msg_id_of(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"


def plan_of(
    act: Literal["deliver", "delay", "finish", "move", "stay", "hold", "observe"],
    agent: str = "",
    *,
    dead: bool = False,
    wait_ms: int = 0,
    max_inbox: int = 0,
    free: bool = False,
    room: int = 0,
    max_agent: int = 0,
    rooms: Iterable[Plan] = (),
) -> Plan:
    answer = answer_of("failed", "route.not_found") if act == "finish" else None
    most = max_agent or (2 if max_inbox == 4 else 0)
    bounds: dict[str, Any] = {"room": room, "max_agent": most, "rooms": tuple(rooms)}
    return Plan(act, agent, max_inbox, wait_ms, answer, dead, free, **bounds)


def answer_of(status: Literal["success", "failed", "retryable"], code: str, details: str = '{"k":1}') -> Answer:
    return Answer(status, code, core(status, code, output='{"é/":[1.0, 1e400]}'), details)


def sure(confidence: str, output: str = '{"confidence":1,"partial":false}') -> Answer:
    """A success that says how sure it is, in JSON or in what only looks like it."""
    return Answer("success", "ok", core(output=output, confidence=confidence), '{"k":1}')


ANSWERS = {
    "success": answer_of("success", "ok"),
    "reject": answer_of("failed", "handler.rejected", "{}"),
    "error": answer_of("retryable", "handler.error"),
    "retry": answer_of("retryable", "handler.retry", "{}"),
    "bare": Answer("failed", "", '{ "output" : {"é/":[1.0, 1e400]} }'),
    "bare error": Answer("retryable", "a/code", "{}", '{"k":1}'),
    "unsure": sure("0.4"),
    "as unsure": sure("4e-1", '"as unsure"'),
    "less sure": sure("-0.0"),
    "sure": sure("0.9"),
    "oddly sure": sure("0."),
    "bare unsure": Answer("success", "", '{ "confidence" : 0.3,"output":"\\"partial\\":false" }'),
}

ODD: dict[str, dict[str, Any]] = {
    "": {},
    "fingerprint": {"fingerprint": "0" * 16},
    "round": {"round": 2},
    "third round": {"round": 3},
    "short": {"ttl_ms": 5_000, "total_ms": 10_000},
    "slow": {"total_ms": 300_000, "processing_ms": 60_000, "ttl_ms": 100_000},
    "one attempt": {"max_attempts": 1},
    "wants": {"min_confidence": 0.8, "total_ms": 300_000, "processing_ms": 60_000, "ttl_ms": 100_000},
    "wants soon": {"min_confidence": 0.8, "ttl_ms": 5_000, "total_ms": 10_000},
    "silent": {},
    "line": {"line": LINE, "total_ms": 300_000, "ttl_ms": 100_000},
    "line short": {"line": LINE, "ttl_ms": 5_000, "total_ms": 10_000},
    "line round": {"line": LINE, "round": 2},
    "stages": {"stages": STAGES, "total_ms": 300_000, "ttl_ms": 100_000},
    "stages short": {"stages": STAGES, "ttl_ms": 5_000, "total_ms": 10_000},
    "stages gone past": {"stages": STAGES, "goes_on": True, "total_ms": 300_000},
    "stages round": {"stages": STAGES, "round": 2},
    "line later": {"line": LINE, "not_before_ms": 1_700_000_060_000},
}


class Walker:
    """Everybody of one walk."""

    def __init__(self, trio: Trio) -> None:
        self.trio = trio
        self.backend = trio.backend
        self.hands: list[Hand] = []
        self.meant: dict[str, Meant] = {}  # by the id of the ingress entry
        self.read: dict[str, list[WorkEntry]] = {worker: [] for worker in WORKERS}
        self.controls: list[str] = []
        self.mail: dict[str, str] = dict.fromkeys(BOXES, "0")
        self.events, self.changes, self.letters = "0", "0", "-"
        self.followed: list[str] = []
        self.noted: Trimmed | None = None  # as it was told last  # batches of events that a group has given out
        self.bells: dict[str, dict[str, str]] = {}

    async def begin(self) -> None:
        await self.backend.due(0)
        for agent in AGENTS[:2]:
            await self.backend.open_inbox(0, agent)
        for box in BOXES[:4]:
            await self.backend.keep_mailbox(box, [0], 3_600_000)

    # ---------------------------------------------------------------- clients

    async def submit(
        self, message: int, plans: Sequence[Plan], scope: str, reply_to: str, sender: str, odd: str, large: bool
    ) -> None:
        """A client sends; nobody has read it yet."""
        msg_id = msg_id_of(message)
        envelope = b"e" * (40_000 if large else 10) + str(message).encode()
        entry_id = await self.backend.submit(0, LANES[message], envelope)
        changes = {"sender": sender, "scope": scope, "lane": LANES[message], **ODD[odd]}
        used = tuple(plans) if scope == "all" else tuple(plans[:1])
        self.meant[entry_id] = Meant(msg_id, changes, used, reply_to, "" if odd == "silent" else '{"x":1}')

    async def send(self, worker: str, *how: Any) -> None:
        """A client sends, and a router decides."""
        await self.submit(*how)
        await self.look(worker)
        await self.route(worker)

    async def cancel(self, message: int, sender: str, round_: int) -> None:
        await self.backend.cancel(0, msg_id_of(message), sender, round_, 60_000)

    async def callers_due(self, message: int) -> None:
        await self.backend.due(0, msg_id_of(message))

    async def inspect(self, message: int, leg: int) -> None:
        await self.backend.inspect(0, msg_id_of(message), leg, envelope=True)

    async def keep_mailbox(self, box: str, ttl_ms: int) -> None:
        await self.backend.keep_mailbox(box, [0], ttl_ms, {0: self.mail[box]})

    async def drop_mailbox(self, box: str) -> None:
        await self.backend.drop_mailbox(box)

    async def read_mail(self, box: str) -> None:
        mail = await self.backend.read_mail(box, {0: self.mail[box]}, 0)
        if mail:
            self.mail[box] = mail[-1].id

    # ---------------------------------------------------------------- routers

    async def look(self, worker: str) -> None:
        """Read what is new."""
        await self._reading(worker, self.backend.read_work(worker, [0], 1_000, 0))

    async def own(self, worker: str) -> None:
        """What was read before the connection was lost, or the router died."""
        self.read[worker] = []
        await self._reading(worker, self.backend.own_work(worker, 0))

    async def claim(self, worker: str, idle_ms: int) -> None:
        await self._reading(worker, self.backend.claim_work(worker, 0, idle_ms))

    async def _reading(self, worker: str, asked: Any) -> None:
        try:
            entries = await asked
        except Crash:
            self.read[worker] = []
            raise
        known = {entry.id for entry in self.read[worker]}
        self.read[worker] += [entry for entry in entries if entry.id not in known]

    async def route(self, worker: str) -> None:
        """Decide about every ingress entry that was read, one batch. What finds no room is refused."""
        entries = [entry for entry in self.read[worker] if entry.kind == "ingress"]
        decisions: list[Decision] = [self._send(entry) for entry in entries]
        results = await self._routed(worker, decisions)
        refused: list[Decision] = [
            Refuse(entry, BOXES[0], b'{"status":"failed"}', {"m": b"1", "e": b"\xff\x00", "r": b"{}", "h": b"[]"})
            for entry, result in zip(entries, results, strict=True)
            if result.verdict not in {"done", "skipped"}
        ]
        await self._routed(worker, refused)

    def _send(self, entry: WorkEntry) -> Decision:
        meant = self.meant.get(entry.id)
        if meant is None:
            return Refuse(entry)  # a stranger's
        head = head_of(meant.msg_id, **meant.changes)
        most, mine = (3, 1) if head.sender == "s2" else (0, 0)
        envelope = entry.fields[b"e"]
        return Send(entry, meant.msg_id, head, meant.plans, envelope, meant.reply_to, meant.notice, most, mine)

    async def decide(self, worker: str, plan: Plan, lie: str) -> None:
        """Decide about everything that came through the internal door, in one batch."""
        await self.look(worker)
        entries = [entry for entry in self.read[worker] if entry.kind == "again"]
        await self._routed(worker, [await self._again(entry, plan, lie) for entry in entries])

    async def _again(self, entry: WorkEntry, plan: Plan, lie: str) -> Again:
        msg_id, number = entry.fields[b"m"].decode(), int(entry.fields[b"l"])
        record = await self.backend.inspect(0, msg_id, number)
        leg = record.legs.get(number) if record is not None else None
        others = held_beside(record, number) if record is not None and leg is not None else {}
        return Again(
            entry,
            msg_id,
            number,
            "7-7" if lie == "hand" else entry.fields[b"h"].decode(),
            leg.state if leg is not None else LegState.RETURNED,
            (leg.attempt if leg is not None else 0) + (lie == "attempt"),
            plan,
            25_000 if lie == "processing" else 0,
            45_000 if lie == "processing" else 0,
            {n: msgspec.structs.replace(plan, agent=other.agent) for n, other in others.items()},
        )

    async def _routed(self, worker: str, decisions: Sequence[Decision]) -> Any:
        try:
            results = await self.backend.route(0, decisions) if decisions else []
        except Crash:
            self.read[worker] = []
            raise
        over = {
            decision.entry.id
            for decision, result in zip(decisions, results, strict=True)
            if result.verdict in {"done", "skipped"}
        }
        self.read[worker] = [entry for entry in self.read[worker] if entry.id not in over]
        return results

    async def settle_for_plain(self, worker: str) -> None:
        """Settle what agents without scripts have answered, and finish the entries; what a script has told to be recorded needs no more."""
        await self.look(worker)
        entries = [entry for entry in self.read[worker] if entry.kind == "receipts"]
        for entry in entries:
            if b"t" in entry.fields:
                continue
            fields = {name.decode(): value.decode() for name, value in entry.fields.items()}
            one = Settlement(fields["m"], int(fields["l"]), fields["h"], ANSWERS["bare"])
            await self.backend.settle(0, fields["a"], [one])
        await self.backend.finish_work(0, entries)
        self.read[worker] = [entry for entry in self.read[worker] if entry not in entries]

    async def due(self) -> None:
        await self.backend.due(0)

    async def circuits(self) -> None:
        await self.backend.circuits(0)

    async def failing(self, agent: str, times: int) -> None:
        """Runs of this agent that fail, one after another, beside the messages of the walk."""
        for number in range(times):
            msg_id = msg_id_of(100 + number)
            entry_id = await self.backend.submit(0, "normal", b"f")
            head = head_of(msg_id, round=self.trio.moment_ms())
            self.meant[entry_id] = Meant(msg_id, {"round": head.round}, (plan_of("deliver", agent),), "", "")
            await self.look("w1")
            await self.route("w1")
            await self.take(agent, "i1", 3, None)
            await self.settle(0, "error", "self", -1)
            await self.backend.cancel(0, msg_id, "sender-1", head.round, 60_000)

    async def silence(self) -> None:
        await self.backend.worker_silence_ms(0)

    async def drop_consumer(self, consumer: str, agent: str) -> None:
        await self.backend.drop_consumer(consumer, [0], agent)

    async def open_doors(self) -> int:
        return await self.backend.open_doors(0)

    async def sweep(self, agent: str, idle_ms: int) -> None:
        await self.backend.sweep(0, agent, idle_ms)

    # ---------------------------------------------------------------- agents

    async def take(self, agent: str, instance: str, free: int, keep: int | None, turn: int = 0, only: str = "") -> None:
        """`keep`: after a lost connection, only the newest so many hands are still held."""
        held = None
        if keep is not None:
            own = [(hand.lane, hand.hand) for hand in self.hands if (hand.agent, hand.instance) == (agent, instance)]
            held = own[len(own) - min(keep, len(own)) :]
        result = await self.backend.take(0, agent, instance, free, held, turn=turn, only=only)
        self.hands += [Hand(agent, instance, t.lane, t.msg_id, t.leg, t.hand) for t in result.taken]
        self.bells[agent] = {**self.bells.get(agent, {}), **result.cursors}

    async def ring(self, agent: str) -> None:
        await self.backend.waiting(agent)
        if agent in self.bells:
            await self.backend.ring(agent, {0: self.bells[agent]}, 0)

    async def read_plain(self, agent: str, lane: str) -> None:
        """An agent without scripts reads one entry."""
        key = KEYS.inbox(0, agent, lane)
        if not await self.trio.is_stream(key) or not self.trio.has_group(key, GROUP_AGENT):
            return
        ids = await self.trio.by_hand("read_plain", key, GROUP_AGENT, "plain")
        entries = dict(await self.trio.entries(key))
        for hand in ids:
            fields = entries[hand]
            if fields[b"l"].isdigit():  # else forged
                self.hands.append(Hand(agent, "plain", lane, fields[b"m"].decode(), int(fields[b"l"]), hand))

    def _hand(self, pick: int) -> Hand | None:
        return self.hands[-1 - pick % len(self.hands)] if self.hands else None

    async def answer_plainly(self, pick: int) -> None:
        """An agent without scripts answers by an entry."""
        if hand := self._hand(pick):
            fields = {
                "m": hand.msg_id.encode(),
                "l": b"%d" % hand.leg,
                "h": hand.hand.encode(),
                "a": hand.agent.encode(),
            }
            await self.trio.by_hand("append", KEYS.receipts(0), fields)

    async def settle(self, pick: int, answer: str, as_whom: str, wait_ms: int) -> None:
        """`as_whom`: "script" is itself, and records nothing."""
        if hand := self._hand(pick):
            own = "" if hand.instance == "plain" else hand.instance
            instance = {"self": own, "script": own, "router": "", "other": "x9"}[as_whom]
            records = as_whom != "script"
            one = Settlement(hand.msg_id, hand.leg, hand.hand, ANSWERS[answer], instance, wait_ms, records)
            await self.backend.settle(0, hand.agent, [one])

    async def park(self, pick: int, prompt: bytes, state: bytes, open_ms: int) -> None:
        if hand := self._hand(pick):
            own = "" if hand.instance == "plain" else hand.instance
            parking = Parking(hand.msg_id, hand.leg, hand.hand, prompt, own, state, open_ms, ("pay",))
            await self.backend.park(0, hand.agent, parking)

    async def answer(self, pick: int, sender: str, value: bytes) -> None:
        if hand := self._hand(pick):
            await self.backend.answer(0, hand.msg_id, sender, hand.leg, hand.hand, value)

    async def hear(self, agent: str) -> None:
        """A look at what was hinted at since the last one; the first one listens from then on."""
        await self.backend.hear(agent, 0)

    async def renew(self, pick: int) -> None:
        if hand := self._hand(pick):
            await self.backend.renew(0, hand.agent, hand.instance, {hand.lane: [hand.hand]})

    async def progress(self, pick: int) -> None:
        if hand := self._hand(pick):
            await self.backend.progress(0, hand.msg_id, hand.leg, hand.hand, b'{"notice":"progress"}')

    async def once(self, pick: int, owner: str, lease_ms: int) -> None:
        if hand := self._hand(pick):
            await self.backend.once_take(0, hand.msg_id, hand.leg, hand.hand, "pay", owner, lease_ms)

    async def once_end(self, message: int, owner: str, value: bytes) -> None:
        await self.backend.once_end(0, msg_id_of(message), "pay", owner, value)

    async def open_inbox(self, agent: str) -> None:
        await self.backend.open_inbox(0, agent)

    async def close_inbox(self, agent: str) -> None:
        await self.backend.close_inbox(0, agent)
