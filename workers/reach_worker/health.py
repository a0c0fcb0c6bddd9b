"""`/livez` and `/readyz` over plain HTTP, for whoever starts and stops workers.

Live: the event loop turns; no dependency is asked, since a probe that asked Redis would restart the whole fleet on a blip.
Ready: every service that serves messages has lately ended a run without an error, and the worker is not draining.
"""

from collections.abc import Mapping

import orjson

from reach.clock import Clock
from reach.service import Report, Vitals
from reach.tracing.pages import Answerer, Page, PageServer

MAX_AGE_MS = 10_000
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
        self._clock = clock

    def live(self) -> tuple[bool, dict[str, object]]:
        """Whether the loop turns."""
        tick = self.vitals.get(Tick.name)
        age_ms = self._age(tick) if tick is not None else 0
        return age_ms <= MAX_AGE_MS, {"status": "live" if age_ms <= MAX_AGE_MS else "stuck", "loop_age_ms": age_ms}

    def ready(self) -> tuple[bool, dict[str, object]]:
        """Whether messages are served, and what stands against it."""
        if self.state != "running":
            return False, {"status": self.state}
        against = {}
        for name in sorted(self.needed):
            vitals = self.vitals.get(name)
            if vitals is None or not vitals.last_ok_at_ms:
                against[name] = vitals.last_error if vitals is not None and vitals.last_error else "has not run yet"
            elif vitals.failures:
                against[name] = vitals.last_error
            elif self._age(vitals) > MAX_AGE_MS:
                against[name] = f"no progress for {self._age(vitals)} ms"
        return (not against), {
            "status": "not ready" if against else "ready",
            **({"services": against} if against else {}),
        }

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
