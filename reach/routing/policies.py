"""Reading the policy of a pattern as an admin wrote it: everything that is wrong with it at once. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from reach import ids
from reach.envelope import rules
from reach.envelope.message import Timeouts
from reach.envelope.problems import Problem, listed, sentence_of
from reach.envelope.records import decode_policy
from reach.envelope.registration import MAX_AMOUNT, RoutePolicy
from reach.envelope.rules import MAX_TIMEOUT_MS
from reach.errors import ConfigError, EnvelopeError, RecordError
from reach.routing.strategies import STRATEGIES
from reach.routing.tiering import problems_of

_objects = msgspec.json.Decoder(dict[str, msgspec.Raw])
NO_OTHERS: Mapping[str, bytes] = {}
_FIELDS = {field.name: field.type for field in msgspec.structs.fields(RoutePolicy)}


def read_policy(pattern: str, data: bytes, others: Mapping[str, bytes] = NO_OTHERS) -> RoutePolicy:
    """The policy that routers will follow.

    Args:
        pattern: What it is for, exactly as senders write it.
        data: The policy as JSON.
        others: The policies of the env: with them no fallback may go round in a circle.

    Raises:
        ConfigError: It cannot be used; `details["problems"]` has all that is wrong: code, field and a sentence for each.
    """
    problems = problems_with(pattern, data, others)
    if problems:
        text = f"policy of {pattern[:128]!r}: {sentence_of(problems)}"
        raise ConfigError(text, details={"problems": listed(problems)})
    return decode_policy(data)


def problems_with(pattern: str, data: bytes, others: Mapping[str, bytes] = NO_OTHERS) -> list[Problem]:
    """All that is wrong with a policy; nothing: `read_policy` takes it. Arguments as there."""
    return [*_pattern(pattern), *_policy(data)] or _circle(pattern, decode_policy(data), others)


def _circle(pattern: str, policy: RoutePolicy, others: Mapping[str, bytes]) -> list[Problem]:
    """Where a fallback leads back to a pattern that it came from, nobody is asked twice: the last one is of no use."""
    way = [pattern]
    while policy.fallback is not None and policy.fallback not in way:
        way.append(policy.fallback)
        try:
            policy = decode_policy(others.get(way[-1], b"{}"))
        except RecordError:  # routers go by the default there
            return []
    if policy.fallback is None or policy.fallback != pattern:
        return []
    return [_problem("fallback", f"goes round: {' -> '.join([*way, pattern])[:512]}")]


def _problem(field: str, message: str) -> Problem:
    return Problem("policy.bad_field", field, message)


def _pattern(pattern: str) -> list[Problem]:
    try:
        rules.check_pattern(pattern)
    except EnvelopeError as error:
        return [_problem("pattern", error.message)]
    return []


def _policy(data: bytes) -> list[Problem]:
    try:
        fields = _objects.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return [_problem("", f"no JSON object: {str(error)[:200]}")]
    problems = [
        _problem(name[:128], f"no such field; there is: {', '.join(_FIELDS)}")
        for name in sorted(fields.keys() - _FIELDS.keys())
    ]
    read: dict[str, Any] = {}
    for name, raw in fields.items():
        if name not in _FIELDS or bytes(raw) == b"null":
            continue
        try:
            read[name] = msgspec.json.decode(raw, type=_FIELDS[name])
        except msgspec.DecodeError as error:
            problems.append(_problem(name, str(error)[:200]))
    problems += _meaning(read)
    if not problems:
        try:
            decode_policy(data)
        except RecordError as error:  # what only the whole can show, such as a name that stands there twice
            problems.append(_problem("", error.message))
    return problems


def _meaning(read: dict[str, Any]) -> list[Problem]:
    """What the types alone do not say."""
    found: list[Problem] = []
    strategy, fallback, canary = read.get("strategy"), read.get("fallback"), read.get("canary")
    if strategy is not None and strategy not in STRATEGIES:
        found.append(_problem("strategy", f"{strategy[:64]!r} is none; there is: {', '.join(sorted(STRATEGIES))}"))
    if fallback is not None:
        found += [_problem("fallback", one.message) for one in _pattern(fallback)]
    if canary is not None and not ids.is_schema(canary.schema):
        found.append(_problem("canary.schema", "not lower-case tokens that end in .v<N>"))
    for name, weight in read.get("weights", {}).items():
        if not 0 <= weight <= MAX_AMOUNT:
            found.append(_problem(f"weights.{name[:128]}", f"not 0 to {MAX_AMOUNT:.0f}"))
    timeouts = read.get("timeouts", Timeouts())
    for name in Timeouts.__struct_fields__:
        ms = getattr(timeouts, name)
        if ms is not None and not 1 <= ms <= MAX_TIMEOUT_MS:
            found.append(_problem(f"timeouts.{name}", f"not 1 to {MAX_TIMEOUT_MS}"))
    return [*found, *_tiers(read)]


def _tiers(read: dict[str, Any]) -> Iterator[Problem]:
    is_tiered = read.get("strategy") == "tiered"
    tiers, weights = [str(tier) for tier in read.get("tiers", ())], read.get("weights", {})
    if read.get("tier_by") is not None:
        yield from problems_of(read["tier_by"], read.get("tiers", ()))
        if not is_tiered:
            yield _problem("tier_by", "only the strategy `tiered` goes by it")
    if len(set(tiers)) < len(tiers):
        yield _problem("tiers", "the same tier twice")
    if is_tiered and tiers:
        for name in sorted(weights.keys() - set(tiers)):
            yield _problem(f"weights.{name[:128]}", "is none of the tiers of this policy")
        if not any(weights.get(tier, 1) for tier in tiers):
            yield _problem("weights", "no tier has any share")
