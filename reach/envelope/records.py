"""Bytes to the other records and back: receipts, notices, beats, policies, control entries, registrations.

All come from outside, so all pass the same edge as an envelope: size, UTF-8, depth, JSON, no key twice in the outer
object. null in an optional field means absent.
"""

import heapq
from collections.abc import Mapping
from typing import Any, Generic, TypeVar, get_args, get_origin

import msgspec

from reach.envelope import scan
from reach.envelope.call_rule import CallRule
from reach.envelope.codes import default_code
from reach.envelope.message import NO_BODY
from reach.envelope.problems import Problem, listed, sentence_of
from reach.envelope.receipt import Notice, NoticeKind, ReceiptRecord
from reach.envelope.registration import (
    DEFAULT_ACCEPTS,
    MAX_CAPABILITIES,
    Accept,
    Beat,
    Capability,
    ControlEntry,
    ControlOp,
    RateLimit,
    Registration,
    RoutePolicy,
    StoredRegistration,
    Tombstone,
    problems_of,
)
from reach.errors import RecordError, RegistrationRefused

MAX_BYTES = 1 << 20
#: So many problems of a registration are told, and so many characters of them in its sentence; the rest is counted.
MAX_PROBLEMS = 20
MAX_TOLD = 1_000
#: So many characters of what msgspec says are told: it repeats names and texts of any length.
MAX_SAID = 200
#: A stored receipt is more than what its maker wrote, an output of 1 MiB among it: what may be written, everybody must be able to read.
#: Why an instance takes no work, in its beat.
MAX_REASON = 500
MAX_RECEIPT_BYTES = 2 * MAX_BYTES

S = TypeVar("S", bound=msgspec.Struct)
_encode = msgspec.json.Encoder().encode


class _Reader(Generic[S]):
    """How one kind of record is read, and its names with values that are only skipped."""

    def __init__(self, kind: type[S]) -> None:
        fields: list[tuple[str, Any, Any]] = [(name, msgspec.Raw, NO_BODY) for name in kind.__struct_fields__]
        self.decode = msgspec.json.Decoder(kind).decode
        self.outline = msgspec.json.Decoder(
            msgspec.defstruct(f"{kind.__name__}_outline", fields, omit_defaults=True)
        ).decode


_receipts = _Reader(ReceiptRecord)
_beats = _Reader(Beat)
_policies = _Reader(RoutePolicy)
_call_rules = _Reader(CallRule)
_stored = _Reader(StoredRegistration)
_tombstones = _Reader(Tombstone)
_raw_objects = msgspec.json.Decoder(dict[str, msgspec.Raw])

# What stands in for a required field that is missing or bad, so that the rest can still be judged.
_STAND_IN = "x"


def encode_receipt(record: ReceiptRecord) -> bytes:
    """A receipt as JSON, all fields written, the output as it came."""
    return _encode(record)


def decode_receipt(data: bytes, *, max_bytes: int = MAX_RECEIPT_BYTES) -> ReceiptRecord:
    """A receipt. `{status}` is enough; a code that is not given follows from the status; unknown fields are ignored.

    Raises:
        RecordError: Junk.
    """
    record = _read(data, _receipts, "receipt", max_bytes=max_bytes, carried="output")
    return record if record.code else msgspec.structs.replace(record, code=default_code(record.status))


def encode_notice(notice: Notice) -> bytes:
    """A notice as flat JSON: `{"notice": ..., "msg_id": ..., ...}`."""
    return _encode({**notice.fields, "notice": notice.notice, "msg_id": notice.msg_id})


def decode_notice(data: bytes) -> Notice:
    """A notice.

    Raises:
        RecordError: Junk, or a kind that there is not.
    """
    _edge(data, "notice", MAX_BYTES)
    try:
        fields = msgspec.json.decode(scan.mended(data), type=dict[str, Any])
        # Names of any text: only plain ones are surely not longer when they are written again.
        plain = data.isascii() and b"\\" not in data and b"\x7f" not in data
        written_bytes = len(_encode(_raw_objects.decode(data))) if plain else 0
    except msgspec.DecodeError as error:
        raise RecordError(f"notice: {_said(error)}") from None
    _refuse_duplicates(data, written_bytes, "notice")
    kind, msg_id = fields.pop("notice", None), fields.pop("msg_id", "")
    if kind not in get_args(NoticeKind) or not isinstance(msg_id, str):
        raise RecordError(f"notice: {kind!r:.40} is no kind of notice, or msg_id is no text")
    return Notice(kind, msg_id, fields)


def encode_beat(beat: Beat) -> bytes:
    """A beat as JSON. A reason is cut, and half a character in it mended: no beat may be lost for what it says."""
    if beat.reason is not None:
        whole = beat.reason[:MAX_REASON].encode("utf-8", "replace").decode()
        beat = msgspec.structs.replace(beat, reason=whole)
    return _encode(beat)


def decode_beat(data: bytes) -> Beat:
    """A beat.

    Raises:
        RecordError: Junk.
    """
    return _read(data, _beats, "beat")


def read_beat(data: bytes) -> tuple[Beat, str]:
    """A beat, and why a part of it was left out, "" where all was read: who beats lives, also one that says nonsense of its load.

    Raises:
        RecordError: No JSON object, or a state that nobody knows.
    """
    try:
        return decode_beat(data), ""
    except RecordError as error:
        problem = error
    _edge(data, "beat", MAX_BYTES)
    said = {name: bytes(raw) for name, raw in _objects(data, "beat").items() if bytes(raw) != b"null"}
    kept: dict[str, Any] = {}
    for field in msgspec.structs.fields(Beat):
        try:
            if field.name in said:
                kept[field.name] = msgspec.json.decode(said[field.name], type=field.type)
        except msgspec.DecodeError:
            if field.name == "state":
                raise problem from None
    return Beat(**kept), problem.message


def encode_policy(policy: RoutePolicy) -> bytes:
    """A routing policy as JSON: a value of the hash `routes`."""
    return _encode(policy)


def decode_policy(data: bytes) -> RoutePolicy:
    """A routing policy.

    Raises:
        RecordError: Junk.
    """
    return _read(data, _policies, "policy")


def decode_call_rule(data: bytes) -> CallRule:
    """A rule about who may call whom; what its texts mean is not asked here.

    Raises:
        RecordError: Junk.
    """
    return _read(data, _call_rules, "rule")


def encode_registration(registration: Registration) -> bytes:
    """A registration as JSON."""
    return _encode(registration)


def decode_stored_registration(data: bytes) -> StoredRegistration | Tombstone:
    """A value of the hash `agents`, which a registrar has judged already.

    Raises:
        RecordError: Junk (somebody wrote there by hand).
    """
    if data.startswith(b'{"gone_at"'):
        return _read(data, _tombstones, "tombstone")
    return _read(data, _stored, "stored registration")


def encode_control(entry: ControlEntry) -> bytes:
    """A control entry as flat JSON: `{"op": ..., "reply_to": ..., ...}`."""
    return _encode({"op": entry.op, "reply_to": entry.reply_to, **entry.fields})


def register_entry(registration: Registration, reply_to: str) -> ControlEntry:
    """The control entry by which an instance registers."""
    return ControlEntry(op="register", reply_to=reply_to, fields=_raw_objects.decode(_encode(registration)))


def decode_control(data: bytes) -> ControlEntry:
    """A control entry; what belongs to its op stays undecoded.

    Raises:
        RecordError: Junk, or an op that there is not.
    """
    _edge(data, "control", MAX_BYTES)
    fields = _objects(data, "control")
    try:
        op = msgspec.json.decode(fields.pop("op", msgspec.Raw(b"null")), type=ControlOp)
        reply_to = msgspec.json.decode(fields.pop("reply_to", msgspec.Raw(b"null")), type=str | None)
    except msgspec.DecodeError as error:
        raise RecordError(f"control: {_said(error)}") from None
    return ControlEntry(op=op, reply_to=reply_to, fields=fields)


def control_fields(entry: ControlEntry, kind: type[S]) -> S:
    """What belongs to the op of an entry, as a struct (for ops other than register).

    Raises:
        RecordError: It does not fit.
    """
    present = {name: raw for name, raw in entry.fields.items() if bytes(raw) != b"null"}
    try:
        return msgspec.json.decode(_encode(present), type=kind)
    except msgspec.DecodeError as error:
        raise RecordError(f"control {entry.op}: {_said(error)}") from None


def read_registration(fields: Mapping[str, msgspec.Raw] | bytes, *, env: str) -> Registration:
    """Judge a registration and say what is wrong with it at once: the first problems, and how many more there are.

    Args:
        fields: Of the control entry, or the registration as JSON.
        env: The environment that it wants to join.

    Raises:
        RegistrationRefused: With the code of the first problem, the first MAX_PROBLEMS of them in `details["problems"]`, and in
            `details["more"]` how many more there are, if any.
    """
    if isinstance(fields, bytes):
        try:
            _edge(fields, "registration", MAX_BYTES)
            fields = _objects(fields, "registration")
        except RecordError as error:
            malformed = _Problems()
            malformed.add(Problem("registration.malformed", "", error.message))
            raise malformed.refusal() from None
    problems = _Problems()
    registration = _by_field(Registration, fields, "", problems)
    for problem in problems_of(registration, env=env):
        problems.add(problem)
    if problems.first:
        raise problems.refusal()
    # An empty list says as little as none at all.
    return registration if registration.accepts else msgspec.structs.replace(registration, accepts=DEFAULT_ACCEPTS)


class _Problems:
    """The first problems, and how many more there are: what is told stays small, whatever was sent."""

    def __init__(self) -> None:
        self.first: list[Problem] = []
        self.more = 0

    def add(self, problem: Problem) -> None:
        """One more."""
        if len(self.first) < MAX_PROBLEMS:
            self.first.append(problem)
        else:
            self.more += 1

    def refusal(self) -> RegistrationRefused:
        """They as an error."""
        text = sentence_of(self.first)[:MAX_TOLD]
        details: dict[str, Any] = {"problems": listed(self.first)}
        if self.more:
            text, details["more"] = f"{text}; and {self.more} more", self.more
        return RegistrationRefused(text, code=self.first[0].code, details=details)


def _by_field(kind: type[S], raw: Mapping[str, msgspec.Raw], at: str, problems: _Problems) -> S:
    """Decode field by field, so that one bad field does not hide the next."""
    known = {field.name: field for field in msgspec.structs.fields(kind)}
    values: dict[str, Any] = {}
    unknown = raw.keys() - known.keys()
    told = heapq.nsmallest(MAX_PROBLEMS, unknown)
    for name in told:
        problems.add(Problem("registration.unknown_field", at + name[:128], "no such field"))
    problems.more += len(unknown) - len(told)
    for name, field in known.items():
        data = bytes(raw.get(name, b"null"))
        if data == b"null":
            if field.required:
                problems.add(Problem("registration.missing_field", at + name, "is missing"))
                values[name] = _STAND_IN
            continue
        try:
            values[name] = _field(field.type, data, at + name, problems)
        except msgspec.DecodeError as error:
            problems.add(Problem("registration.bad_field", at + name, _said(error)))
            if field.required:
                values[name] = _STAND_IN
    return kind(**values)


def _field(kind: Any, data: bytes, at: str, problems: _Problems) -> Any:
    inner = get_args(kind)[0] if get_origin(kind) is tuple else None
    if inner is Capability or inner is Accept:
        items = msgspec.json.decode(data, type=list[dict[str, msgspec.Raw]])
        if len(items) > MAX_CAPABILITIES:
            problems.add(Problem("registration.bad_field", at, f"more than {MAX_CAPABILITIES}"))
            return ()
        return tuple(_by_field(inner, item, f"{at}[{i}].", problems) for i, item in enumerate(items))
    if kind == float | RateLimit | None and data[:1] == b"{":
        before = len(problems.first)
        limit = _by_field(RateLimit, msgspec.json.decode(data, type=dict[str, msgspec.Raw]), f"{at}.", problems)
        return limit if len(problems.first) == before else None  # what is wrong with it is said once
    return msgspec.json.decode(data, type=kind)


def _said(error: msgspec.DecodeError) -> str:
    return str(error)[:MAX_SAID]


def _edge(data: bytes, what: str, max_bytes: int) -> None:
    if len(data) > max_bytes:
        raise RecordError(f"{what}: {len(data)} bytes, at most {max_bytes}")
    if not scan.is_utf8(data):
        raise RecordError(f"{what}: not valid UTF-8")
    if scan.too_deep(data):
        raise RecordError(f"{what}: nested deeper than {scan.MAX_DEPTH}, or cut off")


def _objects(data: bytes, what: str) -> dict[str, msgspec.Raw]:
    if scan.is_json(data) and data.lstrip(b" \t\n\r").startswith(b"{"):
        _refuse_duplicates(data, 0, what)  # and too many of them, before anything is made of each
    try:
        return _raw_objects.decode(data)
    except msgspec.DecodeError as error:
        raise RecordError(f"{what}: {_said(error)}") from None


def _refuse_duplicates(data: bytes, written_bytes: int, what: str) -> None:
    """Two readers would choose differently between two members of one name.

    `written_bytes`: the length of what was read, written again; 0: not known. As long as it came, nothing was there twice: a name that
    comes again, a space or an escape makes the original longer, and nothing makes it shorter.
    """
    if written_bytes == len(data):
        return
    twice = scan.first_duplicate(_members(scan.latin(data), what))
    if twice is not None:
        raise RecordError(f"{what}: {twice[:128]} stands there twice")


def _members(text: str, what: str) -> list[scan.Member]:
    try:
        return scan.members(text)
    except scan.TooManyMembers as error:
        raise RecordError(f"{what}: {error}") from None


def _read(data: bytes, reader: _Reader[S], what: str, *, max_bytes: int = MAX_BYTES, carried: str = "") -> S:
    _edge(data, what, max_bytes)
    try:
        record = reader.decode(data)
    except msgspec.DecodeError as error:
        return _mended(data, reader, what, carried, error)
    _refuse_duplicates(data, len(_encode(reader.outline(data))), what)
    return record


def _mended(data: bytes, reader: _Reader[S], what: str, carried: str, error: msgspec.DecodeError) -> S:
    """A null that means absent, or half a character: in a text it is mended, in the field that is carried it stays."""
    text = scan.latin(scan.mended(data))
    if not scan.is_json(data) or not text.lstrip(" \t\n\r").startswith("{"):
        raise RecordError(f"{what}: {_said(error)}") from None
    _refuse_duplicates(data, 0, what)
    found = [m for m in _members(text, what) if m.key == carried or not scan.is_null(text, m)]
    written = ",".join(f'"{m.key}":0' if m.key == carried else text[m.start : m.end] for m in found)
    try:
        record = reader.decode(f"{{{written}}}".encode("latin-1"))
    except msgspec.DecodeError as still:
        raise RecordError(f"{what}: {_said(still)}") from None
    for member in found:
        if member.key == carried:
            record = msgspec.structs.replace(record, **{carried: msgspec.Raw(data[member.value_start : member.end])})
    return record
