"""What waits for one chat, and how it gets there: at the pace that the chat takes, tried for a while, never lost without a word."""

import random
from asyncio import Event
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from reach.clock import Clock
from reach.log import PacedLog, event_log
from reach.service import Report, Wait, pause_ms
from reach_worker.alert_bridge.bucket import Bucket
from reach_worker.alert_bridge.card import card
from reach_worker.alert_bridge.chats.port import Chat, Reply, Target, Verdict
from reach_worker.alert_bridge.notification import Notification
from reach_worker.alert_bridge.posting import NotPosted, Post

log = event_log("reach_worker.alert_bridge")

MAX_WAITING = 1_000
#: How long a notification is tried. Alertmanager tells again what still fires (`repeat_interval`).
GIVE_UP_MS = 15 * 60_000
MAX_PAUSE_MS = 30_000
NAMES_TOLD = 20


class _Waiting(NamedTuple):
    since_ms: int
    notification: Notification


class Outbox:
    """A service with a queue, and what it has come to.

    Attributes:
        sent: Messages that the chat has taken.
        told: Notifications in them.
        lost: Notifications that were given up.
        failed: Tries that the chat has not taken.
        retried: Tries that came after a failed one.
        last_sent_ms: When the chat has last taken one, Unix ms; None: never.
    """

    interval_ms = 0

    def __init__(self, name: str, chat: Chat, target: Target, post: Post, *, clock: Clock, rng: random.Random) -> None:
        self.name = f"alerts to {name}"
        self.sent = self.told = self.lost = self.failed = self.retried = 0
        self.last_sent_ms: int | None = None
        self._chat, self._target, self._post = chat, target, post
        self._clock, self._rng = clock, rng
        self._bucket = Bucket(chat.per_minute)
        self._waiting: deque[_Waiting] = deque()
        self._news, self._wait = Event(), Wait()
        self._failures = 0
        self._not_before_ms = 0
        self._untold = 0  # lost, and not yet said in the chat
        self._log = PacedLog(log, clock)

    @property
    def waiting(self) -> int:
        """How many notifications wait."""
        return len(self._waiting)

    @property
    def has_room(self) -> bool:
        """Whether one more may be put. Where there is none, whoever tells it shall tell it again."""
        return len(self._waiting) < MAX_WAITING

    def put(self, notification: Notification) -> None:
        """Take it for sending."""
        self._waiting.append(_Waiting(self._clock.monotonic_ms(), notification))
        self._news.set()

    async def run_once(self) -> Report:
        """Wait until there is something and it may be sent, and send one message."""
        if await self._wait.on(self._due()) is None:
            return {}
        return await self._send()

    def interrupt(self) -> None:
        """Wait no more; `close` sends what is left."""
        self._wait.end()

    async def close(self) -> None:
        """Send what is left in one message, once, where the pace of the chat allows it; what was not sent is logged by name."""
        if self._waiting and self._bucket.free(self._clock.monotonic_ms()):
            await self._send(all_of_it=True)
        if self._waiting:
            self._give_up(len(self._waiting), "the bridge has ended")

    async def _due(self) -> bool:
        while True:
            if not self._waiting:
                self._news.clear()
                await self._news.wait()
            now_ms = self._clock.monotonic_ms()
            wait_ms = max(self._bucket.wait_ms(now_ms), self._not_before_ms - now_ms)
            if wait_ms <= 0:
                return True
            await self._clock.sleep(wait_ms)

    async def _send(self, *, all_of_it: bool = False) -> Report:
        now_ms = self._clock.monotonic_ms()
        old = sum(now_ms - one.since_ms >= GIVE_UP_MS for one in self._waiting)
        if old:
            self._give_up(old, f"not taken within {GIVE_UP_MS // 60_000} minutes")
        if not self._waiting:
            return {}
        # The last token of a minute, and every try after one that failed, is for all that waits: nothing falls off the end of a queue.
        together = all_of_it or self._failures > 0 or self._bucket.free(now_ms) == 1
        batch = [one.notification for one in self._waiting] if together else [self._waiting[0].notification]
        untold = self._untold
        content = self._chat.write(self._target, card(batch, untold), batch, self._clock.wall_ms())
        self._bucket.spend(now_ms)
        self.retried += self._failures > 0
        reply = Reply(0, b"")
        try:
            reply = await self._post(content)
            verdict = self._chat.judge(reply)
        except NotPosted as error:
            verdict = Verdict(str(error), again=True)
        if not verdict.why:
            self._taken(len(batch), untold)
            return {"sent": 1}
        self._failures += 1
        self.failed += 1
        if verdict.again:
            self._log.warning(
                "alert not sent yet", of=self.name, to=self.name, why=verdict.why, waiting=len(self._waiting)
            )
        else:
            self._give_up(len(batch), verdict.why)
        self._not_before_ms = self._clock.monotonic_ms() + max(reply.retry_after_ms, self._pause_ms())
        return {"failed": 1}

    def _taken(self, count: int, untold: int) -> None:
        for _ in range(count):
            self._waiting.popleft()
        self.sent += 1
        self.told += count
        self.last_sent_ms = self._clock.wall_ms()
        self._untold -= untold
        if self._failures:
            log.info("alerts are sent again", extra={"to": self.name, "failures": self._failures})
        self._failures = self._not_before_ms = 0

    def _give_up(self, count: int, why: str) -> None:
        given_up = [self._waiting.popleft().notification for _ in range(count)]
        self.lost += count
        self._untold += count
        log.error(
            "alerts lost", extra={"to": self.name, "why": why, "notifications": count, "alerts": _names(given_up)}
        )

    def _pause_ms(self) -> int:
        return min(MAX_PAUSE_MS, pause_ms(self._failures, self._rng) * min(self._failures, 30))


def _names(notifications: Sequence[Notification]) -> list[str]:
    names = dict.fromkeys(f"{alert.status} {alert.alert_name}" for one in notifications for alert in one.alerts)
    return list(names)[:NAMES_TOLD]
