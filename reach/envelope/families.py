"""Families of schemas: all versions of one name (`weather.query.v1`, `.v2`), and which of them reads which. Pure.

A family is one record; the versions' JSON Schemas lie beside it. Routers need only the families.
"""

from collections.abc import Mapping
from typing import Literal, get_args

import msgspec

from reach.envelope.compatibility import Difference, Verdict, reads
from reach.envelope.json_schema import Node, digest_of
from reach.errors import RecordError

Compatibility = Literal["backward", "forward", "full", "none"]
COMPATIBILITIES: tuple[Compatibility, ...] = get_args(Compatibility)
#: More versions than this are a history, not a family; each new one is compared with all of them.
MAX_VERSIONS = 32
MAX_RECORD_BYTES = 1 << 20

_encode = msgspec.json.Encoder().encode


class Version(msgspec.Struct, frozen=True, omit_defaults=True):
    """One version.

    Attributes:
        name: The schema's name.
        digest: Of its normal form.
        by: Who stored it: `admin`, or an agent_id.
        at_ms: When, by the clock of the backend.
        reads: The lower versions whose bodies its readers can read.
        read_by: The lower versions whose readers can read its bodies.
    """

    name: str
    digest: str
    by: str
    at_ms: int
    reads: tuple[str, ...] = ()
    read_by: tuple[str, ...] = ()


class Family(msgspec.Struct, frozen=True, omit_defaults=True):
    """All versions of one name, by number in order. `compatibility`: what a new one must be to its neighbours."""

    compatibility: Compatibility = "backward"
    versions: tuple[Version, ...] = ()

    def version(self, name: str) -> Version | None:
        """The version of this name."""
        return next((version for version in self.versions if version.name == name), None)

    def readers(self) -> dict[str, frozenset[str]]:
        """Schema -> the other schemas whose readers may get a body of it, as far as the family's rule promises that."""
        found: dict[str, set[str]] = {}
        for version in self.versions:
            if self.compatibility in ("backward", "full"):
                for older in version.reads:
                    found.setdefault(older, set()).add(version.name)
            if self.compatibility in ("forward", "full") and version.read_by:
                found.setdefault(version.name, set()).update(version.read_by)
        return {name: frozenset(names) for name, names in found.items()}


def family_of(schema: str) -> str:
    """`weather.query.v2` -> `weather.query`."""
    return schema.rpartition(".v")[0]


def number_of(schema: str) -> int:
    """`weather.query.v2` -> 2."""
    return int(schema.rpartition(".v")[2])


def encode_family(family: Family) -> bytes:
    """A family as JSON: a value of the hash `families`."""
    return _encode(family)


def decode_family(data: bytes) -> Family:
    """A family.

    Raises:
        RecordError: Junk (somebody wrote there by hand).
    """
    if len(data) > MAX_RECORD_BYTES:
        raise RecordError(f"family: {len(data)} bytes, at most {MAX_RECORD_BYTES}")
    try:
        return msgspec.json.decode(data, type=Family)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RecordError(f"family: {str(error)[:200]}") from None


def judge(family: Family, name: str, schema: Node, others: Mapping[str, Node]) -> Verdict:
    """What the rule of the family says to a version of it: compared with the one below and the one above that are there.

    `others`: the normal forms of the versions that are stored.
    """
    mine = number_of(name)
    below = max((other for other in others if number_of(other) < mine), key=number_of, default="")
    above = min((other for other in others if number_of(other) > mine), key=number_of, default="")
    differences: list[Difference] = []
    unread: list[Difference] = []
    for old, new in ((below, name), (name, above)):
        if not (old and new):
            continue
        older, newer = others.get(old, schema), others.get(new, schema)
        found = []
        if family.compatibility in ("backward", "full"):
            found.append(reads(newer, older, by=new, of=old))
        if family.compatibility in ("forward", "full"):
            found.append(reads(older, newer, by=old, of=new))
        for verdict in found:
            differences += verdict.differences
            unread += verdict.unread
    return Verdict(tuple(dict.fromkeys(differences)), tuple(dict.fromkeys(unread)))


def with_version(family: Family, name: str, schema: Node, others: Mapping[str, Node], *, by: str, at_ms: int) -> Family:
    """The family with this version, in place of the one of the same name; who reads whom is found out anew for it."""
    mine = number_of(name)
    kept = [version for version in family.versions if version.name != name]
    lower = [v.name for v in kept if number_of(v.name) < mine and v.name in others]
    new = Version(
        name=name,
        digest=digest_of(schema),
        by=by,
        at_ms=at_ms,
        reads=tuple(other for other in lower if reads(schema, others[other]).ok),
        read_by=tuple(other for other in lower if reads(others[other], schema).ok),
    )
    changed = [
        _beside(version, name, schema, others[version.name])
        if number_of(version.name) > mine and version.name in others
        else version
        for version in kept
    ]
    versions = sorted((new, *changed), key=lambda version: (number_of(version.name), version.name))
    return msgspec.structs.replace(family, versions=tuple(versions))


def _beside(version: Version, name: str, schema: Node, own: Node) -> Version:
    """A higher version, after `name` came or changed below it."""
    read = {*version.reads} - {name} | ({name} if reads(own, schema).ok else set())
    by = {*version.read_by} - {name} | ({name} if reads(schema, own).ok else set())
    return msgspec.structs.replace(
        version, reads=tuple(sorted(read, key=number_of)), read_by=tuple(sorted(by, key=number_of))
    )


def without_version(family: Family, name: str) -> Family:
    """The family without this version."""
    kept = [
        msgspec.structs.replace(
            version,
            reads=tuple(other for other in version.reads if other != name),
            read_by=tuple(other for other in version.read_by if other != name),
        )
        for version in family.versions
        if version.name != name
    ]
    return msgspec.structs.replace(family, versions=tuple(kept))
