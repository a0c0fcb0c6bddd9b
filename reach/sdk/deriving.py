"""JSON Schemas from the types of handlers: what a Struct, dataclass, TypedDict or pydantic model says of itself."""

import dataclasses
from functools import lru_cache
from typing import Any, is_typeddict

import msgspec

from reach.envelope.json_schema import MAX_SCHEMA_BYTES, Schema, faults_of


def declared_schema(name: str | None, kind: Any) -> str | Schema | None:
    """What a registration says of a body that has this name and is read as `kind`: its JSON Schema, called by the name, or the name alone.

    The name alone stands for what says nothing of its own (a dict, Any), and what JSON Schema cannot say.
    """
    derived = _derived(kind) if name is not None and _is_declared(kind) else None
    return name if derived is None else {"$id": name, **derived}


def _is_declared(kind: Any) -> bool:
    if not isinstance(kind, type):
        return False
    own = issubclass(kind, msgspec.Struct) or dataclasses.is_dataclass(kind) or is_typeddict(kind)
    return own or hasattr(kind, "model_json_schema")


@lru_cache(maxsize=256)
def _derived(kind: Any) -> Schema | None:
    try:
        schema: Schema = (
            _of_model(kind) if hasattr(kind, "model_json_schema") else msgspec.json.schema(kind, schema_hook=_of_model)
        )
        too_large = len(msgspec.json.encode(schema)) > MAX_SCHEMA_BYTES
    except (TypeError, ValueError, NotImplementedError, RecursionError):  # pydantic's errors are of these kinds
        return None
    return None if too_large or faults_of(schema) else schema


def _of_model(kind: Any) -> Schema:
    """Of a pydantic model. Raises NotImplementedError for what is none."""
    if not hasattr(kind, "model_json_schema"):
        raise NotImplementedError
    schema: Schema = kind.model_json_schema()
    return schema
