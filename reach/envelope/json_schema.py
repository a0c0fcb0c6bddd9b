"""JSON Schemas as they are stored: what is refused of them, and the normal form in which two of them are compared. Pure.

A schema comes from anybody who may register, and every sender and agent may compile it. So nothing in it points outside of it, and it is
small. The dialect is 2020-12; keywords that it does not know say nothing, as the standard has it.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

from reach.envelope import scan
from reach.envelope.regexes import regex_problem

Schema = dict[str, Any]
Node = bool | dict[str, Any]

MAX_SCHEMA_BYTES = 65_536
MAX_SCHEMA_DEPTH = 40
#: So many schemas may stand inside one another; and so many may they become when each reference is replaced by what it points to.
MAX_NODES = 2_000
MAX_EXPANDED = 5_000
MAX_PATTERN = 512
MAX_TOLD_PROBLEMS = 20
DIALECT = "https://json-schema.org/draft/2020-12/schema"

TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")
_ONE = frozenset(
    {"items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"}
    | {"unevaluatedItems", "unevaluatedProperties", "contentSchema"}
)
_LISTS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_MAPS = frozenset({"properties", "$defs", "definitions", "patternProperties", "dependentSchemas"})
#: Schemas in these are asked about the same value; in all others about a part of it.
HERE = frozenset({"anyOf", "oneOf", "allOf", "not", "if", "then", "else", "dependentSchemas"})
_NUMBERS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
_COUNTS = frozenset(
    {"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains"}
)
_TEXTS = frozenset(
    {"pattern", "format", "$id", "$comment", "title", "description", "contentMediaType", "contentEncoding"}
)
_SAID = frozenset({"uniqueItems", "readOnly", "writeOnly", "deprecated"})
_REFUSED = frozenset({"$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor", "$anchor", "$vocabulary"})
#: Asserted by the standard, and not understood by the comparison: they may be there as long as they stay as they are.
OPAQUE = frozenset(
    {"not", "if", "then", "else", "contains", "minContains", "maxContains", "propertyNames", "patternProperties"}
    | {"unevaluatedItems", "unevaluatedProperties", "dependentSchemas", "dependentRequired", "allOf"}
)
_COMPARED = frozenset(
    {"type", "enum", "required", "properties", "additionalProperties", "items", "prefixItems", "uniqueItems"}
    | {"pattern", "format", "anyOf", "oneOf"}
    | _NUMBERS
    | (_COUNTS - OPAQUE)
)


class Fault(NamedTuple):
    """What is wrong at one place of a schema. `at`: a JSON pointer, "" = the whole."""

    at: str
    message: str


class TooComplex(ValueError):
    """More than anybody should compare or compile."""


def read_schema(data: bytes) -> tuple[Schema, list[Fault]]:
    """A schema as JSON, and all that is wrong with it; with a fault the schema is not to be used."""
    if len(data) > MAX_SCHEMA_BYTES:
        return {}, [Fault("", f"{len(data)} bytes, at most {MAX_SCHEMA_BYTES}")]
    if not scan.is_utf8(data):
        return {}, [Fault("", "not valid UTF-8")]
    if scan.too_deep(data, MAX_SCHEMA_DEPTH):
        return {}, [Fault("", f"nested deeper than {MAX_SCHEMA_DEPTH}, or cut off")]
    try:
        schema = json.loads(data, object_pairs_hook=_once, parse_constant=_no_constant)
    except ValueError as error:
        return {}, [Fault("", f"no JSON: {str(error)[:200]}")]
    if not isinstance(schema, dict):
        return {}, [Fault("", "no JSON object")]
    return schema, faults_of(schema)


def faults_of(schema: Schema) -> list[Fault]:
    """All that is wrong with a schema, at most MAX_TOLD_PROBLEMS."""
    look = _Look()
    try:
        look.over(schema)
        if not look.faults:
            normal(schema)
    except TooComplex as error:
        look.faults.append(Fault("", str(error)))
    return look.faults[:MAX_TOLD_PROBLEMS]


def normal(schema: Schema) -> Node:
    """The schema without what only describes, with each reference replaced by what it points to. Equal ones mean the same.

    Raises:
        TooComplex: It becomes too large.
    """
    return _Expansion(schema).node(schema, ())


def digest_of(node: Node) -> str:
    """16 hex digits of a normal form."""
    return hashlib.sha256(_text(node).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def is_same(one: object, other: object) -> bool:
    """Whether two values of JSON are the same; to Python true and 1 are."""
    return one == other and _text(one) == _text(other)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands there twice")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _step(at: str, name: str | int) -> str:
    return f"{at}/{str(name).replace('~', '~0').replace('/', '~1')}"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value) and len(set(value)) == len(value)


class _Look:
    """One look over a schema: its faults, where the schemas in it stand, and what refers to where."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self._seen: set[str] = set()
        self._refs: list[tuple[str, str]] = []
        self._same: dict[str, list[str]] = {}  # schema -> those that are asked about the same value

    def over(self, schema: Schema) -> None:
        dialect = schema.get("$schema", DIALECT)
        if not isinstance(dialect, str) or dialect.rstrip("#") != DIALECT:
            self._fault("/$schema", f"only {DIALECT} is read")
        left: list[tuple[str, Any]] = [("", schema)]
        while left:
            at, node = left.pop()
            self._seen.add(at)
            if len(self._seen) > MAX_NODES:
                raise TooComplex(f"more than {MAX_NODES} schemas in it")
            if isinstance(node, dict):
                left += self._node(at, node)
            elif not isinstance(node, bool):
                self._fault(at, "no schema: an object, true or false is wanted")
        for at, ref in self._refs:
            if _pointer(ref) not in self._seen:
                self._fault(at, f"{ref[:200]!r} is no schema in here: only #/... is followed, and nothing is fetched")
        if not self.faults and self._is_endless():
            self._fault("", "a reference leads back to itself without going on to a part of the value")

    def _is_endless(self) -> bool:
        """Whether a walk over the same value can come round."""
        open_now: set[str] = set()
        done: set[str] = set()
        for start in self._same:
            left = [(start, False)]
            while left:
                at, over = left.pop()
                if over:
                    open_now.discard(at)
                    done.add(at)
                elif at in open_now:
                    return True
                elif at not in done:
                    open_now.add(at)
                    left.append((at, True))
                    left += [(to, False) for to in self._same.get(at, ()) if to not in done]
        return False

    def _fault(self, at: str, message: str) -> None:
        self.faults.append(Fault(at[:200], message))

    def _node(self, at: str, node: Schema) -> Iterator[tuple[str, Any]]:
        """Look at one schema; what stands in it comes out."""
        for name in sorted(node.keys() & _REFUSED):
            self._fault(_step(at, name), "is not supported")
        if at and "$id" in node:
            self._fault(_step(at, "$id"), "stands only at the top: it would change what references mean")
        ref = node.get("$ref")
        if isinstance(ref, str):
            self._refs.append((_step(at, "$ref"), ref))
            self._same.setdefault(at, []).append(_pointer(ref) or "")
        elif "$ref" in node:
            self._fault(_step(at, "$ref"), "no text")
        for name, value in node.items():
            here = _step(at, name)
            inner: list[tuple[str, Any]] = []
            if name in _ONE:
                inner = [(here, value)]
            elif name in _LISTS:
                inner = self._list(here, value)
            elif name in _MAPS:
                inner = self._map(here, name, value)
            else:
                problem = _wrong(name, value)
                if problem:
                    self._fault(here, problem)
            if name in HERE:
                self._same.setdefault(at, []).extend(to for to, _ in inner)
            yield from inner

    def _list(self, at: str, value: object) -> list[tuple[str, Any]]:
        if not isinstance(value, list) or not value:
            self._fault(at, "no list of schemas")
            return []
        return [(_step(at, i), one) for i, one in enumerate(value)]

    def _map(self, at: str, name: str, value: object) -> list[tuple[str, Any]]:
        if not isinstance(value, dict):
            self._fault(at, "no object of schemas")
            return []
        for key in value if name == "patternProperties" else ():
            problem = _pattern_problem(key)
            if problem:
                self._fault(_step(at, key), problem)
        return [(_step(at, key), one) for key, one in value.items()]


def _is_type(value: Any) -> bool:
    kinds = value if isinstance(value, list) else [value]
    return bool(kinds) and _is_texts(kinds) and all(kind in TYPES for kind in kinds)


def _is_count(value: Any) -> bool:
    return _is_number(value) and value >= 0 and value == int(value)


#: Keywords that have no schemas in them: whether a value can be theirs, and what is said if not.
_VALUES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "type": (_is_type, f"not of {', '.join(TYPES)}"),
    "required": (_is_texts, "no list of different texts"),
    "enum": (lambda value: isinstance(value, list) and bool(value), "no list of values"),
    "examples": (lambda value: isinstance(value, list), "no list"),
    "dependentRequired": (
        lambda value: isinstance(value, dict) and all(map(_is_texts, value.values())),
        "no object of lists of different texts",
    ),
    **dict.fromkeys(_TEXTS, (lambda value: isinstance(value, str), "no text")),
    **dict.fromkeys(_SAID, (lambda value: isinstance(value, bool), "neither true nor false")),
    **dict.fromkeys(_NUMBERS, (_is_number, "no number")),
    **dict.fromkeys(_COUNTS, (_is_count, "no whole number from 0")),
    "multipleOf": (lambda value: _is_number(value) and value > 0, "no number over 0"),
}


def _wrong(name: str, value: Any) -> str:
    """What is wrong with the value of a keyword that has no schemas in it; "" = nothing."""
    fits, problem = _VALUES.get(name, (lambda _: True, ""))
    if not fits(value):
        return problem
    return _pattern_problem(value) if name == "pattern" else ""


def _pattern_problem(pattern: str) -> str:
    if len(pattern) > MAX_PATTERN:
        return f"a pattern of more than {MAX_PATTERN} characters"
    problem = regex_problem(pattern)
    return f"no pattern that can be used: {problem}" if problem else ""


def _pointer(ref: str) -> str | None:
    """The JSON pointer that a local reference is; None: it is none."""
    if ref == "#":
        return ""
    return unquote(ref[1:]) if ref.startswith("#/") else None


class _Expansion:
    """A schema on its way to the normal form."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._left = MAX_EXPANDED

    def node(self, node: Any, path: tuple[str, ...]) -> Node:
        """`path`: the references that led here; one that comes again is a recursion, named by how far up it goes."""
        self._left -= 1
        if self._left < 0:
            raise TooComplex(f"with its references replaced it has more than {MAX_EXPANDED} schemas")
        if isinstance(node, bool):
            return node
        found: dict[str, Any] = {}
        for name, value in node.items():
            if name == "const":
                found["enum"] = [value]
            elif name in _COMPARED or name in OPAQUE:
                found[name] = self._keyword(name, value, path)
        target = self._target(node["$ref"], path) if "$ref" in node else True
        if target is not True:
            if not found:
                return target
            found = {"allOf": [target, found]}
        if list(found) == ["allOf"] and len(found["allOf"]) == 1:
            only: Node = found["allOf"][0]
            return only
        return found or True

    def _keyword(self, name: str, value: Any, path: tuple[str, ...]) -> Any:
        if name in _ONE:
            return self.node(value, path)
        if name in _MAPS:
            return {key: self.node(one, path) for key, one in value.items()}
        if name in _LISTS:
            nodes = [self.node(one, path) for one in value]
            return nodes if name == "prefixItems" else sorted(nodes, key=_text)
        if name == "enum":
            return sorted(value, key=_text)
        if name == "required":
            return sorted(value)
        if name == "type" and isinstance(value, list):
            return value[0] if len(value) == 1 else sorted(value)
        return value

    def _target(self, ref: str, path: tuple[str, ...]) -> Node:
        pointer = _pointer(ref) or ""
        if pointer in path or not pointer:  # "#" is the root, which is always on the way
            up = len(path) - path.index(pointer) if pointer else len(path) + 1
            return {"$ref": f"{up} up"}
        found: Any = self._root
        for step in pointer.split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            found = found[int(name)] if isinstance(found, list) else found[name]
        return self.node(found, (*path, pointer))


def named(schema: Mapping[str, Any]) -> str:
    """The name that a schema gives itself by `$id`, "" where that is none of ours."""
    name = schema.get("$id")
    return name if isinstance(name, str) else ""
