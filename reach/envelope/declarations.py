"""What the instances of one agent declare, compared: the same, one that can do all that another one declares, or neither. Pure."""

import hashlib
from collections.abc import Iterable
from typing import Any

import msgspec

from reach.envelope.registration import Accept, Capability, Registration

#: What may differ between the instances of one agent.
OF_THE_INSTANCE = frozenset({"instance_id", "node_id", "partitions", "token", "declares"})
#: Where two instances differ in one of these, a message that was meant for one of them may not go to the other.
_NEVER_ANOTHER = ("env", "zone", "tier", "endpoint", "adapter")
_encode = msgspec.json.Encoder(order="sorted").encode


def declaration_of(registration: Registration) -> dict[str, Any]:
    """What all instances of an agent must agree on; the order of lists means nothing."""
    declared: dict[str, Any] = {}
    for name in Registration.__struct_fields__:
        if name not in OF_THE_INSTANCE:
            value = getattr(registration, name)
            declared[name] = sorted(map(repr, value)) if isinstance(value, tuple) else value
    return declared


def differing(one: Registration, other: Registration) -> list[str]:
    """The fields in which they declare something else, in order."""
    first, second = declaration_of(one), declaration_of(other)
    return sorted(name for name, value in first.items() if second[name] != value)


def label_of(registration: Registration) -> str:
    """A short text that is the same for the same declaration, and only for that."""
    declared = {name: str(value) for name, value in declaration_of(registration).items()}
    return hashlib.sha256(_encode(declared)).hexdigest()[:16]


def can_stand_in(able: Registration, declared: Registration) -> bool:
    """Whether an instance that declares `able` may be given everything that comes for `declared`, as they share one inbox.

    It has every capability, schema, type and group of it, and stands where it stands. What it says of its pace, its price or in its
    descriptions does not matter.
    """
    return (
        all(getattr(able, name) == getattr(declared, name) for name in _NEVER_ANOTHER)
        and set(declared.groups) <= set(able.groups)
        and _offers(declared.capabilities) <= _offers(able.capabilities)
        and _takes(able.accepts, declared.accepts)
    )


def _offers(capabilities: Iterable[Capability]) -> set[tuple[str, str, str]]:
    return {(one.name, repr(one.input_schema), repr(one.output_schema)) for one in capabilities}


def _takes(able: Iterable[Accept], declared: Iterable[Accept]) -> bool:
    have = _by_type(able)
    for kind, schemas in _by_type(declared).items():
        mine = have.get(kind, frozenset())
        if mine is not None and (schemas is None or not schemas <= mine):
            return False
    return True


def _by_type(accepts: Iterable[Accept]) -> dict[str, frozenset[str] | None]:
    """Type -> the schemas that are taken; None: any."""
    found: dict[str, frozenset[str] | None] = {}
    for accept in accepts:
        known = found.get(accept.type, frozenset())
        found[accept.type] = None if known is None or not accept.schemas else known | frozenset(accept.schemas)
    return found
