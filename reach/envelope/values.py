"""Bodies and outputs: from JSON to the types of a program, and back.

Structs, dataclasses, TypedDicts and plain JSON values are msgspec's; a pydantic model is taken by its own methods, so
that pydantic need not be installed.
"""

import json
from typing import Any, Protocol, TypeVar, cast, overload, runtime_checkable

import msgspec

from reach.errors import EnvelopeError

T = TypeVar("T")


@runtime_checkable
class _Model(Protocol):
    """What makes a class a pydantic model, as far as it matters here."""

    @classmethod
    def model_validate_json(cls, json_data: bytes) -> Any: ...

    def model_dump(self, *, mode: str) -> Any: ...


@overload
def decode_value(data: msgspec.Raw | bytes, returns: None = None) -> Any: ...


@overload
def decode_value(data: msgspec.Raw | bytes, returns: type[T]) -> T: ...


def decode_value(data: msgspec.Raw | bytes, returns: type[T] | None = None) -> Any:
    """A body or an output as the type that is wanted.

    Args:
        data: JSON, at most 64 deep; nothing at all counts as null.
        returns: The type; None or Any gives dicts, lists, strings, numbers, as they come.

    Raises:
        EnvelopeError: `payload.invalid`, with `details["reason"]`, where it does not fit.
        TypeError: `returns` is no type that JSON can be decoded to.
    """
    raw = bytes(data) or b"null"
    try:
        if returns is None or returns is Any:
            return _plain(raw)
        if _is_model(returns):
            return cast("type[_Model]", returns).model_validate_json(raw)
        return msgspec.json.decode(raw, type=returns)
    except (msgspec.DecodeError, ValueError) as error:
        name = getattr(returns, "__name__", str(returns))
        details = {"reason": str(error)[:500], "type": name}
        raise EnvelopeError("payload.invalid", f"does not fit {name}: {details['reason']}", details=details) from None


def encode_value(value: object) -> msgspec.Raw:
    """A value as JSON for a body or an output.

    Raises:
        EnvelopeError: `payload.invalid`, where it cannot be JSON.
    """
    try:
        return msgspec.Raw(msgspec.json.encode(value, enc_hook=_dump))
    except (TypeError, ValueError, RecursionError, msgspec.EncodeError) as error:
        details = {"reason": str(error)[:500], "type": type(value).__name__}
        raise EnvelopeError("payload.invalid", f"cannot be JSON: {details['reason']}", details=details) from None


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, _Model)


def _plain(raw: bytes) -> Any:
    try:
        return msgspec.json.decode(raw)
    except msgspec.DecodeError:
        # Legal JSON that msgspec refuses: a lone surrogate, a number like 1e400. Python's own decoder takes both.
        return json.loads(raw)


def _dump(value: object) -> Any:
    if isinstance(value, _Model):
        return value.model_dump(mode="json")
    raise TypeError(f"{type(value).__name__} is nothing that JSON can hold")
