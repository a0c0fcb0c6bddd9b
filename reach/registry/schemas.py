"""The JSON Schemas of an env: list, show, store, remove them, and ask what a new version would break."""

import json

import msgspec

from reach import ids
from reach.backend.port import Backend
from reach.envelope.compatibility import Difference, Verdict
from reach.envelope.families import (
    COMPATIBILITIES,
    MAX_VERSIONS,
    Compatibility,
    Family,
    decode_family,
    encode_family,
    family_of,
    judge,
    with_version,
    without_version,
)
from reach.envelope.json_schema import Node, Schema, digest_of, named, normal, read_schema
from reach.envelope.problems import Problem, listed, sentence_of
from reach.errors import RecordError, SchemaRefused

#: Two who write one family at once: the slower one reads again, so often.
MAX_TRIES = 8
ADMIN = "admin"


class Checked(msgspec.Struct, frozen=True):
    """What would come of a schema that is stored under a name.

    Attributes:
        is_new: Nothing of this name is stored.
        is_same: What is stored means the same, so that nothing would change.
        compatibility: The rule of its family.
        verdict: What it breaks, and what the comparison does not understand.
    """

    is_new: bool
    is_same: bool
    compatibility: Compatibility
    verdict: Verdict


class _Known(msgspec.Struct, frozen=True):
    """A family as it was read: its bytes, and the normal forms of its versions."""

    stored: bytes | None
    family: Family
    versions: dict[str, Node]


class Schemas:
    """The schemas of the env of a backend. `by`: who stores them."""

    def __init__(self, backend: Backend, by: str = ADMIN) -> None:
        self._backend = backend
        self._by = by

    async def list(self) -> dict[str, Family]:
        """Every family, by name in order; those that cannot be read are left out.

        Raises:
            BackendError: They cannot be read.
        """
        found = {}
        for name, data in sorted((await self._backend.snapshot()).families.items()):
            family = _family(data)
            if family is not None:
                found[name] = family
        return found

    async def get(self, name: str) -> Schema | None:
        """The JSON Schema of this name, None = there is none.

        Raises:
            BackendError: It cannot be read.
        """
        data = (await self._backend.read_schemas([name])).get(name)
        return None if data is None else _read(data)

    async def check(self, name: str, schema: bytes | Schema) -> Checked:
        """What would come of storing it. Nothing is stored.

        Raises:
            SchemaRefused: `schema.bad`.
            BackendError: What is stored cannot be read.
        """
        form = normal(_sound(name, schema))
        return _check(await self._known(family_of(name)), name, form)

    async def set(self, name: str, schema: bytes | Schema) -> bool:
        """Store a schema. False: what is stored means the same, and stays.

        Raises:
            SchemaRefused: With all that is wrong, `details["problems"]`; nothing was stored.
            BackendError: It could not be written.
        """
        sound = _sound(name, schema)
        form, family = normal(sound), family_of(name)
        if await self._has(name, digest_of(form)):
            return False
        for _ in range(MAX_TRIES):
            known = await self._known(family)
            checked = _check(known, name, form)
            if checked.is_same:
                return False
            _refuse(name, known.family, checked)
            at_ms = await self._backend.now_ms()
            changed = with_version(known.family, name, form, known.versions, by=self._by, at_ms=at_ms)
            data = json.dumps(sound, separators=(",", ":")).encode("utf-8")
            done = await self._backend.write_schema(family, known.stored, encode_family(changed), name, data)
            if done == "done":
                return True
            if done == "full":
                raise _refusal(
                    "schema.full", name, [Difference("", "as many schemas as may be are stored (max_schemas)")]
                )
        raise _refusal(
            "schema.changed", name, [Difference("", f"others changed {family} {MAX_TRIES} times: try again")]
        )

    async def remove(self, name: str) -> bool:
        """Forget a schema. False: there is none. Messages may still name it; only nobody can look it up, and nothing else reads it.

        Raises:
            BackendError: It could not be done.
        """
        family = family_of(name)
        for _ in range(MAX_TRIES):
            known = await self._known(family)
            there = known.family.version(name) is not None
            if not there and name not in await self._backend.read_schemas([name]):
                return False
            left = without_version(known.family, name)
            record = encode_family(left) if left.versions or left.compatibility != Family().compatibility else b""
            if await self._backend.write_schema(family, known.stored, record, name) == "done":
                return True
        raise _refusal(
            "schema.changed", name, [Difference("", f"others changed {family} {MAX_TRIES} times: try again")]
        )

    async def set_compatibility(self, family: str, compatibility: str) -> None:
        """Say what new versions of a family must be to the ones beside them: backward, forward, full or none.

        Raises:
            SchemaRefused: No such rule, or no name of a family.
            BackendError: It could not be written.
        """
        if compatibility not in COMPATIBILITIES:
            text = f"{compatibility!r:.40} is none of {', '.join(COMPATIBILITIES)}"
            raise _refusal("schema.bad", family, [Difference("", text)])
        if not ids.is_token(family) or ids.is_schema(family):
            raise _refusal("schema.bad", family, [Difference("", "a family is wanted: the name without .v<N>")])
        for _ in range(MAX_TRIES):
            known = await self._known(family)
            changed = msgspec.structs.replace(known.family, compatibility=_rule(compatibility))
            if await self._backend.write_schema(family, known.stored, encode_family(changed)) == "done":
                return
        text = f"others changed it {MAX_TRIES} times: try again"
        raise _refusal("schema.changed", family, [Difference("", text)])

    async def _has(self, name: str, digest: str) -> bool:
        """Whether that very schema is stored: what most registrations declare, told without looking at the other versions."""
        stored = (await self._backend.read_families([family_of(name)])).get(family_of(name))
        family = _family(stored) if stored is not None else None
        version = family.version(name) if family is not None else None
        return version is not None and version.digest == digest and name in await self._backend.read_schemas([name])

    async def _known(self, family: str) -> _Known:
        stored = (await self._backend.read_families([family])).get(family)
        known = (_family(stored) if stored is not None else None) or Family()
        bodies = await self._backend.read_schemas([version.name for version in known.versions])
        versions: dict[str, Node] = {}
        for name, data in bodies.items():
            schema = _read(data)
            if schema is not None:
                versions[name] = normal(schema)
        return _Known(stored, known, versions)


def _refuse(name: str, family: Family, checked: Checked) -> None:
    """Raises SchemaRefused where the rule of the family forbids it."""
    if not checked.is_new and family.compatibility != "none":
        text = (
            f"another schema has this name, and what is stored does not change: call it {family_of(name)}.v<N>, "
            f"or allow it (reach schemas set {family_of(name)} --compatibility none)"
        )
        raise _refusal("schema.changed", name, [Difference("", text)])
    if checked.is_new and len(family.versions) >= MAX_VERSIONS:
        raise _refusal("schema.full", name, [Difference("", f"{family_of(name)} has {MAX_VERSIONS} versions already")])
    if not checked.verdict.ok:
        raise _refusal("schema.incompatible", name, checked.verdict.differences)


def _check(known: _Known, name: str, form: Node) -> Checked:
    version = known.family.version(name)
    same = version is not None and version.digest == digest_of(form) and name in known.versions
    others = {other: node for other, node in known.versions.items() if other != name}
    verdict = Verdict() if same else judge(known.family, name, form, others)
    return Checked(version is None, same, known.family.compatibility, verdict)


def _sound(name: str, schema: bytes | Schema) -> Schema:
    """The schema without its own name. Raises SchemaRefused with all that is wrong."""
    if isinstance(schema, bytes):
        read, faults = read_schema(schema)
    else:
        read, faults = read_schema(json.dumps(schema).encode("utf-8", "surrogatepass"))
    problems = [Difference(fault.at, fault.message) for fault in faults]
    if not ids.is_schema(name):
        problems.insert(0, Difference("", "the name is not lower-case tokens that end in .v<N>"))
    if read.get("$id", name) != name:
        problems.append(Difference("/$id", f"it calls itself {named(read) or 'something'!r:.100}"))
    if problems:
        raise _refusal("schema.bad", name, problems)
    return {key: value for key, value in read.items() if key != "$id"}


def _refusal(code: str, name: str, found: "list[Difference] | tuple[Difference, ...]") -> SchemaRefused:
    told = [Problem(code, one.path, one.message) for one in found]
    text = f"{name[:128]}: {sentence_of(told)[:1_000]}"
    return SchemaRefused(text, code=code, details={"schema": name[:128], "problems": listed(told)})


def _rule(text: str) -> Compatibility:
    return next(rule for rule in COMPATIBILITIES if rule == text)


def _family(data: bytes) -> Family | None:
    try:
        return decode_family(data)
    except RecordError:
        return None  # written by hand: it is written anew


def _read(data: bytes) -> Schema | None:
    """What is stored, if anybody may use it: anybody may have written there."""
    schema, faults = read_schema(data)
    return None if faults else schema
