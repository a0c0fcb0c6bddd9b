"""`/livez` and `/readyz` over plain HTTP, for whoever starts and stops workers.

Live: the event loop turns; no dependency is asked, since a probe that asked Redis would restart the whole fleet on a blip.
Ready: every service that serves messages has lately ended a run without an error, and the worker is not draining. What only observes
them (a store that is full, a collector that is away) makes a worker that routes degraded: it says so, and goes on taking work.
"""

from collections.abc import Iterable, Mapping

import orjson

from reach.clock import Clock
from reach.service import Report, Vitals
from reach.tracing.pages import Answerer, Page, PageServer

MAX_AGE_MS = 10_000
#: So long what observes may take for one run: it posts and exports, and waits for others.
MAX_OBSERVER_AGE_MS = 60_000
TICK_MS = 500


class Tick:
    """A service that does nothing but show that the loop turns."""

    name = "tick"
    interval_ms = TICK_MS

    async def run_once(self) -> Report:
        """Nothing; that it ran is what counts."""
        return {}


class Health:
    """What the probes answer. `state`: starting, running, draining."""

    def __init__(self, clock: Clock) -> None:
        self.state = "starting"
        self.vitals: Mapping[str, Vitals] = {}
        self.needed: frozenset[str] = frozenset()  # the services that must make progress for the worker to be ready
        self.observers: frozenset[str] = frozenset()  # those that it is degraded without, and ready all the same
        self._clock = clock

    def live(self) -> tuple[bool, dict[str, object]]:
        """Whether the loop turns."""
        tick = self.vitals.get(Tick.name)
        age_ms = self._age(tick) if tick is not None else 0
        return age_ms <= MAX_AGE_MS, {"status": "live" if age_ms <= MAX_AGE_MS else "stuck", "loop_age_ms": age_ms}

    def ready(self) -> tuple[bool, dict[str, object]]:
        """Whether messages are served, and what stands against it; `degraded`: they are, and something that observes them fails."""
        if self.state != "running":
            return False, {"status": self.state}
        against = self._against(self.needed, MAX_AGE_MS)
        aside = self._against(self.observers - self.needed, MAX_OBSERVER_AGE_MS)
        return (not against), {
            "status": "not ready" if against else "degraded" if aside else "ready",
            **({"services": against} if against else {}),
            **({"degraded": aside} if aside else {}),
        }

    def _against(self, names: Iterable[str], max_age_ms: int) -> dict[str, str]:
        """Which of these services make no progress, and why."""
        against = {}
        for name in sorted(names):
            vitals = self.vitals.get(name)
            if vitals is None or not vitals.last_ok_at_ms:
                against[name] = vitals.last_error if vitals is not None and vitals.last_error else "has not run yet"
            elif vitals.failures:
                against[name] = vitals.last_error
            elif self._age(vitals) > max_age_ms:
                against[name] = f"no progress for {self._age(vitals)} ms"
        return against

    def _age(self, vitals: Vitals) -> int:
        return self._clock.monotonic_ms() - (vitals.last_ok_at_ms or vitals.started_at_ms)


class HealthServer(PageServer):
    """Answers the probes, and whatever pages stand beside them."""

    def __init__(self, health: Health, host: str, port: int, beside: Mapping[str, Answerer] | None = None) -> None:
        probes: dict[str, Answerer] = {
            "/livez": lambda _: _page(*health.live()),
            "/healthz": lambda _: _page(*health.live()),
            "/readyz": lambda _: _page(*health.ready()),
        }
        super().__init__(probes | dict(beside or {}), host, port)


def _page(good: bool, found: dict[str, object]) -> Page:
    return Page("200 OK" if good else "503 Service Unavailable", "application/json", orjson.dumps(found) + b"\n")
