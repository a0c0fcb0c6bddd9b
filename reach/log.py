"""Events with their facts: `log.info("reclaimed", agent=..., count=3)`.

A handler that knows nothing of us (logging.basicConfig) drops what is in `extra`, so the facts stand in the text as well:
`reclaimed agent=... count=3`. Whoever wants fields (the worker's JSON) finds them on the record, and the bare event in `record.msg.event`.
"""

import logging
from collections.abc import Hashable, Mapping, MutableMapping
from typing import Any

from reach.clock import Clock, SystemClock

#: One line in so long says what happens again and again.
SAME_EVERY_MS = 10_000
MAX_REMEMBERED = 1_000
#: a fact is at most so long: what others have written must not fill a disk
MAX_FACT_CHARS = 2_000

#: What is said in place of a text that may hold what somebody has sent.
HUSHED = "(its text is not logged: the setting privacy)"

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
        facts = {name: shortened(value) for name, value in facts.items()}
        given = {name: kwargs[name] for name in kwargs if name in _OF_LOGGING}
        return (Event(msg, facts) if facts else msg), {**given, "extra": facts}


class PacedLog:
    """For what an outage makes happen again with every message: the same event of the same thing is one line in 10 s.

    The next line says as `unsaid` how many there were meanwhile. Belongs to one object, whose clock it uses.
    """

    def __init__(self, log: EventLog, clock: Clock | None = None) -> None:
        self._log = log
        self._clock: Clock = clock or SystemClock()
        self._said_at_ms: dict[Hashable, int] = {}
        self._unsaid: dict[Hashable, int] = {}

    def info(self, event: str, *, of: Hashable = None, **facts: object) -> bool:
        """As `warning`."""
        return self._say(logging.INFO, event, of, facts)

    def warning(self, event: str, *, of: Hashable = None, **facts: object) -> bool:
        """Say it, unless it was said of this thing (a stream, an agent; None: of anything) less than 10 s ago. True: it was said.

        `exc_info` among the facts is an exception whose traceback goes with the line.
        """
        return self._say(logging.WARNING, event, of, facts)

    def error(self, event: str, *, of: Hashable = None, **facts: object) -> bool:
        """As `warning`."""
        return self._say(logging.ERROR, event, of, facts)

    def _say(self, level: int, event: str, of: Hashable, facts: dict[str, Any]) -> bool:
        kind = (event, of)
        now_ms = self._clock.monotonic_ms()
        said_at_ms = self._said_at_ms.get(kind)
        if said_at_ms is not None and now_ms - said_at_ms < SAME_EVERY_MS:
            self._unsaid[kind] = self._unsaid.get(kind, 0) + 1
            return False
        if len(self._said_at_ms) >= MAX_REMEMBERED:
            self._said_at_ms.clear()
            self._unsaid.clear()
        self._said_at_ms[kind] = now_ms
        error = facts.pop("exc_info", None)
        unsaid = self._unsaid.pop(kind, 0)
        self._log.log(
            level, event, extra={**facts, "unsaid": unsaid} if unsaid else facts, exc_info=error, stacklevel=3
        )
        return True


def event_log(name: str) -> EventLog:
    """The logger of this name, for events with facts."""
    return EventLog(logging.getLogger(name))


def hushed(error: BaseException) -> BaseException:
    """What can stand for it in a traceback where its text may hold what somebody has sent: its type and its places, and no text.

    So with all that it came of.
    """
    return _hushed(error, {})


def _hushed(error: BaseException, known: dict[int, BaseException]) -> BaseException:
    if id(error) in known:
        return known[id(error)]
    kind = type(error)
    facts = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    stand_in: BaseException = type(kind.__name__, (Exception,), facts)(HUSHED)
    known[id(error)] = stand_in
    stand_in.__traceback__ = error.__traceback__
    for link in ("__cause__", "__context__"):
        came_of = getattr(error, link)
        setattr(stand_in, link, _hushed(came_of, known) if came_of is not None else None)
    stand_in.__suppress_context__ = error.__suppress_context__
    return stand_in


def shortened(value: object) -> object:
    """The value; of a long text the beginning, and how much more there was."""
    if not isinstance(value, str) or len(value) <= MAX_FACT_CHARS:
        return value
    return f"{value[:MAX_FACT_CHARS]}... and {len(value) - MAX_FACT_CHARS} more"


def as_fact(value: object) -> str:
    """A value as one word: as it is where it is printable and has no spaces, else quoted and escaped."""
    text = str(shortened(str(value)))
    return text if text.isprintable() and text and " " not in text and '"' not in text else repr(text)
