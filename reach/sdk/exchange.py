"""Everything that a client has outstanding: one mailbox, one map of waiting messages, and the moments at which waiting ends.

Whatever Redis does or forgets, every wait here has an end: at total + 100 ms the ledger is asked to end the message, at total + 250 ms
the client ends it by itself.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from reach.backend.port import Backend
from reach.backend.steps import MailEntry
from reach.clock import Clock
from reach.envelope.codec import DEFAULT_MAX_BYTES, encode
from reach.envelope.ledger import LegState
from reach.envelope.message import Envelope, lane_of
from reach.envelope.receipt import Notice, ReceiptRecord
from reach.envelope.records import decode_notice, decode_receipt
from reach.envelope.rules import fingerprint, partition_of
from reach.errors import BackendDenied, BackendError, BackendFull, BackendUnavailable, EnvelopeError, RecordError
from reach.log import PacedLog, event_log
from reach.sdk.answering import Answering
from reach.sdk.caller_trail import CallerTrail
from reach.sdk.giving_up import LATE_MS, GivingUp
from reach.sdk.mailbox import Keeper, Mailbox, Reader
from reach.sdk.pending import Pending, next_round
from reach.sdk.receipt_hook import ReceiptHook
from reach.service import Service, Supervisor, Tasks, Vitals, pause_ms
from reach.tracing.contents import asked_contents
from reach.tracing.hops import HopRecorder
from reach.tracing.time_base import time_base

log = event_log("reach.client")

ASK_AFTER_MS = 100
END_AFTER_MS = 250
RECORDS_LEFT_MS = 1_000

Make = Callable[[int], Awaitable[Envelope]]
"""Makes the envelope; the argument is how many ms are left until total."""


class Exchange:
    """The outstanding messages of one client. For one event loop."""

    def __init__(
        self,
        backend: Backend,
        mailbox_id: str,
        *,
        clock: Clock,
        rng: random.Random,
        node: str = "",
        on_control: Callable[[Notice], None] = lambda _: None,
        on_made: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_control` hears the registrar's answers, `on_made` that the mailbox had to be made anew."""
        self.backend = backend
        self.clock = clock
        self.rng = rng
        self.mailbox = Mailbox(backend, mailbox_id, self._on_entry, self._on_back, on_made)
        self.recorder = HopRecorder(
            backend.record,
            time_base(clock),
            node=node,
            worker=mailbox_id,
            ask_ms=backend.now_ms,
            contents=asked_contents(backend),
            tell=backend.tell_recorder,
        )
        self.trail = CallerTrail(self.recorder, clock)
        self.giving_up = GivingUp(backend, clock, rng)
        self.answering = Answering(self, self._move, self._look)
        self._log = PacedLog(log, clock)
        self.receipt_hook: ReceiptHook | None = None
        self._on_control = on_control
        self._pending: dict[str, list[Pending]] = {}
        self._tasks = Tasks()
        self._closed = False
        services: list[Service] = [Keeper(self.mailbox), Reader(self.mailbox, backend)]
        self._services = Supervisor(services, clock=clock, rng=rng)
        self._recording = Supervisor([self.recorder], clock=clock, rng=rng)

    def __len__(self) -> int:
        """How many messages are waited for."""
        return sum(map(len, self._pending.values()))

    @property
    def vitals(self) -> dict[str, Vitals]:
        """How its services do, by name."""
        return self._services.vitals | self._recording.vitals

    async def start(self) -> None:
        """Make the mailbox and read it.

        Raises:
            BackendError: The mailbox cannot be made.
        """
        await self.mailbox.make()
        self._services.start()
        self._recording.start()

    async def close(self) -> None:
        """End what is still waited for, stop reading, write the last hop records. Cancels what is this client's alone. Twice is once."""
        if self._closed:
            return
        self._closed = True
        for pending in [p for waiting in self._pending.values() for p in waiting]:
            self.giving_up.begin(pending)
            self._end(pending, "backend.unavailable", "the client was closed")
            self.drop(pending)
        if self.receipt_hook is not None:
            await self.receipt_hook.close()
        await self._tasks.close()
        await self.giving_up.close()
        await self._services.stop(drain_ms=0)
        try:
            left = await self.recorder.close(RECORDS_LEFT_MS)
        finally:  # not before: its service may be in the middle of a batch
            await self._recording.stop(drain_ms=0)
        if left:
            log.warning("hop records lost", extra={"count": left})
        try:
            await self.backend.drop_mailbox(self.mailbox.id)
        except BackendError as error:
            log.info("mailbox left to expire", extra={"error": error.code})

    def check_open(self) -> None:
        """Nothing can be sent or asked by a client that is closed.

        Raises:
            BackendUnavailable: It is (`backend.closed`).
        """
        if self._closed:
            text = f"this client of {self.mailbox.id} is closed: connect a new one"
            raise BackendUnavailable(text, code="backend.closed", retryable=False)

    # ------------------------------------------------------------ one message

    def open(
        self,
        msg_id: str,
        *,
        sender: str,
        broadcast: bool,
        total_ms: int,
        fixed: bool = False,
        order_key: str | None = None,
    ) -> Pending:
        """Wait for a message from now on; it ends by total + 250 ms whatever happens. Give it back with `drop`.

        `fixed`: the caller set total, so that neither a slow agent nor an older duplicate can make the wait longer. `order_key`: it is
        looked for in its partition.

        Raises:
            BackendUnavailable: The client is closed.
        """
        self.check_open()
        now = self.clock.monotonic_ms()
        partition = partition_of(msg_id, order_key, self.backend.partitions)
        pending = Pending(
            msg_id, partition, sender=sender, broadcast=broadcast, deadline_at_ms=now + total_ms, fixed=fixed
        )
        pending.started_at_ms = pending.counts_from_ms = now
        if self.receipt_hook is not None:
            pending.on_receipt = self.receipt_hook.hear
        self._pending.setdefault(msg_id, []).append(pending)
        self._arm(pending)
        return pending

    def own(self, run: Coroutine[Any, Any, None], name: str) -> None:
        """Run something beside what waits; closing the exchange cancels it."""
        self._tasks.start(run, name)

    def drop(self, pending: Pending) -> None:
        """Forget it: nothing of it stays in the map, no timer, whoever still holds it. Twice is once."""
        pending.close()
        waiting = self._pending.get(pending.msg_id, [])
        if pending in waiting:
            waiting.remove(pending)
        if not waiting:
            self._pending.pop(pending.msg_id, None)

    def leave(self, pending: Pending) -> None:
        """Its caller was cancelled: what is the caller's alone is cancelled as well, and nobody waits for that."""
        if pending.sent:
            self.giving_up.begin(pending)
        self.drop(pending)

    async def choose_round(self, pending: Pending) -> None:
        """Give a message whose id may have been used before its round: one more than the record's where that has ended retryable.

        Raises:
            BackendError: The record cannot be read.
        """
        record = await self.backend.inspect(pending.partition, pending.msg_id)
        if record is not None:
            pending.round = next_round(record, pending.sender)
            if record.head.sender == pending.sender:
                pending.known_as = record.head.fingerprint

    async def deliver(self, pending: Pending, make: Make) -> None:
        """Put it into the ingress. An unknown outcome is sent again with the same id until the deadline: a duplicate runs nothing.

        Ends with the message accepted, or with the message ended here.

        Raises:
            EnvelopeError: It cannot be sent as it is.
            BackendError: Redis refuses (not: cannot be reached).
        """
        failures = 0
        while not pending.done.done():
            left_ms = pending.deadline_at_ms - self.clock.monotonic_ms()
            try:
                # Real seconds: what is waited for here is a socket.
                async with asyncio.timeout(max(left_ms + END_AFTER_MS, 1) / 1000):
                    envelope = await make(max(left_ms, 1))
                    pending.sent = True
                    await self.backend.submit(
                        pending.partition, lane_of(envelope.priority), self._bytes(pending, envelope)
                    )
            except BackendFull as error:
                if not failures:
                    self._end(pending, "overloaded", error.message, error.retry_after_ms, cause=error.code)
                    return
            except TimeoutError:
                self._end_late(pending)
                return
            except BackendDenied:
                raise
            except BackendError as error:  # also a key of another type, which somebody heals
                self._log.info("send again", msg_id=pending.msg_id, error=error.code, failures=failures)
            else:
                pending.accepted = True
                return
            failures += 1
            await pending.wait(self.clock, pause_ms(failures, self.rng))

    def _bytes(self, pending: Pending, envelope: Envelope) -> bytes:
        data = encode(envelope)
        if len(data) > DEFAULT_MAX_BYTES:
            text = f"{len(data)} bytes, at most {DEFAULT_MAX_BYTES}"
            raise EnvelopeError(
                "envelope.too_large", text, details={"bytes": len(data), "max_bytes": DEFAULT_MAX_BYTES}
            )
        if envelope.task_id is not None:  # only a key gives one id to two sends
            pending.fingerprint = fingerprint(envelope)
            others = self._pending.get(pending.msg_id, ())
            known = {pending.known_as, *(other.fingerprint for other in others)} - {"", pending.fingerprint}
            # Refused here and not by a router alone: a receipt of the other content may be on its way, and would be taken for the answer.
            if known:
                text = f"the key {envelope.task_id[:64]!r} is used for another content"
                raise EnvelopeError("envelope.id_conflict", text, msg_id=pending.msg_id)
        pending.correlation_id = envelope.conversation
        pending.traceparent = envelope.traces.traceparent
        pending.type = envelope.type
        return data

    # ------------------------------------------------------------ its moments

    def _arm(self, pending: Pending) -> None:
        left_ms = pending.deadline_at_ms - self.clock.monotonic_ms()
        pending.timers = [
            self.clock.call_later(left_ms + ASK_AFTER_MS, lambda: self._begin(pending, self._ask)),
            self.clock.call_later(left_ms + END_AFTER_MS, lambda: self._end_late(pending)),
        ]

    def postpone(self, pending: Pending, wait_ms: int) -> None:
        """It is to be handed over in so long: all its moments count from then."""
        if wait_ms <= 0:
            return
        total_ms = pending.deadline_at_ms - pending.counts_from_ms
        pending.close()
        pending.counts_from_ms = self.clock.monotonic_ms() + wait_ms
        pending.deadline_at_ms = pending.counts_from_ms + total_ms
        self._arm(pending)

    def _move(self, pending: Pending, deadline_at_ms: int) -> None:
        """It asks, or was answered: another moment ends the wait."""
        pending.close()
        pending.deadline_at_ms = deadline_at_ms
        self._arm(pending)

    def _extend(self, pending: Pending, deadline_at_ms: int) -> None:
        """The ledger has a later deadline than the caller knows."""
        if deadline_at_ms <= pending.deadline_at_ms or pending.done.done():
            return
        if not pending.fixed:
            self._move(pending, deadline_at_ms)
            return
        pending.goes_on = deadline_at_ms >= pending.deadline_at_ms + END_AFTER_MS
        if not pending.goes_on:  # it was accepted a little late: the ledger may still end it in time
            left_ms = deadline_at_ms - self.clock.monotonic_ms()
            pending.timers.append(self.clock.call_later(left_ms, lambda: self._begin(pending, self._ask)))

    def _end_late(self, pending: Pending) -> None:
        after_ms = self.clock.monotonic_ms() - pending.started_at_ms
        if pending.sent:
            self.giving_up.begin(pending, after_ms=LATE_MS)
        more: dict[str, Any] = {"state": LegState.PARKED.value} if pending.questions else {}
        text = "no receipt within the caller's total"
        if pending.goes_on and not pending.owned:
            text += "; the message goes on, by the deadline of whoever sent it first"
            self._end(pending, "timeout.total", text, waited_ms=after_ms, goes_on=True, **more)
        else:
            text += "" if pending.accepted else "; it was never accepted"
            self._end(pending, "timeout.total", text, waited_ms=after_ms, **more)

    def _end(
        self, pending: Pending, code: str, message: str, retry_after_ms: int | None = None, **details: object
    ) -> None:
        at_ms, durability = self.clock.wall_ms(), self.backend.durability
        pending.end(code, message, at_ms=at_ms, durability=durability, retry_after_ms=retry_after_ms, **details)

    def refuse(self, pending: Pending, error: EnvelopeError) -> None:
        """End a message that breaks a rule, and was not sent."""
        pending.refuse(error, at_ms=self.clock.wall_ms(), durability=self.backend.durability)

    async def _ask(self, pending: Pending) -> None:
        """The caller's own `due`: the ledger ends the message, or says until when it goes on."""
        asked_at_ms = self.clock.monotonic_ms()
        report = await self.backend.due(pending.partition, pending.msg_id)
        if report.deadline_at_ms > report.now_ms:
            self._extend(pending, asked_at_ms + report.deadline_at_ms - report.now_ms)
            await self._read_record(pending)  # it may ask, and the notice be lost
        else:
            await self._read_record(pending)

    def _look(self, pending: Pending) -> None:
        """Have the record read. One reading at a time: asked for again meanwhile, once more after it, since it may have come before."""
        pending.looks += 1
        if pending.looks == 1:
            self._begin(pending, self._read_until_fresh)

    async def _read_until_fresh(self, pending: Pending) -> None:
        try:
            while pending.looks and not pending.done.done():
                asked = pending.looks
                await self._read_record(pending)
                pending.looks -= asked
        finally:
            pending.looks = 0

    async def _read_record(self, pending: Pending) -> None:
        record = await self.backend.inspect(pending.partition, pending.msg_id)
        self.answering.compare(pending, record)
        if record is not None:
            pending.take_record(record, decode_receipt)

    def _begin(self, pending: Pending, ask: Callable[[Pending], Awaitable[None]]) -> None:
        if not pending.done.done():
            self._tasks.start(self._asked(pending, ask), f"ask {pending.msg_id}")

    async def _asked(self, pending: Pending, ask: Callable[[Pending], Awaitable[None]]) -> None:
        try:
            await ask(pending)
        except (BackendError, RecordError) as error:
            # Not the last word: the mailbox goes on, and the local end at total + 250 ms holds.
            self._log.info("the ledger did not answer", msg_id=pending.msg_id, error=error.code)

    # ------------------------------------------------------------ what comes

    def _on_back(self) -> None:
        """After a loss: what was written meanwhile may lie in no mailbox, so every record is read."""
        for pending in [p for waiting in self._pending.values() for p in waiting]:
            self._look(pending)

    def _on_entry(self, entry: MailEntry) -> None:
        try:
            if entry.kind == "receipt":
                self._on_receipt(entry.partition, decode_receipt(entry.data))
            elif entry.kind == "notice":
                self._on_notice(decode_notice(entry.data))
        except RecordError as error:
            self._log.warning("mail that cannot be read", id=entry.id, error=error.message)

    def _on_receipt(self, partition: int, receipt: ReceiptRecord) -> None:
        for pending in list(self._pending.get(receipt.msg_id, ())):
            if pending.take_receipt(receipt):
                self.trail.delivered(partition, pending, receipt)
            if pending.unsure and not pending.looks:
                self._look(pending)

    def _on_notice(self, notice: Notice) -> None:
        if notice.notice in ("registered", "refused", "done"):
            self._on_control(notice)
            return
        for pending in list(self._pending.get(notice.msg_id, ())):
            total_ms = pending.take_notice(notice)
            moved = self.answering.hear(pending, notice)
            if total_ms and not moved:
                self._extend(pending, pending.counts_from_ms + total_ms)
