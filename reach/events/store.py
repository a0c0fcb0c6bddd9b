"""What a store of events is, and what can be asked of it. A new one is a file here and a line in `opening`."""

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from reach.errors import BackendUnavailable

MAX_FOUND = 10_000
DAY_US = 86_400_000_000
LAST_US = 253_402_300_799_999_999  # the end of the year 9999, behind which there is no date


class StoreUnavailable(BackendUnavailable):
    """The store cannot be written or asked now; what was to be written comes again."""

    default_code = "events.unavailable"


class Event(msgspec.Struct, frozen=True):
    """One record as it was written.

    Attributes:
        key: `<partition>/<entry id>/<number in its batch>`: the same record has the same key, however often it comes.
        at_us: When it happened, by the clock of Redis; 0 where it does not say.
        body: The record, a JSON object.
        fields: What can be asked for, of the same record: those of FIELDS that it has, as text.
    """

    key: str
    at_us: int
    body: bytes
    fields: dict[str, str]


#: by which events are found, beside their moment and their text
FIELDS = (
    "point",
    "msg_id",
    "correlation_id",
    "agent",
    "instance",
    "worker",
    "code",
    "schema",
    "type",
    "trace_id",
)


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """What is looked for: all that is given has to fit.

    Attributes:
        fields: Of FIELDS, by value; several values of one field: any of them.
        since_us, until_us: The moments between which it happened; until is not part of it.
        text: That stands anywhere in the record, in upper or lower case.
        max_found: The newest so many.
    """

    fields: dict[str, tuple[str, ...]] = {}
    since_us: int = 0
    until_us: int = 1 << 62
    text: str = ""
    max_found: int = 1_000

    def __post_init__(self) -> None:
        """Raises ValueError for a field that cannot be asked for, or a number of records that is none."""
        unknown = sorted(self.fields.keys() - set(FIELDS))
        if unknown:
            raise ValueError(f"events are not found by {', '.join(unknown)}; by: {', '.join(FIELDS)}")
        if not 1 <= self.max_found <= MAX_FOUND:
            raise ValueError(f"max_found is not 1 to {MAX_FOUND}")


class EventStore(Protocol):
    """Keeps events and finds them. Every method may be called again; one task at a time.

    Attributes:
        refused: How many records it would not have as they are, since it was made.
        lost: Of these, how many it has not in any form.
    """

    refused: int
    lost: int

    async def open(self) -> None:
        """Make ready what is needed.

        Raises:
            StoreUnavailable: It is not there now.
            ConfigError: It can never be used like this.
        """
        ...

    async def write(self, events: Sequence[Event]) -> int:
        """Keep them, on disk when this returns; those that are there already (by key) stay once. How many were new.

        Raises:
            StoreUnavailable: Not all are kept.
        """
        ...

    async def find(self, query: Query) -> list[dict[str, Any]]:
        """The newest that fit, oldest first, each once.

        Raises:
            StoreUnavailable: It cannot be asked.
        """
        ...

    async def prune(self, now_us: int) -> int:
        """Let go of what is older than the store keeps. How many (days, indices) went."""
        ...

    async def close(self) -> None:
        """Let everything go. Twice is once."""
        ...


def event_of(key: str, body: bytes) -> Event | None:
    """The event of a record; None for bytes that are no JSON object: they were written by nobody who knows what a record is."""
    try:
        told = _told.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    at_us = told.at_us
    if type(at_us) is not int or not 0 <= at_us <= LAST_US:
        at_us = 0
    fields = {name: value for name in FIELDS if type(value := getattr(told, name)) is str and value}
    return Event(key, at_us, body, fields)


def fits(event: Event, query: Query) -> bool:
    """Whether an event is one of those that are looked for."""
    return (
        query.since_us <= event.at_us < query.until_us
        and all(event.fields.get(name) in wanted for name, wanted in query.fields.items())
        and (not query.text or query.text.lower() in event.body.decode("utf-8", "replace").lower())
    )


_told: msgspec.json.Decoder[Any] = msgspec.json.Decoder(
    msgspec.defstruct("_Told", [("at_us", Any, 0), *((name, Any, None) for name in FIELDS)])
)
