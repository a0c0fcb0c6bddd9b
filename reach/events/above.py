"""Which message, and which of its runs, has sent another one, as hop records tell it. Pure."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Final

from reach.events.fields import Record, at_of, dict_of, int_of, text_of
from reach.events.runs import Run

#: What says that a message has come, and from where.
CAME: Final = frozenset({"message.received", "message.rejected"})

By = tuple[int, int] | str
"""Which run has sent it: leg and attempt, or the agent, "" = any."""
Above = tuple[str, By]
"""The message above ("" = none), and which of its runs."""


class Senders:
    """The messages of a trace, by what names them as the sender of another one. `by_id`: the records of each, oldest first."""

    def __init__(self, by_id: Mapping[str, Sequence[Record]]) -> None:
        self._by_id = by_id
        began = [one for own in by_id.values() for one in own if text_of(one, "point") == "agent.received"]
        self._spans = {text_of(one, "span_id"): one for one in sorted(began, key=at_of)}
        self._runners: dict[str, _Runners] | None = None

    def above(self, msg_id: str) -> Above:
        """The message in whose handling it was sent: by its span, by what its envelope answers, by its last hop."""
        first = next((one for one in self._by_id[msg_id] if text_of(one, "point") in CAME), None)
        if first is None:
            return "", ""
        over = self._spans.get(text_of(first, "parent_span_id"))
        if over is not None and over.get("msg_id") != msg_id:
            return text_of(over, "msg_id"), (int_of(over, "leg"), int_of(over, "attempt"))
        envelope = dict_of(first, "envelope")
        hops = dict_of(envelope, "traces").get("previous_hops")
        agent = hops[-1] if isinstance(hops, list) and hops and isinstance(hops[-1], str) else ""
        answered = text_of(first, "in_reply_to") or text_of(envelope, "in_reply_to")
        if answered in self._by_id and answered != msg_id:
            return answered, agent
        other = self._run_by(agent, at_of(first), msg_id) if agent else ""
        return (other, agent) if other else ("", "")

    def _run_by(self, agent: str, until_us: int, beside: str) -> str:
        """The first message, but this one, that the agent had begun with by then; "" = none."""
        if self._runners is None:
            begun: dict[str, dict[int, tuple[int, str]]] = {}
            for place, (msg_id, own) in enumerate(self._by_id.items()):
                for one in own:
                    if text_of(one, "point") == "agent.received":
                        begun.setdefault(text_of(one, "agent"), {}).setdefault(place, (at_of(one), msg_id))
            self._runners = {name: _Runners(found) for name, found in begun.items()}
        return self._runners[agent].first(until_us, beside) if agent in self._runners else ""


class _Runners:
    """What an agent has begun with: by the place of the message, when, and the message."""

    def __init__(self, begun: Mapping[int, tuple[int, str]]) -> None:
        by_moment = sorted((at_us, place, msg_id) for place, (at_us, msg_id) in begun.items())
        self._moments = [at_us for at_us, _, _ in by_moment]
        self._firsts = list(accumulate((((place, msg_id),) for _, place, msg_id in by_moment), _first_two))

    def first(self, until_us: int, beside: str) -> str:
        """That of the first place which had begun by then, but not `beside`; "" = none."""
        number = bisect_right(self._moments, until_us)
        return next((msg_id for _, msg_id in self._firsts[number - 1] if msg_id != beside), "") if number else ""


_Places = tuple[tuple[int, str], ...]


def _first_two(known: _Places, more: _Places) -> _Places:
    return tuple(sorted(known + more)[:2])


class Begun:
    """The runs of a message, by who has sent what came in the middle of them."""

    def __init__(self, runs: Sequence[Run]) -> None:
        by: dict[By, list[tuple[int, int]]] = {}
        for number, run in enumerate(runs):
            if run.began_at_us is not None:
                sides: Iterable[By] = {"", run.agent, (run.leg, run.attempt)}
                for side in sides:
                    by.setdefault(side, []).append((run.began_at_us, number))
        self._first = {side: begun[0][1] for side, begun in by.items()}
        ordered = {side: sorted(begun) for side, begun in by.items()}
        self._moments = {side: [at_us for at_us, _ in begun] for side, begun in ordered.items()}
        self._last = {side: list(accumulate((number for _, number in begun), max)) for side, begun in ordered.items()}

    def run_at(self, at_us: int, by: By) -> int | None:
        """The last run that had begun by then, of those that may have sent it; else the first: two clocks were compared. None: no run."""
        if by not in self._first:
            return None
        number = bisect_right(self._moments[by], at_us)
        return self._last[by][number - 1] if number else self._first[by]
