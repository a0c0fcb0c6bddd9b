"""Python values to JSON and back, by annotation: Struct, dataclass, TypedDict, pydantic model, or plain JSON.

Pydantic is never imported: its models are known by their methods.
"""

import json
import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

import msgspec

from reach.envelope import scan
from reach.errors import EnvelopeError

T = TypeVar("T")

MAX_PROBLEM_CHARS = 500
#: What stands in something that is at most 64 deep: a body in payload in an envelope, details in a receipt. One limit for all of
#: them, so that what came as an output can be sent on as a body.
MAX_BODY_DEPTH = scan.MAX_DEPTH - 2


class BodyError(EnvelopeError):
    """A body or an output that cannot be written as JSON, or does not fit the type that it is read as (`payload.invalid`)."""

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__("payload.invalid", message[:MAX_PROBLEM_CHARS], details=details)


@runtime_checkable
class _Model(Protocol):
    """A pydantic model, as far as it is used."""

    def model_dump(self, *, mode: str) -> Any: ...


class _ModelClass(Protocol):
    def model_validate(self, value: Any) -> Any: ...

    def model_validate_json(self, data: bytes) -> Any: ...


def _write_model(value: object) -> Any:
    if isinstance(value, _Model):
        return value.model_dump(mode="json")
    raise TypeError(f"a {type(value).__name__} cannot be written as JSON")


def _read_model(kind: Any, value: Any) -> Any:
    if kind is object:  # inside of something else; msgspec knows it by the name Any alone
        return value
    if hasattr(kind, "model_validate"):
        return cast("_ModelClass", kind).model_validate(value)
    raise TypeError(f"a {getattr(kind, '__name__', kind)} cannot be read from JSON")


_write = msgspec.json.Encoder(enc_hook=_write_model).encode
_write_ordered = msgspec.json.Encoder(enc_hook=_write_model, order="deterministic").encode


def encode_body(value: object, *, ordered: bool = False) -> msgspec.Raw:
    """The value as JSON. A `msgspec.Raw` is carried byte for byte; an empty one is JSON null.

    `ordered`: sets and dicts are sorted, so that equal values give the same bytes in every process.

    Whoever reads it next refuses what is no JSON, or too deep, together with all that stands around it: told here, it costs the value
    alone; told there, it would cost the whole message or receipt.

    Raises:
        BodyError: It, or something in it, cannot be written: a type that JSON has not, NaN, infinity, a cycle, a lone surrogate, more
            than 62 levels, a Raw that is no JSON.
    """
    if isinstance(value, msgspec.Raw):
        return _whole(bytes(value) or b"null", value)
    try:
        written = _write_ordered(value) if ordered else _write(value)
        # A float that is no number is written as null: only where there is a null can there be one.
        lost = b"null" in written and _has_no_number(_plain(value))
    except RecursionError:
        raise BodyError("nested too deep, or in a circle", type=type(value).__name__) from None
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError) as error:
        raise BodyError(f"cannot be written as JSON: {error}", type=type(value).__name__) from error
    if lost:
        raise BodyError("cannot be written as JSON: it has a float that is NaN or infinite", type=type(value).__name__)
    return _whole(written, value)


def _whole(written: bytes, value: object) -> msgspec.Raw:
    """The bytes, if they are one JSON value that can stand in a message: a Raw, also one inside the value, is anybody's bytes."""
    problem = ""
    if not scan.is_utf8(written):
        problem = "no UTF-8"
    elif scan.too_deep(written, MAX_BODY_DEPTH):
        problem = f"nested deeper than {MAX_BODY_DEPTH}, or cut off"
    elif not scan.is_json(written):
        problem = "no JSON"
    if problem:
        raise BodyError(f"cannot be written as JSON: {problem}", type=type(value).__name__)
    return msgspec.Raw(written)


def _plain(value: object) -> object:
    """The value in plain types, floats as they are: pydantic's JSON mode would have them as None already."""

    def write(model: object) -> Any:
        return model.model_dump(mode="python") if isinstance(model, _Model) else _write_model(model)

    try:
        return msgspec.to_builtins(value, enc_hook=write)
    except (TypeError, ValueError):  # a model with parts that only its own JSON mode can write
        return msgspec.to_builtins(value, enc_hook=_write_model)


def _has_no_number(value: object) -> bool:
    """Whether a float in this value of plain types is NaN or infinite."""
    left = [value]
    while left:
        found = left.pop()
        if isinstance(found, float) and not math.isfinite(found):
            return True
        if isinstance(found, dict):
            left += found.values()
        elif isinstance(found, list | tuple | set | frozenset):
            left += found
    return False


@lru_cache(maxsize=1024)
def reader_for(kind: Any) -> Callable[[bytes], Any]:
    """What reads JSON as `kind`; it raises BodyError.

    Raises:
        TypeError: The annotation is nothing that JSON can be read as.
    """
    if hasattr(kind, "model_validate_json"):
        read: Callable[[bytes], Any] = cast("_ModelClass", kind).model_validate_json
    elif kind is Any or kind is object:
        read = _read_plain
    elif kind is msgspec.Raw:
        read = _read_raw
    else:
        read = msgspec.json.Decoder(kind, dec_hook=_read_model).decode

    def checked(data: bytes) -> Any:
        try:
            return read(data)
        except RecursionError:
            raise BodyError("nested too deep") from None
        except (ValueError, TypeError) as error:  # msgspec's and pydantic's errors are ValueErrors
            raise BodyError(str(error), expected=_name_of(kind)) from None

    return checked


def check_readable(kind: Any) -> None:
    """Refuse an annotation that JSON can never be read as, also inside a list, a dict or a union.

    Raises:
        TypeError: It is one.
    """
    reader_for(kind)
    if hasattr(kind, "model_validate_json"):
        return
    left = [msgspec.inspect.type_info(kind)]
    while left:
        match left.pop():
            case msgspec.inspect.CustomType(cls=cls) if cls is not object and not hasattr(cls, "model_validate"):
                raise TypeError(f"a {cls.__name__} cannot be read from JSON")
            case msgspec.inspect.UnionType(types=types) | msgspec.inspect.TupleType(item_types=types):
                left += types
            case msgspec.inspect.DictType(key_type=key, value_type=value):
                left += (key, value)
            case msgspec.inspect.CollectionType(item_type=item):
                left.append(item)


def decode_body(data: bytes, kind: Any) -> Any:
    """Read JSON as `kind`; no bytes at all are JSON null.

    Raises:
        BodyError: It does not fit.
        TypeError: The annotation is nothing that JSON can be read as.
    """
    return reader_for(kind)(data or b"null")


def _read_plain(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:
        # Legal JSON that msgspec refuses: half a character, a number like 1e400. Python's own decoder takes both.
        return json.loads(data)


def _read_raw(data: bytes) -> msgspec.Raw:
    if not scan.is_json(data):
        raise ValueError("not valid JSON")
    return msgspec.Raw(data)  # msgspec would refuse half a character, which is nothing to who takes bytes


def _name_of(kind: Any) -> str:
    return getattr(kind, "__name__", None) or str(kind)
