"""Bodies to the types of a program, and back."""

import dataclasses
import datetime as dt
import math
from typing import Any, TypedDict, cast

import msgspec
import pytest

from reach.envelope.values import decode_value, encode_value
from reach.errors import EnvelopeError


class Order(msgspec.Struct):
    id: str


@dataclasses.dataclass
class Plain:
    id: str


class Typed(TypedDict):
    id: str


class Model:
    """What a pydantic model looks like from outside; pydantic itself need not be installed."""

    def __init__(self, id: str) -> None:  # noqa: A002
        self.id = id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Model) and other.id == self.id

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def model_validate_json(cls, json_data: bytes) -> "Model":
        fields = msgspec.json.decode(json_data)
        if "id" not in fields:
            raise ValueError("id is missing")
        return cls(**fields)

    def model_dump(self, *, mode: str) -> dict[str, str]:
        assert mode == "json"
        return {"id": self.id}


@pytest.mark.parametrize("value", [Order("1"), Plain("1"), Typed(id="1"), Model("1")])
def test_there_and_back(value: object) -> None:
    kind = Typed if isinstance(value, dict) else type(value)
    written = encode_value(value)
    assert bytes(written) == b'{"id":"1"}'
    assert decode_value(written, kind) == value
    with pytest.raises(EnvelopeError) as caught:
        decode_value(b"{}", kind)
    assert caught.value.code == "payload.invalid"
    assert caught.value.details["type"] == kind.__name__


def test_plain_json() -> None:
    assert decode_value(b'{"a":[1,2.5,null]}') == {"a": [1, 2.5, None]}
    anything: Any = Any
    assert decode_value(b"[1]", anything) == [1]
    assert decode_value(msgspec.Raw(b"")) is None


def test_legal_json_that_msgspec_refuses() -> None:
    assert decode_value(b'"a\\ud83d"') == "a\ud83d"
    assert decode_value(b"1e400") == math.inf
    for data in (b"{", b"9" * 5000):
        with pytest.raises(EnvelopeError) as caught:
            decode_value(data)
        assert caught.value.code == "payload.invalid"


def test_a_union_is_named_as_it_is_written() -> None:
    union = cast("type[object]", int | str)
    with pytest.raises(EnvelopeError) as caught:
        decode_value(b"[]", union)
    assert caught.value.details["type"] == "int | str"


def test_what_json_can_hold() -> None:
    assert bytes(encode_value({"at": dt.date(2025, 1, 2), "many": (1, 2)})) == b'{"at":"2025-01-02","many":[1,2]}'
    assert bytes(encode_value([Model("1")])) == b'[{"id":"1"}]'
    assert bytes(encode_value(None)) == b"null"


def test_what_json_cannot_hold() -> None:
    endless: list[object] = []
    endless.append(endless)
    for value in (object(), {"a": 1j}, "\ud800", endless):
        with pytest.raises(EnvelopeError) as caught:
            encode_value(value)
        assert caught.value.code == "payload.invalid"
        assert caught.value.details["type"] == type(value).__name__
