"""The sender's side: ingress, mailboxes, records, cancel."""

from collections.abc import Mapping, Sequence

from reach.backend.bounds import full_door
from reach.backend.keys import GROUP_ROUTERS
from reach.backend.memory_backend import parked
from reach.backend.memory_backend.cancel import cancel
from reach.backend.memory_backend.closing import receipt_text
from reach.backend.memory_backend.partition import bounds
from reach.backend.memory_backend.side import Side
from reach.backend.memory_backend.staging import numbers_asked
from reach.backend.memory_backend.streams import Fields, parse_id
from reach.backend.steps import AnswerVerdict, CancelResult, MailEntry, Record
from reach.envelope.ledger import LegState


class SenderSide(Side):
    """What the SDK's client does; see `reach.backend.port` for what each method promises."""

    async def submit(self, partition: int, lane: str, envelope: bytes) -> str:
        return await self._step("submit", lambda: self._enter(partition, lane, envelope))

    async def requeue(self, partition: int, lane: str, envelope: bytes, letter: str) -> bool:
        def step() -> bool:
            key = self._keys.dead(partition)
            dead = self._store.stream(key) if self._store.type_of(key) == "stream" else None
            if dead is None or letter not in {entry_id for entry_id, _ in dead.all()}:
                return False
            self._enter(partition, lane, envelope)
            dead.delete([letter])
            return True

        return await self._step("requeue", step)

    def _enter(self, partition: int, lane: str, envelope: bytes) -> str:
        key = self._keys.ingress(partition, lane)
        self._own_group(key, GROUP_ROUTERS)
        lying = len(self._own_stream(key))
        if lying >= bounds(self._store, self._keys).max_ingress:
            raise full_door(partition, lane, lying)
        return self._store.append(key, {b"e": envelope}) or ""

    async def keep_mailbox(
        self,
        mailbox: str,
        partitions: Sequence[int],
        ttl_ms: int = 60_000,
        read: Mapping[int, str] | None = None,
    ) -> bool:
        cursors = read or {}

        def step() -> bool:
            made = [
                self._keep_one(self._keys.mail(each, mailbox), ttl_ms, cursors.get(each, "0")) for each in partitions
            ]
            return any(made)

        return await self._step("keep_mailbox", step)

    def _keep_one(self, key: str, ttl_ms: int, read: str) -> bool:
        self._store.clear_wrong(key, "stream")
        stream = self._store.stream(key)
        made = stream is None or stream.ahead(self._store.now_ms())
        if made:
            self._store.delete(key)
            self._store.append(key, {b"hello": b"1"})
        else:
            self._own_stream(key).trim_before(parse_id(read))
        self._store.expire_at(key, self._store.now_ms() + ttl_ms)
        return made

    async def drop_mailbox(self, mailbox: str) -> None:
        def step() -> None:
            for partition in range(self.partitions):
                self._store.delete(self._keys.mail(partition, mailbox))

        await self._step("drop_mailbox", step)

    async def read_mail(
        self, mailbox: str, cursors: Mapping[int, str], block_ms: int, max_entries: int = 200
    ) -> list[MailEntry]:
        keys = {partition: self._keys.mail(partition, mailbox) for partition in cursors}

        def step() -> list[MailEntry]:
            return [
                _mail(partition, entry_id, fields)
                for partition, key in keys.items()
                for entry_id, fields in self._behind(key, cursors[partition], max_entries)
            ]

        return await self._wait("read_mail", list(keys.values()), step, block_ms)

    async def inspect(self, partition: int, msg_id: str, leg: int = -1, *, envelope: bool = False) -> Record | None:
        def step() -> Record | None:
            part = self._partition(partition)
            record = part.load(msg_id)
            if record is None:
                return None
            asked = numbers_asked(record, leg)
            legs = {n: each for n, each in sorted(record.legs.items()) if n in asked}
            found = [part.envelope_of(msg_id, record, number) for number in legs] if envelope else []
            return Record(
                msg_id=msg_id,
                head=record.head,
                legs=legs,
                envelope=next((each for each in found if each), b""),
                receipts={
                    n: receipt_text(record.head, n, each, each.finished_at_ms, stored=True)
                    for n, each in legs.items()
                    if each.finished_at_ms and each.state is not LegState.OBSERVED
                },
                now_ms=part.now_ms,
            )

        return await self._step("inspect", step)

    async def cancel(self, partition: int, msg_id: str, sender: str, round: int, tomb_ms: int) -> CancelResult:
        return await self._step("cancel", lambda: cancel(self._partition(partition), msg_id, sender, round, tomb_ms))

    async def answer(
        self, partition: int, msg_id: str, sender: str, leg: int, hand: str, value: bytes
    ) -> AnswerVerdict:
        return await self._step(
            "answer", lambda: parked.answer(self._partition(partition), msg_id, sender, leg, hand, value)
        )


def _mail(partition: int, entry_id: str, fields: Fields) -> MailEntry:
    if b"r" in fields:
        return MailEntry(partition, entry_id, "receipt", fields[b"r"])
    if b"n" in fields:
        return MailEntry(partition, entry_id, "notice", fields[b"n"])
    return MailEntry(partition, entry_id, "hello", b"")
