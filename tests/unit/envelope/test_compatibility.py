"""Whether who reads by one schema can read what was written by another one."""

from typing import Any

import pytest

from reach.envelope.compatibility import reads
from reach.envelope.json_schema import faults_of, normal

ANY: dict[str, Any] = {}
TEXT, WHOLE, REAL, NULL = ({"type": kind} for kind in ("string", "integer", "number", "null"))


def of(required: tuple[str, ...] = (), /, *, closed: bool = False, **properties: Any) -> dict[str, Any]:
    shut = {"additionalProperties": False} if closed else {}
    return {"type": "object", "properties": properties, "required": list(required), **shut}


def said(reader: dict[str, Any], writer: dict[str, Any]) -> list[str]:
    assert not faults_of(reader)
    assert not faults_of(writer)
    verdict = reads(normal(reader), normal(writer), by="v2", of="v1")
    return [f"{one.path}: {one.message}" for one in verdict.differences]


@pytest.mark.parametrize(
    ("reader", "writer"),
    [
        (ANY, TEXT),
        (TEXT, TEXT),
        (REAL, WHOLE),
        ({"type": ["string", "null"]}, TEXT),
        ({"anyOf": [WHOLE, NULL]}, {"type": ["null", "integer"]}),
        ({"oneOf": [WHOLE, NULL]}, {"anyOf": [NULL, WHOLE]}),
        ({"enum": ["a", "b", "c"]}, {"enum": ["c", "a"]}),
        (TEXT, {"enum": ["a"]}),
        ({"type": "string", "maxLength": 3}, {"enum": ["abc"]}),
        ({"type": "boolean", "enum": [True, False]}, {"type": "boolean"}),
        ({"minimum": 1}, {"minimum": 2}),
        ({"type": "integer", "minimum": 1}, {"type": "integer", "exclusiveMinimum": 1}),
        ({"type": "number", "exclusiveMaximum": 5}, {"type": "number", "maximum": 4}),
        ({"type": "number", "exclusiveMaximum": 5}, {"type": "number", "exclusiveMaximum": 5}),
        ({"type": "integer", "multipleOf": 1}, WHOLE),
        ({"type": "integer", "multipleOf": 2}, {"type": "integer", "multipleOf": 4}),
        ({"type": "string", "minLength": 1}, {"type": "string", "minLength": 2}),
        ({"type": "string", "pattern": "^a"}, {"type": "string", "pattern": "^a", "maxLength": 2}),
        (TEXT, {"type": "string", "format": "uuid"}),
        ({"type": "array", "items": REAL}, {"type": "array", "items": WHOLE}),
        ({"type": "array"}, {"type": "array", "uniqueItems": True}),
        (
            {"type": "array", "items": REAL},
            {"type": "array", "prefixItems": [WHOLE, REAL], "items": False, "maxItems": 2},
        ),
        ({"type": "array", "prefixItems": [TEXT, NULL]}, {"type": "array", "prefixItems": [TEXT], "maxItems": 1}),
        (of(a=TEXT, b=WHOLE), of(a=TEXT)),
        (of(a=TEXT), of(a=TEXT, b=WHOLE)),
        (of(("a",), a=TEXT), of(("a", "b"), a=TEXT, b=TEXT)),
        (of(closed=True, a=TEXT, b=TEXT), of(closed=True, a=TEXT)),
        (of(a=TEXT), of(closed=True, a=TEXT)),
        (
            {"type": "object", "additionalProperties": REAL},
            {"type": "object", "additionalProperties": WHOLE, "minProperties": 1},
        ),
        (of(a=ANY), of(a={"type": "object", "properties": {"b": TEXT}})),
    ],
)
def test_what_is_read(reader: dict[str, Any], writer: dict[str, Any]) -> None:
    assert said(reader, writer) == []


@pytest.mark.parametrize(
    ("reader", "writer", "why"),
    [
        (TEXT, WHOLE, ["$: v2 takes no integer, v1 does"]),
        (WHOLE, REAL, ["$: v2 takes no number, v1 does"]),
        (TEXT, {"type": ["string", "null"]}, ["$: v2 takes no null, v1 does"]),
        ({"enum": ["a"]}, {"enum": ["a", "b"]}, ["$: v2 does not take 'b'"]),
        ({"enum": [1]}, {"enum": [True]}, ["$: v2 takes no boolean, v1 does"]),
        ({"enum": ["a"]}, TEXT, ["$: v2 takes only 'a', v1 others as well"]),
        ({"type": "integer", "maximum": 3}, {"enum": [4]}, ["$: v2 does not take 4"]),
        ({"type": "string", "pattern": "^a"}, {"enum": ["abc"]}, ["$: v2 does not take 'abc'"]),
        ({"type": "integer", "minimum": 1}, WHOLE, ["$: v2 has the minimum 1, v1 none"]),
        (
            {"type": "integer", "exclusiveMinimum": 1},
            {"type": "integer", "minimum": 1},
            ["$: v2 has the exclusiveMinimum 1, v1 none"],
        ),
        ({"type": "number", "maximum": 1}, {"type": "number", "maximum": 2}, ["$: v2 has the maximum 1, v1 2"]),
        (
            {"type": "integer", "multipleOf": 4},
            {"type": "integer", "multipleOf": 2},
            ["$: v2 has the multipleOf 4, v1 2"],
        ),
        ({"type": "string", "maxLength": 3}, TEXT, ["$: v2 has the maxLength 3, v1 none"]),
        (
            {"type": "string", "pattern": "^a"},
            {"type": "string", "pattern": "^b"},
            ["$: v2 wants the pattern '^a', v1 '^b'"],
        ),
        ({"type": "string", "format": "uuid"}, TEXT, ["$: v2 wants the format 'uuid', v1 none"]),
        (
            {"type": "array", "items": WHOLE, "uniqueItems": True, "minItems": 1},
            {"type": "array", "items": TEXT},
            [
                "$: v2 wants different items, v1 does not",
                "$[*]: v2 takes no string, v1 does",
                "$: v2 has the minItems 1, v1 none",
            ],
        ),
        (
            {"type": "array", "prefixItems": [WHOLE], "items": False},
            {"type": "array", "prefixItems": [TEXT], "maxItems": 1},
            ["$[0]: v2 takes no string, v1 does"],
        ),
        (
            of(("a", "b"), a=TEXT, b=TEXT),
            of(a=WHOLE),
            [
                "$.a: v2 requires it, v1 does not",
                "$.b: v2 requires it, v1 does not",
                "$.a: v2 takes no integer, v1 does",
            ],
        ),
        (
            of(closed=True, a=TEXT),
            of(a=TEXT, b=TEXT),
            ["$.b: v2 knows no such field, v1 does", "$: v2 takes no other fields, v1 does"],
        ),
        (
            {"type": "object", "additionalProperties": WHOLE},
            {"type": "object", "additionalProperties": TEXT},
            ["$.*: v2 takes no string, v1 does"],
        ),
        (of(a=WHOLE), {"type": "object", "additionalProperties": TEXT}, ["$.a: v2 takes no string, v1 does"]),
        (of(a=of(b=WHOLE)), of(a=of(b=TEXT)), ["$.a.b: v2 takes no string, v1 does"]),
        (
            {"anyOf": [of(("k",), k={"enum": ["x"]}), of(("k",), k={"enum": ["y"]})]},
            of(("k",), k={"enum": ["z"]}),
            ["$.k: v2 does not take 'z'"],
        ),
        (
            {"type": "string", "not": {"enum": ["a"]}},
            {"type": "string", "not": {"enum": ["b"]}},
            ["$: not is not understood by the comparison, and differs"],
        ),
        (
            {"type": "object", "properties": {"a": {"$ref": "#"}}},
            {"type": "object", "properties": {"a": {"type": "null"}}},
            ["$.a: v2 and v1 refer back to different places"],
        ),
        ({"enum": [[1]]}, {"enum": [[2]]}, ["$: v2 does not take [2]"]),
        ({"type": "array", "minItems": 2}, {"enum": [[2]]}, ["$: v2 does not take [2]"]),
    ],
)
def test_what_is_not_read_and_where(reader: dict[str, Any], writer: dict[str, Any], why: list[str]) -> None:
    assert said(reader, writer) == why


def test_what_is_not_understood_and_stays_is_told_and_does_no_harm() -> None:
    schema = normal(of(a={"type": "string", "not": {"enum": ["x"]}}))
    other = normal(of(("a",), a={"type": "string", "not": {"enum": ["x"]}}))
    for reader in (schema, other):
        verdict = reads(schema, reader)
        assert verdict.ok
        assert [one.path for one in verdict.unread] == (["$.a"] if reader is other else [])


def test_a_comparison_ends() -> None:
    """Alternatives within alternatives: each of one side is compared with each of the other."""
    deep: Any = {"type": "string"}
    other: Any = {"type": "integer"}
    for n in range(8):
        deep = {"anyOf": [of(("k",), k=deep), of(("k",), k=deep, j={"maximum": n})]}
        other = {"anyOf": [of(("k",), k=other), of(("k",), k=other, j={"maximum": n})]}
    assert said(deep, other) == ["$: too complex: over 5000 comparisons"]
