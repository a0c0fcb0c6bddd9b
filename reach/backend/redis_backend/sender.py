"""The sender's side: ingress, mailboxes, records, cancel."""

from collections.abc import Mapping, Sequence
from typing import cast

import msgspec

from reach.backend.bounds import full_door
from reach.backend.redis_backend.side import Side
from reach.backend.redis_backend.streams import Entry, lost, reading
from reach.backend.scripts import script
from reach.backend.steps import AnswerVerdict, CancelResult, MailEntry, Record
from reach.envelope.ledger import Head, Leg
from reach.errors import BackendError

_head = msgspec.msgpack.Decoder(Head)
_leg = msgspec.msgpack.Decoder(Leg)


class SenderSide(Side):
    """What the SDK's client does; see `reach.backend.port` for what each method promises."""

    async def submit(self, partition: int, lane: str, envelope: bytes) -> str:
        return await self._enter(partition, lane, "submit", self._keys.ingress(partition, lane), envelope)

    async def requeue(self, partition: int, lane: str, envelope: bytes, letter: str) -> bool:
        return bool(await self._enter(partition, lane, "requeue", self._keys.due(partition), envelope, letter, lane))

    async def _enter(self, partition: int, lane: str, step: str, key: str, *args: bytes | str) -> str:
        """Put an envelope into a door that is mended where it has to be."""
        await self._refresh_bounds()
        most = self._bounds.max_ingress
        try:
            added = await self._link.run(script(step), key, most, *args)
        except BackendError as error:
            if not lost(error):
                raise
            await self._streams.heal((self._keys.ingress(partition, lane),), "routers")
            added = await self._link.run(script(step), key, most, *args)
        if isinstance(added, int):
            raise full_door(partition, lane, added)
        return str(added, "ascii")

    async def keep_mailbox(
        self,
        mailbox: str,
        partitions: Sequence[int],
        ttl_ms: int = 60_000,
        read: Mapping[int, str] | None = None,
    ) -> bool:
        cursors = read or {}
        calls = [(self._keys.due(each), mailbox, ttl_ms, cursors.get(each, "0")) for each in partitions]
        replies = await self._link.run_each(script("keep_mailbox"), calls)
        for reply in replies:
            if isinstance(reply, BackendError):
                raise reply
        return any(replies)

    async def drop_mailbox(self, mailbox: str) -> None:
        await self._link.batch([["DEL", self._keys.mail(p, mailbox)] for p in range(self.partitions)])

    async def read_mail(
        self, mailbox: str, cursors: Mapping[int, str], block_ms: int, max_entries: int = 200
    ) -> list[MailEntry]:
        keys = {self._keys.mail(partition, mailbox): partition for partition in cursors}
        read = await self._streams.read(dict(zip(keys, cursors.values(), strict=True)), max_entries, block_ms)
        return [_mail(keys[key], entry) for key, entries in read for entry in entries]

    async def inspect(self, partition: int, msg_id: str, leg: int = -1, *, envelope: bool = False) -> Record | None:
        reply = await self._link.run(script("inspect"), self._keys.due(partition), msg_id, leg, int(envelope))
        if reply is None:
            return None
        now_ms, head, body, *rest = reply
        numbers, legs, receipts = rest[::3], rest[1::3], rest[2::3]
        with reading("the record", msg_id=msg_id):
            return Record(
                msg_id=msg_id,
                head=_head.decode(head),
                legs={int(n): _leg.decode(packed) for n, packed in zip(numbers, legs, strict=True)},
                envelope=body,
                receipts={int(n): receipt for n, receipt in zip(numbers, receipts, strict=True) if receipt},
                now_ms=now_ms,
            )

    async def cancel(self, partition: int, msg_id: str, sender: str, round: int, tomb_ms: int) -> CancelResult:
        what, closed = await self._link.run(script("cancel"), self._keys.due(partition), msg_id, sender, round, tomb_ms)
        return CancelResult(what.decode(), int(closed))

    async def answer(
        self, partition: int, msg_id: str, sender: str, leg: int, hand: str, value: bytes
    ) -> AnswerVerdict:
        argv = (msg_id, sender, leg, hand, value)
        verdict: bytes = await self._link.run(script("answer"), self._keys.due(partition), *argv)
        return cast("AnswerVerdict", verdict.decode())


def _mail(partition: int, entry: Entry) -> MailEntry:
    fields = entry.fields or {}
    if b"r" in fields:
        return MailEntry(partition, entry.id, "receipt", fields[b"r"])
    if b"n" in fields:
        return MailEntry(partition, entry.id, "notice", fields[b"n"])
    return MailEntry(partition, entry.id, "hello", b"")
