"""Compensation from receipts: what was done is undone in the opposite order. No engine: it is a loop, and the receipts are its memory."""

from dataclasses import dataclass
from typing import Any

from examples.trip.agents import KINDS
from reach import Reach, Receipt, Status


@dataclass(frozen=True)
class Trip:
    """How it ended. `why`: the code and text of the receipt that ended it."""

    ok: bool
    why: str = ""


async def book_trip(reach: Reach, order: str) -> Trip:
    """Book everything or nothing. Called again with the same order, it goes on where it was: every step has a key."""
    begun: list[str] = []
    for kind in KINDS:
        receipt: Receipt[Any] = await reach.request(f"capability:{kind}.book", {"order": order}, key=f"{order}/{kind}")
        if receipt.ok:
            begun.append(kind)
            continue
        # `failed` says that it was not done. `retryable` says that nobody knows: it is undone as well.
        if receipt.status is Status.RETRYABLE:
            begun.append(kind)
        for done in reversed(begun):
            undone = await reach.request(
                f"capability:{done}.undo", {"order": order}, key=f"{order}/{done}/undo", max_attempts=10
            )
            undone.raise_for_status()  # what cannot be undone is a dead letter, and a matter for people
        return Trip(ok=False, why=f"{receipt.code}: {receipt.error_message}")
    return Trip(ok=True)
