"""Dead letters: what reach has given up, with its envelope, its last receipt and the history of its attempts.

They stay until they are requeued, purged, too old or too many.
"""

import hashlib
from collections.abc import AsyncIterator, Iterable
from typing import Any

import msgspec

from reach.backend.port import Backend
from reach.delivery.permission import Permission
from reach.envelope.codec import DEFAULT_MAX_BYTES, decode, encode
from reach.envelope.message import Envelope, Target
from reach.envelope.rules import (
    MAX_HEADERS_BYTES,
    business_msg_id,
    check_fields,
    check_pattern,
    partition_of,
    sender_of,
)
from reach.errors import EnvelopeError

PAGE = 100
HISTORY = "reach-history"  # the header in which a requeued message takes its past along
MAX_HISTORY_BYTES = 2_000  # of the 4 KiB that all headers have
MAX_IDS = 10_000  # tried until one lies in the letter's partition

History = list[dict[str, Any]]


class Said(msgspec.Struct, frozen=True):
    """Of a letter's receipt what matters here."""

    status: str = ""
    code: str = ""
    leg: int = 0
    round: int = 1
    attempts: int = 0
    target_agent: str | None = None
    error_message: str | None = None
    schema: str | None = None


class DeadLetter(msgspec.Struct, frozen=True):
    """One entry of a partition's dead stream. `envelope`, `receipt` and `history` are JSON as stored; junk stays junk."""

    partition: int
    id: str
    msg_id: str
    envelope: bytes
    receipt: bytes
    history: bytes

    @property
    def said(self) -> Said:
        """The receipt; an empty one where it is junk."""
        try:
            return msgspec.json.decode(self.receipt, type=Said)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return Said()

    @property
    def schemas(self) -> tuple[str, ...] | None:
        """Of which schemas its contents are: that of the message, and that of the receipt; None: nobody can say."""
        try:
            schema = decode(self.envelope, max_bytes=max(len(self.envelope), 1)).payload.schema
        except EnvelopeError:
            return None
        return schema or "", self.said.schema or ""

    @property
    def attempts(self) -> History:
        """All runs that are known, `{attempt, agent, code, at}`, also those before the message was requeued."""
        try:
            before = decode(self.envelope, max_bytes=max(len(self.envelope), 1)).headers.get(HISTORY, "[]")
        except EnvelopeError:
            before = "[]"
        earlier = _runs(before.encode())
        return earlier + [run for run in _runs(self.history) if run not in earlier]


class Requeued(msgspec.Struct, frozen=True):
    """What a letter went on as."""

    msg_id: str
    round: int
    remembered: bool
    """False: it is a message of its own, or the ledger had forgotten it and the guards of `ctx.once` with it: effects may be made again."""
    sent: bool = True
    """False: the letter was not there any more, and nothing was sent: somebody has requeued or purged it before."""


class DeadLetters:
    """The dead letters of an env."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._permission = Permission(backend)

    async def list(self, max_entries: int = 1_000) -> AsyncIterator[DeadLetter]:
        """The letters, partition by partition, the oldest of each first, at most `max_entries` in all."""
        left = max_entries
        for partition in range(self._backend.partitions):
            after = "-"
            while left > 0:
                page = await self._backend.dead_letters(partition, after, min(PAGE, left))
                for entry_id, fields in page:
                    yield _letter(partition, entry_id, fields)
                left -= len(page)
                if len(page) < PAGE:
                    break
                after = page[-1][0]

    async def find(self, name: str) -> DeadLetter | None:
        """The letter with this entry id or of this message (the latest); None where there is none."""
        found = None
        async for letter in self.list(max_entries=1_000_000):
            if name in {letter.id, letter.msg_id}:
                found = letter
        return found

    async def requeue(self, letter: DeadLetter, *, target: str | None = None) -> Requeued:
        """Send it once more, with new deadlines and all its attempts, and take it out of the dead letters.

        To the same target, and after an end that was retryable, it is the next round of the same message: its sender's key, its guards
        (`ctx.once`) and what has become of it meanwhile count, as long as they are remembered. Else it is a message of its own, whose id
        follows from the letter and the target. The letter goes in the same step in which the message is sent: it is safe to run twice, or
        to be cut off half-way, however long ago that was, and only one of them sends.

        Args:
            letter: As `list` or `find` gave it.
            target: Another pattern, or a bare name; scope one.

        Raises:
            EnvelopeError: The letter holds no envelope that could be sent, the target is no pattern, or the rules keep its source from
                everybody who answers that (`auth.denied`). The letter stays.
            IngressFull: No router takes what lies at the doors. The letter stays.
            BackendError: It may or may not have been sent; requeue it again.
        """
        old = decode(letter.envelope, max_bytes=max(len(letter.envelope), 1))
        new = msgspec.structs.replace(old, not_before=None)
        remembered = await self._backend.inspect(letter.partition, letter.msg_id) is not None
        # A broadcast that is forgotten would go to those again, too, whose leg was a success.
        opens = letter.said.status == "retryable" and (remembered or old.target.scope == "one")
        if target is None and opens:
            new = msgspec.structs.replace(new, round=letter.said.round + 1)
        else:
            other = await self._permission.pattern_of(target) if target is not None else _own_pattern(letter, old)
            new = self._as_its_own(new, letter, other)
        check_fields(new)
        await self._permission.check(new)
        # What a router refuses is no letter any more: it must not become larger than one that was taken.
        max_bytes = max(DEFAULT_MAX_BYTES, len(letter.envelope))
        data = encode(_with_history(new, letter.attempts, max_bytes))
        if len(data) > max_bytes:
            text = f"{len(data)} bytes, at most {max_bytes}"
            raise EnvelopeError("envelope.too_large", text, details={"bytes": len(data), "max_bytes": max_bytes})
        sent = await self._send(letter, new, data)
        return Requeued(new.msg_id, new.round, new.round > 1 and remembered, sent)

    async def _send(self, letter: DeadLetter, envelope: Envelope, data: bytes) -> bool:
        partition = self._partition_of(envelope.msg_id, envelope.order_key)
        if partition == letter.partition:
            return await self._backend.requeue(partition, envelope.lane, data, letter.id)
        # The number of partitions was raised since: the two lie in different slots, and no step reaches both.
        await self._backend.submit(partition, envelope.lane, data)
        return bool(await self._backend.drop_dead(letter.partition, [letter.id]))

    def _partition_of(self, msg_id: str, order_key: str | None) -> int:
        return partition_of(msg_id, order_key, self._backend.partitions)

    def _own_id(self, envelope: Envelope, letter: DeadLetter, pattern: str) -> str:
        """An id that follows from the letter and the target, the first of which the letter's own partition is the place."""
        sender, msg_id = sender_of(envelope.source), envelope.msg_id
        for number in range(MAX_IDS):
            place = hashlib.sha256(f"{letter.partition}/{letter.id}/{pattern}/{number}".encode()).hexdigest()
            msg_id = business_msg_id(self._backend.env, sender, f"dead/{place}")
            if self._partition_of(msg_id, envelope.order_key) == letter.partition:
                break
        return msg_id

    def _as_its_own(self, envelope: Envelope, letter: DeadLetter, pattern: str) -> Envelope:
        check_pattern(pattern)
        return msgspec.structs.replace(
            envelope,
            msg_id=self._own_id(envelope, letter, pattern),
            task_id=envelope.task,
            correlation_id=envelope.conversation,
            target=Target(pattern=pattern),
            round=1,
            process_order=None,
        )

    async def purge(self, letters: Iterable[DeadLetter]) -> int:
        """Delete them for good; how many there were."""
        ids: dict[int, list[str]] = {}
        for letter in letters:
            ids.setdefault(letter.partition, []).append(letter.id)
        return sum([await self._backend.drop_dead(partition, group) for partition, group in ids.items()])


def _own_pattern(letter: DeadLetter, envelope: Envelope) -> str:
    """A letter of a broadcast is that of one leg: only its agent is asked again."""
    agent = letter.said.target_agent if envelope.target.scope == "all" else None
    return f"agent_id:{agent}" if agent else envelope.target.pattern


def _letter(partition: int, entry_id: str, fields: dict[bytes, bytes]) -> DeadLetter:
    return DeadLetter(
        partition,
        entry_id,
        fields.get(b"m", b"").decode("utf-8", "replace"),
        fields.get(b"e", b""),
        fields.get(b"r", b""),
        fields.get(b"h", b"[]"),
    )


def _runs(stored: bytes) -> History:
    try:
        return msgspec.json.decode(stored, type=History)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return []


def _with_history(envelope: Envelope, runs: History, max_bytes: int) -> Envelope:
    """The envelope with the history in its headers, of which the oldest runs go where there is no room for all."""
    others = {name: value for name, value in envelope.headers.items() if name != HISTORY}
    bare = msgspec.structs.replace(envelope, headers=others)
    size = sum(len(name.encode()) + len(value.encode()) for name, value in others.items()) + len(HISTORY)
    room = min(MAX_HISTORY_BYTES, MAX_HEADERS_BYTES - size)
    left = max_bytes - len(encode(bare))
    for start in range(len(runs)):
        text = msgspec.json.encode(runs[start:]).decode()
        header = {HISTORY: text}
        # As it is written, with the member "headers" that may have to be written for it.
        written_bytes = len(msgspec.json.encode({"headers": header}))
        if len(text) <= room and written_bytes <= left:
            return msgspec.structs.replace(bare, headers=others | header)
    return bare
