"""Settling for agents that run no scripts: they append their receipt to `receipts`, a router settles it (PROTOCOL, section 10)."""

import asyncio

from reach.backend.port import Backend
from reach.backend.steps import Record, Settlement, WorkEntry
from reach.clock import Clock
from reach.delivery.answers import read_answer
from reach.delivery.judge import Reference, read_reference
from reach.delivery.spending import Spender, Used, beyond_needs, spend, used_by
from reach.delivery.trail import Trail, conversation_of
from reach.envelope.codec import decode
from reach.errors import SERVER_ERRORS, BackendError, EnvelopeError
from reach.log import PacedLog, event_log

log = event_log("reach.router")

MAX_AT_ONCE = 32


class OnBehalf:
    """Applies receipts entries. Twice is once: the hand proves possession, and the second time it is stale."""

    def __init__(self, backend: Backend, trail: Trail, *, clock: Clock | None = None) -> None:
        self._backend, self._trail = backend, trail
        self._log = PacedLog(log, clock)

    async def settle(self, partition: int, entries: list[WorkEntry]) -> list[WorkEntry]:
        """Settle what these entries say; all of them then need nothing more. Cancelled: some may have been settled.

        Raises:
            BackendUnavailable: Redis is away; the entries stay pending.
        """
        for start in range(0, len(entries), MAX_AT_ONCE):
            part = entries[start : start + MAX_AT_ONCE]
            await asyncio.gather(*(self._settle(partition, entry) for entry in part))
        return entries

    async def _settle(self, partition: int, entry: WorkEntry) -> None:
        reference = read_reference(entry.fields)
        if reference is None:
            self._log.info("receipt without a message", entry=entry.id, partition=partition)
            return
        try:
            await self._apply(partition, reference, entry.fields.get(b"r", b""))
        except SERVER_ERRORS:
            raise
        except BackendError as error:  # the ledger record is none: no answer can be applied to it
            self._log.warning("receipt not applied", msg_id=reference.msg_id, error=str(error))

    async def _apply(self, partition: int, reference: Reference, data: bytes) -> None:
        answer, wait_ms = read_answer(data)
        used = used_by(answer)
        record = await self._backend.inspect(partition, reference.msg_id, reference.leg, envelope=True)
        leg = record.legs.get(reference.leg) if record is not None else None
        if record is None or leg is None or leg.hand != reference.hand or not leg.agent:
            self._log.info("stale receipt", msg_id=reference.msg_id, leg=reference.leg)
            return
        conversation, attempt = conversation_of(record), leg.attempt + 1
        run = Spender(conversation, reference.msg_id, reference.leg, record.head.round, attempt, leg.hand)
        await spend(self._backend, run, _beyond(used, record), self._log)
        settlement = Settlement(reference.msg_id, reference.leg, reference.hand, answer, wait_ms=wait_ms)
        verdicts = await self._backend.settle(partition, leg.agent, [settlement])
        if verdicts[0] == "done":
            after = await self._backend.inspect(partition, reference.msg_id, reference.leg)
            self._trail.settled(partition, record, reference, answer, after)
        else:
            self._log.info("receipt came late", msg_id=reference.msg_id, verdict=verdicts[0])


def _beyond(used: Used, record: Record) -> Used:
    """What it used beyond what its message had said to need; the whole of it where the bytes of the message are lost."""
    try:
        return beyond_needs(used, decode(record.envelope, max_bytes=len(record.envelope))) if record.envelope else used
    except EnvelopeError:
        return used
