"""The JSON Schemas of a registration: those with a name (`$id`) are stored by it, once for everybody who declares the same."""

from typing import Any, NamedTuple

import msgspec

from reach import ids
from reach.backend.port import Backend
from reach.envelope.json_schema import Schema, named
from reach.envelope.registration import Capability, Registration
from reach.errors import RegistrationRefused, SchemaRefused
from reach.registry.schemas import Schemas

#: So many problems are told, of all schemas together.
MAX_TOLD = 20


class Declared(NamedTuple):
    """One schema, and the field that it stood in."""

    field: str
    name: str
    schema: Schema


def take_out(wanted: Registration) -> tuple[Registration, tuple[Declared, ...]]:
    """The registration with names in place of named JSON Schemas, and those."""
    found: list[Declared] = []
    capabilities = tuple(
        _named(capability, f"capabilities[{i}]", found) for i, capability in enumerate(wanted.capabilities)
    )
    return (msgspec.structs.replace(wanted, capabilities=capabilities), tuple(found)) if found else (wanted, ())


def _named(capability: Capability, at: str, found: list[Declared]) -> Capability:
    for side in ("input_schema", "output_schema"):
        schema = getattr(capability, side)
        if isinstance(schema, dict) and ids.is_schema(named(schema)):
            found.append(Declared(f"{at}.{side}", named(schema), schema))
            capability = msgspec.structs.replace(capability, **{side: named(schema)})
    return capability


async def keep(backend: Backend, declared: tuple[Declared, ...], by: str) -> None:
    """Store them, where they are not stored yet.

    Raises:
        RegistrationRefused: `registration.bad_schema`, `registration.incompatible_schema`, with all that is wrong.
        BackendError: They could not be written.
    """
    problems: list[dict[str, Any]] = []
    refused: list[SchemaRefused] = []
    schemas = Schemas(backend, by)
    for one in declared:
        try:
            await schemas.set(one.name, one.schema)
        except SchemaRefused as error:
            refused.append(error)
            code = _code(error)
            for problem in error.details["problems"]:
                at = f"{one.field} ({one.name})" + (f" {problem['field']}" if problem["field"] else "")
                problems.append({**problem, "code": code, "field": at})
    if refused:
        details: dict[str, Any] = {"problems": problems[:MAX_TOLD]}
        if len(problems) > MAX_TOLD:
            details["more"] = len(problems) - MAX_TOLD
        text = "; ".join(error.message for error in refused)[:1_000]
        raise RegistrationRefused(text, code=_code(refused[0]), details=details)


def _code(error: SchemaRefused) -> str:
    return "registration.bad_schema" if error.code == "schema.bad" else "registration.incompatible_schema"
