"""`tier_by` of a policy: which tier a message needs, read from its payload. Pure, bounded, and never a reason to fail.

The body is raw bytes that only an agent is sure to understand: what cannot be read, or is too large to be read, goes by the default.
"""

from collections.abc import Iterator, Mapping

import msgspec

from reach.envelope.problems import Problem
from reach.envelope.registration import TierByField, TierBySize

#: A body of more bytes is not read for the sake of its tier.
MAX_READ_BYTES = 1 << 16
MAX_DEPTH = 8

_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_array = msgspec.json.Decoder(list[msgspec.Raw]).decode
_scalar = msgspec.json.Decoder(str | int | float | bool | None).decode
_read_number = msgspec.json.Decoder(int | float).decode


def tier_of(by: TierBySize | TierByField, body: bytes) -> tuple[str | None, str]:
    """The tier and why it is that one; None: the payload says nothing, any tier will do.

    The reason holds nothing of the payload: hop records tell it, whatever the env keeps of contents.
    """
    if isinstance(by, TierBySize):
        return _by_size(by, len(body))
    default = None if by.default is None else str(by.default)
    value, problem = _field(body, by.path)
    if problem:
        return default, f"the default: {problem}"
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    tier = by.map.get(text)
    if tier is None and _is_number(value):
        tier = next((tier for key, tier in by.map.items() if _number(key) == value), None)
    return (default, f"the default: {by.path} is none of the map") if tier is None else (str(tier), f"by {by.path}")


def problems_of(by: TierBySize | TierByField, tiers: tuple[str | int, ...]) -> Iterator[Problem]:
    """What the types alone do not say of it. `tiers`: those of the policy; () = it names none."""
    if isinstance(by, TierBySize):
        bounds = [most for most, _ in by.steps]
        told = [most for most in bounds if most is not None]
        if not bounds:
            yield _problem("steps", "none at all")
        if None in bounds[:-1]:
            yield _problem("steps", "null is for all that is left: only the last step can have it")
        if any(most < 0 for most in told) or told != sorted(set(told)):
            yield _problem("steps", "each must be for more bytes than the one before")
        used = [tier for _, tier in by.steps]
    else:
        if not by.path.startswith("/") or by.path.count("/") > MAX_DEPTH:
            yield _problem("path", f"no JSON Pointer, as /priority, of at most {MAX_DEPTH} names")
        if not by.map:
            yield _problem("map", "no value has a tier")
        yield from _same_numbers(by.map)
        used = [*by.map.values(), *([] if by.default is None else [by.default])]
    known = {str(tier) for tier in tiers}
    for tier in dict.fromkeys(map(str, used)):
        if known and tier not in known:
            yield _problem("", f"{tier[:64]!r} is none of the tiers of this policy")


def _same_numbers(tiers: Mapping[str, str | int]) -> Iterator[Problem]:
    """A number is the same however it is written: two keys that are one number must not have two tiers."""
    seen: dict[int | float, str] = {}
    for key, tier in tiers.items():
        number = _number(key)
        first = seen.setdefault(number, key) if number is not None else key
        if str(tiers[first]) != str(tier):
            yield _problem("map", f"{first[:64]} and {key[:64]} are the same number, and have two tiers")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(key: str) -> int | float | None:
    """The number that a key is, as JSON writes it; None: it is none."""
    try:
        return _read_number(key)
    except msgspec.DecodeError:
        return None


def _problem(field: str, message: str) -> Problem:
    return Problem("policy.bad_field", f"tier_by.{field}" if field else "tier_by", message)


def _by_size(by: TierBySize, size_bytes: int) -> tuple[str | None, str]:
    for most, tier in by.steps:
        if most is None:
            return str(tier), f"{size_bytes} bytes, more than any step"
        if size_bytes <= most:
            return str(tier), f"{size_bytes} bytes, at most {most}"
    return None, f"{size_bytes} bytes, more than any step"


def _field(body: bytes, path: str) -> tuple[str | int | float | bool | None, str]:
    """The value at a JSON Pointer, or why there is none."""
    if not body:
        return None, "there is no body"
    if len(body) > MAX_READ_BYTES:
        return None, f"a body of {len(body)} bytes is not read"
    at = body
    try:
        for name in path.split("/")[1:]:
            key = name.replace("~1", "/").replace("~0", "~")
            at = bytes(_array(at)[int(key)] if at.lstrip()[:1] == b"[" and key.isdecimal() else _object(at)[key])
        value = _scalar(at)
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, IndexError, ValueError, RecursionError):
        return None, f"the body has no {path}"
    return value, ""
