"""What a conversation has used so far, for people and programs."""

import msgspec

from reach.backend.port import Backend
from reach.backend.spent import Spent
from reach.delivery.spending import MILLION
from reach.envelope.message import Budget


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """What is counted of a conversation.

    Attributes:
        correlation_id: Its name.
        cost: The sum of what runs cost, in the unit of those who answer; also of those that failed or were tried again.
        tokens: What messages needed, and what runs used beyond that.
        messages: Those that count: what handlers send, what has a budget, and what had a run that cost something.
        hops: The messages after the first one, which is what a budget bounds.
        budget: That of who began it; None: it has none.
    """

    correlation_id: str
    cost: float
    tokens: int
    messages: int
    hops: int
    budget: Budget | None = None


async def read_conversation(backend: Backend, correlation_id: str) -> Conversation | None:
    """What is counted of it; None: nothing, or nothing within the last hour.

    Raises:
        BackendError: It cannot be read.
    """
    spent = await backend.used_in(correlation_id)
    if spent is None:
        return None
    return Conversation(
        correlation_id=correlation_id,
        cost=spent.cost / MILLION,
        tokens=spent.tokens,
        messages=spent.messages,
        hops=max(spent.messages - 1, 0),
        budget=_budget(spent),
    )


def _budget(spent: Spent) -> Budget | None:
    if spent.max_hops is spent.max_cost is spent.max_tokens is None:
        return None
    cost = None if spent.max_cost is None else spent.max_cost / MILLION
    return Budget(hops=spent.max_hops, cost=cost, tokens=spent.max_tokens)
