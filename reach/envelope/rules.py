"""What a valid envelope means: every rule of PROTOCOL section 3, each with its code.

`check` is run once per envelope by the router (and by the SDK before it sends, so that a typo is told at once); past it
nobody asks again.
"""

import hashlib
import math
import re
import uuid
import zlib
from collections.abc import Container
from typing import NoReturn

import msgspec

from reach import ids
from reach.envelope.message import (
    MAX_PRIORITY,
    MIN_PRIORITY,
    NO_TIMEOUTS,
    Budget,
    Envelope,
    Needs,
    Source,
    Target,
    Timeouts,
)
from reach.envelope.patterns import pattern_problem
from reach.errors import EnvelopeError

BUILT_IN_TYPES = frozenset({"request", "event"})

MAX_HOPS = 32
MAX_TTL_MS = 24 * 3600 * 1000
MAX_TIMEOUT_MS = 7 * MAX_TTL_MS
MAX_ATTEMPTS = 10
MAX_HEADERS_BYTES = 4096
#: The record of a message keeps how far each stage is, and every step on a leg writes it.
MAX_STAGES = 100
MAX_STAGE_PATTERNS = 1_000
MAX_ROUND = 1_000_000_000  # Lua writes numbers with 14 digits
#: A message waits at most so long for its `not_before`, and a clock of another machine may be so far ahead.
MAX_DELAY_MS = MAX_TIMEOUT_MS
MAX_AHEAD_MS = 60_000
LAST_MOMENT_MS = 253_402_300_799_999  # the end of the year 9999; far below 2^53, beyond which Lua rounds

DEFAULT_NETWORK_MS = 3_000
DEFAULT_PROCESSING_MS = 15_000
DEFAULT_TOTAL_MS = 30_000

_VERSION = re.compile(r"1\.[0-9]{1,9}").fullmatch


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What counts for an envelope, after defaults, policy, the agent's own limit and clamping. Durations in ms."""

    priority: int
    ttl_ms: int
    network_ms: int
    processing_ms: int
    total_ms: int
    max_attempts: int


def check(
    envelope: Envelope, *, partitions: int, partition: int, known_types: Container[str], now_ms: int | None = None
) -> None:
    """Refuse an envelope that breaks a rule.

    Args:
        envelope: As :func:`reach.envelope.codec.decode` gave it.
        partitions: P of this environment.
        partition: The partition whose ingress it came by.
        known_types: The registered types; the built-in ones need not be in it.
        now_ms: The moment by the clock of the backend, which `not_before` is held against; None: whoever knows it will.

    Raises:
        EnvelopeError: The first broken rule, with its code and `details["field"]`.
    """
    check_fields(envelope)
    if envelope.type not in BUILT_IN_TYPES and envelope.type not in known_types:
        _refuse(envelope, "type.unregistered", f"nobody has registered the type {envelope.type}", field="type")
    if now_ms is not None and (envelope.not_before or 0) > now_ms + MAX_DELAY_MS + MAX_AHEAD_MS:
        _bad(envelope, "not_before", f"more than {MAX_DELAY_MS} ms ahead, which is seven days")
    right = partition_of(envelope.msg_id, envelope.order_key, partitions)
    if right != partition:
        text = f"belongs into partition {right} of {partitions}, came by {partition}"
        _refuse(envelope, "envelope.wrong_partition", text, partition=right, partitions=partitions)


def check_fields(envelope: Envelope) -> None:
    """The rules that need to know nothing but the envelope: what the SDK checks before it sends.

    Raises:
        EnvelopeError: The first broken rule.
    """
    if not ids.is_uuid(envelope.msg_id):
        _bad(envelope, "msg_id", "not a canonical lower-case UUID")
    if _VERSION(envelope.version) is None:
        text = f"version {envelope.version[:32]!r}, this is 1.x"
        _refuse(envelope, "envelope.unsupported_version", text, field="version")
    if not ids.is_token(envelope.type):
        _bad(envelope, "type", "not dotted lower-case tokens")
    _check_source(envelope, envelope.source)
    _check_target(envelope, envelope.target)
    _check_ids(envelope)
    _check_numbers(envelope)
    hops = envelope.traces.previous_hops
    if hops:
        if len(hops) > MAX_HOPS:
            text = f"{len(hops)} hops, at most {MAX_HOPS}"
            _refuse(
                envelope, "loop.too_many_hops", text, field="traces.previous_hops", hops=len(hops), max_hops=MAX_HOPS
            )
        if not all(map(ids.is_name, hops)):
            _bad(envelope, "traces.previous_hops", "not all of them are agent ids")
    if envelope.headers:
        size = sum(map(_utf8_length, envelope.headers)) + sum(map(_utf8_length, envelope.headers.values()))
        if size > MAX_HEADERS_BYTES:
            _bad(envelope, "headers", f"{size} bytes, at most {MAX_HEADERS_BYTES}")


def check_pattern(text: str) -> None:
    """Refuse a text that is no target pattern; a bare name is for SDK and gateway only, not for the wire.

    `agent_id:x` · `capability:a` · `capability:a+b` · `capability:a.*` (also combined) · `group:g` · `intent:<free text>`

    Raises:
        EnvelopeError: `target.bad_pattern`.
    """
    problem = pattern_problem(text)
    if problem is not None:
        raise EnvelopeError("target.bad_pattern", problem, details={"pattern": text[:128]})


def limits_of(envelope: Envelope, *, policy: Timeouts | None = None, max_process_ms: int | None = None) -> Limits:
    """What counts for this envelope.

    A timeout is what the sender set, else what the pattern's policy sets, else the default. An agent's declared
    max_process_ms raises processing and total where neither set them: processing to it, total so that it keeps the
    room that it has by default for waiting and retries.
    """
    sent, route = envelope.timeouts, policy if policy is not None else NO_TIMEOUTS
    network = _first(sent.network_ms, route.network_ms, DEFAULT_NETWORK_MS)
    own = max_process_ms or 0
    processing = _first(sent.processing_ms, route.processing_ms, max(DEFAULT_PROCESSING_MS, own))
    total = _first(sent.total_ms, route.total_ms, max(DEFAULT_TOTAL_MS, own + DEFAULT_TOTAL_MS - DEFAULT_PROCESSING_MS))
    return Limits(
        priority=min(max(envelope.priority, MIN_PRIORITY), MAX_PRIORITY),
        ttl_ms=min(envelope.ttl_ms, MAX_TTL_MS),
        network_ms=min(network, MAX_TIMEOUT_MS),
        processing_ms=min(processing, MAX_TIMEOUT_MS),
        total_ms=min(total, MAX_TIMEOUT_MS),
        max_attempts=envelope.max_attempts,
    )


def partition_of(msg_id: str, order_key: str | None, partitions: int) -> int:
    """The partition of a message: CRC-32 of the order_key, or of the msg_id where there is none, modulo P."""
    return zlib.crc32((order_key if order_key is not None else msg_id).encode()) % partitions


def line_of(envelope: Envelope) -> str:
    """The name of the order line that a message is in: 32 hex digits of a SHA-256; "" for one that is in none.

    Hashed are target.pattern and order_key in the form of :func:`fingerprint`. A broadcast has no line: its order_key only chooses the
    partition.
    """
    if envelope.order_key is None or envelope.target.scope != "one":
        return ""
    return _hashed(envelope.target.pattern.encode(), envelope.order_key.encode())[:32]


def fingerprint(envelope: Envelope) -> str:
    """What makes two sends of one msg_id the same: the first 16 hex digits of a SHA-256.

    Hashed are, in this order, sender, type, target.pattern, target.scope, payload.schema, payload.body, each as
    `<length in bytes, decimal>:<UTF-8 bytes>,` with nothing between; what is absent has length 0. The lengths make it
    unambiguous: no byte can wander from one field into the next.
    """
    payload = envelope.payload
    return _hashed(
        sender_of(envelope.source).encode(),
        envelope.type.encode(),
        envelope.target.pattern.encode(),
        envelope.target.scope.encode(),
        (payload.schema or "").encode(),
        payload.body_bytes,
    )[:16]


def _hashed(*parts: bytes) -> str:
    return hashlib.sha256(b"".join(b"%d:%b," % (len(part), part) for part in parts)).hexdigest()


def business_msg_id(env: str, sender: str, key: str) -> str:
    """The msg_id of a caller's own key: the same three give the same id, so that a repeat is a duplicate.

    Raises:
        EnvelopeError: `envelope.bad_field` (field task_id) for a key that is empty or over 256 characters.
    """
    if not ids.is_key(key):
        raise EnvelopeError("envelope.bad_field", "a key has 1 to 256 characters", details={"field": "task_id"})
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"reach:{env}/{sender}/{key}"))


def sender_of(source: Source) -> str:
    """Who counts as the sender: the name of all replicas, else the agent that sent."""
    return source.name if source.name is not None else source.agent_id


def stamp_of(conversation: str) -> str:
    """What stands for a conversation in a key that must not grow with it: 16 hex digits."""
    return hashlib.sha256(conversation.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _check_source(envelope: Envelope, source: Source) -> None:
    if not ids.is_name(source.agent_id):
        _bad(envelope, "source.agent_id", "not an agent id")
    if source.name is not None and not ids.is_name(source.name):
        _bad(envelope, "source.name", "not a name")
    if source.node_id is not None and not ids.is_name(source.node_id):
        _bad(envelope, "source.node_id", "not a node id")
    if source.zone is not None and not ids.is_name(source.zone):
        _bad(envelope, "source.zone", "not a zone")


def _check_target(envelope: Envelope, target: Target) -> None:
    problem = pattern_problem(target.pattern)
    if problem is not None:
        _refuse(envelope, "target.bad_pattern", problem, field="target.pattern", pattern=target.pattern[:128])
    stages = envelope.process_order
    if stages is None:
        return
    if target.scope != "all":
        _bad(envelope, "process_order", "only with scope all")
    _check_stages(envelope, stages)


def _check_stages(envelope: Envelope, stages: tuple[tuple[str, ...], ...]) -> None:
    """Each stage is some patterns; which agents are in it shows at the fan-out."""
    if not stages or not all(stages):
        _bad(envelope, "process_order", "empty, or with an empty stage")
    if len(stages) > MAX_STAGES:
        _bad(envelope, "process_order", f"{len(stages)} stages, at most {MAX_STAGES}")
    patterns = sum(map(len, stages))
    if patterns > MAX_STAGE_PATTERNS:
        _bad(envelope, "process_order", f"{patterns} patterns, at most {MAX_STAGE_PATTERNS}")
    for number, stage in enumerate(stages):
        for pattern in stage:
            problem = pattern_problem(pattern)
            if problem is not None:
                text = pattern[:128]
                _refuse(envelope, "target.bad_pattern", problem, field="process_order", stage=number, pattern=text)


def _check_ids(envelope: Envelope) -> None:
    if envelope.task_id is not None and not ids.is_key(envelope.task_id):
        _bad(envelope, "task_id", "not 1 to 256 characters")
    if envelope.correlation_id is not None and not ids.is_printable(envelope.correlation_id):
        _bad(envelope, "correlation_id", "not 1 to 256 printable characters")
    if envelope.order_key is not None and not ids.is_printable(envelope.order_key):
        _bad(envelope, "order_key", "not 1 to 256 printable characters")
    if envelope.reply_to is not None and not ids.is_name(envelope.reply_to):
        _bad(envelope, "reply_to", "not a mailbox")
    if envelope.in_reply_to is not None and not ids.is_uuid(envelope.in_reply_to):
        _bad(envelope, "in_reply_to", "not a canonical lower-case UUID")
    schema = envelope.payload.schema
    if schema is not None and not ids.is_schema(schema):
        _bad(envelope, "payload.schema", "not dotted lower-case tokens that end in .v<N>")


def _check_numbers(envelope: Envelope) -> None:
    if not 1 <= envelope.round <= MAX_ROUND:
        _bad(envelope, "round", f"not 1 to {MAX_ROUND}")
    if envelope.ttl_ms <= 0:
        _refuse(envelope, "ttl.zero", f"ttl_ms is {envelope.ttl_ms}", field="ttl_ms")
    if not 1 <= envelope.max_attempts <= MAX_ATTEMPTS:
        _bad(envelope, "max_attempts", f"not 1 to {MAX_ATTEMPTS}")
    if envelope.not_before is not None and not 0 <= envelope.not_before <= LAST_MOMENT_MS:
        _bad(envelope, "not_before", "not a moment between 1970 and 9999 in ms")
    timeouts = envelope.timeouts
    if timeouts is not NO_TIMEOUTS:
        for name in Timeouts.__struct_fields__:
            value = getattr(timeouts, name)
            if value is not None and value < 1:
                _bad(envelope, f"timeouts.{name}", "below 1")
    if envelope.needs is not None:
        _check_not_negative(envelope, "needs", envelope.needs)
    if envelope.budget is not None:
        _check_not_negative(envelope, "budget", envelope.budget)


def _check_not_negative(envelope: Envelope, part: str, value: Needs | Budget) -> None:
    for name in value.__struct_fields__:
        number = getattr(value, name)
        if isinstance(number, int | float) and not 0 <= number < math.inf:
            _bad(envelope, f"{part}.{name}", "below 0" if number < 0 else "no finite number")


def _utf8_length(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _first(sent: int | None, route: int | None, default: int) -> int:
    if sent is not None:
        return sent
    return route if route is not None else default


def _bad(envelope: Envelope, field: str, problem: str) -> NoReturn:
    _refuse(envelope, "envelope.bad_field", f"{field}: {problem}", field=field)


def _refuse(envelope: Envelope, code: str, message: str, **details: str | int) -> NoReturn:
    source = envelope.source.agent_id
    reply_to, msg_id = envelope.reply_to, envelope.msg_id
    correlation_id, task_id = envelope.correlation_id, envelope.task_id
    raise EnvelopeError(
        code,
        message,
        details=details,
        reply_to=reply_to if reply_to is not None and ids.is_name(reply_to) else None,
        msg_id=msg_id if ids.is_uuid(msg_id) else None,
        correlation_id=correlation_id if correlation_id is not None and ids.is_printable(correlation_id) else None,
        task_id=task_id if task_id is not None and ids.is_key(task_id) else None,
        source=source if ids.is_name(source) else None,
        round=envelope.round if 1 <= envelope.round <= MAX_ROUND else None,
    )
