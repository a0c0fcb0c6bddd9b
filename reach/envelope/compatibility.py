"""Whether who reads by one schema can read all that was written by another one. Pure.

Works on normal forms (json_schema.normal). What is written is taken to be what the writer's schema names: where it is open, a field that
the reader names and the writer does not is not there. (The strict rule would refuse every optional field that is added to an open object.)
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from reach.envelope.json_schema import OPAQUE, TYPES, Node, TooComplex, is_same

MAX_STEPS = 5_000
MAX_DIFFERENCES = 50

_OF_TYPE: dict[str, frozenset[str]] = {
    "null": frozenset(),
    "boolean": frozenset(),
    "number": frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}),
    "string": frozenset({"minLength", "maxLength", "pattern", "format"}),
    "array": frozenset({"items", "prefixItems", "minItems", "maxItems", "uniqueItems"}),
    "object": frozenset({"properties", "required", "additionalProperties", "minProperties", "maxProperties"}),
}
_OF_TYPE["integer"] = _OF_TYPE["number"]
_ANY = tuple(kind for kind in TYPES if kind != "integer")
_LEAST = {"string": "minLength", "array": "minItems", "object": "minProperties"}
_MOST = {"string": "maxLength", "array": "maxItems", "object": "maxProperties"}


class Difference(msgspec.Struct, frozen=True):
    """One thing that was written and cannot be read. `path`: where in the body, `$.city`, `$.days[*]`."""

    path: str
    message: str


class Verdict(msgspec.Struct, frozen=True):
    """What a comparison has found. `unread`: keywords that are not understood and stand in both, so that they count as fine."""

    differences: tuple[Difference, ...] = ()
    unread: tuple[Difference, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.differences


def reads(reader: Node, writer: Node, *, by: str = "the reader", of: str = "the writer") -> Verdict:
    """Whether what `writer` allows is allowed by `reader`. `by`, `of`: their names, for the sentences."""
    comparison = _Comparison(by, of)
    try:
        found = comparison.compare(reader, writer, "$")
    except TooComplex as error:
        found = [Difference("$", str(error))]
    return Verdict(tuple(_distinct(found)[:MAX_DIFFERENCES]), tuple(_distinct(comparison.unread)[:MAX_DIFFERENCES]))


def _distinct(found: list[Difference]) -> list[Difference]:
    return list(dict.fromkeys(found))


def _branches(node: Node) -> list[dict[str, Any]]:
    """The schema as alternatives of one type each."""
    if isinstance(node, bool):
        return [{"type": kind} for kind in _ANY] if node else []
    for union in ("anyOf", "oneOf"):
        if union in node and len(node) == 1:
            return [branch for one in node[union] for branch in _branches(one)]
    kinds = node.get("type", _ANY)
    kinds = (kinds,) if isinstance(kinds, str) else kinds
    if "enum" in node:  # a number may be a whole one, and only its value says so
        named = dict.fromkeys(_type_of(value) for value in node["enum"])
        kinds = [kind for kind in named if any(_takes(one, kind) for one in kinds)]
    opaque = {name: node[name] for name in node if name in OPAQUE or name in ("anyOf", "oneOf", "$ref")}
    found = []
    for kind in kinds:
        branch: dict[str, Any] = {name: node[name] for name in node if name in _OF_TYPE[kind]}
        branch |= {"type": kind, "opaque": opaque}
        if "enum" in node:
            branch["enum"] = [value for value in node["enum"] if _type_of(value) == kind]
            if kind == "null" or (kind == "boolean" and len(branch["enum"]) == 2):
                del branch["enum"]
        found.append(branch)
    return found


def _type_of(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "integer" if value == value // 1 else "number"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"


def _takes(reader: str, writer: str) -> bool:
    return reader == writer or (reader == "number" and writer == "integer")


class _Comparison:
    def __init__(self, by: str, of: str) -> None:
        self._by, self._of = by, of
        self._left = MAX_STEPS
        self.unread: list[Difference] = []

    def compare(self, reader: Node, writer: Node, path: str) -> list[Difference]:
        self._left -= 1
        if self._left < 0:
            raise TooComplex(f"too complex: over {MAX_STEPS} comparisons")
        if reader is True or is_same(reader, writer):
            self._note(reader, path)
            return []
        if _is_recursion(reader) or _is_recursion(writer):
            return [Difference(path, f"{self._by} and {self._of} refer back to different places")]
        found: list[Difference] = []
        readers = _branches(reader)
        for written in _branches(writer):
            kind = written["type"]
            fitting = [branch for branch in readers if _takes(branch["type"], kind)]
            if not fitting:
                found.append(Difference(path, f"{self._by} takes no {kind}, {self._of} does"))
                continue
            tried = [self._branch(branch, written, path) for branch in fitting]
            nearest = min(tried, key=len)
            found += nearest
        return found

    def _note(self, node: Node, path: str) -> None:
        if not isinstance(node, bool):
            self.unread += [_not_understood(path, name) for name in sorted(node.keys() & OPAQUE)]

    def _branch(self, reader: Mapping[str, Any], writer: Mapping[str, Any], path: str) -> list[Difference]:
        found = self._opaque(reader.get("opaque", {}), writer.get("opaque", {}), path)
        if "enum" in writer:
            refused = [value for value in writer["enum"] if not _admits(reader, value)]
            return found + [Difference(path, f"{self._by} does not take {value!r:.60}") for value in refused]
        if "enum" in reader:
            only = ", ".join(f"{value!r:.40}" for value in reader["enum"][:5])
            return [*found, Difference(path, f"{self._by} takes only {only}, {self._of} others as well")]
        kind = writer["type"]
        if kind in ("integer", "number"):
            found += self._numbers(reader, writer, path)
        elif kind == "string":
            found += self._same(reader, writer, path, "pattern", "format")
        elif kind == "array":
            found += self._array(reader, writer, path)
        elif kind == "object":
            found += self._object(reader, writer, path)
        if kind in _LEAST:
            found += self._counts(reader, writer, path, _LEAST[kind], _MOST[kind])
        return found

    def _opaque(self, reader: Mapping[str, Any], writer: Mapping[str, Any], path: str) -> list[Difference]:
        found = []
        for name in sorted(reader.keys() | writer.keys()):
            if name in reader and name in writer and is_same(reader[name], writer[name]):
                self.unread.append(_not_understood(path, name))
            else:
                found.append(Difference(path, f"{name} is not understood by the comparison, and differs"))
        return found

    def _same(self, reader: Mapping[str, Any], writer: Mapping[str, Any], path: str, *names: str) -> list[Difference]:
        return [
            Difference(path, f"{self._by} wants the {name} {reader[name]!r:.80}, {self._of} {_said(writer, name)}")
            for name in names
            if name in reader and reader[name] != writer.get(name)
        ]

    def _numbers(self, reader: Mapping[str, Any], writer: Mapping[str, Any], path: str) -> list[Difference]:
        found = []
        for bound, strict, sign in (("minimum", "exclusiveMinimum", 1), ("maximum", "exclusiveMaximum", -1)):
            written = [(writer[name] * sign, name == strict) for name in (bound, strict) if name in writer]
            if bound in reader and not any(at >= reader[bound] * sign for at, _ in written):
                found.append(self._tighter(reader, writer, path, bound))
            limit = reader.get(strict)
            if limit is not None and not any(at > limit * sign or (at == limit * sign and out) for at, out in written):
                found.append(self._tighter(reader, writer, path, strict))
        step = reader.get("multipleOf")
        if step is not None and writer.get("multipleOf") != step:
            whole = step == 1 and writer["type"] == "integer"
            if not whole and ("multipleOf" not in writer or writer["multipleOf"] % step):
                found.append(self._tighter(reader, writer, path, "multipleOf"))
        return found

    def _counts(
        self, reader: Mapping[str, Any], writer: Mapping[str, Any], path: str, least: str, most: str
    ) -> list[Difference]:
        found = []
        if reader.get(least, 0) > writer.get(least, 0):
            found.append(self._tighter(reader, writer, path, least))
        if most in reader and (most not in writer or writer[most] > reader[most]):
            found.append(self._tighter(reader, writer, path, most))
        return found

    def _tighter(self, reader: Mapping[str, Any], writer: Mapping[str, Any], path: str, name: str) -> Difference:
        return Difference(path, f"{self._by} has the {name} {reader[name]!r:.40}, {self._of} {_said(writer, name)}")

    def _array(self, reader: Mapping[str, Any], writer: Mapping[str, Any], path: str) -> list[Difference]:
        found = []
        if reader.get("uniqueItems") and not writer.get("uniqueItems"):
            found.append(Difference(path, f"{self._by} wants different items, {self._of} does not"))
        first, written = reader.get("prefixItems", []), writer.get("prefixItems", [])
        most = writer.get("maxItems", float("inf"))
        rest, written_rest = reader.get("items", True), writer.get("items", True)
        for i in range(max(len(first), len(written))):
            ours = first[i] if i < len(first) else rest
            theirs = written[i] if i < len(written) else written_rest
            if i < most and theirs is not False:
                found += self.compare(ours, theirs, f"{path}[{i}]")
        if max(len(first), len(written)) < most and written_rest is not False:
            found += self.compare(rest, written_rest, f"{path}[*]")
        return found

    def _object(self, reader: Mapping[str, Any], writer: Mapping[str, Any], path: str) -> list[Difference]:
        found = []
        required = set(reader.get("required", ())) - set(writer.get("required", ()))
        found += [
            Difference(f"{path}.{name}", f"{self._by} requires it, {self._of} does not") for name in sorted(required)
        ]
        ours, theirs = reader.get("properties", {}), writer.get("properties", {})
        others, written_others = reader.get("additionalProperties", True), writer.get("additionalProperties", True)
        for name in sorted(ours.keys() | theirs.keys()):
            written = theirs.get(name, written_others)
            if name not in theirs and written in (True, False):
                continue  # not written at all
            if written is False:
                continue
            if name not in ours and others is False:
                found.append(Difference(f"{path}.{name}", f"{self._by} knows no such field, {self._of} does"))
            else:
                found += self.compare(ours.get(name, others), written, f"{path}.{name}")
        if others is False and written_others is not False:
            found.append(Difference(path, f"{self._by} takes no other fields, {self._of} does"))
        elif others is not True and written_others is not False:
            found += self.compare(others, written_others, f"{path}.*")
        return found


def _is_recursion(node: Node) -> bool:
    return isinstance(node, dict) and "$ref" in node


def _not_understood(path: str, name: str) -> Difference:
    return Difference(path, f"{name} is not understood by the comparison; it is the same in both")


def _said(writer: Mapping[str, Any], name: str) -> str:
    return f"{writer[name]!r:.80}" if name in writer else "none"


def _admits(reader: Mapping[str, Any], value: Any) -> bool:
    """Whether a value that the writer names is taken; `reader`: a branch of its type."""
    if "enum" in reader:
        return any(value == one and _type_of(value) == _type_of(one) for one in reader["enum"])
    if isinstance(value, list | dict):
        return not any(name in reader for name in _OF_TYPE[_type_of(value)])
    if isinstance(value, str):
        if "pattern" in reader or "format" in reader:
            return False  # no regular expression of somebody else's is run here
        return bool(reader.get("minLength", 0) <= len(value) <= reader.get("maxLength", float("inf")))
    if isinstance(value, bool) or value is None:
        return True
    infinite = float("inf")
    inside = reader.get("minimum", -infinite) <= value <= reader.get("maximum", infinite)
    within = reader.get("exclusiveMinimum", -infinite) < value < reader.get("exclusiveMaximum", infinite)
    return bool(inside and within and not ("multipleOf" in reader and value % reader["multipleOf"]))
