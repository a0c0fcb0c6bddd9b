"""JSON Schemas from the types of handlers: what a Struct, dataclass, TypedDict or pydantic model says of itself."""

import dataclasses
from functools import lru_cache
from typing import Any, is_typeddict

import msgspec

from reach.envelope.json_schema import MAX_SCHEMA_BYTES, Schema, faults_of
from reach.log import event_log
from reach.sdk.outcome import text_of

log = event_log("reach.agent")

MAX_TOLD_FAULTS = 3


def declared_schema(name: str | None, kind: Any) -> str | Schema | None:
    """What a registration says of a body that has this name and is read as `kind`: its JSON Schema, called by the name, or the name alone.

    The name alone stands for what says nothing of its own (a dict, Any); and for a type that no JSON Schema can be made of, or none that
    could be stored, which the log says.
    """
    if name is None or not _is_declared(kind):
        return name
    derived = _derived(name, kind)
    return name if derived is None else {"$id": name, **derived}


def tell_undeclared(name: str | None, reason: str) -> None:
    """Say that a schema is declared by its name alone although its handler has a type: whoever looks for it finds nothing stored."""
    log.warning("schema not declared", schema=name, reason=reason)


def _is_declared(kind: Any) -> bool:
    if not isinstance(kind, type):
        return False
    own = issubclass(kind, msgspec.Struct) or dataclasses.is_dataclass(kind) or is_typeddict(kind)
    return own or hasattr(kind, "model_json_schema")


@lru_cache(maxsize=256)
def _derived(name: str, kind: Any) -> Schema | None:
    """The JSON Schema of a type; None, with a line in the log the first time, where there is none that could be stored."""
    try:
        schema: Schema = (
            _of_model(kind) if hasattr(kind, "model_json_schema") else msgspec.json.schema(kind, schema_hook=_of_model)
        )
        size = len(msgspec.json.encode(schema))
    except Exception as error:  # noqa: BLE001 - a model may bring its own code along, and that raises what it likes
        tell_undeclared(name, f"no JSON Schema can be made of {kind.__qualname__}: {text_of(error)}")
        return None
    faults = faults_of(schema) if size <= MAX_SCHEMA_BYTES else []
    if size <= MAX_SCHEMA_BYTES and not faults:
        return schema
    told = "; ".join(f"{fault.at}: {fault.message}" for fault in faults[:MAX_TOLD_FAULTS])
    reason = told or f"{size} bytes, at most {MAX_SCHEMA_BYTES}"
    tell_undeclared(name, f"the JSON Schema of {kind.__qualname__} cannot be stored: {reason}")
    return None


def _of_model(kind: Any) -> Schema:
    """Of a pydantic model. For what is none it raises NotImplementedError, as msgspec asks of a schema_hook; `_derived` logs it."""
    if not hasattr(kind, "model_json_schema"):
        raise NotImplementedError
    schema: Schema = kind.model_json_schema()
    return schema
