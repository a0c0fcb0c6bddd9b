"""Bodies against JSON Schemas (the extra `schemas`, jsonschema-rs): what is wrong with a body, all at once, each with a JSON pointer.

A schema comes from whoever may write to the env: nothing is fetched, patterns run in linear time, and what would take too long is refused.
"""

import json
from collections.abc import Callable
from typing import Any

import msgspec

from reach.backend.port import Backend
from reach.clock import Clock
from reach.envelope import scan
from reach.envelope.json_schema import normal, read_schema
from reach.envelope.schema_cost import branching
from reach.errors import ConfigError, EnvelopeError
from reach.sdk.schema_book import SchemaBook

MAX_COMPILED = 256
MAX_PROBLEMS = 20
MAX_SAID = 200
#: What a pattern may become, and the memory that it may run in.
PATTERN_BYTES = 1 << 20
#: Where alternatives recurse, each level of a body doubles the work: so many paths are gone for every problem, and so many at all.
MAX_PATHS_TOLD, MAX_PATHS = 256, 1_000_000

Judge = Callable[[Any], "list[BodyProblem]"]


class BodyProblem(msgspec.Struct, frozen=True):
    """One thing that is wrong with a body. `at`: a JSON pointer, "" = the whole."""

    at: str
    message: str


class BadSchema(Exception):
    """What is stored cannot be validated by: no schema, or none that is safe."""


def need_validator() -> None:
    """Raises ConfigError, with the command that helps, where the extra is missing."""
    try:
        import jsonschema_rs  # noqa: F401 - whether it is there
    except ImportError:
        text = "validating bodies needs jsonschema-rs: pip install 'reachmq[schemas]'"
        raise ConfigError(text, details={"extra": "schemas"}) from None


class Validators:
    """Compiled schemas, the last MAX_COMPILED that were asked for."""

    def __init__(self) -> None:
        self._judges: dict[bytes, Judge | BadSchema] = {}

    def __len__(self) -> int:
        """How many are kept."""
        return len(self._judges)

    def problems(self, schema: bytes, body: bytes) -> list[BodyProblem]:
        """What is wrong with a body (JSON; none is null), the first MAX_PROBLEMS.

        Raises:
            BadSchema: The schema is none, or none that is safe.
            ConfigError: The extra is missing.
        """
        judge = self._judges.pop(schema, None) or _compiled(schema)
        while len(self._judges) >= MAX_COMPILED:
            del self._judges[next(iter(self._judges))]
        self._judges[schema] = judge
        if isinstance(judge, BadSchema):
            raise judge
        try:
            value = json.loads(scan.mended(body or b"null"))  # half a character is nothing to the validator
        except ValueError as error:
            return [BodyProblem("", f"no JSON: {str(error)[:MAX_SAID]}")]
        return judge(value)


class BodyCheck:
    """Bodies against the schemas that an env has stored by name."""

    def __init__(self, book: SchemaBook) -> None:
        self._book = book
        self._validators = Validators()

    @classmethod
    def of(cls, backend: Backend, clock: Clock) -> "BodyCheck":
        """One with a book of its own, for who has none: a gateway."""
        return cls(SchemaBook(backend, clock))

    async def check(self, schema: str, body: bytes, *, must: bool = True) -> bool:
        """Let a body pass, or not. False: no such schema is stored, and it need not be.

        Args:
            schema: The name of its schema.
            body: As JSON.
            must: Whether a schema that is not stored is an error.

        Raises:
            EnvelopeError: `payload.invalid`, with `details["problems"]`; `schema.unknown`; `schema.bad`.
            ConfigError: The extra is missing.
            BackendError: The schema cannot be read.
        """
        stored = await self._book.schema(schema)
        if stored is None:
            if must:
                text = f"no JSON Schema {schema[:128]} is stored to validate by"
                raise EnvelopeError("schema.unknown", text, details={"schema": schema[:128]})
            return False
        try:
            problems = self._validators.problems(stored, body)
        except BadSchema as error:
            raise EnvelopeError("schema.bad", f"{schema[:128]}: {error}", details={"schema": schema[:128]}) from None
        if problems:
            told = "; ".join(f"{one.at or 'the body'}: {one.message}" for one in problems)[:1_000]
            details = {"schema": schema[:128], "problems": [msgspec.to_builtins(one) for one in problems]}
            raise EnvelopeError("payload.invalid", f"it does not fit {schema[:128]}: {told}", details=details)
        return True


def _compiled(data: bytes) -> Judge | BadSchema:
    need_validator()
    import jsonschema_rs

    schema, faults = read_schema(data)
    if faults:
        return BadSchema("; ".join(f"{fault.at}: {fault.message}" for fault in faults)[:1_000])
    times = branching(normal(schema))
    schema.pop("$id", None)
    limits = jsonschema_rs.RegexOptions(size_limit=PATTERN_BYTES, dfa_size_limit=PATTERN_BYTES)
    try:
        validator = jsonschema_rs.Draft202012Validator(
            schema, pattern_options=limits, retriever=_nowhere, validate_formats=False
        )
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        return BadSchema(f"it cannot be compiled: {getattr(error, 'message', error)!s:.200}")

    def judge(value: Any) -> list[BodyProblem]:
        paths = times ** _depth(value) if times > 1 else 1
        if paths > MAX_PATHS:
            return [BodyProblem("", f"too deep for a schema whose alternatives recurse {times} times over")]
        if validator.is_valid(value):
            return []
        if paths > MAX_PATHS_TOLD:
            return [BodyProblem("", "it does not fit, and is too deep to say where")]
        found = []
        for error in validator.iter_errors(value):
            pointer = "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in error.instance_path)
            found.append(BodyProblem(pointer[:MAX_SAID], error.message[:MAX_SAID]))
            if len(found) == MAX_PROBLEMS:
                break
        return found

    return judge


def _nowhere(uri: str) -> Any:
    raise ValueError(f"{uri[:100]} is not fetched")


def _depth(value: Any) -> int:
    """How deep a value is nested."""
    deepest, left = 0, [(value, 1)]
    while left:
        one, depth = left.pop()
        deepest = max(deepest, depth)
        if isinstance(one, dict):
            left += [(inner, depth + 1) for inner in one.values()]
        elif isinstance(one, list):
            left += [(inner, depth + 1) for inner in one]
    return deepest
