"""Anything that takes a POST of JSON: `{title, firing, text, notifications, alerts}`; every 2xx is a yes."""

from collections.abc import Sequence

import msgspec
import orjson

from reach_worker.alert_bridge.card import Card
from reach_worker.alert_bridge.chats.port import Chat, Outgoing, Reply, Target, Verdict, by_status
from reach_worker.alert_bridge.notification import Notification

PER_MINUTE = 600


def write(target: Target, card: Card, notifications: Sequence[Notification], wall_ms: int) -> Outgoing:  # noqa: ARG001
    """The text for people, and every alert as Alertmanager told it. `notifications`: how many were put together."""
    body = {
        "title": card.title,
        "firing": card.firing,
        "text": "\n\n".join([*card.notes, *card.items]),
        "notifications": len(notifications),
        "alerts": [msgspec.to_builtins(alert) for one in notifications for alert in one.alerts],
    }
    return Outgoing(target.url, orjson.dumps(body))


def judge(reply: Reply) -> Verdict:
    """What HTTP says."""
    return by_status(reply)


CHAT = Chat(PER_MINUTE, write, judge)
