"""What people are told, before a chat's own markup: a title, what stands above, and one item per alert; and how it is cut to a size."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from reach_worker.alert_bridge.notification import Alert, Notification

TITLE_BYTES = 200
ITEM_BYTES = 600
ENDING = "…"

#: `<`, `>` and `@` start markup and mentions; what an alert says is data, and is shown with their wide forms.
_WIDE = str.maketrans({"<": "\uff1c", ">": "\uff1e", "@": "\uff20"})

#: labels that say nothing to people, or stand elsewhere in the text
_UNTOLD = frozenset({"alertname", "severity", "job", "instance", "monitor"})


class Card(NamedTuple):
    """`firing`: whether anything in it still holds. `notes` are said below the title, `items` one after another."""

    title: str
    firing: bool
    notes: Sequence[str]
    items: Sequence[str]


def card(notifications: Sequence[Notification], lost: int = 0) -> Card:
    """One or more notifications as one card; several are summarised by rule. `lost`: so many before these were never told."""
    notes = [_lost(lost)] if lost else []
    truncated = sum(one.truncated_alerts for one in notifications)
    if truncated:
        notes.append(f"{truncated} more alerts were left out by Alertmanager.")
    alerts = _latest(notifications)
    firing = sum(alert.firing for alert in alerts)
    counts = _counts(firing, len(alerts) - firing)
    if len(notifications) == 1:
        names = list(dict.fromkeys(alert.alert_name for alert in alerts))
        shown = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} others"
        return Card(cut(f"[reach] {counts}: {shown}", TITLE_BYTES), firing > 0, notes, [_item(one) for one in alerts])
    notes.insert(
        0, f"{len(notifications)} notifications in one message: there were more than this chat takes in a minute."
    )
    return Card(cut(f"[reach] {counts}", TITLE_BYTES), firing > 0, notes, _by_rule(alerts))


def as_plain(text: str) -> str:
    """The text without anything that a chat could take for a mention or markup of its own."""
    return text.translate(_WIDE)


def cut(text: str, most: int) -> str:
    """The text in at most so many bytes of UTF-8, never through the middle of a character; what was cut ends in `…`."""
    raw = text.encode("utf-8", "replace")
    if len(raw) <= most:
        return raw.decode()
    room = most - len(ENDING.encode())
    if room < 0:
        return ""
    return raw[:room].decode("utf-8", "ignore") + ENDING


def fit(
    head: str, items: Sequence[str], most: int, between: str = "\n", size: Callable[[str], int] | None = None
) -> str:
    """The head and as many whole items as have room in so many bytes, and how many there are beyond."""
    measure = size or (lambda text: len(text.encode("utf-8", "replace")))
    text = head
    for done, item in enumerate(items):
        left = len(items) - done - 1
        grown = text + between + item
        if measure(grown + (_more(between, left) if left else "")) > most:
            return cut_to(text + _more(between, left + 1), most, measure)
        text = grown
    return cut_to(text, most, measure)


def cut_to(text: str, most: int, measure: Callable[[str], int]) -> str:
    """The text in a size that is measured after escaping, say; the last resort, where not even the head has room."""
    if measure(text) <= most:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if measure(text[:middle] + ENDING) <= most else (low, middle - 1)
    return text[:low] + ENDING if measure(text[:low] + ENDING) <= most else ""


def _more(between: str, count: int) -> str:
    return f"{between}{ENDING} and {count} more"


def _lost(count: int) -> str:
    return f"{count} notifications before this one could not be sent: look into Alertmanager."


def _counts(firing: int, resolved: int) -> str:
    told = ([f"FIRING {firing}"] if firing else []) + ([f"RESOLVED {resolved}"] if resolved else [])
    return ", ".join(told)


def _latest(notifications: Sequence[Notification]) -> list[Alert]:
    """Each alert as it was told last, those that fire first."""
    latest: dict[object, Alert] = {}
    for notification in notifications:
        for alert in notification.alerts:
            key = alert.fingerprint or tuple(sorted(alert.labels.items()))
            latest.pop(key, None)
            latest[key] = alert
    return sorted(latest.values(), key=lambda alert: not alert.firing)


def _item(alert: Alert) -> str:
    status = "FIRING" if alert.firing else "RESOLVED"
    severity = alert.labels.get("severity")
    name = f"{status} {alert.alert_name}" + (f" ({severity})" if severity else "")
    said = (
        alert.annotations.get("summary")
        or alert.annotations.get("description")
        or alert.annotations.get("message")
        or ""
    )
    labels = ", ".join(f"{key}={value}" for key, value in sorted(alert.labels.items()) if key not in _UNTOLD)
    since = f"since {alert.starts_at[:19]}Z" if alert.firing and alert.starts_at.endswith("Z") else ""
    runbook = alert.annotations.get("runbook_url", "")
    command = alert.annotations.get("command", "")
    facts = " · ".join(part for part in (labels, since) if part)
    lines = [name, said, facts, f"first: {command}" if command else "", runbook]
    return "\n".join(cut(" ".join(line.split()), ITEM_BYTES) for line in lines if line)


def _by_rule(alerts: Sequence[Alert]) -> list[str]:
    counts: dict[tuple[str, str, str], int] = {}
    for alert in alerts:
        key = ("FIRING" if alert.firing else "RESOLVED", alert.alert_name, alert.labels.get("severity", ""))
        counts[key] = counts.get(key, 0) + 1
    return [
        cut(
            f"{status} {name}" + (f" ({severity})" if severity else "") + (f": {count} alerts" if count > 1 else ""),
            ITEM_BYTES,
        )
        for (status, name, severity), count in counts.items()
    ]
