"""`/livez` and `/readyz` over plain HTTP, for whoever starts and stops workers.

Live: the event loop turns; no dependency is asked, since a probe that asked Redis would restart the whole fleet on a blip.
Ready: every service that serves messages has lately ended a run without an error, and the worker is not draining.
"""

import asyncio
from collections.abc import Callable, Mapping

import orjson

from reach.clock import Clock
from reach.log import event_log
from reach.service import Report, Vitals

log = event_log("reach_worker.health")

MAX_AGE_MS = 10_000
MAX_REQUEST_BYTES = 8_192
REQUEST_TIMEOUT_S = 5.0
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


class HealthServer:
    """Answers GET and HEAD of the probes, one request a connection."""

    def __init__(self, health: Health, host: str, port: int) -> None:
        self._pages: dict[str, Callable[[], tuple[bool, dict[str, object]]]] = {
            "/livez": health.live,
            "/healthz": health.live,
            "/readyz": health.ready,
        }
        self._host, self._port = host, port
        self._server: asyncio.Server | None = None

    async def start(self) -> int:
        """Listen; the port. Raises OSError where it cannot."""
        self._server = await asyncio.start_server(self._serve, self._host, self._port, limit=MAX_REQUEST_BYTES)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def stop(self) -> None:
        """Listen no more. Twice is once."""
        if self._server is not None:
            self._server.close()
            self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(self.answer(head))
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a probe that went away, or something that does not speak HTTP: nobody to tell
        finally:
            writer.close()

    def answer(self, head: bytes) -> bytes:
        """The response to a request's head."""
        method, _, rest = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        page = self._pages.get(path)
        if method not in {"GET", "HEAD"}:
            status, body = "405 Method Not Allowed", {"status": "only GET and HEAD"}
        elif page is None:
            status, body = "404 Not Found", {"status": "there are /livez and /readyz"}
        else:
            good, found = page()
            status, body = ("200 OK" if good else "503 Service Unavailable"), found  # type: ignore[assignment]
        content = orjson.dumps(body) + b"\n"
        lines = (
            f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n"
            "Cache-Control: no-store\r\nConnection: close\r\n\r\n"
        )
        return lines.encode() + (b"" if method == "HEAD" else content)
