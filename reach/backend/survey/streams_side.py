"""The streams that should be there, the moments that are due, and all keys of an env."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from reach import ids
from reach.backend.connection import Reply
from reach.backend.key_faults import fault_of, row_of
from reach.backend.keys import GROUP_AGENT, GROUP_REGISTRARS, GROUP_ROUTERS, LANES, KeySpace
from reach.backend.redis_backend.streams import entries_of, moment_of, pairs_of, text_of
from reach.backend.survey.facts import (
    HOLDER_LATE_MS,
    MAX_KEYS,
    MAX_STUCK,
    WORKER_LATE_MS,
    Consumer,
    KeyFacts,
    Partition,
    StreamFacts,
    Stuck,
)
from reach.backend.survey.server_side import Asking

SCAN_PAGE = 1_000


async def look_at_env_streams(asking: Asking, keys: KeySpace) -> tuple[StreamFacts, ...]:
    """The control stream, and the changes."""
    wanted = [
        StreamFacts(key=keys.control(), type="", group=GROUP_REGISTRARS),
        StreamFacts(key=keys.changes(), type=""),
    ]
    return await _look(asking, wanted)


async def look_at_partition(asking: Asking, keys: KeySpace, partition: int, agent_ids: Iterable[str]) -> Partition:
    """Doors, inboxes of these agents, records and due of one partition."""
    doors = [StreamFacts(key=key, type="", group=GROUP_ROUTERS) for key in keys.work(partition)]
    inboxes = [
        StreamFacts(key=keys.inbox(partition, agent_id, lane), type="", group=GROUP_AGENT, agent_id=agent_id)
        for agent_id in agent_ids
        for lane in LANES
    ]
    records = [StreamFacts(key=key, type="") for key in (keys.events(partition), keys.dead(partition))]
    looked = await _look(asking, [*doors, *inboxes, *records])
    due = keys.due(partition)
    # The time comes last of what it is compared with: what was written meanwhile never seems to lie in the future.
    oldest, tick, time = await asking.all(
        [["ZRANGE", due, 0, 0, "WITHSCORES"], ["HMGET", keys.tick(partition), "last", "until"], ["TIME"]]
    )
    now_ms = asking.moment_ms(time)
    oldest_ms = moment_of(oldest[1]) if oldest else 0
    (overdue,) = await asking.all([["ZCOUNT", due, "-inf", now_ms]])
    last, until = tick or (None, None)
    return Partition(
        number=partition,
        doors=looked[: len(doors)],
        inboxes=looked[len(doors) : -len(records)],
        records=looked[-len(records) :],
        now_ms=now_ms,
        overdue=overdue or 0,
        overdue_since_ms=min(oldest_ms, now_ms),
        tick_last_ms=None if last is None else ids.count_of(last),
        tick_grace_until_ms=ids.count_of(until or b"") or 0,
    )


async def _look(asking: Asking, wanted: Sequence[StreamFacts]) -> tuple[StreamFacts, ...]:
    types = [text_of(kind or b"") for kind in await asking.all([["TYPE", one.key] for one in wanted])]
    there = [one for one, kind in zip(wanted, types, strict=True) if kind == "stream"]
    commands: list[list[Any]] = []
    for one in there:
        commands += [["XINFO", "STREAM", one.key], ["XRANGE", one.key, "-", "+", "COUNT", 1]]
        if one.group:
            late_ms = HOLDER_LATE_MS if one.agent_id else WORKER_LATE_MS
            commands.append(["XINFO", "CONSUMERS", one.key, one.group])
            commands.append(["XPENDING", one.key, one.group, "IDLE", late_ms, "-", "+", MAX_STUCK])
        commands.append(["TIME"])
    replies = iter(await asking.all(commands))
    found = {}
    for one in there:
        seen = [next(replies) for _ in range(4 if one.group else 2)]
        found[one.key] = _stream(one, seen, asking.moment_ms(next(replies)))
    return tuple(
        found.get(one.key) or StreamFacts(key=one.key, type=kind, group=one.group, agent_id=one.agent_id)
        for one, kind in zip(wanted, types, strict=True)
    )


def _stream(wanted: StreamFacts, replies: list[Reply], now_ms: int) -> StreamFacts:
    info, first = {text_of(k): v for k, v in pairs_of(replies[0] or []).items()}, entries_of(replies[1])
    consumers, stuck = replies[2:] if wanted.group else (None, None)
    return StreamFacts(
        key=wanted.key,
        type="stream",
        group=wanted.group,
        agent_id=wanted.agent_id,
        now_ms=now_ms,
        has_group=consumers is not None,
        length=info.get("length", 0),
        first_id=ids.stream_id(first[0].id) if first else (0, 0),
        last_id=ids.stream_id(info.get("last-generated-id", b"0-0")),
        consumers=tuple(_consumer(pairs_of(raw)) for raw in consumers or ()),
        stuck=tuple(Stuck(text_of(raw[0]), text_of(raw[1]), raw[2]) for raw in stuck or ()),
    )


def _consumer(raw: dict[bytes, Any]) -> Consumer:
    return Consumer(text_of(raw[b"name"]), raw[b"pending"], raw[b"idle"])


async def look_at_keys(asking: Asking, keys: KeySpace, registered: Iterable[str]) -> KeyFacts:
    """Every key of the env, against the key table."""
    own = re.compile(r"reach:\{" + re.escape(keys.env) + r"(?:\.[0-9]+)?\}:.*", re.DOTALL)
    names: set[bytes] = set()
    cursor: Any = 0
    while True:
        (page,) = await asking.all([["SCAN", cursor, "MATCH", "reach:{" + keys.env + "*", "COUNT", SCAN_PAGE]])
        if page is None:
            return KeyFacts(count=0, whole=False, faults=(), orphans=())
        cursor = page[0]
        names.update(name for name in page[1] if own.fullmatch(name.decode("utf-8", "backslashreplace")))
        if cursor == b"0" or len(names) >= MAX_KEYS:
            break
    sorted_names = sorted(names)
    replies = await asking.all([command for name in sorted_names for command in (["TYPE", name], ["PTTL", name])])
    known, faults, orphans = set(registered), [], set()
    for n, raw in enumerate(sorted_names):
        key, kind, pttl_ms = raw.decode("utf-8", "backslashreplace"), replies[2 * n], replies[2 * n + 1]
        if kind is None or pttl_ms is None or kind == b"none" or pttl_ms == -2:
            continue  # not allowed to look, or it has gone meanwhile
        fault = fault_of(key, text_of(kind), pttl_ms)
        if fault is not None:
            faults.append((key, fault.removeprefix(f"{key}: ")))
        row = row_of(key)
        if row is not None and row.name == "inbox":
            agent_id = key.partition(":inbox:")[2].rpartition(":")[0]
            if agent_id not in known:
                orphans.add(agent_id)
    return KeyFacts(count=len(names), whole=cursor == b"0", faults=tuple(faults), orphans=tuple(sorted(orphans)))
