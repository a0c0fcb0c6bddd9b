"""From an entry to a decision: read it, check it, ask `decide`, and put the answer into the form that `route` applies. No I/O.

What a judge finds stands in a `Case`, which lives from the reading of an entry to the verdict of `route`.
"""

import contextlib
from collections.abc import Container, Mapping
from random import Random
from typing import TypeVar

import msgspec

from reach import ids
from reach.backend.steps import Again, Decision, Plan, Record, Refuse, RouteResult, Send, WorkEntry
from reach.delivery.answers import addressed, refusal
from reach.delivery.deadlines import moments
from reach.delivery.planning import plan_of
from reach.delivery.retry import MAX_JITTER, MIN_JITTER, retry_of
from reach.delivery.rooms import not_asked
from reach.delivery.staging import delayed, held_beside, longest, stages_of
from reach.envelope import rules
from reach.envelope.codec import DEFAULT_MAX_BYTES, decode
from reach.envelope.ledger import Head, Leg, LegState, ends_at_ms
from reach.envelope.message import Envelope, Timeouts, lane_of
from reach.envelope.registration import Rate, RoutePolicy
from reach.errors import EnvelopeError
from reach.routing.decide import Chooser, decide
from reach.routing.filters import Unfit
from reach.routing.index import CapabilityIndex
from reach.routing.message import message_of
from reach.routing.steps import AT_ONCE, Choice, Finish, Stay

#: A choice that could not be carried out three times is put off for so long.
GIVE_UP_MS = 1_000
MAX_LEG = 1_000_000

_encode = msgspec.json.Encoder().encode
_ACTS = frozenset({LegState.RETURNED, LegState.WAITING, LegState.HELD, LegState.QUEUED})


T = TypeVar("T")


class Reference(msgspec.Struct, frozen=True):
    """What an entry of `again`, or of `receipts`, points at."""

    msg_id: str
    leg: int
    hand: str


class Case(msgspec.Struct):
    """One entry on its way to a verdict. Which fields are set depends on how far it has come and by which door."""

    entry: WorkEntry
    data: bytes = b""
    envelope: Envelope | None = None
    refused: EnvelopeError | None = None
    record: Record | None = None
    reference: Reference | None = None
    unfit: dict[str, Unfit] = {}
    limited: dict[str, int] = {}  # agents over their rate limit -> in how many ms they may have it
    paid: dict[str, Rate] = {}  # agents whose rate limit has been charged for it
    choice: Choice | None = None
    policy: str = ""  # the digest of the one by which it was chosen
    others: dict[int, Choice] = {}  # of a held leg of a stage: what is chosen for the others that are held there
    decision: Decision | None = None
    tries: int = 0
    rooms: dict[str, Plan] = {}  # hand-overs that found no room: where it waits, it waits for them
    replies_to: str = ""
    was_asked: bool = False  # its sender has had the message that it answers
    over: Finish | None = None  # its conversation has had too much of something: how it ends
    read_mark: int | None = None  # when a valid envelope was read, for its hop record
    routed_mark: int | None = None  # and when its decision was sent off
    reopened: frozenset[str] = frozenset()  # agents whose inbox was opened for this case

    @property
    def leg(self) -> Leg | None:
        """The leg that an again is about, as the ledger had it."""
        if self.record is None or self.reference is None:
            return None
        return self.record.legs.get(self.reference.leg)


def read_reference(fields: Mapping[bytes, bytes]) -> Reference | None:
    """The reference of an entry; None for one that points at nothing that could be."""
    try:
        msg_id, leg, hand = (fields[name].decode("ascii") for name in (b"m", b"l", b"h"))
    except (KeyError, UnicodeDecodeError):
        return None
    if not ids.is_uuid(msg_id) or not leg.isdigit() or len(leg) > 6 or int(leg) > MAX_LEG or not 0 < len(hand) <= 41:
        return None
    return Reference(msg_id, int(leg), hand)


def unfit_of(result: RouteResult) -> Unfit:
    """Why an inbox could not take it, for the next choice: it was full or gone."""
    if result.verdict != "full":
        return "gone"
    if result.known == "agent":
        return "agent"
    return "share" if result.known == "share" else "full"


class Judge:
    """Makes decisions with one chooser for one env. Says what is to be done; does nothing itself.

    `durability` and `partitions` are what the backend reports.
    """

    def __init__(
        self,
        by: Chooser,
        *,
        env: str,
        partitions: int,
        durability: str,
        rng: Random,
        max_envelope_bytes: int = DEFAULT_MAX_BYTES,
    ) -> None:
        self._by = by
        self._env, self._partitions, self._durability = env, partitions, durability
        self._rng = rng
        self._max_bytes = max_envelope_bytes

    @property
    def by(self) -> Chooser:
        """What it chooses with."""
        return self._by

    # ---------------------------------------------------------------- the public door
    def open_send(self, entry: WorkEntry, now_ms: int) -> Case:
        """Read and check an envelope; a broken one has its refusal as decision already."""
        case = Case(entry)
        data = entry.fields.get(b"e")
        try:
            if data is None:
                raise EnvelopeError("envelope.malformed", "the entry has no field e", details={"reason": "no e"})
            case.data = data
            case.envelope = decode(data, max_bytes=self._max_bytes)
            rules.check(
                case.envelope,
                partitions=self._partitions,
                partition=entry.partition,
                known_types=self._known_types(case.envelope, now_ms),
                now_ms=now_ms,
            )
        except EnvelopeError as error:
            self._refuse(case, error, now_ms)
        return case

    def decide_send(self, case: Case, now_ms: int) -> None:
        """Decide about a message that has come by the ingress."""
        envelope = _there(case.envelope)
        policy = self._by.index.policy(envelope.target.pattern)
        case.policy = self._by.index.policy_digest(envelope.target.pattern)
        timeouts = _timeouts(policy)
        plain = rules.limits_of(envelope, policy=timeouts)
        at = moments(
            case.entry.id, now_ms, ttl_ms=plain.ttl_ms, total_ms=plain.total_ms, not_before_ms=envelope.not_before or 0
        )
        try:
            message = message_of(
                envelope,
                env=self._env,
                partition=case.entry.partition,
                start_at_ms=at.start_at_ms,
                first_at_ms=at.first_at_ms,
                total_at_ms=at.total_at_ms,
                network_ms=plain.network_ms,
                replies_to=case.replies_to,
                was_asked=case.was_asked,
                tier_by=policy.tier_by,
            )
        except EnvelopeError as error:
            self._refuse(case, addressed(error, envelope), now_ms)
            return
        ended = Choice((case.over,)) if case.over is not None else None
        case.choice = choice = ended or decide(message, None, self._by, now_ms, unfit=case.unfit, limited=case.limited)
        raised = rules.limits_of(envelope, policy=timeouts, max_process_ms=choice.max_process_ms)
        told = envelope.target.scope == "all" or envelope.order_key is not None or raised != plain
        confidence = envelope.min_confidence if envelope.min_confidence is not None else policy.min_confidence
        head = Head(
            fingerprint=rules.fingerprint(envelope),
            sender=rules.sender_of(envelope.source),
            scope=envelope.target.scope,
            lane=lane_of(raised.priority),
            ttl_ms=raised.ttl_ms,
            network_ms=raised.network_ms,
            processing_ms=raised.processing_ms,
            total_ms=raised.total_ms,
            max_attempts=raised.max_attempts,
            members=self._members(envelope),
            round=envelope.round,
            not_before_ms=envelope.not_before or 0,
            min_confidence=confidence or 0.0,
            line=rules.line_of(envelope),
            stages=stages_of(choice.stages),
            goes_on=bool(choice.stages) and policy.on_stage_failed == "continue",
        )
        case.decision = Send(
            entry=case.entry,
            msg_id=envelope.msg_id,
            head=head,
            plans=tuple(plan_of(step, None, self._by.index, policy, now_ms) for step in choice.steps),
            envelope=case.data,
            reply_to=envelope.reply_to or "",
            notice="{}" if told else "",
        )

    # ---------------------------------------------------------------- the internal door
    def open_again(self, entry: WorkEntry, reference: Reference, record: Record | None) -> Case | None:
        """What a reference points at, if it still asks for a decision; None: silence, the entry needs nothing more."""
        leg = record.legs.get(reference.leg) if record is not None else None
        if record is None or record.head.tombstones or leg is None:
            return None
        if leg.hand != reference.hand or leg.state not in _ACTS:
            return None
        if leg.state is LegState.WAITING and leg.until_ms > record.now_ms:
            return None
        return Case(entry, data=record.envelope, record=record, reference=reference)

    def read_again(self, case: Case) -> None:
        """Read the envelope of a leg that asks for a decision; what cannot be read, or is lost, leaves the case without one."""
        data = _there(case.record).envelope
        if data and case.envelope is None:
            with contextlib.suppress(EnvelopeError):  # `decide_again` says why
                case.envelope = decode(data, max_bytes=max(self._max_bytes, len(data)))

    def decide_again(self, case: Case) -> None:
        """Decide about a leg that is returned, waiting and due, held and released, or still undelivered."""
        record, leg = _there(case.record), _there(case.leg)
        case.choice, raised, policy = Choice((Stay(),)), (0, 0), RoutePolicy()
        if record.envelope:
            try:
                envelope = case.envelope or decode(
                    record.envelope, max_bytes=max(self._max_bytes, len(record.envelope))
                )
                case.choice = self._choose_again(case, envelope, record, leg)
                held = held_beside(record, _there(case.reference).leg)
                case.others = {n: self._choose_again(case, envelope, record, other) for n, other in held.items()}
                raised = self._raised_ms(envelope, longest(case.choice, case.others.values()), record.head)
                policy = self._by.index.policy(envelope.target.pattern)
                case.policy = self._by.index.policy_digest(envelope.target.pattern)
            except EnvelopeError as error:
                case.choice = Choice((Finish(error.code, error.message, {"state": leg.state.value}),))
        elif leg.state is not LegState.QUEUED:  # one that is queued and has lost its bytes is judged by `due`
            text = "the bytes of the message are lost"
            case.choice = Choice((Finish("backend.unavailable", text, {"state": leg.state.value}),))
        index, now_ms = self._by.index, record.now_ms
        plan = plan_of(case.choice.steps[0], leg, index, policy, now_ms)
        others = {n: plan_of(each.steps[0], record.legs[n], index, policy, now_ms) for n, each in case.others.items()}
        case.decision = self._again(case, plan, raised, others)

    def _raised_ms(self, envelope: Envelope, choice: Choice, head: Head) -> tuple[int, int]:
        """Processing and total, where what the chosen agent declares makes them more than the message has; 0 = as it is."""
        if not choice.max_process_ms:
            return 0, 0
        policy = self._by.index.policy(envelope.target.pattern)
        limits = rules.limits_of(envelope, policy=_timeouts(policy), max_process_ms=choice.max_process_ms)
        processing_ms = limits.processing_ms if limits.processing_ms > head.processing_ms else 0
        return processing_ms, limits.total_ms if limits.total_ms > head.total_ms else 0

    def _choose_again(self, case: Case, envelope: Envelope, record: Record, leg: Leg) -> Choice:
        head, now_ms = record.head, record.now_ms
        start_at_ms = max(head.accepted_at_ms, head.not_before_ms)
        # Whoever was held in its line waits for somebody to appear only from the moment at which it could go.
        looked_from_ms = now_ms if leg.state is LegState.HELD else leg.queued_at_ms if not leg.handed else 0
        message = message_of(
            envelope,
            env=self._env,
            partition=case.entry.partition,
            start_at_ms=start_at_ms,
            first_at_ms=head.first_at_ms,
            total_at_ms=ends_at_ms(head, leg),
            network_ms=head.network_ms + max(looked_from_ms - start_at_ms, 0),
            replies_to=case.replies_to,
            was_asked=case.was_asked,
            fanned_out=bool(leg.agent),
            tier_by=self._by.index.policy(envelope.target.pattern).tier_by,
        )
        index = self._by.index
        known = index.has_type(envelope.type) or now_ms < index.settling_until_ms
        if leg.state in {LegState.WAITING, LegState.HELD} and not leg.handed and not known:
            end = Finish("type.unregistered", f"nobody has registered the type {envelope.type}", {"field": "type"})
            return Choice((end,))
        retry = AT_ONCE
        if leg.state is LegState.RETURNED:
            retry = retry_of(
                leg,
                max_attempts=head.max_attempts,
                total_at_ms=ends_at_ms(head, leg),
                now_ms=now_ms,
                jitter=self._rng.uniform(MIN_JITTER, MAX_JITTER),
            )
        return decide(message, leg, self._by, now_ms, retry=retry, unfit=case.unfit, limited=case.limited)

    def setting(self, name: str, default: int) -> int:
        """A number from `meta`; the default where there is none."""
        return self._by.index.setting(name, default)

    @property
    def index(self) -> CapabilityIndex:
        """Who is there, as decisions see it."""
        return self._by.index

    # ---------------------------------------------------------------- when a decision could not be carried out
    def give_up(self, case: Case, now_ms: int) -> None:
        """After three choices that found their inbox full or gone: look again in a second, or when one of those who fit has room.

        A queued leg stays where it is.
        """
        decision = _there(case.decision)
        if case.rooms and case.envelope is not None:
            policy = self._by.index.policy(case.envelope.target.pattern)
            case.rooms = {**case.rooms, **not_asked(case.choice, case.leg, self._by.index, policy, now_ms)}
        if isinstance(decision, Again):
            stays = decision.state is LegState.QUEUED
            plan = Plan("stay") if stays else Plan("delay", agent=self._kept(case), wait_ms=GIVE_UP_MS)
            others = {n: delayed(each, GIVE_UP_MS) for n, each in decision.others.items()}
            case.decision = msgspec.structs.replace(decision, plan=plan, processing_ms=0, total_ms=0, others=others)
        elif isinstance(decision, Send):
            plans = tuple(
                Plan("delay", agent=plan.agent if decision.head.scope == "all" else "", wait_ms=GIVE_UP_MS)
                if plan.act == "deliver"
                else plan
                for plan in decision.plans
            )
            case.decision = msgspec.structs.replace(decision, plans=plans)

    def _refuse(self, case: Case, error: EnvelopeError, now_ms: int) -> None:
        case.refused = error
        mailbox = error.reply_to or ""
        receipt = refusal(error, at_ms=now_ms, durability=self._durability) if mailbox else b""
        case.decision = Refuse(case.entry, mailbox=mailbox, receipt=receipt)

    # ---------------------------------------------------------------- the form of `route`
    def _again(self, case: Case, plan: Plan, raised: tuple[int, int], others: dict[int, Plan]) -> Again:
        reference, leg = _there(case.reference), _there(case.leg)
        return Again(
            entry=case.entry,
            msg_id=reference.msg_id,
            leg=reference.leg,
            hand=reference.hand,
            state=leg.state,
            attempt=leg.attempt,
            plan=plan,
            processing_ms=raised[0],
            total_ms=raised[1],
            others=others,
        )

    def _members(self, envelope: Envelope) -> str:
        told = {
            "msg_id": envelope.msg_id,
            "task_id": envelope.task,
            "correlation_id": envelope.conversation,
            "version": "1.0",
            "durability": self._durability,
        }
        return _encode(told).decode()[1:-1]

    def _known_types(self, envelope: Envelope, now_ms: int) -> Container[str]:
        """While agents come back after a loss, any type may be one of theirs: it waits with the message for who takes it."""
        index = self._by.index
        return {envelope.type} if now_ms < index.settling_until_ms else index.types

    @staticmethod
    def _kept(case: Case) -> str:
        record, leg = case.record, case.leg
        return leg.agent if record is not None and leg is not None and record.head.scope == "all" else ""


def _timeouts(policy: RoutePolicy) -> Timeouts:
    told = policy.timeouts
    return Timeouts(network_ms=told.network_ms, processing_ms=told.processing_ms, total_ms=told.total_ms)


def _there(value: T | None) -> T:
    """What a case must have at this stage."""
    if value is None:
        raise AssertionError("a case was handed on too early")
    return value
