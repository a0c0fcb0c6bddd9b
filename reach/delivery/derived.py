"""Hop records of what others have done who record nothing: agents and callers without the SDK, and ends that no one was told of."""

from typing import Annotated, Literal

import msgspec

from reach.backend.steps import Answer, Record
from reach.delivery.answers import MAX_CODE_CHARS
from reach.delivery.counting import RouteCounting
from reach.delivery.judge import Reference
from reach.delivery.telling import made, put_receipt, tell_delivered, told_of
from reach.envelope.rules import MAX_ROUND
from reach.errors import RecordError
from reach.ids import NAME_MAX
from reach.tracing.hops import HopRecorder
from reach.tracing.record import Point, Told

_EXPIRED = frozenset({"timeout.total", "ttl.expired"})
#: Anybody may write such an entry, and what is made of it is written to `events` with what others tell: it must be of a size that all bear.
_Moment = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_ROUND)]
_Text = Annotated[str, msgspec.Meta(max_length=NAME_MAX)]


class Untold(msgspec.Struct, frozen=True):
    """What a script says of an end, or of a run, that nobody records who was there. Moments are Unix us.

    began: of a run; 0 = it is an end. code: how the run, or the leg, ended. ended: the leg has ended with it, in this status.
    """

    at: _Moment
    round: _Count = 1
    attempt: _Count = 0
    agent: _Text | None = None
    instance: _Text | None = None
    code: str | None = None
    began: _Moment = 0
    ended: bool = False
    status: Literal["success", "failed", "retryable"] | None = None


_read = msgspec.json.Decoder(Untold).decode


def read_untold(data: bytes) -> Untold:
    """What such an entry says. Raises RecordError for what says nothing."""
    try:
        return _read(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RecordError(f"no word of a run or an end: {error}") from error


class Derived:
    """Writes them, in a router."""

    def __init__(self, hops: HopRecorder) -> None:
        self._hops, self._counting = hops, RouteCounting(hops.tally)

    def settled(
        self, partition: int, before: Record, reference: Reference, answer: Answer, after: Record | None, mark: int
    ) -> None:
        """An agent without scripts has answered. `before`: with the bytes of the message; `after`: the ledger has had it, since `mark`."""
        leg = before.legs[reference.leg]
        left = after.legs.get(reference.leg) if after is not None else None
        is_it = left is not None and left.hand == reference.hand
        ended = left is not None and is_it and left.finished_at_ms > 0
        told, traceparent = told_of(before)
        told["attempt"], told["agent"] = leg.attempt + 1, leg.agent
        # Who reads without scripts is known by the step that takes his answer.
        told["instance"] = leg.instance or (left.instance if left is not None and is_it else "")
        told["leg"], told["code"] = reference.leg, answer.code
        if left is not None and left.duration_ms:
            told["duration_us"] = left.duration_ms * 1000
        if not ended:
            told["receipt"] = made(answer, told, reference.msg_id)
        # The ledger's duration ends with the step, which may have come long after the mark: else the run would begin before it was sent.
        began = min(mark, self._hops.base.mark() - told.get("duration_us", 0))
        self._run(partition, reference, told, traceparent, (began, mark), after if ended else None)

    def untold(self, partition: int, reference: Reference, said: Untold, record: Record | None) -> None:
        """A script has ended a leg, or has had an answer, of which nobody else tells. `record`: as it is now."""
        told, traceparent = told_of(record)
        told["round"], told["attempt"], told["code"] = said.round, said.attempt, (said.code or "")[:MAX_CODE_CHARS]
        told["leg"], told["agent"], told["instance"] = reference.leg, said.agent or "", said.instance or ""
        leg = record.legs.get(reference.leg) if record is not None else None
        is_it = leg is not None and leg.hand == reference.hand and leg.finished_at_ms > 0
        told["at_us"], mark = said.at, self._hops.base.mark()
        if said.began:
            told["duration_us"] = max(said.at - said.began, 0)
            told["final"] = said.ended
            self._run(partition, reference, told, traceparent, (mark, mark), record if is_it and said.ended else None)
            return
        point = _point_of(said)
        told["final"] = True
        if not told["agent"]:
            self._counting.ended(point, 0, told["code"])
        if is_it:
            put_receipt(told, record, reference.leg, is_ours=said.status != "success")
        self._end(partition, point, reference.msg_id, told, traceparent, mark, record)

    def _run(
        self,
        partition: int,
        reference: Reference,
        told: Told,
        traceparent: str | None,
        marks: tuple[int, int],
        ended: Record | None,
    ) -> None:
        """What its agent would have recorded. `marks`: its begin and end, unless `told` has one. `ended`: with this run the leg has."""
        told["hand"] = reference.hand
        (began, mark), msg_id = marks, reference.msg_id
        running: Told = {**told, "final": False}
        running.pop("receipt", None)
        taken: Told = {**running, "code": "", "duration_us": 0}
        if "at_us" in told:
            taken["at_us"] = told["at_us"] - told.get("duration_us", 0)
        self._hops.add(partition, "agent.received", msg_id, traceparent=traceparent, mark=began, **taken)
        self._hops.add(partition, "agent.responding", msg_id, traceparent=traceparent, mark=mark, **running)
        if ended is not None:
            told["final"] = True
            put_receipt(told, ended, reference.leg)
        self._end(partition, "agent.completed", msg_id, told, traceparent, mark, ended)

    def _end(
        self,
        partition: int,
        point: Point,
        msg_id: str,
        told: Told,
        traceparent: str | None,
        mark: int,
        record: Record | None,
    ) -> None:
        self._hops.add(partition, point, msg_id, traceparent=traceparent, mark=mark, **told)
        if told.get("final") and record is not None:
            tell_delivered(self._hops, partition, msg_id, told, record.head.mailboxes, traceparent)


def _point_of(said: Untold) -> Point:
    if said.status == "success":
        return "agent.completed"
    if said.code == "cancelled":
        return "message.cancelled"
    return "message.expired" if said.code in _EXPIRED else "route.failed"
