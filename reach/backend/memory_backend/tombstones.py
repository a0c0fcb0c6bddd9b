"""What is remembered of agents that are gone: as parts/tombstones.lua does."""

import re

from reach.backend.bounds import DAY_MS, MAX_GONE
from reach.backend.memory_backend.store import Hash

_TOMBSTONE = re.compile(rb'^\{"gone_at":(\d+)')


def gone_at(stored: bytes) -> int | None:
    """When it went; None: it is there."""
    found = _TOMBSTONE.match(stored)
    return int(found[1]) if found else None


def tombstone(now_ms: int, version: int, why: str, seen_at_ms: int) -> bytes:
    """What stands in `agents` instead of its registration."""
    seen = f',"seen_at":{seen_at_ms}' if seen_at_ms > 0 else ""
    return f'{{"gone_at":{now_ms},"v":{version},"why":"{why}"{seen}}}'.encode()


def prune(agents: Hash, instances: int, now_ms: int) -> None:
    """What is over 24 h old goes; where there are too many, the oldest one as well."""
    found = {agent_id: at_ms for agent_id, stored in agents.items() if (at_ms := gone_at(stored)) is not None}
    for agent_id, at_ms in list(found.items()):
        if now_ms - at_ms > DAY_MS:
            del agents[agent_id], found[agent_id]
    if found and len(agents) - instances > MAX_GONE:
        del agents[min(found, key=found.__getitem__)]
