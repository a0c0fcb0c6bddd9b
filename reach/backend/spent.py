"""What a conversation has used, as it is stored and as it is told. Pure."""

import re
from collections.abc import Sequence

import msgspec

#: The fields of its hash that `spent_of` reads, in this order.
FIELDS = ("n", "c", "t", "b")
_NUMBER = re.compile(rb"[0-9]{1,14}")


class Uncounted(msgspec.Struct, frozen=True):
    """A message that nobody has counted when it was sent. `needs`: the tokens that it says it needs."""

    msg_id: str
    round: int = 1
    needs: int = 0


class Spent(msgspec.Struct, frozen=True):
    """What is counted of a conversation. Costs are whole millionths; a bound of its budget that is None is none."""

    messages: int = 0
    cost: int = 0
    tokens: int = 0
    max_hops: int | None = None
    max_cost: int | None = None
    max_tokens: int | None = None


def spent_of(values: Sequence[bytes | None]) -> Spent | None:
    """What the fields say; None: nothing is counted. What is no number counts as nothing, as the steps read it."""
    if not any(value is not None for value in values):
        return None
    messages, cost, tokens = (_number(value) or 0 for value in values[:3])
    bounds = (values[3] or b"").split(b" ")
    hops, money, words = (_number(bound) for bound in bounds) if len(bounds) == 3 else (None, None, None)
    return Spent(messages, cost, tokens, hops, money, words)


def _number(value: bytes | None) -> int | None:
    return int(value) if value is not None and _NUMBER.fullmatch(value) else None
