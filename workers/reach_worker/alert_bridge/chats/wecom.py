"""WeCom group robots: markdown of at most 4,096 bytes, 20 messages a minute."""

from collections.abc import Sequence

import orjson

from reach_worker.alert_bridge.card import Card, as_plain, fit
from reach_worker.alert_bridge.chats.port import Chat, Outgoing, Reply, Target, Verdict, by_code
from reach_worker.alert_bridge.notification import Notification

MAX_BYTES = 4_096
PER_MINUTE = 20
#: -1: the system is busy; 45009: too often; 45033: too many at a time
BUSY = frozenset({-1, 45009, 45033})


def write(target: Target, card: Card, notifications: Sequence[Notification], wall_ms: int) -> Outgoing:  # noqa: ARG001
    """A markdown message. `<` is markup and mentions people, so what comes from alerts is written without."""
    tone = "warning" if card.firing else "info"
    head = f'**<font color="{tone}">{as_plain(card.title)}</font>**'
    items = [as_plain(note) for note in card.notes]
    for item in card.items:
        name, _, rest = as_plain(item).partition("\n")
        items.append(f"\n**{name}**" + "".join(f"\n> {line}" for line in rest.splitlines()))
    content = fit(head, items, MAX_BYTES)
    return Outgoing(target.url, orjson.dumps({"msgtype": "markdown", "markdown": {"content": content}}))


def judge(reply: Reply) -> Verdict:
    """WeCom answers 200 and says in `errcode` how it went."""
    return by_code(reply, ("errcode",), BUSY)


CHAT = Chat(PER_MINUTE, write, judge)
