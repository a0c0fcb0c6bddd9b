"""Log lines of the worker: one JSON object a line on stderr, or plain text for people. The library only ever asks for loggers."""

import logging
import re
import sys
import traceback
from types import TracebackType
from typing import Any

import orjson

from reach.log import Event, as_fact, shortened

_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}

#: What moves a cursor or begins a line for some reader: C0 but newline and tab, DEL, C1, the separators of Unicode.
_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
#: A traceback stands below its record, set in, so that no line of it can be taken for a record.
BELOW = "  | "
MAX_TRACEBACK_CHARS = 20_000


class JsonFormatter(logging.Formatter):
    """A record as JSON: at, level, logger, event, then the fields that were given with it."""

    def format(self, record: logging.LogRecord) -> str:
        """One line. A field that is no JSON becomes text; no record can make this fail."""
        fields: dict[str, Any] = {
            "at": round(record.created, 3),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": _event(record),
        }
        fields.update((name, value) for name, value in record.__dict__.items() if name not in _STANDARD)
        if record.exc_info and record.exc_info[0] is not None:
            fields["exception"] = _traceback(record.exc_info)
        try:
            line = orjson.dumps(fields, default=_text, option=orjson.OPT_NON_STR_KEYS).decode()
        except (TypeError, ValueError):  # lone surrogates, integers over 64 bits
            line = orjson.dumps({name: ascii(value) for name, value in fields.items()}).decode()
        return _STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", line)  # what JSON lets stand inside its strings


class ConsoleFormatter(logging.Formatter):
    """A record for people: the event, then its fields as name=value."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, and a traceback below it where there is one."""
        fields = " ".join(
            f"{name}={as_fact(value)}" for name, value in record.__dict__.items() if name not in _STANDARD
        )
        event = _STEERING.sub(_escaped, _event(record)).replace("\n", "\\n")
        line = f"{self.formatTime(record, '%H:%M:%S')} {record.levelname.lower():7} {event} {fields}".rstrip()
        if record.exc_info and record.exc_info[0] is not None:
            told = (_STEERING.sub(_escaped, text) for text in _traceback(record.exc_info).rstrip().split("\n"))
            line = "\n".join([line, *(f"{BELOW}{text}" for text in told)])
        return line.encode("utf-8", "backslashreplace").decode()


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def _text(value: object) -> object:
    return shortened(repr(value))


def _traceback(exc_info: tuple[type[BaseException], BaseException, TracebackType | None]) -> str:
    """As Python prints it; of a long one the beginning and the end, where the error's own words stand."""
    text = "".join(traceback.format_exception(*exc_info))
    if len(text) <= MAX_TRACEBACK_CHARS:
        return text
    half = MAX_TRACEBACK_CHARS // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters ...\n{text[-half:]}"


def _event(record: logging.LogRecord) -> str:
    """What happened, without the facts that the record has as fields."""
    return record.msg.event if isinstance(record.msg, Event) else str(shortened(record.getMessage()))


def set_up(log_format: str, log_level: str) -> None:
    """Send the log of this process to stderr. Only a program calls this, never the library."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else ConsoleFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)  # other people's libraries
    for name in ("reach", "reach_worker"):
        logging.getLogger(name).setLevel(log_level.upper())
