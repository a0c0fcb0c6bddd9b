"""What is wrong with something that was declared or set, as it is told: all of it at once. Pure."""

from collections.abc import Iterable
from typing import Any

import msgspec


class Problem(msgspec.Struct, frozen=True):
    """One thing that is wrong: its code, the field that it is in ("" = the whole), and one sentence."""

    code: str
    field: str
    message: str


def sentence_of(problems: Iterable[Problem]) -> str:
    """All of them as one text."""
    return "; ".join(f"{one.field}: {one.message}" if one.field else one.message for one in problems)


def listed(problems: Iterable[Problem]) -> list[dict[str, Any]]:
    """All of them as an error has them in `details["problems"]`."""
    return [msgspec.to_builtins(one) for one in problems]
