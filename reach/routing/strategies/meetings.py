"""Whom a source has met, and whom one of its conversations has: what `fresh_eyes` goes by. Pure; written down for all routers elsewhere."""

from collections.abc import Iterable
from typing import NamedTuple

#: As long as it is written down.
MET_MS = 3_600_000
#: So many sources and conversations are kept, and so many agents of each; then the oldest go.
MAX_KEPT, MAX_AGENTS = 4_096, 1_000


class Meetings:
    """Of one router. A conversation is one of its source: the same name of another source is another one."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], dict[str, int]] = {}

    def note(self, source: str, conversation: str, agent_id: str, at_ms: int) -> None:
        """The source has met an agent in this conversation, or, where that is "", in whichever."""
        for key in {(source, ""), (source, conversation)}:
            known = self._kept.pop(key, {})
            known[agent_id] = max(at_ms, known.pop(agent_id, at_ms))
            if len(known) > MAX_AGENTS:
                del known[next(iter(known))]
            self._kept[key] = known
        while len(self._kept) > MAX_KEPT:
            del self._kept[next(iter(self._kept))]

    def of(self, source: str, conversation: str, now_ms: int) -> "Familiar":
        """Whom they have met within the last hour."""
        told = (self._kept.get(key, {}) for key in ((source, ""), (source, conversation)))
        return Familiar(*(frozenset(_lately(known.items(), now_ms)) for known in told))


class Familiar(NamedTuple):
    """The agents that have met the source, and those that have met the conversation."""

    source: frozenset[str]
    conversation: frozenset[str]


def _lately(known: Iterable[tuple[str, int]], now_ms: int) -> Iterable[str]:
    return (agent_id for agent_id, at_ms in known if at_ms >= now_ms - MET_MS)
