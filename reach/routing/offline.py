"""Which agents are gone, since when and why: what alerts go by. Fed as the index is; all moments by the clock of the backend."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import get_args

import msgspec

from reach.envelope.records import decode_stored_registration
from reach.envelope.registration import Tombstone, Why
from reach.errors import RecordError

#: So long is an agent remembered that is gone.
REMEMBERED_MS = 24 * 3_600_000
WHYS: tuple[Why, ...] = get_args(Why)


class Gone(msgspec.Struct, frozen=True):
    """One agent that is gone. `seen_at_ms`: its last beat; None: it had said goodbye before."""

    agent_id: str
    at_ms: int
    why: str
    seen_at_ms: int | None = None


class Offline:
    """The agents that have gone within the last 24 h and have not come back."""

    def __init__(self, complain: Callable[[str, str], None] = lambda _name, _problem: None) -> None:
        """`complain` hears of each tombstone that cannot be read: whose it is, and why."""
        self._complain = complain
        self._gone: dict[str, Gone] = {}

    def load(self, tombstones: Mapping[str, bytes]) -> None:
        """Forget everything and take these."""
        self._gone.clear()
        for agent_id, data in tombstones.items():
            self.note(agent_id, data)

    def note(self, agent_id: str, data: bytes) -> None:
        """It is gone."""
        try:
            found = decode_stored_registration(data)
        except RecordError as error:
            self._complain(agent_id, error.message)
            return
        if isinstance(found, Tombstone):
            self._gone[agent_id] = Gone(agent_id, found.gone_at, found.why, found.seen_at)

    def back(self, agent_id: str) -> None:
        """It is there again."""
        self._gone.pop(agent_id, None)

    def within(self, now_ms: int, for_ms: int = 0) -> list[Gone]:
        """Those that have been gone for at least `for_ms`, the last one first."""
        for one in [one for one in self._gone.values() if now_ms - one.at_ms > REMEMBERED_MS]:
            del self._gone[one.agent_id]
        found = [one for one in self._gone.values() if now_ms - one.at_ms >= for_ms]
        return sorted(found, key=lambda one: (-one.at_ms, one.agent_id))

    def counts(self, now_ms: int, for_ms: int = 0) -> dict[str, int]:
        """How many of `within` there are, by why: what `reach_agents_offline` tells. Every why is there, also with 0."""
        found = Counter(one.why if one.why in WHYS else "removed" for one in self.within(now_ms, for_ms))
        return {why: found[why] for why in WHYS}
