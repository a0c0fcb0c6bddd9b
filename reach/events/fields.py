"""Reads the fields of hop records, which anybody may have written: what is of another kind counts as nothing. Pure."""

from collections.abc import Mapping
from typing import Any, Final, TypeGuard

Record = Mapping[str, Any]

MAX_INT: Final = (1 << 63) - 1


def at_of(record: Record) -> int:
    """When it happened, Unix us; 0 where it does not say."""
    return int_of(record, "at_us")


def int_of(record: Record, name: str) -> int:
    """A whole number of it; 0 where it is none."""
    value = record.get(name)
    return value if _is_int(value) else 0


def round_of(record: Record) -> int:
    """The round of its message."""
    return int_of(record, "round") or 1


def text_of(record: Record, name: str) -> str:
    """A text of a record, which anybody may have written; "" where it is none."""
    value = record.get(name)
    return value if isinstance(value, str) else ""


def dict_of(record: Record, name: str) -> dict[str, Any]:
    """An object in it; an empty one where it is none."""
    value = record.get(name)
    return value if isinstance(value, dict) else {}


def counts_of(record: Record) -> dict[str, int]:
    """What it has counted, by name."""
    return {name: number for name, number in dict_of(record, "counts").items() if _is_int(number)}


def _is_int(value: object) -> TypeGuard[int]:
    """Whether it is a whole number that any other language can hold as well: reach writes no other."""
    return type(value) is int and -MAX_INT <= value <= MAX_INT
