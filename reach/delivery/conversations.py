"""What a conversation bounds: chains that run in circles, and what they use up. Asked once for each message, before anybody is chosen.

Where the count cannot be had, or is only partly known, nobody is refused by it.
"""

import hashlib
from collections.abc import Callable, Iterable
from typing import Literal

from reach.backend.bounds import MOST_SPENT
from reach.backend.port import Backend
from reach.backend.steps import Over, Turn
from reach.clock import Clock
from reach.delivery.judge import Case
from reach.delivery.spending import MILLION, NO_BUDGET, is_counted, millionths, needed
from reach.envelope.message import Envelope
from reach.envelope.rules import fingerprint, sender_of
from reach.errors import SERVER_ERRORS, BackendError
from reach.log import PacedLog, event_log
from reach.routing.steps import Finish

log = event_log("reach.conversations")

#: Turns a minute of one sender at one target, and times of the same content, unless `meta` says otherwise.
MAX_PAIR_RATE, MAX_SAME_CONTENT = 12, 8


class Conversations:
    """Asks about the messages of a batch in one step. `setting`: a number from `meta`, or the default."""

    def __init__(self, backend: Backend, setting: Callable[[str, int], int], *, clock: Clock | None = None) -> None:
        self._backend, self._setting = backend, setting
        self._log = PacedLog(log, clock)

    async def ask(self, cases: Iterable[Case]) -> None:
        """Have every message counted, and give those that are too much their end. Plain messages cost nothing.

        Raises:
            BackendUnavailable, BackendFull, BackendDenied: Redis cannot serve now; asked again, nothing is counted twice.
        """
        asked: list[tuple[Case, Turn]] = []
        for case in cases:
            if case.envelope is not None and case.reference is None and case.refused is None:
                turn = turn_of(case.envelope)
                if turn is not None:
                    asked.append((case, turn))
        if not asked:
            return
        bounds = (
            self._setting("max_pair_rate", MAX_PAIR_RATE),
            self._setting("max_same_content", MAX_SAME_CONTENT),
        )
        try:
            found = await self._backend.converse([turn for _, turn in asked], *bounds)
        except SERVER_ERRORS:
            raise
        except BackendError as error:
            self._log.warning("not counted", count=len(asked), error=str(error))
            return
        for (case, _), over in zip(asked, found, strict=True):
            case.over = end_of(over)


def turn_of(envelope: Envelope) -> Turn | None:
    """What a message does in its conversation; None where there is nothing to count: nobody's handler has sent it, and it has no budget."""
    if not is_counted(envelope):
        return None
    hops, budget = envelope.traces.previous_hops, envelope.budget or NO_BUDGET
    return Turn(
        conversation=envelope.conversation,
        msg_id=envelope.msg_id,
        round=envelope.round,
        in_reply_to=envelope.in_reply_to or "",
        depth=len(hops),
        pair=_pair_of(envelope) if hops else "",
        content=fingerprint(envelope) if hops else "",
        tokens=min(needed(envelope), MOST_SPENT),
        max_hops=_bounded(budget.hops),
        max_cost=None if budget.cost is None else millionths(budget.cost),
        max_tokens=_bounded(budget.tokens),
    )


def end_of(over: Over) -> Finish | None:
    """How a message ends that is too much; None: it is not."""
    spent, allowed = over.spent, over.allowed
    match over.what:
        case "":
            return None
        case "pair":
            text = f"its sender has had {spent - 1} turns at this target within a minute, one answering the other"
            return Finish("loop.detected", text, {"loop": "pair", "turns": spent, "allowed": allowed})
        case "content":
            text = f"the same has been said {spent - 1} times in this conversation, one answering the other"
            return Finish("loop.detected", text, {"loop": "content", "turns": spent, "allowed": allowed})
        case "cost":
            return _exceeded("cost", spent / MILLION, allowed / MILLION)
        case _:
            return _exceeded(over.what, spent, allowed)


def _pair_of(envelope: Envelope) -> str:
    """Its sender, by the name that all replicas share, and its target; as a stamp, since a pattern may be long."""
    told = f"{sender_of(envelope.source)} {envelope.target.pattern}"
    return hashlib.sha256(told.encode()).hexdigest()[:16]


def _exceeded(limit: Literal["hops", "cost", "tokens"], spent: float, allowed: float) -> Finish:
    what = "messages after its first" if limit == "hops" else f"of {limit}"
    counted = "" if limit == "cost" else "with this message "  # which is refused, and is in `spent` all the same
    text = f"{counted}the conversation is at {spent:g} {what}, its budget allows {allowed:g}"
    return Finish("budget.exceeded", text, {"limit": limit, "spent": spent, "allowed": allowed})


def _bounded(limit: int | None) -> int | None:
    return None if limit is None else min(limit, MOST_SPENT)
