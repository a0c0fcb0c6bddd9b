"""A leg that finds no room waits until there is some."""

from collections.abc import Sequence

from reach.backend.memory_backend.partition import Partition
from reach.backend.memory_backend.room import Filled, filled, obstacle, place_in_line
from reach.backend.memory_backend.store import MessageRecord
from reach.backend.memory_backend.waking import MAX_TOLD, agent_of, drop_member, key_of, member, unqueue, wake
from reach.backend.steps import Plan

MAX_ROOMS = 16


def queue_up(part: Partition, msg_id: str, record: MessageRecord, number: int, rooms: Sequence[Plan]) -> bool:
    """Let it wait until one of these has room for it. True: one has got some meanwhile, and it decides anew at once.

    Where there is some for those before it, they are told.
    """
    names, free = [], ""
    for plan in rooms[:MAX_ROOMS]:
        found = obstacle(part, msg_id, record, plan, number)
        full, has_room = found.filled, not found.why
        if full is not None and full.before > 0:
            has_room = not _pass_on(part, record, plan, full.name, full.before)
        if has_room and not free:
            mine = _gates(record, plan)
            free = mine[0] if mine else f"{plan.agent}:"
            names += mine
        elif full is not None and not has_room:
            names.append(full.name)
    leg = record.legs[number]
    for name in leg.rooms:
        if name not in names:
            drop_member(part, name, member(msg_id, number))
            if leg.woken_by == name:
                wake(part, name)
    until_ms = part.expires_at_ms(record.head)
    for name in names:
        key = key_of(part, name)
        part.store.clear_wrong(key, "zset")
        part.store.make_zset(key)[member(msg_id, number)] = place_in_line(part, record.head)
        part.store.expire_at(key, max(until_ms, part.store.expires_at_ms(key) or 0))
    record.change(number, rooms=tuple(names), woken_by=free)
    if free:
        record.change(number, until_ms=part.now_ms)
        part.append_again(msg_id, number, leg.hand)
    return bool(free)


def served(part: Partition, msg_id: str, record: MessageRecord, number: int, plan: Plan) -> None:
    """It goes there, and has waited for that: where there is still room, others are told of it."""
    names = record.legs[number].rooms
    unqueue(part, msg_id, record, number, plan.agent)
    for name in names:
        if agent_of(name) == plan.agent:
            _pass_on(part, record, plan, name, MAX_TOLD)


def _gates(record: MessageRecord, plan: Plan) -> list[str]:
    """Every queue for room at an agent: who is about to take it stands in all, so that nobody who comes meanwhile takes it."""
    names = [f"{plan.agent}:all"] if plan.max_agent > 0 else []
    if plan.max_inbox > 0:
        names += [f"{plan.agent}:{record.head.lane}", f"{plan.agent}:of:{record.head.sender}"]
    return names


def _pass_on(part: Partition, record: MessageRecord, plan: Plan, name: str, most: int) -> bool:
    """Where there is room for some of the first `most` of a queue, one of them is told. False: nobody is left there."""
    left = filled(part, record, plan)
    return isinstance(left, Filled) or wake(part, name, min(left, most))
