"""Dead letters: what reach has given up, with its envelope, its last receipt and the history of its attempts."""

from collections.abc import AsyncIterator, Sequence

import msgspec

from reach.backend.port import Backend

PAGE = 100


class DeadLetter(msgspec.Struct, frozen=True):
    """One entry of a partition's dead stream. `envelope`, `receipt` and `history` are JSON as stored; junk stays junk."""

    partition: int
    id: str
    msg_id: str
    envelope: bytes
    receipt: bytes
    history: bytes


async def list_dead(
    backend: Backend, partitions: Sequence[int], *, max_entries: int = 1_000
) -> AsyncIterator[DeadLetter]:
    """The dead letters of these partitions, the oldest of each first, at most `max_entries` in all."""
    left = max_entries
    for partition in partitions:
        after = "-"
        while left > 0:
            page = await backend.dead_letters(partition, after, min(PAGE, left))
            for entry_id, fields in page:
                yield _letter(partition, entry_id, fields)
            left -= len(page)
            if len(page) < PAGE:
                break
            after = page[-1][0]


async def find_dead(backend: Backend, partitions: Sequence[int], name: str) -> DeadLetter | None:
    """The dead letter with this entry id or of this message (the latest); None where there is none."""
    found = None
    async for letter in list_dead(backend, partitions, max_entries=1_000_000):
        if name in {letter.id, letter.msg_id}:
            found = letter
    return found


def _letter(partition: int, entry_id: str, fields: dict[bytes, bytes]) -> DeadLetter:
    return DeadLetter(
        partition,
        entry_id,
        fields.get(b"m", b"").decode("utf-8", "replace"),
        fields.get(b"e", b""),
        fields.get(b"r", b""),
        fields.get(b"h", b"[]"),
    )
