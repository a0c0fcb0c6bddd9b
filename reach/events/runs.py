"""The runs of a message, made of its hop records. Pure."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from typing import Any, Final

import msgspec

from reach.events.fields import Record, at_of, int_of, round_of, text_of

#: Points that hand a message over.
SENT: Final = frozenset({"route.sent", "message.moved"})
#: Points of one run.
RUN: Final = frozenset({"agent.received", "agent.responding", "agent.completed"})
_ENDINGS: Final = ("agent.responding", "agent.completed")
_SLOTS: Final = ("sent", "agent.received", *_ENDINGS)


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


def runs_of(own: Sequence[Record]) -> tuple[Run, ...]:
    """The runs that the records of a message tell of, in order of their beginning: each is named by its hand."""
    table = _Table()
    for record in own:
        point = text_of(record, "point")
        if point in SENT or point in RUN:
            table.take("sent" if point in SENT else point, record)
    return tuple(_run(*number, parts) for number, parts in table.found)


_Number = tuple[int, int, int]
"""Leg, round, attempt: what records of versions that did not name the hand know a run by."""
_Parts = dict[str, Record]


class _Table:
    """The runs as they are found. Which one a record belongs to costs the same however many there are: each side has its own index.

    A part is never taken away from a run, so one that cannot take a record of some kind now never will, and leaves that index for good.
    """

    def __init__(self) -> None:
        self.found: list[tuple[_Number, _Parts]] = []
        self._open: defaultdict[Any, list[int]] = defaultdict(list)  # heaps: the last run is the first
        self._handed: set[_Number] = set()  # a run of that number has a hand

    def take(self, slot: str, record: Record) -> None:
        """Put a record to its run."""
        number = (int_of(record, "leg"), round_of(record), int_of(record, "attempt"))
        hand, agent = text_of(record, "hand"), text_of(record, "agent")
        if hand:
            at = self._last(slot, "hand", agent, hand)
        elif record.get("final") and number in self._handed:
            return  # the leg has ended with what that run had answered, which is told already
        else:  # records of versions that did not name the hand
            at = self._unnamed(slot, number, text_of(record, "instance"))
        if at is None:
            self._begin(number, agent, hand)
            at = len(self.found) - 1
        self.found[at][1][slot] = record
        instance = text_of(record, "instance")
        if slot == "agent.received" and instance:
            for ending in _ENDINGS:
                heappush(self._open[ending, "holder", self.found[at][0], instance], -at)

    def _unnamed(self, slot: str, number: _Number, instance: str) -> int | None:
        if slot in _ENDINGS:  # two may hold it, where one of them was thought lost
            own_run = self._last(slot, "holder", number, instance)
            if own_run is not None:
                return own_run
        return self._last(slot, "number", number)

    def _begin(self, number: _Number, agent: str, hand: str) -> None:
        at = len(self.found)
        self.found.append((number, {}))
        if hand:
            self._handed.add(number)
        for slot in _SLOTS:
            heappush(self._open[slot, "number", number], -at)
            if hand:
                heappush(self._open[slot, "hand", agent, hand], -at)
            if slot in _ENDINGS:
                heappush(self._open[slot, "holder", number, ""], -at)

    def _last(self, slot: str, *side: Any) -> int | None:
        """The last run of this side that lacks this slot."""
        runs = self._open.get((slot, *side), [])
        while runs and not self._takes(self.found[-runs[0]][1], slot, side):
            heappop(runs)
        return -runs[0] if runs else None

    @staticmethod
    def _takes(parts: _Parts, slot: str, side: tuple[Any, ...]) -> bool:
        if slot in parts:
            return False
        if side[0] == "holder":
            holder: str = side[2]
            return text_of(parts.get("agent.received", {}), "instance") == holder
        return side[0] == "hand" or slot != "agent.received" or "agent.completed" not in parts


def _run(leg: int, round: int, attempt: int, parts: Mapping[str, Record]) -> Run:
    sent, began, ended = (parts.get(slot) for slot in ("sent", "agent.received", "agent.completed"))
    sent_at, began_at, ended_at = (at_of(one) if one is not None else None for one in (sent, began, ended))
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
