"""Hints of cancels: what an instance holds may have been ended, so it asks at once and not at its next renewal.

A hint proves nothing. Whether something is still held is asked by renewing it; a forged hint costs that look, a lost one some seconds.
"""

from collections.abc import Callable, Iterable

from reach.backend.hinting import Hint
from reach.backend.port import Backend
from reach.clock import Clock
from reach.delivery.inbox import Hands, Hold
from reach.errors import BackendDenied
from reach.log import event_log
from reach.service import Report

log = event_log("reach.agent")

BLOCK_MS = 5_000
#: between two looks: however much is said, so often is asked
LOOK_EVERY_MS = 25
#: what is cancelled in the moment in which it is taken is heard of before it is known to be held: so long it is looked for again
EARLY_MS = 1_000
AGAIN_MS = 100
MAX_EARLY = 1_000
DENIED_MS = 60_000


class Hints:
    """The service: one run hears what was said, and asks about what is held of it. For the loop of the pulse."""

    name = "hints"
    interval_ms = 0

    def __init__(
        self,
        backend: Backend,
        agent_id: str,
        instance_id: str,
        *,
        clock: Clock,
        holds: Callable[[], Hands],
        on_lost: Callable[[Hold], None],
    ) -> None:
        """Arguments as `reach.delivery.pulse.Pulse`."""
        self._backend = backend
        self._agent_id = agent_id
        self._instance_id = instance_id
        self._clock = clock
        self._holds = holds
        self._on_lost = on_lost
        self._early: dict[Hint, int] = {}  # what is not held (yet), and until when that is looked at again

    async def run_once(self) -> Report:
        """Hear, and renew what was hinted at. Twice does no harm; a run that fails has cost no more than its hints."""
        try:
            heard = await self._backend.hear(self._agent_id, AGAIN_MS if self._early else BLOCK_MS)
        except BackendDenied as error:  # by an ACL without channels: cancels are seen at the renewals
            log.info("hints not heard", extra={"agent": self._agent_id, "error": error.message})
            await self._clock.sleep(DENIED_MS)
            return {}
        lost = 0
        for (partition, lane), hands in self._held_of(heard).items():
            still = await self._backend.renew(partition, self._agent_id, self._instance_id, {lane: hands})
            for hand in hands:
                if hand not in still:
                    lost += 1
                    self._on_lost(Hold(partition, lane, hand))
        if heard:
            await self._clock.sleep(LOOK_EVERY_MS)
        return {"lost": lost} if lost else {}

    def _held_of(self, heard: Iterable[Hint]) -> dict[tuple[int, str], list[str]]:
        """(partition, lane) -> hands, of what was hinted at and is held here. The rest is remembered for a while."""
        now = self._clock.monotonic_ms()
        early = {hint: until for hint, until in self._early.items() if now < until}
        hinted = {**early, **{hint: now + EARLY_MS for hint in heard if hint not in early}}
        holds = self._holds() if hinted else {}
        found: dict[tuple[int, str], list[str]] = {}
        self._early = {}
        for hint, until in hinted.items():
            if hint.hand in holds.get(hint.partition, {}).get(hint.lane, ()):
                found.setdefault((hint.partition, hint.lane), []).append(hint.hand)
            elif len(self._early) < MAX_EARLY:
                self._early[hint] = until
        return found
