"""Whether the server throws keys away when it is full: then records, mailboxes and whole inboxes may vanish."""

from collections.abc import Mapping

from reach import ids
from reach.log import event_log

log = event_log("reach.backend")

SAFE = "noeviction"
#: The command whose reply has what `Eviction.judge` wants; the whole of INFO has it, too.
QUESTION = ("INFO", "memory", "stats")


class Eviction:
    """What one backend was told of it. Every step heals, but what was in an evicted key is lost, so people are told."""

    def __init__(self) -> None:
        self._policy = SAFE
        self._evicted: int | None = None

    def judge(self, facts: Mapping[str, str]) -> None:
        """Warn of a policy that evicts, once until it changes, and of every key that was evicted since the last look.

        Args:
            facts: Of INFO. One that is missing, because the user may not ask, counts as safe.
        """
        policy = facts.get("maxmemory_policy", SAFE)
        if policy not in (SAFE, self._policy):
            log.warning("evicting policy", extra={"maxmemory_policy": policy})
        self._policy = policy
        evicted = ids.count_of(facts.get("evicted_keys", "").encode())
        if evicted is not None and self._evicted is not None and evicted > self._evicted:
            log.error("keys evicted", extra={"count": evicted - self._evicted, "maxmemory_policy": policy})
        self._evicted = evicted
