"""DingTalk group robots: markdown, 20 messages a minute, signed where the robot asks for it. Its keyword can be `reach`."""

from collections.abc import Sequence
from urllib.parse import quote_plus

import orjson

from reach_worker.alert_bridge.card import Card, as_plain, fit
from reach_worker.alert_bridge.chats.port import Chat, Outgoing, Reply, Target, Verdict, by_code, signature
from reach_worker.alert_bridge.notification import Notification

#: The whole message may have 20,000 bytes; the title stands in it twice.
MAX_BYTES = 18_000
PER_MINUTE = 20
#: -1: the system is busy; 130101: too often; 410100: too often, and stopped for a while
BUSY = frozenset({-1, 130101, 410100})


def write(target: Target, card: Card, notifications: Sequence[Notification], wall_ms: int) -> Outgoing:  # noqa: ARG001
    """A markdown message. A line of its own needs an empty one before it, and `@` mentions people."""
    items = [as_plain(note) for note in card.notes]
    for item in card.items:
        name, _, rest = as_plain(item).partition("\n")
        items.append(f"#### {name}" + "".join(f"\n> {line}\n" for line in rest.splitlines()))
    title = as_plain(card.title)
    text = fit(f"### {title}", items, MAX_BYTES, between="\n\n")
    url = target.url
    if target.secret:
        sign = quote_plus(signature(target.secret, f"{wall_ms}\n{target.secret}"))
        url += f"{'&' if '?' in url else '?'}timestamp={wall_ms}&sign={sign}"
    return Outgoing(url, orjson.dumps({"msgtype": "markdown", "markdown": {"title": title, "text": text}}))


def judge(reply: Reply) -> Verdict:
    """DingTalk answers 200 and says in `errcode` how it went."""
    return by_code(reply, ("errcode",), BUSY)


CHAT = Chat(PER_MINUTE, write, judge)
