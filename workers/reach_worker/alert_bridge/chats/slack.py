"""Slack incoming webhooks: one message a second."""

from collections.abc import Sequence

import orjson

from reach_worker.alert_bridge.card import Card, fit
from reach_worker.alert_bridge.chats.port import Chat, Outgoing, Reply, Target, Verdict, by_status
from reach_worker.alert_bridge.notification import Notification

#: Slack cuts a text at 40,000 characters and asks for at most 4,000.
MAX_BYTES = 4_000
PER_MINUTE = 60


def write(target: Target, card: Card, notifications: Sequence[Notification], wall_ms: int) -> Outgoing:  # noqa: ARG001
    """A text in Slack's own markup, where `&`, `<` and `>` are escaped: no alert can mention a channel."""
    head = f"{':red_circle:' if card.firing else ':large_green_circle:'} *{_plain(card.title)}*"
    items = [_plain(note) for note in card.notes]
    for item in card.items:
        name, _, rest = _plain(item).partition("\n")
        items.append(f"*{name}*" + "".join(f"\n>{line}" for line in rest.splitlines()))
    return Outgoing(target.url, orjson.dumps({"text": fit(head, items, MAX_BYTES)}))


def judge(reply: Reply) -> Verdict:
    """Slack speaks HTTP."""
    return by_status(reply)


def _plain(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


CHAT = Chat(PER_MINUTE, write, judge)
