"""Which JSON Schemas are stored at all, and the form in which two of them are compared."""

import json
from typing import Any

import jsonschema_rs
import msgspec
import pytest

from reach.envelope.json_schema import MAX_SCHEMA_BYTES, digest_of, faults_of, normal, read_schema
from reach.envelope.schema_cost import branching


def read(schema: Any) -> list[tuple[str, str]]:
    return [(fault.at, fault.message) for fault in read_schema(json.dumps(schema).encode())[1]]


class Leaf(msgspec.Struct):
    """Any description."""

    name: str
    inner: "list[Leaf]" = []


def test_what_msgspec_makes_of_types_is_read() -> None:
    schema = msgspec.json.schema(Leaf)
    assert read(schema) == []
    assert normal(schema) == {
        "type": "object",
        "properties": {"name": {"type": "string"}, "inner": {"type": "array", "items": {"$ref": "1 up"}}},
        "required": ["name"],
    }


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"[]", "no JSON object"),
        (b"{", "no JSON"),
        (b'{"a": NaN}', "NaN"),
        (b'{"type": "null", "type": "string"}', "twice"),
        (b'{"a": "\xff"}', "UTF-8"),
        (b" " * (MAX_SCHEMA_BYTES + 1), "at most 65536"),
        (b'{"not":' * 50 + b"{}" + b"}" * 50, "deeper than 40"),
    ],
)
def test_what_is_no_schema_at_all_is_refused(data: bytes, said: str) -> None:
    ((at, message),) = read_schema(data)[1]
    assert at == ""
    assert said in message


def test_all_that_is_wrong_is_told_at_once_with_its_places() -> None:
    wrong = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "text",
        "required": ["a", "a"],
        "minLength": -1,
        "properties": {"a/b": {"$ref": "https://example.com/x.json"}, "c": 3},
        "$defs": {"d": {"$id": "other"}, "e": {"$anchor": "x"}},
        "anyOf": [],
        "multipleOf": 0,
        "pattern": "x" * 513,
        "enum": "abc",
        "patternProperties": [],
    }
    assert {at for at, _ in read(wrong)} == {
        "/$schema",
        "/type",
        "/required",
        "/minLength",
        "/properties/a~1b/$ref",
        "/properties/c",
        "/$defs/d/$id",
        "/$defs/e/$anchor",
        "/anyOf",
        "/multipleOf",
        "/pattern",
        "/enum",
        "/patternProperties",
    }


def test_patterns_that_nobody_could_validate_by_are_told_all_at_once() -> None:
    wrong = {"pattern": "(?=a)b", "patternProperties": {"[": {"pattern": "(a)\\1"}}, "$defs": {"d": {"pattern": "ok"}}}
    assert {at: message.partition(": ")[2] for at, message in read(wrong)} == {
        "/pattern": "look-around, which takes more than linear time (character 2)",
        "/patternProperties/[": "a [ that is not closed (character 2)",
        "/patternProperties/[/pattern": "\\1, a reference to a group, which takes more than linear time (character 5)",
    }


@pytest.mark.parametrize(
    "schema",
    [
        {"dependentRequired": {"a": ["b", "b"]}},
        {"title": 5},
        {"$comment": 5},
        {"contentMediaType": 5},
        {"contentSchema": 5},
        {"readOnly": "yes"},
        {"deprecated": 1},
        {"examples": "one"},
    ],
)
def test_what_the_validator_would_not_compile_is_not_stored(schema: dict[str, Any]) -> None:
    ((at, _),) = read(schema)
    assert at.startswith(f"/{next(iter(schema))}")
    with pytest.raises(jsonschema_rs.ValidationError):
        jsonschema_rs.Draft202012Validator(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"anyOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}}},
        {"$defs": {"a": {"if": {"$ref": "#/$defs/b"}}, "b": {"not": {"$ref": "#/$defs/a"}}}},
    ],
)
def test_a_recursion_that_goes_nowhere_is_refused(schema: dict[str, Any]) -> None:
    assert read(schema) == [("", "a reference leads back to itself without going on to a part of the value")]


def test_references_that_multiply_are_refused() -> None:
    defs: dict[str, Any] = {"a0": {"type": "string"}}
    for n in range(1, 12):
        defs[f"a{n}"] = {"anyOf": [{"$ref": f"#/$defs/a{n - 1}"}] * 3}
    ((_, message),) = read({"$ref": "#/$defs/a11", "$defs": defs})
    assert "more than 5000 schemas" in message


def test_too_many_schemas_in_it_are_refused() -> None:
    ((_, message),) = read({"properties": {f"p{n}": True for n in range(2_001)}})
    assert "more than 2000" in message


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"type": "string", "title": "a", "description": "b", "examples": ["c"]}, {"type": "string"}, True),
        ({"required": ["a", "b"]}, {"required": ["b", "a"]}, True),
        ({"type": ["string"]}, {"type": "string"}, True),
        ({"const": 1}, {"enum": [1]}, True),
        ({"allOf": [{"type": "null"}]}, {"type": "null"}, True),
        ({"$ref": "#/$defs/x", "$defs": {"x": {"type": "null"}}}, {"type": "null"}, True),
        ({"$ref": "#/properties/a~1b", "properties": {"a/b": True}}, {"properties": {"a/b": True}}, True),
        ({"x-own": 1}, {}, True),
        ({"enum": [1]}, {"enum": [True]}, False),
        ({"anyOf": [{"type": "null"}]}, {"oneOf": [{"type": "null"}]}, False),
        ({"minimum": 1}, {"minimum": 2}, False),
    ],
)
def test_what_only_describes_makes_no_difference(one: dict[str, Any], other: dict[str, Any], same: bool) -> None:
    assert not faults_of(one)
    assert (digest_of(normal(one)) == digest_of(normal(other))) is same


def test_how_often_a_recursion_doubles_the_work_is_known() -> None:
    part = {"properties": {"a": {"$ref": "#"}}}
    assert branching(normal(part)) == 1
    assert branching(normal({"anyOf": [part, part, {"items": {"$ref": "#"}}]})) == 2
    assert branching(normal({"prefixItems": [{"$ref": "#"}], "patternProperties": {"x": {"$ref": "#"}}})) == 1
    assert branching(normal({"dependentSchemas": {"x": part}, "not": part, "items": False})) == 2
