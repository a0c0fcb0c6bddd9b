"""Gaps in what a group of readers has had of `events`, as records: the same gap is the same record, whoever finds it."""

from collections.abc import Iterator

import msgspec

from reach.backend.followed import Followed
from reach.events.store import DAY_US, Event, event_of
from reach.tracing.record import BATCHES, TRIMMED, HopRecord


def gap_records(followed: Followed, now_ms: int) -> Iterator[tuple[str, HopRecord]]:
    """What is missing, each with a name of its own: at the moment up to which it was recorded, `duration_us` since its beginning.

    Both moments are those of entry ids. `now_ms`: none lies in the future, where somebody has put one there.
    """
    trimmed, gone = followed.trimmed, followed.gone
    if trimmed is not None:
        name = f"gap-{trimmed.after}-{trimmed.had}-{trimmed.trimmed}"
        yield name, _record(_ms(trimmed.after), _ms(trimmed.first), trimmed.count, now_ms)
    if gone:
        yield f"gap-{gone[0]}-{gone[-1]}-{len(gone)}", _record(_ms(gone[0]), _ms(gone[-1]), len(gone), now_ms)


def gaps_of(partition: int, followed: Followed, now_ms: int) -> Iterator[Event]:
    """The same, for a store."""
    for name, record in gap_records(followed, now_ms):
        event = event_of(f"{partition}/{name}/000", msgspec.json.encode(record))
        assert event is not None
        yield event


def _record(since_ms: int, until_ms: int, batches: int, now_ms: int) -> HopRecord:
    at_us = min(until_ms, now_ms) * 1000
    return HopRecord(
        at_us=at_us,
        point="gap",
        msg_id="",
        leg=0,
        attempt=0,
        code=TRIMMED,
        counts={BATCHES: batches},
        duration_us=min(max(at_us - since_ms * 1000, 0), DAY_US),  # Redis keeps nothing for longer
    )


def _ms(entry_id: str) -> int:
    return int(entry_id.partition("-")[0])
