"""The server, the steps, and the env's hashes."""

import uuid
from collections.abc import Sequence
from typing import Any

from reach.backend.connection import Link, Reply
from reach.backend.keys import KeySpace
from reach.backend.redis_backend.streams import moment_of, pairs_of, text_of
from reach.backend.scripts import all_scripts, script
from reach.backend.survey.facts import AgentRecords, ServerFacts
from reach.errors import BackendDenied, BackendError, BackendUnavailable, ScriptFailed

PINGS = 10
PAGE = 500
TOMBSTONE = b'{"gone_at":'


class Asking:
    """Asks many things at once; what this user may not ask, or a key of another type cannot answer, is None."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.denied: set[str] = set()

    async def all(self, commands: Sequence[Sequence[Any]]) -> list[Reply]:
        """The replies in their order.

        Raises:
            BackendUnavailable: The server cannot be asked.
        """
        replies: list[Reply] = []
        for start in range(0, len(commands), PAGE):
            page = commands[start : start + PAGE]
            for command, reply in zip(page, await self.link.batch(page), strict=True):
                replies.append(None if isinstance(reply, BackendError) else reply)
                if isinstance(reply, BackendUnavailable):
                    raise reply
                if isinstance(reply, BackendDenied):
                    self.denied.add(" ".join(str(word) for word in command[: 2 if command[0] in _TWO_WORDS else 1]))
        return replies

    def moment_ms(self, time: Reply) -> int:
        """What TIME answered, in Unix ms; this machine's clock where this user may not ask."""
        return int(time[0]) * 1000 + int(time[1]) // 1000 if time else self.link.clock.wall_ms()


_TWO_WORDS = ("CONFIG", "XINFO", "SCRIPT")


async def look_at_server(asking: Asking) -> ServerFacts:
    """What the server is, how it is set up, how fast it answers and what time it has."""
    clock = asking.link.clock
    pings = []
    for _ in range(PINGS):
        began_ms = clock.monotonic_ms()
        await asking.link.call("PING")
        pings.append(clock.monotonic_ms() - began_ms)
    before_ms = clock.wall_ms()
    (time,) = await asking.all([["TIME"]])
    after_ms = clock.wall_ms()
    local_ms = (before_ms + after_ms) // 2
    info, fsync, replicas, eviction = await asking.all(
        [
            ["INFO"],
            ["CONFIG", "GET", "appendfsync"],
            ["CONFIG", "GET", "min-replicas-to-write"],
            ["CONFIG", "GET", "maxmemory-policy"],
        ]
    )
    lines = (line.partition(":") for line in text_of(info or b"").splitlines())
    facts = {name: value.strip() for name, colon, value in lines if colon}
    return ServerFacts(
        info=facts,
        fsync=_setting(fsync),
        min_replicas=_setting(replicas),
        eviction=_setting(eviction) or facts.get("maxmemory_policy", ""),
        now_ms=asking.moment_ms(time) if time else local_ms,
        local_ms=local_ms,
        pings_ms=tuple(pings),
    )


def _setting(reply: Reply) -> str:
    return next((text_of(value) for value in pairs_of(reply or []).values()), "")


async def try_steps(asking: Asking, keys: KeySpace) -> tuple[tuple[str, str], ...]:
    """Load every step that the server does not know, and run one that only reads. What the server refused, and its words."""
    refused: list[tuple[str, str]] = []
    steps = list(all_scripts().values())
    (known,) = await asking.all([["SCRIPT", "EXISTS", *(step.sha for step in steps)]])
    if known is not None:
        missing = [step for step, there in zip(steps, known, strict=True) if not there]
        replies = await asking.link.batch([["SCRIPT", "LOAD", step.text] for step in missing])
        for step, reply in zip(missing, replies, strict=True):
            if isinstance(reply, BackendDenied):
                asking.denied.add("SCRIPT LOAD")
            elif isinstance(reply, BackendError):
                refused.append((step.name, _said(reply)))
            elif text_of(reply) != step.sha:
                refused.append((step.name, f"it knows it as {text_of(reply)}, not {step.sha}"))
    try:
        await asking.link.run(script("inspect"), keys.due(0), str(uuid.UUID(int=0)), -1, 0)
    except (BackendDenied, ScriptFailed) as error:
        refused.append(("inspect", _said(error)))
    return tuple(refused)


def _said(error: BackendError) -> str:
    return str(error.details.get("reply", error.message)).partition(": ")[2] or error.message


async def read_records(asking: Asking, keys: KeySpace) -> AgentRecords:
    """The env's registrations, policies, settings and beats."""
    agents, routes, rules, meta, circuits, beats, load, time = await asking.all(
        [
            ["HGETALL", keys.agents()],
            ["HGETALL", keys.routes()],
            ["HGETALL", keys.rules()],
            ["HGETALL", keys.meta()],
            ["HGETALL", keys.circuit()],
            ["ZRANGE", keys.beats(), 0, -1, "WITHSCORES"],
            ["HGETALL", keys.load()],
            ["TIME"],
        ]
    )
    values = pairs_of(load or [])
    found = []
    for member, score in pairs_of(beats or []).items():
        agent_id, _, instance_id = text_of(member).rpartition("/")
        found.append((agent_id, instance_id, moment_of(score), values.get(member, b"{}")))
    return AgentRecords(
        agents={text_of(k): v for k, v in pairs_of(agents or []).items() if not v.startswith(TOMBSTONE)},
        routes={text_of(k): v for k, v in pairs_of(routes or []).items()},
        rules={text_of(k): v for k, v in pairs_of(rules or []).items()},
        meta={text_of(k): text_of(v) for k, v in pairs_of(meta or []).items()},
        circuits={text_of(k): v for k, v in pairs_of(circuits or []).items()},
        beats=tuple(found),
        now_ms=asking.moment_ms(time),
    )
