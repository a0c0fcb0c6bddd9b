"""What the bridge knows of a chat system: what it is sent, how often, and what its answer means."""

import base64
import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from reach_worker.alert_bridge.card import Card
from reach_worker.alert_bridge.notification import Notification


class Target(NamedTuple):
    """Where a robot listens. `secret`: what its messages are signed with, "" where it asks for no signature."""

    url: str
    secret: str


class Outgoing(NamedTuple):
    """A POST of JSON."""

    url: str
    body: bytes


class Reply(NamedTuple):
    """What came back. `retry_after_ms`: when the chat wants to be asked again, 0 where it does not say."""

    status: int
    body: bytes
    retry_after_ms: int = 0


class Verdict(NamedTuple):
    """`why` "": it was taken. `again`: the same may be taken later."""

    why: str = ""
    again: bool = False


class Chat(NamedTuple):
    """`per_minute`: how many messages it takes. `write(target, card, notifications, wall_ms)` makes the request."""

    per_minute: int
    write: Callable[[Target, Card, Sequence[Notification], int], Outgoing]
    judge: Callable[[Reply], Verdict]


def by_status(reply: Reply) -> Verdict:
    """The verdict of HTTP alone."""
    if 200 <= reply.status < 300:
        return Verdict()
    return Verdict(f"HTTP {reply.status}", again=reply.status in {408, 425, 429} or reply.status >= 500)


def by_code(reply: Reply, names: Sequence[str], busy: frozenset[int]) -> Verdict:
    """The verdict of a chat that answers 200 to everything and says in its body how it went. `busy`: codes that mean later."""
    verdict = by_status(reply)
    if verdict.why:
        return verdict
    try:
        found: Mapping[str, Any] = orjson.loads(reply.body)
        code = next((found[name] for name in names if name in found), None)
    except (orjson.JSONDecodeError, TypeError):
        code = None
    if not isinstance(code, int):
        return Verdict("an answer that is not of this chat system")
    return Verdict() if code == 0 else Verdict(f"code {code}", again=code in busy)


def signature(key: str, text: str) -> str:
    """HMAC-SHA256 in base64, as robots are signed to."""
    return base64.b64encode(hmac.new(key.encode(), text.encode(), hashlib.sha256).digest()).decode()
