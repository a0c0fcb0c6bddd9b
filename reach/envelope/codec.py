"""Bytes to an Envelope and back. Past `decode` an envelope has the right shape; what it means is judged by `rules`.

The usual envelope takes the short way: msgspec, and a look at its keys. Whatever is odd takes the careful way, which
alone decides what is wrong; the short way may only say "certainly right".
"""

import re
from typing import Any

import msgspec

from reach.envelope import scan
from reach.envelope.message import NO_BODY, Budget, Envelope, Needs, Payload, Source, Target, Timeouts, Traces
from reach.envelope.salvage import salvage
from reach.errors import EnvelopeError

DEFAULT_MAX_BYTES = 1 << 20
#: So many characters of what msgspec says are told.
MAX_SAID = 200

_decode = msgspec.json.Decoder(Envelope).decode
_encode = msgspec.json.Encoder().encode
_MISSING = re.compile(r"Object missing required field `([a-z_]+)`")
_PATH = re.compile(r" - at `\$\.([a-z_.]+)[^`]*`$")

_PARTS: dict[str, type[msgspec.Struct]] = {
    "source": Source,
    "target": Target,
    "payload": Payload,
    "traces": Traces,
    "timeouts": Timeouts,
    "needs": Needs,
    "budget": Budget,
}
_FIELDS: dict[str, frozenset[str]] = {
    "": frozenset(Envelope.__struct_fields__),
    **{name: frozenset(part.__struct_fields__) for name, part in _PARTS.items()},
}


def _outline() -> type[msgspec.Struct]:
    """A struct with the names of an envelope whose values are only skipped: Raw, and the parts likewise."""

    def skipped(kind: type[msgspec.Struct]) -> list[tuple[str, Any, Any]]:
        return [(name, msgspec.Raw, NO_BODY) for name in kind.__struct_fields__]

    def part(name: str) -> Any:
        return msgspec.defstruct(f"{name}_outline", skipped(_PARTS[name]), omit_defaults=True) | None

    fields = [
        (name, part(name), None) if name in _PARTS else (name, kind, empty) for name, kind, empty in skipped(Envelope)
    ]
    return msgspec.defstruct("envelope_outline", fields, omit_defaults=True)


_decode_outline = msgspec.json.Decoder(_outline()).decode
_NESTED = frozenset(_PARTS) | {"headers"}
#: part -> the member of it that is carried byte for byte, whatever it is
_CARRIED = {"payload": "body", "traces": "current_hop"}
_OWN_CODES = {"target.pattern": "target.bad_pattern", "target.scope": "target.bad_scope"}


def encode(envelope: Envelope) -> bytes:
    """The envelope as JSON; the body stands in it exactly as given. Fields that have their default are left out.

    Raises:
        EnvelopeError: `envelope.bad_field` for text that is no Unicode text (a lone surrogate in a Python string).
    """
    payload = envelope.payload
    if payload.body is not NO_BODY and not payload.body_bytes:
        # Another empty Raw than the default one would be written as `"body":` and nothing.
        payload = msgspec.structs.replace(payload, body=NO_BODY)
        envelope = msgspec.structs.replace(envelope, payload=payload)
    try:
        return _encode(envelope)
    except UnicodeEncodeError as error:
        text = f"a text that cannot be UTF-8: {error.object[error.start : error.end]!a}"
        raise EnvelopeError("envelope.bad_field", text, details={"field": ""}, msg_id=envelope.msg_id) from None


def decode(data: bytes, *, max_bytes: int = DEFAULT_MAX_BYTES) -> Envelope:
    """Read an envelope, in time linear in its length.

    Args:
        data: The bytes of field `e`.
        max_bytes: The largest envelope that is taken.

    Raises:
        EnvelopeError: The only error, for whatever bytes: `envelope.malformed`, `envelope.too_large`,
            `envelope.unknown_field`, `envelope.missing_field`, `envelope.bad_field`, `target.bad_pattern`,
            `target.bad_scope`; with what could still be read of reply_to, msg_id and the like.
    """
    if len(data) > max_bytes:
        raise _error(
            data, "envelope.too_large", f"{len(data)} bytes, at most {max_bytes}", bytes=len(data), max_bytes=max_bytes
        )
    if not scan.is_utf8(data):
        raise _error(data, "envelope.malformed", "not valid UTF-8", reason="utf8")
    if scan.too_deep(data):
        raise _error(data, "envelope.malformed", f"nested deeper than {scan.MAX_DEPTH}, or cut off", reason="depth")
    try:
        envelope = _decode(data)
    except msgspec.DecodeError:
        # Also for a field of the wrong type: msgspec says so before it has seen whether the rest is JSON at all.
        return _careful(data)
    if _is_compact(data, envelope) or scan.surely_unique(data, envelope.payload.body_bytes):
        return envelope
    return _careful(data)


def _is_compact(data: bytes, envelope: Envelope) -> bool:
    """Whether the bytes hold nothing but each member once, without a space: the quickest proof that no key is doubled.

    Read into an outline and written again, every member comes once and its value as it stood. A key twice, a space or
    an escaped key makes the original longer; nothing makes it shorter. Headers are left out of this: msgspec may write
    a key of theirs longer than it was.
    """
    return not envelope.headers and len(_encode(_decode_outline(data))) == len(data)


def _careful(data: bytes) -> Envelope:
    """Judge what is not plainly right: which rule it breaks, or that it breaks none."""
    text = scan.latin(data)
    if not scan.is_json(data):
        raise _error(data, "envelope.malformed", "not valid JSON", reason="json")
    if not text.lstrip(" \t\n\r").startswith("{"):
        raise _error(data, "envelope.malformed", "not a JSON object", reason="object")
    found = _members(data, text, "")
    carried: dict[str, msgspec.Raw] = {}
    written = []
    _refuse_duplicates(data, "", found)
    for member in found:
        if member.key in _NESTED and scan.is_object(text, member):
            inner = _members(data, text, member.key, member.value_start)
            _refuse_duplicates(data, member.key, inner)
            for own in inner:
                if own.key == _CARRIED.get(member.key):
                    carried[member.key] = msgspec.Raw(data[own.value_start : own.end])
            written.append(text[member.start : member.value_start] + _without_nulls(text, member, inner))
        elif not scan.is_null(text, member):
            written.append(text[member.start : member.end])
    _refuse_unknown(data, text, found)
    try:
        envelope = _decode(("{" + ",".join(written) + "}").encode("latin-1"))
    except msgspec.ValidationError as error:
        raise _invalid(data, str(error)) from None
    except msgspec.DecodeError:
        raise _error(data, "envelope.malformed", "a lone surrogate outside the body", reason="surrogate") from None
    parts = {
        part: msgspec.structs.replace(getattr(envelope, part), **{_CARRIED[part]: value})
        for part, value in carried.items()
    }
    return msgspec.structs.replace(envelope, **parts)


def _members(data: bytes, text: str, part: str, at: int = 0) -> list[scan.Member]:
    try:
        return scan.members(text, at)
    except scan.TooManyMembers as error:
        where = f"{part}: " if part else ""
        raise _error(data, "envelope.malformed", f"{where}{error}", reason="members", field=part) from None


def _without_nulls(text: str, part: scan.Member, inner: list[scan.Member]) -> str:
    """The part's object without its nulls, which mean absent, and with 0 for what is carried by itself."""
    if part.key == "headers":
        return text[part.value_start : part.end]
    kept = []
    for member in inner:
        if member.key == _CARRIED.get(part.key):
            kept.append(f'"{member.key}":0')
        elif not scan.is_null(text, member):
            kept.append(text[member.start : member.end])
    return "{" + ",".join(kept) + "}"


def _refuse_duplicates(data: bytes, part: str, found: list[scan.Member]) -> None:
    twice = scan.first_duplicate(found)
    if twice is not None:
        field = _dotted(part, twice)
        raise _error(data, "envelope.malformed", f"{field} stands there twice", reason="duplicate", field=field)


def _refuse_unknown(data: bytes, text: str, found: list[scan.Member]) -> None:
    for member in found:
        unknown = None if member.key in _FIELDS[""] else _dotted("", member.key)
        if unknown is None and member.key in _PARTS and scan.is_object(text, member):
            inner = _members(data, text, member.key, member.value_start)
            unknown = next((_dotted(member.key, m.key) for m in inner if m.key not in _FIELDS[member.key]), None)
        if unknown is not None:
            raise _error(data, "envelope.unknown_field", f"unknown field {unknown}", field=unknown)


def _dotted(part: str, key: str) -> str:
    name = key.encode("latin-1", "replace").decode("utf-8", "replace")[:128]
    return f"{part}.{name}" if part else name


def _invalid(data: bytes, said: str) -> EnvelopeError:
    """What msgspec found, as our error. Names in it come from our structs alone: unknown ones were refused before."""
    path = _PATH.search(said)
    at = path[1] if path else ""
    missing = _MISSING.match(said)
    if missing:
        field = _dotted(at, missing[1])
        return _error(data, "envelope.missing_field", f"{field} is missing", field=field)
    code = _OWN_CODES.get(at, "envelope.bad_field")
    # msgspec repeats a text that is none of those allowed, however long.
    return _error(data, code, f"{at}: {said.partition(' - at ')[0][:MAX_SAID]}", field=at)


def _error(data: bytes, code: str, message: str, **details: str | int) -> EnvelopeError:
    return EnvelopeError(code, message, details=details, **salvage(data))
