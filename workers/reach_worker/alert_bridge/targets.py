"""Which chats a bridge tells, from the text of REACH_ALERT_TO."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from reach.errors import ConfigError
from reach_worker.alert_bridge.chats import CHATS
from reach_worker.alert_bridge.chats.port import Chat, Target

_NAME = re.compile(r"[a-z]+(\.[a-z0-9_-]{1,32})?")


def read_targets(entries: Sequence[str]) -> Mapping[str, tuple[Chat, Target]]:
    """By name: `wecom=https://...`, `slack.ops=@/run/secrets/slack`, `dingtalk=https://...#<what it is signed with>`.

    Raises:
        ConfigError: All that is wrong with them, without an address in it.
    """
    found: dict[str, tuple[Chat, Target]] = {}
    problems = []
    for number, entry in enumerate(entries, 1):
        name, _, place = entry.partition("=")
        kind = name.partition(".")[0]
        if not _NAME.fullmatch(name) or kind not in CHATS or not place:
            # What stands there may be an address: only what can be no secret is repeated.
            told = kind if re.fullmatch(r"[a-z]{1,16}", kind) and place else f"entry {number}"
            problems.append(f"{told}: is none of {', '.join(f'{chat}=<address>' for chat in CHATS)}")
            continue
        try:
            target = _target(place)
        except ValueError as error:
            problems.append(f"{name}: {error}")
            continue
        if name in found:
            problems.append(f"{name}: stands there twice; a second one is {kind}.<name>")
        found[name] = (CHATS[kind], target)
    if problems:
        problems = [f"--alert-to: {problem}" for problem in problems]
        raise ConfigError("; ".join(problems), details={"problems": problems})
    return found


def _target(place: str) -> Target:
    if place.startswith("@"):
        try:
            place = Path(place[1:]).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"its file cannot be read: {getattr(error, 'strerror', None) or 'no text'}") from None
    if not place.isascii() or not place.isprintable() or " " in place:
        raise ValueError("is no address: it has characters that no address has")
    try:
        parts = urlsplit(place)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ValueError("is no address: it starts with https:// or http:// and names a host")
    url, _, secret = place.partition("#")
    return Target(url, secret)
