"""What a hop record is: one point on the way of a message (PROTOCOL, section 11), and how its spans hang together."""

from collections.abc import Sequence
from typing import Final, Literal, Protocol, TypedDict

import msgspec

from reach.tracing.contents import NOTHING, Content, Contents, LeftOut
from reach.tracing.naming import DUPLICATE, arrival_span, end_span, other_span, run_span
from reach.tracing.propagation import trace_of

Point = Literal[
    "message.received",
    "route.matched",
    "route.sent",
    "agent.received",
    "agent.responding",
    "agent.completed",
    "message.delivered",
    "message.rejected",
    "route.failed",
    "message.retried",
    "message.moved",
    "message.reclaimed",
    "message.expired",
    "message.dead",
    "message.cancelled",
    "capacity.wanted",
    "gap",
]

#: points whose span lies below the sender's
_BELOW_SENDER: Final = frozenset({"message.received", "message.rejected"})
#: points that hand a message over: the run's span lies below theirs
_SENT: Final = frozenset({"route.sent", "message.moved"})
_RUN: Final = frozenset({"agent.received", "agent.responding", "agent.completed"})
#: points that are about no message
ABOUT_NONE: Final = frozenset({"capacity.wanted", "gap"})

#: the code of a gap that stands for a process which ended without a word: `duration_us` before it is when records may be missing
LOST_PROCESS: Final = "process.lost"
#: the code of one that stands for batches which were trimmed from `events` before they were kept, or exported
TRIMMED: Final = "batches.trimmed"
#: what the `counts` of a gap say: records that were never written, and batches of them that are gone unread
DROPPED, BATCHES = "missing", "batches"

MAX_CANDIDATES = 20


class Candidate(msgspec.Struct, frozen=True, omit_defaults=True):
    """An agent that was looked at: which filter refused it and why, or how it scored."""

    agent: str
    filter: str = ""
    reason: str = ""
    score: float | None = None


class Looked(Protocol):
    """Whatever says the same of an agent; it becomes a Candidate when it is written."""

    @property
    def agent(self) -> str: ...
    @property
    def filter(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def score(self) -> float | None: ...


Came = Literal["", "first", "copy"]
"""How what is refused was recorded before: not at all, as a message that has come, or as a copy of one that had."""


class Told(TypedDict, total=False):
    """What a record may say beside where and about what it is.

    leg, attempt: the number of the run, from 1; 0 where no run is meant. round: of the message, 1 where nothing is said. hand: of which
    run it is, or was: the id of its inbox entry. entry: of which entry at a door it tells. came: see there. at_us: when, where Redis has
    said it. stored: of a receipt that was sent again. candidates: 20 are kept. counts, chosen, strategy, pattern: of a choice; policy: the
    digest of the one that held; via, fallback: that it fell back, and to which pattern; tier: the needed one, and why. duration_us: how
    long the thing took that ends at this point. final: the leg has ended with it (the message, where it has no legs). envelope, receipt:
    None = no room.
    """

    leg: int
    attempt: int
    round: int
    hand: str
    entry: str
    stored: bool
    came: Came
    at_us: int
    correlation_id: str
    agent: str
    instance: str
    pattern: str
    strategy: str
    policy: str
    candidates: Sequence[Looked]
    counts: dict[str, int]
    chosen: str
    via: str
    fallback: str
    tier: str
    code: str
    duration_us: int
    schema: str
    type: str
    source: str
    in_reply_to: str
    final: bool
    envelope: Content | None
    receipt: Content | None


class HopRecord(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One hop. `at_us` is in the time of Redis; what is empty is not written. A `gap` says in `counts` how many records are missing.

    `final`: the leg has ended here. `stored`: the receipt was sent again, for a copy. `envelope` stands in message.received, `receipt`
    where a run or a leg ends; `left_out` stands for what the env does not keep of it.
    """

    at_us: int
    point: Point
    msg_id: str
    leg: int
    attempt: int  # the number of the run, from 1; 0 before the first
    round: int = 1
    hand: str = ""  # which run: the id of its inbox entry
    correlation_id: str = ""
    trace_id: str = ""
    span_id: str = ""
    parent_span_id: str = ""
    sampled: bool = True
    agent: str = ""
    instance: str = ""
    node: str = ""
    worker: str = ""
    pattern: str = ""
    strategy: str = ""
    policy: str = ""  # digest of the one that held, `none` = the default did
    candidates: tuple[Candidate, ...] = ()
    counts: dict[str, int] = {}
    chosen: str = ""
    via: str = ""
    fallback: str = ""
    tier: str = ""
    code: str = ""
    duration_us: int = 0
    schema: str = ""
    source: str = ""  # who has sent it, and in whose handling: in message.received
    in_reply_to: str = ""
    type: str = ""  # of the message, where whoever records it has read the envelope
    final: bool = False
    stored: bool = False
    envelope: msgspec.Raw = NOTHING
    receipt: msgspec.Raw = NOTHING
    left_out: LeftOut | None = None


def record_of(
    point: Point,
    msg_id: str,
    traceparent: str | None,
    told: Told,
    *,
    at_us: int,
    node: str,
    worker: str,
    contents: Contents | None,
    nonce: str = "",
) -> HopRecord:
    """The record of what was told. `contents`: what is kept of envelopes and receipts; without it they are dropped.

    `nonce`: what sets it apart from all others that this process has recorded, for where nothing else does.
    """
    if point in ABOUT_NONE:  # it lies in no trace
        return HopRecord(
            at_us=at_us,
            point=point,
            msg_id="",
            leg=0,
            attempt=0,
            sampled=point == "gap",
            node=node,
            worker=worker,
            pattern=told.get("pattern", ""),
            counts=told["counts"],
        )
    leg, attempt = told.get("leg", 0), told.get("attempt", 0)
    trace = trace_of(msg_id, traceparent)
    envelope, left_out = _content("envelope", told, at_us, contents)
    receipt, receipt_left_out = _content("receipt", told, at_us, contents)
    return HopRecord(
        at_us=at_us,
        point=point,
        msg_id=msg_id,
        leg=leg,
        attempt=attempt,
        correlation_id=told.get("correlation_id", ""),
        trace_id=trace.trace_id,
        round=told.get("round", 1),
        hand=told.get("hand", ""),
        span_id=_own_span(point, msg_id, told, f"{worker}|{nonce}"),
        parent_span_id=_parent_span(point, msg_id, told, trace.span_id),
        sampled=trace.sampled,
        agent=told.get("agent", ""),
        instance=told.get("instance", ""),
        node=node,
        worker=worker,
        pattern=told.get("pattern", ""),
        strategy=told.get("strategy", ""),
        policy=told.get("policy", ""),
        candidates=tuple(map(_candidate, told.get("candidates", ())[:MAX_CANDIDATES])),
        counts=told.get("counts", _NO_COUNTS),
        chosen=told.get("chosen", ""),
        via=told.get("via", ""),
        fallback=told.get("fallback", ""),
        tier=told.get("tier", ""),
        code=told.get("code", ""),
        duration_us=told.get("duration_us", 0),
        schema=told.get("schema", ""),
        source=told.get("source", ""),
        in_reply_to=told.get("in_reply_to", ""),
        type=told.get("type", ""),
        final=told.get("final", False),
        stored=told.get("stored", False),
        envelope=envelope,
        receipt=receipt,
        left_out=left_out or receipt_left_out,
    )


def size_of(told: Told) -> int:
    """How many bytes of envelope or receipt a record has with it."""
    envelope, receipt = told.get("envelope"), told.get("receipt")
    return (envelope.size if envelope is not None else 0) + (receipt.size if receipt is not None else 0)


def without_contents(told: Told) -> Told:
    """The same, with a note where its envelope or receipt would be."""
    bare = told.copy()
    if "envelope" in bare:
        bare["envelope"] = None
    if "receipt" in bare:
        bare["receipt"] = None
    return bare


def _content(
    name: Literal["envelope", "receipt"], told: Told, at_us: int, contents: Contents | None
) -> tuple[msgspec.Raw, LeftOut | None]:
    if name not in told:
        return NOTHING, None
    return contents.judge(told[name], at_us) if contents is not None else (NOTHING, LeftOut("drop"))


_NO_COUNTS: Final[dict[str, int]] = {}


def _candidate(looked: Looked) -> Candidate:
    return Candidate(looked.agent, looked.filter, looked.reason, looked.score)


def _own_span(point: Point, msg_id: str, told: Told, nonce: str) -> str:
    leg, round_ = told.get("leg", 0), told.get("round", 1)
    agent, hand = told.get("agent", ""), told.get("hand", "")
    if point == "message.received":
        return arrival_span(msg_id, round_, told.get("entry", "") if told.get("code") == DUPLICATE else "")
    if told.get("final") and point not in _SENT:
        return end_span(msg_id, leg, round_, told.get("code", ""))
    if hand and point in _SENT:
        return run_span(msg_id, leg, agent, hand, "route.sent")
    if hand and point in _RUN:
        return run_span(msg_id, leg, agent, hand, point)
    about = f"{agent}|{hand}" if hand else told.get("entry") or nonce
    return other_span(msg_id, leg, point, round_, told.get("attempt", 0), about)


def _parent_span(point: Point, msg_id: str, told: Told, sender: str) -> str:
    """`sender`: the span in which it was sent; "" = none: then all that follows lies below what came first."""
    leg, round_ = told.get("leg", 0), told.get("round", 1)
    agent, hand = told.get("agent", ""), told.get("hand", "")
    if point == "message.rejected" and told.get("came"):
        return arrival_span(msg_id, round_, told.get("entry", "") if told["came"] == "copy" else "")
    if point in _BELOW_SENDER:
        is_first = point == "message.rejected" or (round_ == 1 and told.get("code") != DUPLICATE)
        return sender if sender or is_first else arrival_span(msg_id, 1)
    if hand and point in _RUN:
        return run_span(msg_id, leg, agent, hand, "route.sent" if point == "agent.received" else "agent.received")
    # A leg that had ended before this round began answers with what it has: that end lies in the round before.
    if point == "message.delivered" and not (told.get("stored") and round_ > 1):
        return end_span(msg_id, leg, round_, told.get("code", ""))
    return arrival_span(msg_id, round_)
