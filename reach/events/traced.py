"""A conversation as a tree: its messages, who ran them and how long, and what else happened to them. Made of hop records alone. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from reach.tracing.record import LOST_PROCESS

Record = Mapping[str, Any]

#: Points that end a leg, as far as nothing follows.
ENDS: Final = frozenset(
    {"agent.completed", "message.rejected", "route.failed", "message.expired", "message.dead", "message.cancelled"}
)
_SENT: Final = frozenset({"route.sent", "message.moved"})
_RUN: Final = frozenset({"agent.received", "agent.responding", "agent.completed"})
_ORDER: Final = (
    "message.received",
    "route.matched",
    "route.sent",
    "message.moved",
    "agent.received",
    "agent.responding",
    "agent.completed",
    "message.retried",
)
MAX_DEPTH = 64


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt of one leg. Moments are Unix us by the clock of Redis; None: nobody has recorded it.

    Attributes:
        attempt: Its number in its round, from 1; a free one has the number of the one before it.
        round: Of the message: it was asked for again when it had ended.
        agent, instance, host: Who had it: the agent, its process, the machine.
        sent_at_us: When it lay in the agent's inbox; `moved`: it had lain in another one before.
        began_at_us, ended_at_us: When its handler began and was through.
        wait_us, run_us: How long it lay there, and ran.
        code: What came of it; "" = nothing yet.
    """

    leg: int
    attempt: int
    round: int = 1
    agent: str = ""
    instance: str = ""
    host: str = ""
    moved: bool = False
    sent_at_us: int | None = None
    began_at_us: int | None = None
    ended_at_us: int | None = None
    wait_us: int | None = None
    run_us: int | None = None
    code: str = ""


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """Whatever else happened: a choice, a retry, a rejection, a cancel, the delivery of the answer."""

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
    counts: dict[str, int] = {}


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One message.

    Attributes:
        in_reply_to: The message in whose handling it was sent; "" = none of these.
        in_run: Which of its runs sent it, from 0; None: nobody has recorded it.
        source: Who has sent it, where that is recorded.
        code: How it ended; of several legs how many ended how; "" = it has not, or nobody has recorded it.
        open: Some leg has not ended.
        began_at_us, ended_at_us: Its first and last record.
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
        records: Of how many records this is made; `cut`: there are more, and the oldest were left out.
        missing: How many records (of anything) were lost meanwhile, as far as it is known.
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
    spans: dict[str, Record] = {}
    lost: list[Record] = []
    told: set[tuple[str, str, str, int]] = set()
    missing = count = 0
    for record in sorted(records, key=_when):
        if is_lost_process(record):
            lost.append(record)
        elif text_of(record, "point") == "gap":
            missing += sum(
                number for number in dict_of(record, "counts").values() if type(number) is int and number > 0
            )
        elif text_of(record, "msg_id"):
            this = (text_of(record, "msg_id"), text_of(record, "span_id"), text_of(record, "point"), _at(record))
            if this[1] and this in told:
                continue
            told.add(this)
            count += 1
            by_id.setdefault(text_of(record, "msg_id"), []).append(record)
            if record.get("point") == "agent.received":
                spans[text_of(record, "span_id")] = record
    parents = {msg_id: _parent(msg_id, own, by_id, spans) for msg_id, own in by_id.items()}
    below: dict[str, list[str]] = {}
    for msg_id in by_id:
        below.setdefault(parents[msg_id][0] if not _in_circle(msg_id, parents) else "", []).append(msg_id)
    roots = tuple(_message(msg_id, by_id, parents, below) for msg_id in below.get("", ()))
    moments = [_at(record) for own in by_id.values() for record in own]
    return Trace(
        name=name,
        conversations=tuple(sorted({text_of(one, "correlation_id") for own in by_id.values() for one in own} - {""})),
        messages=roots,
        count=len(by_id),
        began_at_us=min(moments, default=0),
        ended_at_us=max(moments, default=0),
        records=count,
        cut=cut,
        missing=missing,
        lost=_lost(lost),
    )


def is_lost_process(record: Record) -> bool:
    """Whether it is a gap that stands for a process, and not for a number of records."""
    return text_of(record, "point") == "gap" and text_of(record, "code") == LOST_PROCESS


def since_of(gap: Record) -> int:
    """When a gap begins, us: it is told when it is found."""
    return max(_at(gap) - max(int_of(gap, "duration_us"), 0), 0)


def _lost(gaps: Iterable[Record]) -> tuple[Lost, ...]:
    """Each process once: it is marked twice where whoever marked it died in between."""
    found: dict[tuple[str, str], Lost] = {}
    for gap in gaps:
        name = text_of(gap, "node"), text_of(gap, "worker")
        one = Lost(node=name[0], worker=name[1], since_us=since_of(gap), until_us=_at(gap))
        known = found.get(name, one)
        since_us, until_us = min(known.since_us, one.since_us), max(known.until_us, one.until_us)
        found[name] = msgspec.structs.replace(one, since_us=since_us, until_us=until_us)
    return tuple(found.values())


def _message(
    msg_id: str,
    by_id: Mapping[str, list[Record]],
    parents: Mapping[str, "_Parent"],
    below: Mapping[str, list[str]],
) -> Message:
    own = by_id[msg_id]
    first = next((one for one in own if text_of(one, "point") in {"message.received", "message.rejected"}), own[0])
    code, is_open = _end(own)
    runs = _runs(own)
    children = [_message(child, by_id, parents, below) for child in below.get(msg_id, ())]
    children = [
        msgspec.structs.replace(child, in_run=_in_run(runs, child, parents[child.msg_id][1])) for child in children
    ]
    return Message(
        msg_id=msg_id,
        correlation_id=next(filter(None, (text_of(one, "correlation_id") for one in own)), ""),
        in_reply_to=parents[msg_id][0],
        source=text_of(first, "source") or text_of(dict_of(dict_of(first, "envelope"), "source"), "agent_id"),
        type=next(filter(None, (text_of(one, "type") for one in own)), ""),
        schema=next(filter(None, (text_of(one, "schema") for one in own)), ""),
        pattern=next(filter(None, (text_of(one, "pattern") for one in own)), ""),
        code=code,
        open=is_open,
        began_at_us=_at(own[0]),
        ended_at_us=_at(own[-1]),
        runs=runs,
        marks=tuple(_mark(one) for one in own if not _is_told(one, first)),
        children=tuple(children),
    )


def _is_told(record: Record, first: Record) -> bool:
    """Whether the message or its runs say it already: of what came to the door only its first coming, not a copy."""
    point = text_of(record, "point")
    return point in _SENT | _RUN or (record is first and point == "message.received")


def _runs(own: Sequence[Record]) -> tuple[Run, ...]:
    """The runs, in order of their beginning: each is named by its hand."""
    found: list[tuple[tuple[int, int, int], dict[str, Record]]] = []
    for record in own:
        point, key = text_of(record, "point"), (int_of(record, "leg"), round_of(record), int_of(record, "attempt"))
        if point not in _SENT | _RUN:
            continue
        slot = "sent" if point in _SENT else point
        numbered = [parts for number, parts in found if number == key]
        same = [parts for parts in numbered if slot not in parts]
        if text_of(record, "hand"):
            same = [parts for _, parts in found if slot not in parts and _name(parts) == _name({slot: record})]
        elif record.get("final") and any(_name(parts)[1] for parts in numbered):
            continue  # the leg has ended with what that run had answered, which is told already
        elif slot == "agent.received":  # from here on: records of versions that did not name the hand
            same = [parts for parts in same if "agent.completed" not in parts]
        elif slot != "sent":  # two may hold it, where one of them was thought lost
            own_run = [parts for parts in same if _holder(parts) == text_of(record, "instance")]
            same = own_run or same
        if same:
            same[-1][slot] = record
        else:
            found.append((key, {slot: record}))
    return tuple(_run(*key, parts) for key, parts in found)


def _name(parts: Mapping[str, Record]) -> tuple[str, str]:
    """The agent and the hand of a run, of which one record is enough."""
    one = next(iter(parts.values()))
    return text_of(one, "agent"), text_of(one, "hand")


def _holder(parts: Mapping[str, Record]) -> str:
    return text_of(parts["agent.received"], "instance") if "agent.received" in parts else ""


def _run(leg: int, round: int, attempt: int, parts: Mapping[str, Record]) -> Run:
    sent, began, ended = (parts.get(slot) for slot in ("sent", "agent.received", "agent.completed"))
    sent_at, began_at, ended_at = (_at(one) if one is not None else None for one in (sent, began, ended))
    who = [one for one in (ended, began, sent) if one is not None]
    return Run(
        leg=leg,
        attempt=attempt,
        round=round,
        agent=next(filter(None, (text_of(one, "agent") for one in who)), ""),
        instance=next(filter(None, (text_of(one, "instance") for one in who)), ""),
        host=text_of(began, "node") if began is not None else "",  # who records the end may be a router elsewhere
        moved=sent is not None and sent.get("point") == "message.moved",
        sent_at_us=sent_at,
        began_at_us=began_at,
        ended_at_us=ended_at,
        wait_us=max(began_at - sent_at, 0) if began_at is not None and sent_at is not None else None,
        run_us=max(ended_at - began_at, 0) if ended_at is not None and began_at is not None else None,
        code=text_of(ended, "code") if ended is not None else "",
    )


def _mark(record: Record) -> Mark:
    counts = {name: number for name, number in dict_of(record, "counts").items() if type(number) is int}
    texts = {name: text_of(record, name) for name in ("point", "agent", "code", "strategy", "chosen")}
    via = text_of(record, "fallback") or text_of(record, "via")
    return Mark(
        at_us=_at(record),
        leg=int_of(record, "leg"),
        attempt=int_of(record, "attempt"),
        round=round_of(record),
        via=via,
        counts=counts,
        **texts,
    )


def _end(own: Sequence[Record]) -> tuple[str, bool]:
    """How it ended, and whether a leg of it has not."""
    last: dict[int, Record] = {}
    legs: set[int] = set()
    for record in own:
        point, leg = text_of(record, "point"), int_of(record, "leg")
        if point in _SENT:
            legs.add(leg)
        known = last.get(leg, {})
        is_of_a_copy = point == "message.rejected" and bool(known)
        if point in {"message.received", "route.matched"} or is_of_a_copy or round_of(record) < round_of(known):
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


_Parent = tuple[str, tuple[int, int] | str]
"""The message above, and which of its runs: leg and attempt, or the agent, "" = any."""


def _parent(
    msg_id: str, own: Sequence[Record], by_id: Mapping[str, list[Record]], spans: Mapping[str, Record]
) -> _Parent:
    """The message in whose handling it was sent: by its span, by what its envelope answers, by its last hop."""
    first = next((one for one in own if text_of(one, "point") in {"message.received", "message.rejected"}), None)
    if first is None:
        return "", ""
    over = spans.get(text_of(first, "parent_span_id"))
    if over is not None and over.get("msg_id") != msg_id:
        return text_of(over, "msg_id"), (int_of(over, "leg"), int_of(over, "attempt"))
    envelope = dict_of(first, "envelope")
    hops = dict_of(envelope, "traces").get("previous_hops")
    agent = hops[-1] if isinstance(hops, list) and hops and isinstance(hops[-1], str) else ""
    answered = text_of(first, "in_reply_to") or text_of(envelope, "in_reply_to")
    if answered in by_id and answered != msg_id:
        return answered, agent
    if agent:
        for other, records in by_id.items():
            began = [one for one in records if one.get("point") == "agent.received" and one.get("agent") == agent]
            if other != msg_id and began and _at(began[0]) <= _at(first):
                return other, agent
    return "", ""


def _in_run(runs: Sequence[Run], child: Message, by: tuple[int, int] | str) -> int | None:
    """The last run that had begun by then, of those that may have sent it; else the first: two clocks were compared."""
    able = [
        (number, run.began_at_us)
        for number, run in enumerate(runs)
        if run.began_at_us is not None
        and (by in {"", run.agent} if isinstance(by, str) else by == (run.leg, run.attempt))
    ]
    begun = [number for number, began_at_us in able if began_at_us <= child.began_at_us]
    return begun[-1] if begun else able[0][0] if able else None


def _in_circle(msg_id: str, parents: Mapping[str, _Parent]) -> bool:
    """Whether it hangs below itself, or so deep that nobody could read it."""
    at = msg_id
    for _ in range(MAX_DEPTH):
        at = parents[at][0] if at in parents else ""
        if not at:
            return False
        if at == msg_id:
            return True
    return True


def _when(record: Record) -> tuple[int, int]:
    point = text_of(record, "point")
    if point in _ORDER:
        return _at(record), _ORDER.index(point)
    return _at(record), len(_ORDER) + (point == "message.delivered")  # the receipt of an end comes with it, or later


def _at(record: Record) -> int:
    return int_of(record, "at_us")


def int_of(record: Record, name: str) -> int:
    """A whole number of it; 0 where it is none."""
    value = record.get(name)
    return value if type(value) is int else 0


def round_of(record: Record) -> int:
    """The round of its message."""
    return int_of(record, "round") or 1


def text_of(record: Record, name: str) -> str:
    """A text of a record, which anybody may have written; "" where it is none."""
    value = record.get(name)
    return value if isinstance(value, str) else ""


def dict_of(record: Record, name: str) -> dict[str, Any]:
    """An object in it; an empty one where it is none."""
    value = record.get(name)
    return value if isinstance(value, dict) else {}
