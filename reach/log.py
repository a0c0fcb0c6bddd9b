"""Events with their facts: `log.info("reclaimed", agent=..., count=3)`.

A handler that knows nothing of us (logging.basicConfig) drops what is in `extra`, so the facts stand in the text as well:
`reclaimed agent=... count=3`. Whoever wants fields (the worker's JSON) finds them on the record, and the bare event in `record.msg.event`.
"""

import logging
from collections.abc import Mapping, MutableMapping
from typing import Any

_OF_LOGGING = frozenset({"exc_info", "stack_info", "stacklevel", "extra"})


class Event:
    """The message of a record: what happened, and the facts of it. As text both, without line breaks or control characters in a fact."""

    __slots__ = ("event", "facts")

    def __init__(self, event: str, facts: Mapping[str, object]) -> None:
        self.event = event
        self.facts = facts

    def __str__(self) -> str:
        """`event name=value ...`."""
        return " ".join((self.event, *(f"{name}={as_fact(value)}" for name, value in self.facts.items())))

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        """A record that goes to another process (QueueHandler, a socket) takes the text along."""
        return str, (str(self),)


class EventLog(logging.LoggerAdapter[logging.Logger]):
    """A logger whose keyword arguments are the facts of the event. `extra` is taken as facts, too."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Put the facts into the message and onto the record."""
        facts = {**(kwargs.get("extra") or {}), **{name: kwargs[name] for name in kwargs if name not in _OF_LOGGING}}
        given = {name: kwargs[name] for name in kwargs if name in _OF_LOGGING}
        return (Event(msg, facts) if facts else msg), {**given, "extra": facts}


def event_log(name: str) -> EventLog:
    """The logger of this name, for events with facts."""
    return EventLog(logging.getLogger(name))


def as_fact(value: object) -> str:
    """A value as one word: as it is where it is printable and has no spaces, else quoted and escaped."""
    text = str(value)
    return text if text.isprintable() and text and " " not in text and '"' not in text else repr(text)
