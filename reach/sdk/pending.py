"""One message that a client waits for: what has come for it, and whether that is the end."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from reach.backend.steps import Record
from reach.clock import Cancel, Clock
from reach.envelope.ledger import LegState
from reach.envelope.receipt import Notice, ReceiptRecord, Status
from reach.envelope.rules import MAX_STAGES
from reach.errors import EnvelopeError

MAX_NOTICES = 256
#: refusals that name no agent concern the whole message, however many legs it would have had
_REFUSALS = ("envelope.", "target.", "type.", "ttl.zero", "overloaded", "auth.", "loop.", "budget.")


def next_round(record: Record, sender: str) -> int:
    """The round in which a sender asks for a message that the ledger knows: a new one only where again can help."""
    head = record.head
    if head.tombstones or head.sender != sender:
        return 1
    retryable = any(leg.finished_at_ms and leg.status == "retryable" for leg in record.legs.values())
    return head.round + 1 if retryable and head.open <= 0 else head.round


class Progress(msgspec.Struct, frozen=True):
    """A sign of life from the handler, or a question.

    kind: received | progress: `data` is what it gave to `ctx.progress` | input_required: `data` is what it asks.
    """

    kind: str
    leg: int
    data: Any


class Question(msgspec.Struct, frozen=True):
    """What a leg asks. `open_until_ms` by the monotonic clock; `left_ms`: of the message's total, once it is answered."""

    leg: int
    hand: str
    prompt: Any
    open_until_ms: int
    left_ms: int


class Waiters:
    """Those who wait for something to change. For one event loop."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    def wake(self) -> None:
        """Let everybody look again."""
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self) -> None:
        """Wait for the next `wake`. Cancelling is safe."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(waiter)
        try:
            await waiter
        finally:
            self._waiting.discard(waiter)


class Pending:
    """What is known of a message that was, or is being, sent. The first terminal receipt per leg of its round wins."""

    def __init__(
        self, msg_id: str, partition: int, *, sender: str, broadcast: bool, deadline_at_ms: int, fixed: bool = False
    ) -> None:
        """`deadline_at_ms`: total, by the monotonic clock of the process. `fixed`: the caller set it, and nothing raises it."""
        self.msg_id = msg_id
        self.partition = partition
        self.sender = sender
        self.broadcast = broadcast
        self.started_at_ms = 0
        self.counts_from_ms = 0  # total does: when it was sent, or not before
        self.deadline_at_ms = deadline_at_ms
        self.fixed = fixed
        self.owned = False  # nobody but this caller waits for it, or may ask for it again: giving it up cancels it
        self.sent = False  # it may have reached Redis
        self.given_up = False
        self.goes_on = False  # the ledger has a later deadline than this caller
        self.questions: dict[int, Question] = {}  # leg -> what it asks now
        self.answers = False  # its caller can answer; a fixed total stands still only then
        self.on_input: Callable[[Any], Any] | None = None
        self.raises = False  # it is a request, out of which that comes
        self.problem: Exception | None = None  # what that has raised
        self.paused = False  # its deadline is that of a question
        self.total_ms = 0  # while it is paused
        self.looks = 0  # readings of the record that were asked for and are not done
        self.fingerprint = ""
        self.known_as = ""  # the fingerprint that the ledger has under this id already
        self.correlation_id = ""
        self.type = ""
        self.on_receipt: Callable[[ReceiptRecord], None] = _nobody
        self.traceparent: str | None = None
        self.accepted = False
        self.routed = False  # a router has seen it: in its order line it has its place
        self.round = 1
        self.receipts: dict[int, ReceiptRecord] = {}
        self.legs = 0 if broadcast else 1  # how many there are; 0: not known yet
        self.agents: dict[int, str] = {}
        self.stages: tuple[int, ...] = ()  # of a process_order: how many legs each has, in the order of the legs
        self.notices: deque[Notice] = deque(maxlen=MAX_NOTICES)
        self.noticed = 0  # how many notices there were: a reader of `notices` finds its place by it
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.timers: list[Cancel] = []
        self._watchers: list[Callable[[], None]] = []
        self._waiters = Waiters()

    def take_notice(self, notice: Notice) -> int:
        """Keep a notice. Returns the total in ms that it names, 0 for none."""
        total_ms = 0
        if notice.notice == "routed":
            total_ms = self._routed(notice.fields)
        else:
            self.notices.append(notice)
            self.noticed += 1
        self._tell()
        return total_ms

    def _routed(self, fields: dict[str, Any]) -> int:
        round_, legs, total_ms = fields.get("round"), fields.get("legs"), fields.get("total_ms")
        if self.done.done():
            return 0
        self.routed = True
        if isinstance(round_, int):
            self.round = round_
            self.receipts = {leg: r for leg, r in self.receipts.items() if r.round >= round_}
        if self.broadcast and isinstance(legs, list):
            rows = [row for row in legs if isinstance(row, dict) and "leg" in row and row.get("observed") is not True]
            self.legs = len(rows)
            self.agents = {row["leg"]: row.get("agent") or "" for row in rows}
            if isinstance(count := fields.get("stages"), int):
                stages = [row.get("stage") for row in rows]
                self.stages = tuple(stages.count(number) for number in range(min(count, MAX_STAGES)))
            self._finish_if_whole()
        elif self.broadcast and isinstance(legs, int):
            self.legs = legs
            self._finish_if_whole()
        return total_ms if isinstance(total_ms, int) else 0

    def take_receipt(self, receipt: ReceiptRecord) -> bool:
        """Keep a terminal receipt, unless it is of an older round or its leg has one. True: it was the first."""
        if self.done.done() or receipt.round < self.round or receipt.leg in self.receipts:
            return False
        self.receipts[receipt.leg] = receipt
        self.on_receipt(receipt)
        self.accepted = True  # also where the reply to its sending was lost: the ledger has it
        if self.broadcast and not self.legs and not receipt.target_agent and receipt.code.startswith(_REFUSALS):
            self.legs = 1
        self._finish_if_whole()
        self._tell()
        return True

    def take_record(self, record: Record, read: Callable[[bytes], ReceiptRecord]) -> None:
        """Take over what the ledger says: after a reconnect, or when a mailbox was lost with what lay in it."""
        if record.head.sender != self.sender:
            return  # somebody else's message: ours was or will be answered as a conflict
        if self.broadcast and not self.legs:
            self.legs = record.head.legs - sum(leg.state is LegState.OBSERVED for leg in record.legs.values())
            self.stages = tuple(stage.count for stage in record.head.stages)
        if record.head.round >= self.round:
            self.routed = True
            self._tell()
        for data in record.receipts.values():
            self.take_receipt(read(data))
        self._finish_if_whole()

    @property
    def unsure(self) -> bool:
        """A receipt has come and nothing says how many there will be: the notice was lost, the record knows."""
        return bool(self.receipts) and not self.legs

    @property
    def was_heard_of(self) -> bool:
        """Whether a router or the ledger has said anything of it."""
        return bool(self.agents or self.noticed or any(map(_from_afar, self.receipts.values())))

    @property
    def was_ended(self) -> bool:
        """Whether it has ended, and not only here."""
        return self.done.done() and all(map(_from_afar, self.receipts.values()))

    @property
    def open_legs(self) -> list[int]:
        """Those without a receipt, as far as it is known how many there are."""
        return [leg for leg in range(max(self.legs, 1)) if leg not in self.receipts]

    def refuse(self, error: EnvelopeError, *, at_ms: int, durability: str) -> None:
        """End it with what the rules say: it was not sent."""
        if not self.done.done():
            self.receipts = {
                0: ReceiptRecord(
                    msg_id=self.msg_id,
                    task_id=self.msg_id,
                    round=self.round,
                    status=Status.FAILED,
                    code=error.code,
                    error_message=error.message,
                    details={**error.details, "local": True, "accepted": self.accepted},
                    finished_at=at_ms,
                    durability=durability,
                )
            }
            self.legs = 1
            self.on_receipt(self.receipts[0])
            self._finish_if_whole()

    def end(
        self,
        code: str,
        message: str,
        *,
        at_ms: int,
        durability: str,
        retry_after_ms: int | None = None,
        **details: Any,
    ) -> None:
        """End every leg that has no receipt with one that is made here."""
        if self.done.done():
            return
        for leg in self.open_legs:
            self.receipts[leg] = ReceiptRecord(
                msg_id=self.msg_id,
                task_id=self.msg_id,
                leg=leg,
                round=self.round,
                status=Status.RETRYABLE,
                code=code,
                error_message=message,
                details={**details, "local": True, "accepted": self.accepted},
                target_agent=self.agents.get(leg) or None,
                retry_after_ms=retry_after_ms,
                finished_at=at_ms,
                durability=durability,
            )
            self.on_receipt(self.receipts[leg])
        self.legs = max(self.legs, 1)
        self._finish_if_whole()

    def fail(self, problem: Exception) -> None:
        """End the wait of a `request` with what its `on_input` has raised; the message, and whoever else waits, go on."""
        if not self.done.done():
            self.problem = problem
            self.done.set_result(None)
            self._tell()

    def _finish_if_whole(self) -> None:
        if self.legs and len(self.receipts) >= self.legs and not self.done.done():
            self.done.set_result(None)
            self._tell()

    def _tell(self) -> None:
        self._waiters.wake()
        for watcher in self._watchers:
            watcher()

    def watch(self, watcher: Callable[[], None]) -> None:
        """Have `watcher` called after each notice, each receipt and the end."""
        self._watchers.append(watcher)

    async def news(self) -> None:
        """Wait for the next notice, receipt or the end."""
        await self._waiters.wait()

    async def placed(self) -> None:
        """Wait until a router has seen it, or it has ended, which it does by its own deadline. Cancelling is safe."""
        while not (self.routed or self.done.done()):
            await self.news()

    async def wait(self, clock: Clock, ms: int | None = None) -> bool:
        """Wait for the end, at most `ms`. Cancelling ends the wait alone. False: not yet."""
        if self.done.done() or ms == 0:
            return self.done.done()
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def wake(_: object = None) -> None:
            if not waiter.done():
                waiter.set_result(None)

        self.done.add_done_callback(wake)
        cancel = clock.call_later(ms, wake) if ms is not None else None
        try:
            await waiter
        finally:
            self.done.remove_done_callback(wake)
            if cancel is not None:
                cancel()
        return self.done.done()

    def close(self) -> None:
        """Take its timers back."""
        for cancel in self.timers:
            cancel()
        self.timers.clear()


def _nobody(_: ReceiptRecord) -> None:
    """Nobody hears of receipts."""


def _from_afar(receipt: ReceiptRecord) -> bool:
    """No receipt that was made here: those have had no run. Details of the others are the handler's, and may say anything."""
    return receipt.attempts > 0 or "local" not in receipt.details
