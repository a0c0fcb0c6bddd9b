"""The stages of a broadcast (process_order): its legs are numbered stage by stage, and behind the last stage come those who only observe.

A leg of a later stage is held until those before it are over.
"""

from collections.abc import Iterator
from typing import NamedTuple

from reach.backend.memory_backend.partition import Partition
from reach.backend.memory_backend.store import MessageRecord
from reach.envelope.ledger import LegState, Stage

CALLED_REARM_MS = 3_000


class Behind(NamedTuple):
    """An open leg behind a stage that has failed, and the details of its end."""

    number: int
    details: str


def stages_of(record: MessageRecord) -> tuple[Stage, ...]:
    """The stages of a broadcast; none where they do not fit its legs, since somebody has spoilt them."""
    head = record.head
    fit = head.scope == "all" and all(stage.first + stage.count <= head.legs for stage in head.stages)
    return head.stages if fit else ()


def stage_of(record: MessageRecord, number: int) -> int | None:
    """The stage that a leg is in, from 0; None: in none."""
    for k, stage in enumerate(stages_of(record)):
        if stage.first <= number < stage.first + stage.count:
            return k
    return None


def is_free(record: MessageRecord, k: int | None) -> bool:
    """Whether a stage may begin: all before it are over, and none has failed, unless the policy goes on then."""
    before = stages_of(record)[: k or 0]
    return all(not stage.open and (record.head.goes_on or not _has_failed(stage)) for stage in before)


def calls(record: MessageRecord, number: int) -> bool:
    """Whether a held leg asks for its stage: it may begin, and this is the first one that is held there."""
    k = stage_of(record, number)
    is_first = k is None or number == record.head.stages[k].first
    before = record.legs.get(number - 1) if not is_first else None
    return is_free(record, k) and not (before is not None and before.state is LegState.HELD)


def waits(record: MessageRecord, number: int) -> bool:
    """Whether the leg is held, and nobody is to be asked about it yet."""
    held = record.head.scope == "all" and record.legs[number].state is LegState.HELD
    return held and not calls(record, number)


def stepped(part: Partition, msg_id: str, record: MessageRecord, number: int) -> tuple[Behind, ...]:
    """A leg has ended. With the last open one of its stage the next stage is called.

    Where it has failed, the legs behind it are to end: they are answered with. A cancel and the end of total call nobody.
    """
    k = stage_of(record, number)
    if k is None:
        return ()
    leg, head = record.legs[number], record.head
    was = head.stages[k]
    now = Stage(was.first, was.count, was.open - 1, was.failed + (leg.status != "success"))
    record.change_head(stages=(*head.stages[:k], now, *head.stages[k + 1 :]))
    timed_out = leg.code == "timeout.total" and part.now_ms >= max(head.total_at_ms, head.latest_at_ms)
    if record.still or timed_out or any(stage.open for stage in record.head.stages[: k + 1]):
        return ()
    for at, stage in enumerate(record.head.stages[k:], k):
        if stage.open:
            call_stage(part, msg_id, record, stage)
            return ()
        if _has_failed(stage) and not head.goes_on:
            record.still = True  # from here on nothing of the message is called
            return tuple(_behind(record, at))
    return ()


def call_stage(part: Partition, msg_id: str, record: MessageRecord, stage: Stage) -> None:
    """Have a router asked about a stage: the reference is to the first leg that is held there."""
    for number in range(stage.first, stage.first + stage.count):
        leg = record.legs.get(number)
        if leg is not None and leg.state is LegState.HELD:
            part.append_again(msg_id, number, leg.hand)
            record.change(number, rearm=0)
            part.arm(msg_id, record, number, part.now_ms + CALLED_REARM_MS)
            return


def hopeless(record: MessageRecord) -> tuple[Behind, ...]:
    """What a new round opens behind a stage that has failed for good, under a policy that does not go on any more."""
    for k, stage in enumerate(stages_of(record)):
        if stage.open or record.still:
            return ()
        if _has_failed(stage) and not record.head.goes_on:
            record.still = True
            return tuple(_behind(record, k))
    return ()


def reordered(record: MessageRecord, old: MessageRecord, opened: set[int]) -> None:
    """The stages are those of the first round: what was opened is open again, and of the others those have failed that have."""
    stages: list[Stage] = []
    for stage in stages_of(old):
        legs = range(stage.first, stage.first + stage.count)
        closed = [old.legs[n] for n in legs if n not in opened and n in old.legs]
        failed = sum(leg.status != "success" for leg in closed)
        stages.append(Stage(stage.first, stage.count, sum(n in opened for n in legs), failed))
    record.change_head(stages=tuple(stages) or old.head.stages, shows_large=old.head.shows_large)


def numbers_asked(record: MessageRecord, number: int) -> range | frozenset[int]:
    """The legs that `inspect` shows: all (-1), one, or of one that is held all of its stage, since they go on together."""
    if number < 0:
        return frozenset(record.legs)
    leg = record.legs.get(number)
    k = stage_of(record, number) if leg is not None and leg.state is LegState.HELD else None
    if k is None:
        return frozenset({number})
    return range(record.head.stages[k].first, record.head.stages[k].first + record.head.stages[k].count)


def staged_members(record: MessageRecord, number: int) -> str:
    """What callers are told of a leg's part in the order: JSON members, each led by a comma."""
    k = stage_of(record, number)
    if k is not None:
        return f',"stage":{k}'
    return ',"observed":true' if record.legs[number].state is LegState.OBSERVED else ""


def _has_failed(stage: Stage) -> bool:
    return not stage.count or stage.failed > 0


def _behind(record: MessageRecord, k: int) -> Iterator[Behind]:
    stages = record.head.stages
    empty = "" if stages[k].count else ',"empty":true'
    for number in range(stages[k].first + stages[k].count, stages[-1].first + stages[-1].count):
        leg = record.legs.get(number)
        if leg is not None and not leg.finished_at_ms:
            yield Behind(number, f'{{"state":"{leg.state}","stage":{k}{empty}}}')
