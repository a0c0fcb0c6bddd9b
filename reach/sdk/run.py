"""One message in the hands of a handler."""

import asyncio
from typing import Any

from reach.backend.steps import Taken
from reach.clock import Cancel
from reach.envelope.message import Envelope
from reach.sdk.context import Context


class Run:
    """One message in the hands of a handler. Moments by the monotonic clock."""

    __slots__ = (
        "alive_at_ms",
        "answered",
        "answered_mark",
        "busy",
        "context",
        "envelope",
        "given_up",
        "guards",
        "processing_ms",
        "started_at_ms",
        "taken",
        "task",
        "timers",
        "total_at_ms",
    )

    def __init__(self, taken: Taken, now_ms: int) -> None:
        self.taken = taken
        self.envelope: Envelope | None = None
        self.task: asyncio.Task[None] | None = None
        self.started_at_ms = self.alive_at_ms = now_ms
        self.processing_ms = taken.processing_ms
        self.total_at_ms = now_ms + max(taken.total_at_ms - taken.now_ms, 0)
        self.context: Context | None = None
        self.answered = False
        self.answered_mark: int | None = None  # when its answer set out for the ledger, for its hop record
        self.given_up = False
        self.guards: dict[str, None] = {}  # of the effects that it has asked for
        self.busy: asyncio.Future[Any] | None = None  # a thread that goes on after its run was given up
        self.timers: list[Cancel] = []

    def claim(self) -> bool:
        """True for the first who wants to answer: all others come too late."""
        first = not self.answered
        self.answered = True
        return first

    def cancel(self) -> None:
        """Cancel the handler, and what it has asked for: nobody wants its result any more."""
        self.given_up = True
        self.give_up_children()
        if self.task is not None:
            self.task.cancel()

    def give_up_children(self) -> None:
        """Cancel what the handler has asked for and still waits for: the run ends without a success, and the next one asks anew."""
        if self.context is not None:
            self.context.give_up()

    def close(self) -> None:
        """Take the timers back."""
        for cancel in self.timers:
            cancel()
        self.timers.clear()
