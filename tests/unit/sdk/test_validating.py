"""Bodies against JSON Schemas: every problem with its place, and schemas that would hurt whoever compiles them."""

import json
import sys
from typing import Any

import pytest

from reach import Agent, ConfigError, Reach
from reach.backend.memory_backend import MemoryBackend, Store
from reach.errors import EnvelopeError
from reach.sdk import schema_book, validating
from reach.sdk.schema_book import SchemaBook
from reach.sdk.validating import MAX_COMPILED, MAX_PROBLEMS, BadSchema, BodyCheck, Validators
from tests.manual_clock import ManualClock

QUERY = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days/ahead": {"type": "array", "items": {"type": "integer"}}},
    "required": ["city"],
}
TREE: dict[str, Any] = {
    "anyOf": [
        {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["x"]},
        {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["y"]},
    ]
}


def places(schema: Any, body: Any) -> list[str]:
    return [one.at for one in Validators().problems(json.dumps(schema).encode(), json.dumps(body).encode())]


def test_every_problem_has_its_place() -> None:
    assert places(QUERY, {"city": "Oslo"}) == []
    assert places(QUERY, {"days/ahead": [1, "x", None]}) == ["", "/days~1ahead/1", "/days~1ahead/2"]
    (problem,) = Validators().problems(json.dumps(QUERY).encode(), b"")
    assert 'null is not of type "object"' in problem.message
    (problem,) = Validators().problems(b"{}", b"{")
    assert "no JSON" in problem.message


def test_what_is_told_is_bounded() -> None:
    assert len(places({"items": {"type": "string"}}, list(range(1_000)))) == MAX_PROBLEMS
    (problem,) = Validators().problems(b'{"type":"null"}', json.dumps("x" * 10_000).encode())
    assert len(problem.message) <= 200


def test_compiled_schemas_are_kept_and_bounded() -> None:
    validators = Validators()
    for n in range(MAX_COMPILED + 10):
        validators.problems(json.dumps({"maximum": n}).encode(), b"1")
    assert len(validators) == MAX_COMPILED
    kept = dict(validators._judges)
    validators.problems(json.dumps({"maximum": 50}).encode(), b"1")
    assert dict(validators._judges) == kept


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "https://example.com/x.json"},
        {"$ref": "file:///etc/passwd"},
        {"$ref": "#"},
        {"pattern": "(?=a)b"},
        {"pattern": "(a{1000}){1000}"},
        {"patternProperties": {"(": {}}},
        {"type": "nothing"},
        [],
    ],
)
def test_a_schema_that_is_none_or_not_safe_is_not_compiled_and_nothing_is_fetched(schema: Any) -> None:
    validators = Validators()
    for _ in range(2):  # it is kept as what it is
        with pytest.raises(BadSchema):
            validators.problems(json.dumps(schema).encode(), b"1")


def test_a_pattern_runs_in_linear_time() -> None:
    """A backtracking engine would take longer than the universe."""
    assert places({"pattern": "^(a+)+$"}, "a" * 100_000 + "b") == [""]


def nested(depth: int) -> Any:
    body: Any = {}
    for _ in range(depth):
        body = {"a": body}
    return body


def test_alternatives_that_recurse_are_gone_through_only_so_deep() -> None:
    """All problems of 18 levels would take minutes: each level doubles them."""
    (problem,) = Validators().problems(json.dumps(TREE).encode(), json.dumps(nested(15)).encode())
    assert problem.message == "it does not fit, and is too deep to say where"
    (problem,) = Validators().problems(json.dumps(TREE).encode(), json.dumps(nested(40)).encode())
    assert "alternatives recurse 2 times over" in problem.message
    (problem,) = Validators().problems(json.dumps(TREE).encode(), json.dumps(nested(2)).encode())
    assert "is not valid under any" in problem.message


@pytest.mark.parametrize("body", [b'"\\ud800"', b"1e400", b"123456789012345678901234567890", b"[1.5, true, null]"])
def test_whatever_json_can_say_is_judged(body: bytes) -> None:
    validators = Validators()
    assert validators.problems(b"{}", body) == []
    assert validators.problems(b'{"type":"object"}', body) != []


# ---------------------------------------------------------------- the book, the check
class Env:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.backend = MemoryBackend(env="dev", store=Store(self.clock))
        self.asked: list[str] = []
        self.backend._before_step = self.asked.append

    async def store(self, name: str, schema: Any) -> None:
        known = (await self.backend.read_families(["a"])).get("a")
        assert await self.backend.write_schema("a", known, b"{}", name, json.dumps(schema).encode()) == "done"
        self.asked.clear()


async def test_a_schema_is_looked_up_once_a_minute_and_a_missing_one_every_second() -> None:
    env = Env()
    book = SchemaBook(env.backend, env.clock)
    assert await book.schema("a.v1") is None
    await env.store("a.v1", QUERY)
    assert await book.schema("a.v1") is None
    env.clock.advance(schema_book.ABSENT_MS)
    for _ in range(3):
        assert json.loads(await book.schema("a.v1") or b"") == QUERY
    assert env.asked == ["read_schemas"]
    env.clock.advance(schema_book.FOUND_MS)
    await book.schema("a.v1")
    assert env.asked == ["read_schemas"] * 2
    for n in range(schema_book.MAX_KEPT + 10):
        await book.schema(f"b.v{n}")
        await book.readers(f"b{n}.v1")
    assert len(book) == 2 * schema_book.MAX_KEPT


async def test_junk_in_a_family_reads_nothing() -> None:
    env = Env()
    assert await env.backend.write_schema("a", None, b"junk") == "done"
    assert await SchemaBook(env.backend, env.clock).readers("a.v1") == frozenset()


async def test_a_body_is_refused_with_its_problems_or_for_want_of_a_schema() -> None:
    env = Env()
    check = BodyCheck.of(env.backend, env.clock)
    await env.store("a.v1", QUERY)
    await env.store("a.v2", {"$ref": "http://x"})
    assert await check.check("a.v1", b'{"city": "Oslo"}')
    for name, body, code in (
        ("a.v1", b"{}", "payload.invalid"),
        ("a.v2", b"{}", "schema.bad"),
        ("a.v3", b"{}", "schema.unknown"),
    ):
        with pytest.raises(EnvelopeError) as refused:
            await check.check(name, body)
        assert refused.value.code == code
        assert refused.value.details["schema"] == name
    assert not await check.check("a.v3", b"{}", must=False)


async def test_without_the_extra_the_command_that_helps_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    with pytest.raises(ConfigError, match=r"pip install 'reachmq\[schemas\]'"):
        Agent("a", validate=True)
    with pytest.raises(ConfigError, match="schemas"):
        await Reach.connect("memory://extra", validate=True)
    async with Reach.connect("memory://extra") as reach:
        with pytest.raises(ConfigError, match="schemas"):
            await reach.request("a", 1, validate=True)
        with pytest.raises(TypeError, match="validate"):
            await reach.request("a", 1, validate=1)  # type: ignore[call-overload]
    with pytest.raises(ConfigError):
        validating.need_validator()
