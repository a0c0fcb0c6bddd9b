"""What a run has used, as its answer tells, and how it is added to its conversation."""

import msgspec

from reach.backend.bounds import MOST_SPENT
from reach.backend.port import Backend
from reach.backend.spent import Uncounted
from reach.backend.steps import Answer
from reach.envelope.message import Budget, Envelope
from reach.errors import BackendError
from reach.log import PacedLog

MILLION = 1_000_000
NO_BUDGET = Budget()


class Used(msgspec.Struct, frozen=True):
    """What a run has used. `cost` in millionths."""

    cost: int = 0
    tokens: int = 0


class Spender(msgspec.Struct, frozen=True):
    """Which run of which message. Its name is what is counted once. `message`: what it ran, None: the bytes of it are lost."""

    conversation: str
    msg_id: str
    leg: int
    round: int
    attempt: int
    hand: str
    message: Envelope | None = None

    @property
    def name(self) -> str:
        """Differs for every run that may have used something: what comes back without burning an attempt runs with another hand."""
        return f"{self.msg_id}:{self.leg}:{self.round}:{self.attempt}:{self.hand}"


class _Cost(msgspec.Struct):
    cost: float | None = None


class _Tokens(msgspec.Struct):
    tokens: int | None = None


#: How an answer ends that says no cost, as they are written here: most do, and their output need not be read through for it.
_NO_COST = '"cost":null,"via":null,"retry_after_ms":null}'

_cost = msgspec.json.Decoder(_Cost).decode
_tokens = msgspec.json.Decoder(_Tokens).decode


def used_by(answer: Answer) -> Used:
    """What an answer tells: its `cost`, and `tokens` in its details. What is no number, or below 0, counts as nothing."""
    if answer.details == "{}" and answer.core.endswith(_NO_COST):
        return Used()
    try:
        cost = _cost(answer.core).cost or 0.0
    except (msgspec.DecodeError, UnicodeEncodeError):
        cost = 0.0
    try:
        tokens = _tokens(answer.details).tokens or 0
    except (msgspec.DecodeError, UnicodeEncodeError):
        tokens = 0
    return Used(millionths(cost), min(max(tokens, 0), MOST_SPENT))


async def spend(backend: Backend, run: Spender, used: Used, log: PacedLog) -> None:
    """Add it to its conversation, before the answer is written: whoever hears the answer may ask for more at once. Nothing costs no call.

    Where Redis does not take it, it is a lost count: nobody's answer waits for that. Of a run whose answer is never written it was used
    all the same.
    """
    if used == Used():
        return
    of, message = None, run.message
    if message is not None:
        if not is_counted(message):
            of = Uncounted(run.msg_id, run.round, needed(message))
        used = Used(used.cost, max(used.tokens - needed(message), 0))
        if used == Used() and of is None:
            return
    try:
        await backend.spend(run.conversation, run.name, used.cost, used.tokens, of)
    except BackendError as error:
        log.warning("not counted", msg_id=run.msg_id, error=error.code)


def is_counted(envelope: Envelope) -> bool:
    """Whether routers count this message when it is sent: somebody's handler has sent it, or it has a budget."""
    return bool(envelope.traces.previous_hops) or (envelope.budget or NO_BUDGET) != NO_BUDGET


def needed(envelope: Envelope) -> int:
    """The tokens that a message says it needs."""
    return min(envelope.needs.context_tokens or 0, MOST_SPENT) if envelope.needs is not None else 0


def millionths(cost: float) -> int:
    """A cost as conversations count it."""
    return round(min(max(cost, 0.0) * MILLION, float(MOST_SPENT)))
