"""Feishu (Lark) group robots: a card with markdown, 100 messages a minute, signed where the robot asks for it."""

from collections.abc import Sequence

import orjson

from reach_worker.alert_bridge.card import Card, as_plain, fit
from reach_worker.alert_bridge.chats.port import Chat, Outgoing, Reply, Target, Verdict, by_code, signature
from reach_worker.alert_bridge.notification import Notification

#: The whole request may have 20 KB.
MAX_BYTES = 18_000
PER_MINUTE = 100
#: 9499: too many requests; 11232: too often, and that of all robots together at the full hour
BUSY = frozenset({9499, 11232})


def write(target: Target, card: Card, notifications: Sequence[Notification], wall_ms: int) -> Outgoing:  # noqa: ARG001
    """A card, red or green. `<` is markup and mentions people."""
    items = [as_plain(note) for note in card.notes]
    for item in card.items:
        name, _, rest = as_plain(item).partition("\n")
        items.append(f"**{name}**" + (f"\n{rest}" if rest else ""))
    text = fit("", items, MAX_BYTES, size=lambda text: len(orjson.dumps(text))).lstrip("\n")
    message: dict[str, object] = {
        "msg_type": "interactive",
        "card": {
            "header": {
                "title": {"tag": "plain_text", "content": card.title},
                "template": "red" if card.firing else "green",
            },
            "elements": [{"tag": "markdown", "content": text}],
        },
    }
    if target.secret:
        seconds = wall_ms // 1000
        message |= {"timestamp": str(seconds), "sign": signature(f"{seconds}\n{target.secret}", "")}
    return Outgoing(target.url, orjson.dumps(message))


def judge(reply: Reply) -> Verdict:
    """Feishu answers 200 and says in `code`, robots of the first kind in `StatusCode`, how it went."""
    return by_code(reply, ("code", "StatusCode"), BUSY)


CHAT = Chat(PER_MINUTE, write, judge)
