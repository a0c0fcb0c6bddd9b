"""Log lines of the worker: one JSON object a line on stderr, or plain text for people. The library only ever asks for loggers."""

import logging
import sys
import traceback
from typing import Any

import orjson

from reach.log import Event, as_fact

_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


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
            fields["exception"] = "".join(traceback.format_exception(*record.exc_info))
        try:
            return orjson.dumps(fields, default=repr, option=orjson.OPT_NON_STR_KEYS).decode()
        except (TypeError, ValueError):  # lone surrogates, integers over 64 bits
            return orjson.dumps({name: ascii(value) for name, value in fields.items()}).decode()


class ConsoleFormatter(logging.Formatter):
    """A record for people: the event, then its fields as name=value."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, and a traceback below it where there is one."""
        fields = " ".join(
            f"{name}={as_fact(value)}" for name, value in record.__dict__.items() if name not in _STANDARD
        )
        line = f"{self.formatTime(record, '%H:%M:%S')} {record.levelname.lower():7} {_event(record)} {fields}".rstrip()
        if record.exc_info and record.exc_info[0] is not None:
            line += "\n" + "".join(traceback.format_exception(*record.exc_info)).rstrip()
        return line.encode("utf-8", "backslashreplace").decode()


def _event(record: logging.LogRecord) -> str:
    """What happened, without the facts that the record has as fields."""
    return record.msg.event if isinstance(record.msg, Event) else record.getMessage()


def set_up(log_format: str, log_level: str) -> None:
    """Send the log of this process to stderr. Only a program calls this, never the library."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else ConsoleFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)  # other people's libraries
    for name in ("reach", "reach_worker"):
        logging.getLogger(name).setLevel(log_level.upper())
