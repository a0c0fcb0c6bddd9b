"""What `send` gives back: the message's id, and what can be asked of it."""

from collections.abc import AsyncIterator
from typing import Any, TypeVar, overload

import msgspec

from reach.envelope.ledger import OPEN_STATES, LegState
from reach.errors import Timeout
from reach.sdk.durations import Duration, maybe_ms
from reach.sdk.exchange import Exchange
from reach.sdk.pending import Pending, Progress
from reach.sdk.receipts import Receipt, Receipts, receipt_of

T = TypeVar("T")


#: A run has begun that `attempt` does not count yet; one that has asked goes on with the answer.
_BEGUN = frozenset({LegState.RUNNING, LegState.PARKED})


class LegStatus(msgspec.Struct, frozen=True):
    """Where one leg is: its state in the protocol's words, and who has it.

    `attempts`: how many of its runs have begun, also the one that runs now, or has asked; once the leg has ended, what its receipt says.
    """

    leg: int
    state: str
    agent: str | None
    instance: str | None
    attempts: int


class MessageStatus(msgspec.Struct, frozen=True):
    """What the ledger says now.

    state: accepted (no router has seen it, as far as is known here) | open | ended | forgotten (the ledger had it, and keeps nothing of it
    any more: records live for 60 s to 10 min after the end; the handle still has the receipt).
    """

    msg_id: str
    state: str
    legs: tuple[LegStatus, ...] = ()


class Handle:
    """A message that was accepted: its sending was acknowledged by Redis.

    Attributes:
        msg_id: Its id; a `key` gives the same id each time.
    """

    def __init__(self, exchange: Exchange, pending: Pending, tomb_ms: int) -> None:
        self.msg_id = pending.msg_id
        self._exchange = exchange
        self._pending = pending
        self._tomb_ms = tomb_ms
        exchange.answering.expect(pending)
        self._seen = False  # in the ledger

    async def status(self) -> MessageStatus:
        """Ask the ledger where the message is. Cancelling is safe.

        Raises:
            BackendError: Redis cannot be asked, or the client is closed.
        """
        self._exchange.check_open()
        record = await self._exchange.backend.inspect(self._pending.partition, self.msg_id)
        if record is None:
            return MessageStatus(self.msg_id, "forgotten" if self._seen or self._pending.was_heard_of else "accepted")
        self._seen = True
        legs = tuple(
            LegStatus(
                number,
                leg.state.value,
                (leg.by_agent or leg.agent) or None,
                (leg.by_instance if leg.by_agent else leg.instance) or None,
                leg.attempts if leg.finished_at_ms else leg.attempt + (leg.state in _BEGUN),
            )
            for number, leg in sorted(record.legs.items())
        )
        is_open = any(leg.state in OPEN_STATES for leg in record.legs.values())
        return MessageStatus(self.msg_id, "open" if is_open else "ended", legs)

    @overload
    async def receipt(self, timeout: Duration | None = None) -> Receipt[Any]: ...
    @overload
    async def receipt(self, timeout: Duration | None = None, *, returns: type[T]) -> Receipt[T]: ...
    async def receipt(self, timeout: Duration | None = None, *, returns: Any = Any) -> Receipt[Any]:
        """Wait for the receipt: of the only leg, or of the first one with scope all.

        Args:
            timeout: How long to wait here; the message goes on. None: until it ends, which it does by its own deadline.
            returns: What the output is read as.

        Raises:
            Timeout: It has not ended within `timeout`.
        """
        return (await self.receipts(timeout, returns=returns))[0]

    @overload
    async def receipts(self, timeout: Duration | None = None) -> Receipts[Any]: ...
    @overload
    async def receipts(self, timeout: Duration | None = None, *, returns: type[T]) -> Receipts[T]: ...
    async def receipts(self, timeout: Duration | None = None, *, returns: Any = Any) -> Receipts[Any]:
        """Wait until every leg has ended. Arguments and errors as `receipt`; cancelling is safe."""
        ms = maybe_ms(timeout, "timeout", least=0)
        if not await self._pending.wait(self._exchange.clock, ms):
            text = f"no receipt within {ms} ms; the message goes on"
            raise Timeout(text, code="wait.over", details={"msg_id": self.msg_id})
        return receipts_of(self._pending, returns)

    async def cancel(self) -> bool:
        """End what is still open of it, with a `cancelled` receipt per leg; a running handler is cancelled at once.

        Its holder hears a hint of it, within about 0.1 s; where that is lost, it is told at its next renewal, within 5 s.

        Returns:
            True if it is cancelled (also one that no router has seen yet), False if it had ended.

        Raises:
            BackendError: Redis cannot be asked (calling again is safe), or the client is closed.
        """
        pending = self._pending
        self._exchange.check_open()
        if pending.was_ended:  # also where the ledger has forgotten it since: a tombstone would stop nothing
            return False
        result = await self._exchange.backend.cancel(
            pending.partition, self.msg_id, pending.sender, pending.round, self._tomb_ms
        )
        return result.what in ("cancelled", "tombstone")

    async def answer(self, value: object, *, leg: int | None = None) -> None:
        """Answer what is asked (`progress` gives it as kind `input_required`): the message goes on where it can.

        Args:
            value: Anything that JSON can say, at most 64 KiB.
            leg: With scope all: whose question; None: the only one that is open.

        Raises:
            AnswerRefused: Nothing is asked (`answer.not_asked`), several legs ask (`answer.which_leg`), or that question has been
                answered, or is not open any more (`answer.stale`).
            BodyError: The value cannot be written as JSON, or is too large.
            BackendError: Redis cannot be asked: it may have been answered, or the client is closed.
        """
        self._exchange.check_open()
        await self._exchange.answering.answer(self._pending, value, leg)

    async def progress(self) -> AsyncIterator[Progress]:
        """What the handler tells on the way, and what it asks (see `answer`), until the end.

        Whoever reads too slowly misses the oldest (256 are kept).
        """
        pending, seen = self._pending, 0
        while True:
            missed = pending.noticed - len(pending.notices)
            fresh = list(pending.notices)[max(seen - missed, 0) :]
            seen = pending.noticed
            for notice in fresh:
                leg = notice.fields.get("leg", 0)
                data = notice.fields.get("prompt" if notice.notice == "input_required" else "data")
                yield Progress(notice.notice, leg if isinstance(leg, int) else 0, data)
            if seen < pending.noticed:
                continue
            if pending.done.done():
                return
            await pending.news()


def receipts_of(pending: Pending, returns: Any) -> Receipts[Any]:
    """The receipts in the order of the legs."""
    receipts = (receipt_of(record, returns) for _, record in sorted(pending.receipts.items()))
    return Receipts(receipts, pending.stages)
