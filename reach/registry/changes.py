"""A change of capabilities, as an entry of `control` or a beat asks for it: all of them anew, or some more and some less. Pure."""

from typing import Any

import msgspec

from reach import ids
from reach.envelope import records
from reach.envelope.json_schema import named
from reach.envelope.registration import ControlEntry, StoredRegistration
from reach.errors import RecordError

#: A beat that carries capabilities is put into `control` by its step, with this mark: what else a beat says is no part of the change.
BEAT_MARK = "beat"
Fields = dict[str, msgspec.Raw]


class Asked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`capabilities`: the whole list, or `{"add": [capability], "remove": [name or {name, input_schema}]}`; `accepts`: the whole list."""

    agent_id: str
    instance_id: str
    capabilities: msgspec.Raw
    accepts: msgspec.Raw = msgspec.Raw()
    token: msgspec.Raw = msgspec.Raw()
    declares: msgspec.Raw = msgspec.Raw()


class _Which(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    input_schema: Any = None


class _Steps(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    add: list[Fields] = []
    remove: list[str | _Which] = []


_plain = msgspec.json.Encoder(order="sorted").encode
_objects = msgspec.json.Decoder(list[Fields]).decode


def asked_of(entry: ControlEntry) -> Asked:
    """What an entry asks for.

    Raises:
        RecordError: It does not fit.
    """
    if BEAT_MARK in entry.fields:
        fields = {name: raw for name, raw in entry.fields.items() if name in Asked.__struct_fields__}
        entry = ControlEntry(op=entry.op, reply_to=entry.reply_to, fields=fields)
    return records.control_fields(entry, Asked)


def changed(known: StoredRegistration, asked: Asked) -> Fields:
    """The fields of the registration that is asked for, not judged yet.

    Raises:
        RecordError: The change cannot be read.
    """
    fields = msgspec.json.decode(records.encode_registration(known), type=Fields)
    fields.pop("v", None)
    fields["instance_id"] = msgspec.Raw(msgspec.json.encode(asked.instance_id))
    fields["capabilities"] = _capabilities(fields.get("capabilities", msgspec.Raw(b"[]")), asked.capabilities)
    for name in ("accepts", "token", "declares"):
        told = getattr(asked, name)
        if bytes(told):
            fields[name] = told
    return fields


def _capabilities(declared: msgspec.Raw, asked: msgspec.Raw) -> msgspec.Raw:
    if not bytes(asked).lstrip().startswith(b"{"):
        return asked
    try:
        steps = msgspec.json.decode(asked, type=_Steps)
        found = {_mark(one): one for one in _objects(declared)}
        for which in steps.remove:
            gone = [mark for mark in found if _meant(mark, which)]
            for mark in gone:
                del found[mark]
        found |= {_mark(one): one for one in steps.add}
    except msgspec.DecodeError as error:
        raise RecordError(f"control capabilities: {error}"[:200]) from None
    return msgspec.Raw(msgspec.json.encode(list(found.values())))


def _mark(capability: Fields) -> tuple[bytes, bytes]:
    """What tells it from others: its name and its schema, however they are written."""
    name, schema = (msgspec.json.decode(capability.get(field, b"null")) for field in ("name", "input_schema"))
    return _plain(name), _plain(_named(schema))


def _named(schema: Any) -> Any:
    """A JSON Schema that has a name is declared by it."""
    return named(schema) if isinstance(schema, dict) and ids.is_schema(named(schema)) else schema


def _meant(mark: tuple[bytes, bytes], which: str | _Which) -> bool:
    if isinstance(which, str):
        return mark[0] == _plain(which)
    return mark == (_plain(which.name), _plain(_named(which.input_schema)))
