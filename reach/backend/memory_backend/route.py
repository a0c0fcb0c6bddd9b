"""route: applies a batch of decisions and acknowledges their entries in the same step."""

from collections.abc import Sequence

import msgspec

from reach.backend.memory_backend.closing import end_behind, lapse_leg
from reach.backend.memory_backend.duplicates import attach, found_nobody, post_stored, reopens, to_open
from reach.backend.memory_backend.lining import first, has_line
from reach.backend.memory_backend.moving import crowded, leave, undelivered
from reach.backend.memory_backend.observing import observe
from reach.backend.memory_backend.partition import Partition
from reach.backend.memory_backend.placing import Placed, place, post_routed
from reach.backend.memory_backend.raising import raise_timeouts, tell_callers
from reach.backend.memory_backend.rescuing import letter_of, rescue
from reach.backend.memory_backend.room import obstacle
from reach.backend.memory_backend.sharing import count_in, lying_with, over_bound
from reach.backend.memory_backend.staging import call_stage, hopeless, is_free, reordered, stage_of
from reach.backend.memory_backend.store import MessageRecord
from reach.backend.memory_backend.streams import is_ahead, parse_id
from reach.backend.steps import Again, Decision, Plan, Refuse, RouteResult, Send
from reach.envelope.ledger import Head, Leg, LegState
from reach.errors import BackendError

MAX_MOVES = 2

SKIPPED = RouteResult("skipped")


def route(part: Partition, decisions: Sequence[Decision]) -> list[RouteResult]:
    """One verdict per decision. A decision that fails changes nobody else's.

    Its entry stays pending, or, where it was acknowledged already, becomes a dead letter: nobody else holds it any more.
    """
    results: list[RouteResult] = []
    hostile: set[str] = set()
    for decision in decisions:
        part.acknowledged, part.opened = False, None
        try:
            result = _counted(part, decision, _apply(part, decision))
        except BackendError as error:
            result = RouteResult("error", error=str(error))
            if part.acknowledged:
                rescue(part, decision, str(error))
        results.append(result)
        if part.acknowledged:
            entry = decision.entry
            stream = part.store.stream(entry.stream)
            if stream is not None:
                stream.delete([entry.id])
            if is_ahead(parse_id(entry.id), part.now_ms):
                hostile.add(entry.stream)
    for key in hostile:
        stream = part.store.stream(key)
        if stream is not None:
            stream.rewind(part.now_ms)
    return results


def _counted(part: Partition, decision: Decision, result: RouteResult) -> RouteResult:
    """So that routers know how full an agent is, whoever has sent what lies there. Of a broadcast nobody was chosen."""
    if not (result.hands and result.hands[0]) or isinstance(decision, Refuse):
        return result
    if isinstance(decision, Again):
        return msgspec.structs.replace(result, lying=lying_with(part, decision.plan.agent))
    if decision.head.scope == "all":
        return result
    return msgspec.structs.replace(result, lying=lying_with(part, decision.plans[0].agent))


def _apply(part: Partition, decision: Decision) -> RouteResult:
    if isinstance(decision, Send):
        return _send(part, decision)
    if isinstance(decision, Again):
        return _again(part, decision)
    return _refuse(part, decision)


# -------------------------------------------------------------------- an entry that is answered without a record


def _refuse(part: Partition, decision: Refuse) -> RouteResult:
    if not part.acknowledge(decision.entry.stream, decision.entry.id):
        return SKIPPED
    if decision.dead:
        part.bury(letter_of(decision))
    if decision.mailbox:
        part.post(decision.mailbox, b"r", decision.receipt)
    return RouteResult("done")


# -------------------------------------------------------------------- an ingress entry


def _send(part: Partition, decision: Send) -> RouteResult:
    """A new message, a duplicate, a new round, or the send that its cancel has overtaken."""
    old = part.load(decision.msg_id)
    tombstones = old.head.tombstones if old is not None else {}
    old = old if not tombstones else None
    if old is not None and not reopens(old, decision):
        if not part.acknowledge(decision.entry.stream, decision.entry.id):
            return SKIPPED
        return RouteResult("done", known=attach(part, decision, old))
    hindered = _hindered(part, decision)
    if hindered is not None:
        return hindered
    if not part.acknowledge(decision.entry.stream, decision.entry.id):
        return SKIPPED
    openings = to_open(decision, old)
    kept = dict(old.legs) if old is not None and decision.head.scope == "all" and not found_nobody(old) else {}
    answered = [each for each in openings.values() if each.plan is None or each.plan.act != "observe"]
    record = MessageRecord(_timed(part, decision, len(answered), len(kept) or len(openings)), kept)
    if old is not None and kept:
        reordered(record, old, set(openings))
    part.opened = record
    count_in(part, record, bounded=decision.max_open + decision.max_open_sender > 0)
    part.drop_envelope(decision.msg_id)  # of a record that was forgotten: other content, maybe
    head = record.head
    hand = "0" if old is None else f"0-{head.round}"
    # What others had buried goes: the message is not theirs.
    stopped = tombstones.get(head.sender, 0) if old is None else old.head.stopped
    cancelled = head.round <= stopped
    for number, opening in openings.items():
        # In a new round `hand` is a fresh token that no entry has: nothing of the former round matches it.
        agent = opening.agent if number in kept or not cancelled else ""
        record.legs[number] = Leg(LegState.NEW, agent=agent, hand=hand)
    record.still = cancelled
    if cancelled:
        for number, opening in openings.items():
            _cancel(part, decision.msg_id, record, number, opening.plan)
        hands, known = [], "tombstone"
    else:
        if part.is_large(record, decision.envelope):
            part.keep_envelope(decision.msg_id, head, decision.envelope)
        placed = [_open(part, decision, record, n, opening.plan) for n, opening in openings.items()]
        end_behind(part, decision.msg_id, record, hopeless(record) if old is not None else ())
        hands, known = [each.hand for each in placed], "".join(each.known for each in placed)
    part.save(decision.msg_id, record)
    if decision.notice and decision.reply_to:
        post_routed(part, decision.msg_id, record, decision.reply_to, decision.notice)
    if kept and decision.reply_to:
        post_stored(part, record, decision.reply_to, leave_out=openings)
    return RouteResult("done", hands=tuple(hands), known=known)


def _hindered(part: Partition, decision: Send) -> RouteResult | None:
    """Why a new message cannot be let in, looked at before anything is written."""
    bound = over_bound(part, decision.head.sender, decision.max_open, decision.max_open_sender)
    if bound:
        return RouteResult("full", known=bound)
    if decision.head.scope != "one":
        return None
    if not decision.plans:
        raise BackendError("a decision without a plan", details={"msg_id": decision.msg_id})
    head = msgspec.structs.replace(decision.head, accepted_at_ms=_accepted_at_ms(part, decision))
    found = obstacle(part, decision.msg_id, MessageRecord(head, {}), decision.plans[0])
    return RouteResult(found.why, known=found.told) if found.why else None


def _accepted_at_ms(part: Partition, decision: Send) -> int:
    """An entry id from the future counts as now."""
    return min(parse_id(decision.entry.id)[0], part.now_ms)


def _timed(part: Partition, decision: Send, open_legs: int, legs: int) -> Head:
    """The head with its moments."""
    head = decision.head
    accepted_at_ms = _accepted_at_ms(part, decision)
    start_ms = max(accepted_at_ms, head.not_before_ms)
    return msgspec.structs.replace(
        head,
        accepted_at_ms=accepted_at_ms,
        first_at_ms=start_ms + head.ttl_ms,
        total_at_ms=start_ms + head.total_ms,
        open=open_legs,
        legs=legs,
        mailboxes=(decision.reply_to,) if decision.reply_to else head.mailboxes,
    )


def _cancel(part: Partition, msg_id: str, record: MessageRecord, number: int, plan: Plan | None) -> None:
    """End a leg of a message whose cancel was there first; who would have observed it sees nothing."""
    if plan is not None and plan.act == "observe":
        observe(part, msg_id, record, number, plan, None)
    else:
        lapse_leg(part, msg_id, record, number, LegState.DONE, "cancelled", "cancelled before it was routed", told=True)


def _open(part: Partition, decision: Send, record: MessageRecord, number: int, plan: Plan | None) -> Placed:
    """Begin a leg, unless it has ended with a stage before its own."""
    if record.legs[number].finished_at_ms:
        return Placed()
    if plan is None:
        message = "its agent is not among those that fit any more"
        lapse_leg(part, decision.msg_id, record, number, LegState.DONE, "agent.lost", message)
        return Placed()
    if record.head.scope == "all" and is_free(record, stage_of(record, number)):
        plan = _adjusted(part, decision.msg_id, record, plan)
    return place(part, decision.msg_id, record, number, plan, decision.envelope)


def _adjusted(part: Partition, msg_id: str, record: MessageRecord, plan: Plan) -> Plan:
    """A leg of a broadcast whose inbox is full or whose circuit is open waits, the others go on."""
    why = obstacle(part, msg_id, record, plan).why
    if why in {"full", "open"}:
        return Plan("delay", agent=plan.agent, wait_ms=1000, rooms=(plan,) if why == "full" else ())
    return plan


# -------------------------------------------------------------------- an entry of the internal door


def _again(part: Partition, decision: Again) -> RouteResult:
    """What happened stands in the ledger, so a forged or doubled reference does nothing."""
    record = part.load(decision.msg_id)
    leg = record.legs.get(decision.leg) if record is not None else None
    if record is None or leg is None or not _asks(part, decision, record):
        return _acknowledged(part, decision, "silent")
    if leg.state != decision.state or leg.attempt != decision.attempt:
        return RouteResult("changed")
    plan = decision.plan
    if leg.state == LegState.QUEUED:
        may_move = plan.act == "move" and (plan.free or leg.moves < MAX_MOVES)
        if not may_move or not undelivered(part, record, decision.leg):
            return _acknowledged(part, decision, "stay")
    elif plan.act in {"move", "stay"}:
        return RouteResult("changed")
    if leg.state is LegState.HELD and record.head.scope == "all":
        return _release_stage(part, decision, record)
    return _go_on(part, decision, record)


def _go_on(part: Partition, decision: Again, record: MessageRecord) -> RouteResult:
    """Carry a decision for one leg out, unless there is no room for it."""
    plan = decision.plan
    found = obstacle(part, decision.msg_id, record, plan, decision.leg)
    if found.why:
        return RouteResult(found.why, known=found.told)
    if crowded(part, plan):
        return RouteResult("full")
    if not part.acknowledge(decision.entry.stream, decision.entry.id):
        return SKIPPED
    risen = raise_timeouts(part, decision, record)
    placed = _carry_out(part, decision, record)
    part.save(decision.msg_id, record)
    if risen:
        tell_callers(part, decision.msg_id, record)
    return RouteResult("done", hands=(placed.hand,), known=placed.known)


def _release_stage(part: Partition, decision: Again, record: MessageRecord) -> RouteResult:
    """A stage goes on: all its held legs at once, each by its own plan. What has no plan here is called once more."""
    if not part.acknowledge(decision.entry.stream, decision.entry.id):
        return SKIPPED
    msg_id, hands = decision.msg_id, []
    envelope = part.envelope_of(msg_id, record, decision.leg)
    risen = raise_timeouts(part, decision, record)
    for number, plan in {decision.leg: decision.plan, **decision.others}.items():
        placed, leg = Placed(), record.legs.get(number)
        if leg is not None and leg.state is LegState.HELD:
            latest_ms = record.head.latest_at_ms
            own_ms = latest_ms if latest_ms > record.head.total_at_ms else 0
            record.change(number, queued_at_ms=part.now_ms, total_at_ms=own_ms)
            if envelope is not None or plan.act == "finish":
                placed = place(part, msg_id, record, number, _adjusted(part, msg_id, record, plan), envelope)
            else:
                message = "the bytes of the message are lost"
                lapse_leg(part, msg_id, record, number, LegState.EXPIRED, "backend.unavailable", message)
        hands.append(placed.hand)
    k = stage_of(record, decision.leg)
    if k is not None:
        call_stage(part, msg_id, record, record.head.stages[k])
    part.save(msg_id, record)
    if risen:
        tell_callers(part, msg_id, record)
    return RouteResult("done", hands=tuple(hands))


def _carry_out(part: Partition, decision: Again, record: MessageRecord) -> Placed:
    msg_id, number, plan = decision.msg_id, decision.leg, decision.plan
    envelope = part.envelope_of(msg_id, record, number)
    if plan.act == "move":  # burns nothing; the old entry goes in the same step, so that it cannot be handed over twice
        leave(part, record, number, plan)
        plan = Plan("deliver", agent=plan.agent, via=plan.via)
    if envelope is None and plan.act != "finish":
        message = "the bytes of the message are lost"
        lapse_leg(part, msg_id, record, number, LegState.EXPIRED, "backend.unavailable", message)
        return Placed()
    placed = place(part, msg_id, record, number, plan, envelope)
    if record.legs[number].state is LegState.QUEUED and record.head.scope == "one":
        part.drop_envelope(msg_id)
    return placed


def _asks(part: Partition, decision: Again, record: MessageRecord) -> bool:
    """Whether the leg waits for a decision, and this reference is about the hand that it had last."""
    leg = record.legs[decision.leg]
    if leg.hand != decision.hand:
        return False
    if leg.state is LegState.HELD and record.head.scope == "all":
        return is_free(record, stage_of(record, decision.leg))
    if leg.state is LegState.HELD:
        return has_line(record) and first(part, record) == decision.msg_id
    return leg.state in {LegState.RETURNED, LegState.QUEUED} or (
        leg.state == LegState.WAITING and leg.until_ms <= part.now_ms
    )


def _acknowledged(part: Partition, decision: Again, known: str) -> RouteResult:
    done = part.acknowledge(decision.entry.stream, decision.entry.id)
    return RouteResult("done" if done else "skipped", known=known)
