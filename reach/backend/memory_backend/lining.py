"""Order lines: of the messages of one pattern and order_key only the first in its line is handed over.

Beside msg_ids a line may have a mark, `@<moment>`: nobody passes it before then.
"""

import re
from typing import NamedTuple

from reach.backend.memory_backend.partition import Partition
from reach.backend.memory_backend.store import Line, MessageRecord, WrongType
from reach.envelope.ledger import Leg, LegState

MAX_LINE = 10_000
#: longer than a lease: who runs shows up again by then
QUIET_MS = 17_000
MAX_DROPPED = 100

_MARK = re.compile(r"@([0-9]{1,15})")


class Front(NamedTuple):
    """The first of a line that is open. dropped: somebody who stood before it has been taken out."""

    msg_id: str
    leg: Leg
    dropped: bool


def has_line(record: MessageRecord) -> bool:
    return bool(record.head.line) and record.head.scope == "one"


def first(part: Partition, record: MessageRecord) -> str | None:
    """The msg_id, or the mark, that stands first; None where the line is empty, or something else lies there."""
    line = _line(part, record)
    return line[0] if line else None


def join(part: Partition, msg_id: str, record: MessageRecord) -> bool:
    """Stand in the line: once, whatever was left of the message there. False: there is no room."""
    line = _line(part, record)
    if msg_id not in line:
        if len(line) >= MAX_LINE:
            return False
        _push(part, record, msg_id)
    record.change(0, joined=True)
    return True


def front(part: Partition, record: MessageRecord) -> Front | None:
    """Whom nobody knows any more, who has ended, and a mark whose moment is over are dropped. None: empty, or held up."""
    for count in range(MAX_DROPPED + 1):
        head = first(part, record)
        if head is None:
            return None
        mark = _MARK.fullmatch(head)
        if mark is not None and part.now_ms < int(mark[1]) <= part.now_ms + QUIET_MS:
            return None
        found = part.load(head) if mark is None else None
        leg = found.legs.get(0) if found is not None and found.head.line == record.head.line else None
        if leg is not None and not leg.finished_at_ms:
            return Front(head, leg, count > 0)
        _take_out(part, record, head, only_first=True)
    return None


def leave(part: Partition, msg_id: str, record: MessageRecord) -> None:
    """The message has ended: it goes, wherever and however often it stands. With the first one gone the next may go."""
    if not has_line(record):
        return
    was_first = first(part, record) == msg_id
    _take_out(part, record, msg_id)
    if was_first:
        _release(part, front(part, record))


def mend(part: Partition, msg_id: str, record: MessageRecord) -> bool:
    """Put an open one back that the line has lost. Whether it may ask for a decision.

    It stands in front where somebody may run it, else behind, and behind a mark, since others that run may be lost as well.
    """
    if not has_line(record):
        return True
    leg, line = record.legs[0], _line(part, record)
    if leg.joined and msg_id not in line:
        if leg.state in {LegState.QUEUED, LegState.RUNNING}:
            _push(part, record, msg_id, at_front=True)
        else:
            if not any("@" in member for member in line[: MAX_DROPPED + 1]):
                _push(part, record, f"@{part.now_ms + QUIET_MS}")
            _push(part, record, msg_id)
    head = front(part, record)
    mine = head is not None and head.msg_id == msg_id
    if head is not None and head.dropped and not mine:
        _release(part, head)
    return leg.state is not LegState.HELD or mine


def _release(part: Partition, head: Front | None) -> None:
    if head is not None and head.leg.state is LegState.HELD:
        part.append_again(head.msg_id, 0, head.leg.hand)


def _line(part: Partition, record: MessageRecord) -> Line:
    try:
        return part.store.line(_key(part, record)) or Line()
    except WrongType:
        return Line()


def _push(part: Partition, record: MessageRecord, member: str, *, at_front: bool = False) -> None:
    key, until_ms = _key(part, record), part.expires_at_ms(record.head)
    part.store.clear_wrong(key, "list")
    line = part.store.make_line(key)
    line.insert(0 if at_front else len(line), member)
    part.store.expire_at(key, max(until_ms, part.store.expires_at_ms(key) or 0))


def _take_out(part: Partition, record: MessageRecord, member: str, *, only_first: bool = False) -> None:
    line = _line(part, record)
    if only_first:
        line.pop(0)
    else:
        line[:] = [other for other in line if other != member]
    part.store.drop_empty(_key(part, record))


def _key(part: Partition, record: MessageRecord) -> str:
    return part.keys.line(part.number, record.head.line)
