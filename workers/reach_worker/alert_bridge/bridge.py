"""The bridge: a listener for Alertmanager, and an outbox for each chat."""

import asyncio
import random
from collections.abc import Iterable

from reach.clock import Clock
from reach.errors import ConfigError
from reach.log import event_log
from reach.service import Service, Supervisor
from reach.settings import Settings
from reach.tracing.readings import Reading
from reach_worker.alert_bridge.listener import Listener
from reach_worker.alert_bridge.notification import Notification
from reach_worker.alert_bridge.outbox import Outbox
from reach_worker.alert_bridge.posting import Post, post
from reach_worker.alert_bridge.targets import read_targets

log = event_log("reach_worker.alert_bridge")

ROLE = "alert-bridge"


class Bridge:
    """Started before Redis is asked for, and ended last: an outage is what it has to tell.

    Raises:
        ConfigError: A target that cannot be used.
    """

    def __init__(self, settings: Settings, *, clock: Clock, post: Post = post) -> None:
        self._settings, self._clock = settings, clock
        rng = random.Random()  # noqa: S311 - jitter, no secret
        self.outboxes = {
            name: Outbox(name, chat, target, post, clock=clock, rng=rng)
            for name, (chat, target) in read_targets(settings.alert_to).items()
        }
        host, _, port = settings.alert_listen.rpartition(":")
        self._listener = Listener(self.take, self.status, host.strip("[]"), int(port), settings.alert_token)
        self._supervisor: Supervisor | None = None
        self.port = 0

    async def start(self, *beside: Service) -> Supervisor:
        """Listen, and send what comes, and run what is given `beside`.

        Raises:
            ConfigError: The address cannot be had.
        """
        try:
            self.port = await self._listener.start()
        except OSError as error:
            raise ConfigError(f"--alert-listen {self._settings.alert_listen}: {error.strerror or error}") from error
        self._supervisor = Supervisor((*beside, *self.outboxes.values()), clock=self._clock)
        self._supervisor.start()
        log.info("alert bridge", extra={"port": self.port, "to": sorted(self.outboxes)})
        return self._supervisor

    def take(self, name: str, notification: Notification) -> bool:
        """Put it into the outbox of this name, or of all chats (""). False: one has no room, and nobody was given it.

        Raises:
            KeyError: There is no such chat.
        """
        chosen = [self.outboxes[name]] if name else list(self.outboxes.values())
        if not all(outbox.has_room for outbox in chosen):
            return False
        for outbox in chosen:
            outbox.put(notification)
        return True

    def status(self) -> dict[str, object]:
        """How each chat does, for people: counts, no address."""
        return {
            "chats": {
                name: {"sent": one.sent, "told": one.told, "lost": one.lost, "waiting": one.waiting}
                for name, one in self.outboxes.items()
            }
        }

    def readings(self) -> Iterable[Reading]:
        """The same for /metrics, by chat as REACH_ALERT_TO names it."""
        for name, one in self.outboxes.items():
            chat = (name,)
            yield Reading("reach_alerts_sent_total", one.told, chat)
            yield Reading("reach_alerts_failed_total", one.failed, chat)
            yield Reading("reach_alerts_retried_total", one.retried, chat)
            yield Reading("reach_alerts_dropped_total", one.lost, chat)
            yield Reading("reach_alerts_waiting", one.waiting, chat)
            if one.last_sent_ms is not None:
                yield Reading("reach_alerts_last_sent_timestamp_seconds", one.last_sent_ms / 1000, chat)

    async def close(self) -> None:
        """Take nothing more, and send what waits. Twice is once."""
        await self._listener.stop()
        if self._supervisor is None:
            return
        supervisor, self._supervisor = self._supervisor, None
        await supervisor.stop(self._settings.drain_ms)
        await asyncio.gather(*(outbox.close() for outbox in self.outboxes.values()))


def open_bridge(settings: Settings, *, clock: Clock) -> Bridge | None:
    """The bridge of a worker with the role; None for others.

    Raises:
        ConfigError: A target that cannot be used.
    """
    return Bridge(settings, clock=clock) if ROLE in settings.roles else None
