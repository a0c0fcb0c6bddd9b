"""A conversation as a tree: its messages, who ran them and how long, and what else happened to them. Made of hop records alone. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from reach.events.above import CAME, Above, Begun, Senders
from reach.events.fields import Record, at_of, counts_of, dict_of, int_of, round_of, text_of
from reach.events.runs import RUN, SENT, Run, runs_of
from reach.tracing.naming import DUPLICATE
from reach.tracing.record import BATCHES, DROPPED, LOST_PROCESS

#: Points that end a leg, as far as nothing follows.
ENDS: Final = frozenset(
    {"agent.completed", "message.rejected", "route.failed", "message.expired", "message.dead", "message.cancelled"}
)
_ORDER: Final = {
    point: place
    for place, point in enumerate(
        (
            "message.received",
            "route.matched",
            "route.sent",
            "message.moved",
            "agent.received",
            "agent.responding",
            "agent.completed",
            "message.retried",
        )
    )
}
MAX_DEPTH = 64


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """Whatever else happened: a choice, a retry, a rejection, a cancel, the delivery of the answer.

    copy: It is about a copy of the message, which came when that was known already and has run nothing.
    """

    at_us: int
    point: str
    leg: int = 0
    attempt: int = 0
    round: int = 1
    agent: str = ""
    code: str = ""
    strategy: str = ""
    chosen: str = ""
    via: str = ""
    copy: bool = False
    counts: dict[str, int] = {}


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One message.

    Attributes:
        in_reply_to: The message in whose handling it was sent; "" = none of these.
        in_run: Which of its runs sent it, from 0; None: nobody has recorded it.
        source: Who has sent it, where that is recorded.
        code: How it ended; of several legs how many ended how; "" = it has not, or nobody has recorded it.
        open: Some leg has not ended.
        began_at_us, ended_at_us: Its first record, and its last one that is about no copy.
        children: The messages that its handlers have sent, in order.
    """

    msg_id: str
    correlation_id: str = ""
    in_reply_to: str = ""
    in_run: int | None = None
    source: str = ""
    type: str = ""
    schema: str = ""
    pattern: str = ""
    code: str = ""
    open: bool = True
    began_at_us: int
    ended_at_us: int
    runs: tuple[Run, ...] = ()
    marks: tuple[Mark, ...] = ()
    children: tuple["Message", ...] = ()


class Lost(msgspec.Struct, frozen=True, kw_only=True):
    """A process that ended without a word. Records of it may be missing between the two moments (us).

    Attributes:
        node, worker: As its records say it; the worker of an agent or a caller is its mailbox.
    """

    node: str = ""
    worker: str
    since_us: int
    until_us: int


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation, or a message with the conversation that it belongs to.

    Attributes:
        name: What was asked for.
        conversations: The correlation ids.
        messages: Those that answer no other, each with its children.
        count: How many messages there are in all.
        began_at_us, ended_at_us: When the first of them began, and the last one ended.
        records: Of how many records this is made; `cut`: there are more, and the oldest were left out.
        missing: How many records (of anything) were lost meanwhile, as far as it is known.
        missing_batches: How many batches of records were besides, each of up to 100: nobody has read how many those were.
        lost: Processes that ended without a word meanwhile, or were cut off: some of their records may be missing.
    """

    name: str
    conversations: tuple[str, ...] = ()
    messages: tuple[Message, ...] = ()
    count: int = 0
    began_at_us: int = 0
    ended_at_us: int = 0
    records: int = 0
    cut: bool = False
    missing: int = 0
    missing_batches: int = 0
    lost: tuple["Lost", ...] = ()

    @property
    def ended(self) -> bool:
        """Whether no leg of any message is open, as far as it is recorded."""
        return not any(message.open for message in self.walk())

    def walk(self) -> list[Message]:
        """All messages, each before its children."""
        found: list[Message] = []
        left = list(reversed(self.messages))
        while left:
            found.append(left.pop())
            left += reversed(found[-1].children)
        return found


def trace_of(name: str, records: Iterable[Record], *, cut: bool = False) -> Trace:
    """The tree that these records tell of; those of gaps among them are counted.

    What is told twice of one span and moment is one: whoever dies between telling it and being done with it leaves it to another.
    """
    by_id: dict[str, list[Record]] = {}
    conversations: set[str] = set()
    lost: list[Record] = []
    told: set[tuple[str, str, str, int]] = set()
    missing: Counter[str] = Counter()
    count = 0
    for record in sorted(records, key=_when):
        if is_lost_process(record):
            lost.append(record)
        elif text_of(record, "point") == "gap":
            missing.update({what: number for what, number in counts_of(record).items() if number > 0})
        elif text_of(record, "msg_id"):
            this = (text_of(record, "msg_id"), text_of(record, "span_id"), text_of(record, "point"), at_of(record))
            if this[1] and this in told:
                continue
            told.add(this)
            count += 1
            by_id.setdefault(text_of(record, "msg_id"), []).append(record)
            conversations.add(text_of(record, "correlation_id"))
    senders = Senders(by_id)
    above = {msg_id: senders.above(msg_id) for msg_id in by_id}
    below: dict[str, list[str]] = {}
    for msg_id in by_id:
        below.setdefault(above[msg_id][0] if not _in_circle(msg_id, above) else "", []).append(msg_id)
    roots = tuple(_message(msg_id, by_id, above, below) for msg_id in below.get("", ()))
    found = Trace(
        name=name,
        conversations=tuple(sorted(conversations - {""})),
        messages=roots,
        count=len(by_id),
        began_at_us=min((at_of(own[0]) for own in by_id.values()), default=0),
        records=count,
        cut=cut,
        missing=missing[DROPPED],
        missing_batches=missing[BATCHES],
        lost=_lost(lost),
    )
    ended_at_us = max((message.ended_at_us for message in found.walk()), default=0)
    return msgspec.structs.replace(found, ended_at_us=ended_at_us)


def is_lost_process(record: Record) -> bool:
    """Whether it is a gap that stands for a process, and not for a number of records."""
    return text_of(record, "point") == "gap" and text_of(record, "code") == LOST_PROCESS


def since_of(gap: Record) -> int:
    """When a gap begins, us: it is told when it is found."""
    return max(at_of(gap) - max(int_of(gap, "duration_us"), 0), 0)


def _lost(gaps: Iterable[Record]) -> tuple[Lost, ...]:
    """Each process once: it is marked twice where whoever marked it died in between."""
    found: dict[tuple[str, str], Lost] = {}
    for gap in gaps:
        name = text_of(gap, "node"), text_of(gap, "worker")
        one = Lost(node=name[0], worker=name[1], since_us=since_of(gap), until_us=at_of(gap))
        known = found.get(name, one)
        since_us, until_us = min(known.since_us, one.since_us), max(known.until_us, one.until_us)
        found[name] = msgspec.structs.replace(one, since_us=since_us, until_us=until_us)
    return tuple(found.values())


def _message(
    msg_id: str, by_id: Mapping[str, list[Record]], above: Mapping[str, Above], below: Mapping[str, list[str]]
) -> Message:
    own = by_id[msg_id]
    first = next((one for one in own if text_of(one, "point") in CAME), own[0])
    copies = _copies(own)
    code, is_open = _end(own, copies)
    runs = runs_of(own)
    begun = Begun(runs)
    children = [_message(child, by_id, above, below) for child in below.get(msg_id, ())]
    return Message(
        msg_id=msg_id,
        correlation_id=_first_text(own, "correlation_id"),
        in_reply_to=above[msg_id][0],
        source=text_of(first, "source") or text_of(dict_of(dict_of(first, "envelope"), "source"), "agent_id"),
        type=_first_text(own, "type"),
        schema=_first_text(own, "schema"),
        pattern=_first_text(own, "pattern"),
        code=code,
        open=is_open,
        began_at_us=at_of(own[0]),
        ended_at_us=max((at_of(one) for at, one in enumerate(own) if at not in copies), default=at_of(own[-1])),
        runs=runs,
        marks=tuple(_mark(one, copy=at in copies) for at, one in enumerate(own) if not _is_told(one, first)),
        children=tuple(
            msgspec.structs.replace(child, in_run=begun.run_at(child.began_at_us, above[child.msg_id][1]))
            for child in children
        ),
    )


def _is_told(record: Record, first: Record) -> bool:
    """Whether the message or its runs say it already: of what came to the door only its first coming, not a copy."""
    point = text_of(record, "point")
    return point in SENT or point in RUN or (record is first and point == "message.received")


def _first_text(own: Sequence[Record], name: str) -> str:
    return next(filter(None, (text_of(one, name) for one in own)), "")


def _copies(own: Sequence[Record]) -> dict[int, bool]:
    """Which of its records are about copies of a message, and whether they tell all the same how the message has ended.

    A copy is known by the router's word (`duplicate`, or refused when the message was known), what its sender is told by its own
    (`stored`), or because somebody has been told already: versions before did not say it.
    """
    found: dict[int, bool] = {}
    told: set[tuple[int, int]] = set()
    refused: Counter[str] = Counter()
    is_known = False
    for at, record in enumerate(own):
        point, code = text_of(record, "point"), text_of(record, "code")
        if point == "message.received":
            if code == DUPLICATE:
                found[at] = False
        elif point == "message.rejected" and is_known:
            found[at] = False
            refused[code] += 1
        elif point == "message.delivered" and refused[code] > 0:
            found[at] = False
            refused[code] -= 1
        elif point == "message.delivered":
            leg = int_of(record, "leg"), round_of(record)
            if leg in told or record.get("stored") is True:
                found[at] = True
            told.add(leg)
        is_known |= point not in {"message.received", "route.matched"}
    return found


def _mark(record: Record, *, copy: bool) -> Mark:
    texts = {name: text_of(record, name) for name in ("point", "agent", "code", "strategy", "chosen")}
    via = text_of(record, "fallback") or text_of(record, "via")
    return Mark(
        at_us=at_of(record),
        leg=int_of(record, "leg"),
        attempt=int_of(record, "attempt"),
        round=round_of(record),
        via=via,
        copy=copy,
        counts=counts_of(record),
        **texts,
    )


def _end(own: Sequence[Record], copies: Mapping[int, bool]) -> tuple[str, bool]:
    """How it ended, and whether a leg of it has not."""
    last: dict[int, Record] = {}
    legs: set[int] = set()
    for at, record in enumerate(own):
        point, leg = text_of(record, "point"), int_of(record, "leg")
        if point in SENT:
            legs.add(leg)
        known = last.get(leg, {})
        if point in {"message.received", "route.matched"} or round_of(record) < round_of(known):
            continue
        if at in copies and (known.get("is_final") or not copies[at]):
            continue
        if point == "message.delivered":
            last[leg] = {**record, "is_final": True}
        elif round_of(record) > round_of(known) or not known.get("is_final"):
            last[leg] = record
    ended = {leg: one for leg, one in last.items() if one.get("is_final") or text_of(one, "point") in ENDS}
    codes = Counter(text_of(one, "code") or "?" for _, one in sorted(ended.items()))
    is_open = bool(legs - ended.keys()) or not ended
    if len(ended) == 1:
        return next(iter(codes)), is_open
    return ", ".join(f"{number} {code}" for code, number in codes.items()), is_open


def _in_circle(msg_id: str, above: Mapping[str, Above]) -> bool:
    """Whether it hangs below itself, or so deep that nobody could read it."""
    at = msg_id
    for _ in range(MAX_DEPTH):
        at = above[at][0] if at in above else ""
        if not at:
            return False
        if at == msg_id:
            return True
    return True


def _when(record: Record) -> tuple[int, int]:
    point = text_of(record, "point")
    if point in _ORDER:
        return at_of(record), _ORDER[point]
    return at_of(record), len(_ORDER) + (point == "message.delivered")  # the receipt of an end comes with it, or later
