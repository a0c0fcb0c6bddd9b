"""What a store of events is, and what can be asked of it. A new one is a file here and a line in `opening`."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, Protocol

import msgspec

from reach.envelope import scan
from reach.errors import BackendUnavailable

MAX_FOUND = 10_000
DAY_US = 86_400_000_000
LAST_US = 253_402_300_799_999_999  # the end of the year 9999, behind which there is no date


class StoreUnavailable(BackendUnavailable):
    """The store cannot be written or asked now; what was to be written comes again."""

    default_code = "events.unavailable"


class Event(msgspec.Struct, frozen=True, gc=False):
    """One record as it was written.

    Attributes:
        key: `<partition>/<hash of its batch>/<number in it>`: the same record has the same key, however often it comes.
        at_us: When it happened, by the clock of Redis; 0 where it does not say.
        body: The record, a JSON object.
        values: What can be asked for, of the same record: a text for each of FIELDS, None where it has none.
    """

    key: str
    at_us: int
    body: bytes
    values: "tuple[str | None, ...]"

    @property
    def batch(self) -> str:
        """Of its key what the records of one batch have in common."""
        return self.key.rpartition("/")[0] or self.key

    @property
    def fields(self) -> dict[str, str]:
        """Its values by their names, as far as it has them."""
        return {name: value for name, value in zip(FIELDS, self.values, strict=True) if value is not None}


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

        A batch is kept whole: of one that is there already no record is new.

        Raises:
            StoreUnavailable: Not all are kept.
        """
        ...

    async def find(self, query: Query) -> list[dict[str, Any]]:
        """The newest that fit, oldest first, each once. Nothing is made or changed by it.

        Raises:
            StoreUnavailable: It cannot be asked.
            ConfigError: There is none.
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
    told = _any_told(body) if scan.is_utf8(body) else None
    return None if told is None else Event(key, told[0], body, told[1:])


def events_of(partition: int, batch: bytes) -> list[Event | None]:
    """The events of a batch in their order; None for what is none.

    A batch that comes twice (its writer was never told that it lay there, or an archiver died) gives the same keys: they are made of
    its bytes.

    Raises:
        ValueError: It is no batch.
    """
    found: Iterable[tuple[Any, ...] | None]
    bodies, name = bodies_of(batch), batch_name(partition, batch)
    try:
        found = map(msgspec.structs.astuple, _decode_alike(batch))
    except _JUNK:  # somebody else wrote it: each record by itself
        found = map(_any_told, bodies)
    if not scan.is_utf8(batch):
        found = (told if scan.is_utf8(bytes(body)) else None for body, told in zip(bodies, found, strict=True))
    return [
        None if told is None else Event(f"{name}/{number:03d}", told[0], bytes(body), told[1:])
        for number, (body, told) in enumerate(zip(bodies, found, strict=True))
    ]


def bodies_of(batch: bytes) -> list[msgspec.Raw]:
    """The records of a batch, each as JSON. Half a character, which is legal JSON and no text, is mended: it must hide nothing else.

    Raises:
        ValueError: It is no batch.
    """
    try:
        return _decode_bodies(batch)
    except _JUNK as error:
        mended = scan.mended(batch)
        if mended == batch:
            raise ValueError(str(error)) from None
    return bodies_of(mended)


def record_of(body: bytes) -> dict[str, Any]:
    """An event's record as Python has it. A member of which no value can be made, such as a number beyond every float, is left out."""
    record: dict[str, Any]
    try:
        record = msgspec.json.decode(body)
    except _JUNK:
        record = {}
        for name, raw in _decode_members(body).items():
            try:
                record[name] = msgspec.json.decode(raw)
            except _JUNK:
                record["left_out"] = {"why": "unreadable", "bytes": len(bytes(raw))}
    return record


def batch_name(partition: int, batch: bytes) -> str:
    """What the keys of its records begin with."""
    return f"{partition}/{hashlib.sha256(batch).hexdigest()[:24]}"


def fits(event: Event, query: Query) -> bool:
    """Whether an event is one of those that are looked for."""
    return (
        query.since_us <= event.at_us < query.until_us
        and all(event.values[_PLACES[name]] in wanted for name, wanted in query.fields.items())
        and (not query.text or query.text.lower() in event.body.decode("utf-8", "replace").lower())
    )


#: What bytes are that are no JSON, or not of the form.
_JUNK = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_PLACES = {name: place for place, name in enumerate(FIELDS)}
_decode_bodies = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_Moment = Annotated[int, msgspec.Meta(ge=0, le=LAST_US)]
_Text = Annotated[str, msgspec.Meta(min_length=1)]
#: What reach writes: all at once, since there is much of it.
_decode_alike: Callable[[bytes], list[Any]] = msgspec.json.Decoder(
    list[  # type: ignore[misc]
        msgspec.defstruct("_Alike", [("at_us", _Moment, 0), *((name, _Text | None, None) for name in FIELDS)], gc=False)
    ]
).decode
#: What anybody may write.
_decode_any: Callable[[bytes], Any] = msgspec.json.Decoder(
    msgspec.defstruct("_Any", [("at_us", Any, 0), *((name, Any, None) for name in FIELDS)])
).decode


def _any_told(body: bytes | msgspec.Raw) -> tuple[Any, ...] | None:
    """Its moment and its values."""
    try:
        at_us, *values = msgspec.structs.astuple(_decode_any(body))
    except _JUNK:
        return None
    if type(at_us) is not int or not 0 <= at_us <= LAST_US:
        at_us = 0
    return at_us, *(value if type(value) is str and value else None for value in values)
