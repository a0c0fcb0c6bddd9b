"""Every rule of a valid envelope, with its code."""

import uuid
import zlib
from typing import Any

import pytest

from reach.envelope import rules
from reach.envelope.codec import decode
from reach.envelope.message import Envelope, Source, Timeouts
from reach.errors import EnvelopeError
from tests.envelopes import EXAMPLE, MSG_ID, raw, with_body


def check(data: bytes | Envelope, *, partitions: int = 1, partition: int = 0, known: tuple[str, ...] = ()) -> None:
    envelope = decode(data) if isinstance(data, bytes) else data
    rules.check(envelope, partitions=partitions, partition=partition, known_types=frozenset(known))


def refused(data: bytes | Envelope, **options: Any) -> EnvelopeError:
    with pytest.raises(EnvelopeError) as caught:
        check(data, **options)
    return caught.value


def test_the_example_is_accepted_once_its_type_is_registered() -> None:
    check(EXAMPLE, known=("intent.request",))
    error = refused(EXAMPLE)
    assert (error.code, error.msg_id, error.correlation_id) == ("type.unregistered", MSG_ID, "conv-8877")
    assert error.details == {"field": "type"}


@pytest.mark.parametrize("name", ["request", "event"])
def test_built_in_types_need_no_registration(name: str) -> None:
    check(raw(type=name))


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"msg_id": MSG_ID.upper()}, "msg_id"),
        ({"msg_id": "{" + MSG_ID + "}"}, "msg_id"),
        ({"msg_id": MSG_ID + "\n"}, "msg_id"),
        ({"msg_id": MSG_ID.replace("-", "")}, "msg_id"),
        ({"msg_id": ""}, "msg_id"),
        ({"type": "Request"}, "type"),
        ({"type": "a..b"}, "type"),
        ({"type": "a."}, "type"),
        ({"type": "a" * 129}, "type"),
        ({"type": ""}, "type"),
        ({"type": "request\n"}, "type"),
        ({"source": {"agent_id": ""}}, "source.agent_id"),
        ({"source": {"agent_id": "a{b}"}}, "source.agent_id"),
        ({"source": {"agent_id": "-a"}}, "source.agent_id"),
        ({"source": {"agent_id": "a\n"}}, "source.agent_id"),
        ({"source": {"agent_id": "ä"}}, "source.agent_id"),
        ({"source": {"agent_id": "a" * 129}}, "source.agent_id"),
        ({"source": {"agent_id": "a", "name": "a:b"}}, "source.name"),
        ({"source": {"agent_id": "a", "node_id": "*"}}, "source.node_id"),
        ({"source": {"agent_id": "a", "zone": ""}}, "source.zone"),
        ({"task_id": ""}, "task_id"),
        ({"task_id": "x" * 257}, "task_id"),
        ({"correlation_id": ""}, "correlation_id"),
        ({"correlation_id": "a\nb"}, "correlation_id"),
        ({"correlation_id": "x" * 257}, "correlation_id"),
        ({"order_key": ""}, "order_key"),
        ({"order_key": "a\x00"}, "order_key"),
        ({"reply_to": ""}, "reply_to"),
        ({"reply_to": "mail:{x}"}, "reply_to"),
        ({"in_reply_to": "1"}, "in_reply_to"),
        ({"payload": {"schema": "refund"}}, "payload.schema"),
        ({"payload": {"schema": "refund.v"}}, "payload.schema"),
        ({"payload": {"schema": ""}}, "payload.schema"),
        ({"payload": {"schema": "a" * 126 + ".v1"}}, "payload.schema"),
        ({"round": 0}, "round"),
        ({"round": -1}, "round"),
        ({"round": rules.MAX_ROUND + 1}, "round"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"max_attempts": 11}, "max_attempts"),
        ({"not_before": -1}, "not_before"),
        ({"not_before": 2**60}, "not_before"),
        ({"timeouts": {"network_ms": 0}}, "timeouts.network_ms"),
        ({"timeouts": {"processing_ms": -1}}, "timeouts.processing_ms"),
        ({"timeouts": {"network_ms": 1, "total_ms": 0}}, "timeouts.total_ms"),
        ({"needs": {"context_tokens": -1}}, "needs.context_tokens"),
        ({"budget": {"hops": -1}}, "budget.hops"),
        ({"budget": {"cost": -0.5}}, "budget.cost"),
        ({"traces": {"previous_hops": ["a", ""]}}, "traces.previous_hops"),
        ({"headers": {"a": "x" * 4096}}, "headers"),
        ({"headers": {"ä" * 2048: "x"}}, "headers"),
        ({"process_order": [["agent_id:b"]]}, "process_order"),
        ({"process_order": [], "target": {"pattern": "group:g", "scope": "all"}}, "process_order"),
        ({"process_order": [["agent_id:b"], []], "target": {"pattern": "group:g", "scope": "all"}}, "process_order"),
    ],
)
def test_bad_field(changes: dict[str, object], field: str) -> None:
    error = refused(raw(**changes))
    assert (error.code, error.details["field"]) == ("envelope.bad_field", field)
    assert not error.retryable


@pytest.mark.parametrize(
    "changes",
    [
        {"msg_id": "01a22930-0a7c-7690-98ab-73641af710e3"},
        {"source": {"agent_id": "A.b_c-1", "name": "n", "node_id": "n" * 128, "zone": "eu-1"}},
        {"task_id": "any text\n{at} all", "correlation_id": "printable ü {x}", "order_key": "k" * 256},
        {"reply_to": "mb.0123", "in_reply_to": MSG_ID},
        {"payload": {"schema": "a-b_c.v12"}},
        {"version": "1.17", "round": 7, "max_attempts": 10, "not_before": 4_000_000_000_000},
        {"timeouts": {"network_ms": 1, "processing_ms": 2, "total_ms": 3}, "ttl_ms": 2**62, "priority": -99},
        {"needs": {"context_tokens": 0, "tier": "gold"}, "budget": {"hops": 0, "cost": 0, "tokens": 5}},
        {"traces": {"previous_hops": ["a"] * 32, "current_hop": -5, "traceparent": "anything"}},
        {"headers": {"a": "x" * 4095}},
    ],
)
def test_what_is_allowed(changes: dict[str, object]) -> None:
    check(raw(**changes))


@pytest.mark.parametrize(("stages", "fits"), [(100, True), (101, False), (1, True)])
def test_so_many_stages_are_allowed(stages: int, fits: bool) -> None:
    envelope = raw(
        target={"pattern": "group:g", "scope": "all"}, process_order=[["agent_id:a", "intent:the rest"]] * stages
    )
    if fits:
        check(envelope)
    else:
        assert refused(envelope).code == "envelope.bad_field"


@pytest.mark.parametrize(("patterns", "fits"), [(1_000, True), (1_001, False)])
def test_so_many_patterns_are_allowed(patterns: int, fits: bool) -> None:
    order = [["agent_id:a"] * (patterns - 1), ["agent_id:b"]]
    envelope = raw(target={"pattern": "group:g", "scope": "all"}, process_order=order)
    if fits:
        check(envelope)
    else:
        error = refused(envelope)
        assert (error.code, error.details["field"]) == ("envelope.bad_field", "process_order")


@pytest.mark.parametrize("version", ["2.0", "0.9", "1", "1.", "1.x", "11.0", "", "v1.0", "1.0\n", "1.1234567890"])
def test_unsupported_version(version: str) -> None:
    assert refused(raw(version=version)).code == "envelope.unsupported_version"


@pytest.mark.parametrize("ttl_ms", [0, -1, -(2**63)])
def test_ttl_zero(ttl_ms: int) -> None:
    assert refused(raw(ttl_ms=ttl_ms)).code == "ttl.zero"


def test_too_many_hops() -> None:
    error = refused(raw(traces={"previous_hops": ["a"] * 33}, reply_to="mb"))
    assert (error.code, error.reply_to) == ("loop.too_many_hops", "mb")
    assert (error.details["hops"], error.details["max_hops"]) == (33, 32)


GOOD_PATTERNS = [
    "agent_id:refund-svc-01",
    "capability:a",
    "capability:a+b.c",
    "capability:a.*",
    "capability:a.*+b",
    "group:G.1",
    "intent:refund my order, please: {now}\n",
]
BAD_PATTERNS = [
    "",
    "refund",
    ":",
    "agent_id:",
    "agent_id:a b",
    "agent_id:*",
    "capability:",
    "capability:A",
    "capability:a+",
    "capability:+a",
    "capability:a++b",
    "capability:*",
    "capability:.*",
    "capability:a*",
    "capability:a.*.*",
    "capability:a\n",
    "capability:" + "a" * 129,
    "capability:" + "+".join(["a"] * 3000),
    "group:",
    "group:a:b",
    "intent:",
    "intent: \n",
    "intent:" + "x" * 5000,
    "role:x",
    "Agent_id:x",
]


@pytest.mark.parametrize("pattern", GOOD_PATTERNS)
def test_patterns(pattern: str) -> None:
    rules.check_pattern(pattern)
    check(raw(target={"pattern": pattern}))


@pytest.mark.parametrize("pattern", BAD_PATTERNS)
def test_bad_patterns(pattern: str) -> None:
    with pytest.raises(EnvelopeError) as caught:
        rules.check_pattern(pattern)
    assert (caught.value.code, caught.value.details) == ("target.bad_pattern", {"pattern": pattern[:128]})
    error = refused(raw(target={"pattern": pattern}))
    assert (error.code, error.details["field"]) == ("target.bad_pattern", "target.pattern")
    everybody = {"pattern": "group:g", "scope": "all"}
    error = refused(raw(target=everybody, process_order=[["group:g"], ["group:h", pattern]]))
    told = {"field": "process_order", "stage": 1, "pattern": pattern[:128]}
    assert (error.code, error.details) == ("target.bad_pattern", told)


def test_wrong_partition() -> None:
    right = zlib.crc32(MSG_ID.encode()) % 8
    check(raw(), partitions=8, partition=right)
    error = refused(raw(), partitions=8, partition=(right + 1) % 8)
    assert (error.code, error.details) == ("envelope.wrong_partition", {"partition": right, "partitions": 8})


def test_the_order_key_chooses_the_partition() -> None:
    # the check value of CRC-32 is that of "123456789"
    assert rules.partition_of(MSG_ID, "123456789", 1 << 32) == 0xCBF43926
    assert rules.partition_of(MSG_ID, None, 1 << 32) == zlib.crc32(MSG_ID.encode())
    assert rules.partition_of(MSG_ID, "ü", 7) == zlib.crc32("ü".encode()) % 7
    check(raw(order_key="123456789"), partitions=16, partition=0xCBF43926 % 16)


def test_a_refusal_tells_only_ids_that_can_be_answered() -> None:
    error = refused(raw(msg_id="x", reply_to="{", correlation_id="", task_id="", source={"agent_id": ""}))
    told = (error.reply_to, error.msg_id, error.correlation_id, error.task_id, error.source)
    assert told == (None,) * 5
    error = refused(raw(ttl_ms=0, reply_to="mb", correlation_id="c", task_id="t"))
    told = (error.reply_to, error.msg_id, error.correlation_id, error.task_id, error.source)
    assert told == ("mb", MSG_ID, "c", "t", "a")


def test_limits_by_default() -> None:
    limits = rules.limits_of(decode(raw()))
    assert limits == rules.Limits(
        priority=5, ttl_ms=30_000, network_ms=3_000, processing_ms=15_000, total_ms=30_000, max_attempts=6
    )


def test_limits_clamp() -> None:
    day = 24 * 3600 * 1000
    limits = rules.limits_of(
        decode(raw(priority=99, ttl_ms=day + 1, timeouts={"total_ms": 2**62, "processing_ms": 2**62}))
    )
    assert (limits.priority, limits.ttl_ms, limits.total_ms, limits.processing_ms) == (10, day, 7 * day, 7 * day)
    assert rules.limits_of(decode(raw(priority=-3))).priority == 1


@pytest.mark.parametrize(
    ("sent", "policy", "own", "expected"),
    [
        ({}, None, 60_000, (3_000, 60_000, 75_000)),
        ({}, None, 5_000, (3_000, 15_000, 30_000)),
        ({"total_ms": 500}, None, 60_000, (3_000, 60_000, 500)),
        ({"processing_ms": 700}, None, 60_000, (3_000, 700, 75_000)),
        ({"network_ms": 9}, Timeouts(network_ms=8, total_ms=90_000), None, (9, 15_000, 90_000)),
        ({}, Timeouts(network_ms=8, processing_ms=7), 60_000, (8, 7, 75_000)),
    ],
)
def test_whose_timeout_counts(
    sent: dict[str, int], policy: Timeouts | None, own: int | None, expected: tuple[int, int, int]
) -> None:
    limits = rules.limits_of(decode(raw(timeouts=sent)), policy=policy, max_process_ms=own)
    assert (limits.network_ms, limits.processing_ms, limits.total_ms) == expected


def test_the_sender_is_the_name_of_all_replicas() -> None:
    assert rules.sender_of(Source(agent_id="refund-7", name="refund")) == "refund"
    assert rules.sender_of(Source(agent_id="refund-7")) == "refund-7"


def test_fingerprint_is_fixed() -> None:
    # Stored in ledgers: another value would make every repeat over an upgrade an id conflict.
    assert rules.fingerprint(decode(EXAMPLE)) == "996477f150c59782"


def test_fingerprint_tells_content_and_sender_apart() -> None:
    same = {
        rules.fingerprint(decode(data))
        for data in (EXAMPLE, EXAMPLE.replace(b'"priority":5', b'"priority":9'), EXAMPLE.replace(b"node-a", b"node-b"))
    }
    assert len(same) == 1
    others = [
        with_body(b'{"order_id": "ORD-20241225-001"}'),
        EXAMPLE.replace(b'"agent_id":"intent-parser-01"', b'"agent_id":"intent-parser-02"'),
        EXAMPLE.replace(b"intent.request", b"intent.requests"),
        EXAMPLE.replace(b"capability:refund", b"capability:refunds"),
        EXAMPLE.replace(b'"scope":"all"', b'"scope":"one"'),
        EXAMPLE.replace(b"request.v1", b"request.v2"),
        EXAMPLE.replace(b'"schema":"refund.request.v1",', b""),
    ]
    assert len({rules.fingerprint(decode(data)) for data in others} | same) == len(others) + 1


def test_business_msg_id() -> None:
    made = rules.business_msg_id("dev", "refund", "ORD-1")
    assert made == str(uuid.uuid5(uuid.NAMESPACE_URL, "reach:dev/refund/ORD-1"))
    check(raw(msg_id=made))
    assert made != rules.business_msg_id("prod", "refund", "ORD-1")
    for key in ("", "x" * 257):
        with pytest.raises(EnvelopeError) as caught:
            rules.business_msg_id("dev", "refund", key)
        assert caught.value.details == {"field": "task_id"}


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        ("refund", "capability:refund or agent_id:refund or group:refund"),
        ("Refund", "agent_id:Refund or group:Refund"),
        ("a b", "say agent_id:, capability:, group: or intent:"),
        ("capability:Refund.Pay", "say capability:refund.pay"),
        ("capability:a+b c", "'b c' is no capability"),
        ("capability:a,b", "joined by +"),
        ("capabilities:a", "capability:a may be meant"),
        ("http://x", "there is agent_id:, capability:, group: and intent:"),
        ("group:a b", "letters, digits"),
        ("intent: ", "as intent:give me my money back"),
    ],
)
def test_what_is_no_pattern_is_told_what_would_be_one(pattern: str, told: str) -> None:
    with pytest.raises(EnvelopeError) as caught:
        rules.check_pattern(pattern)
    assert told in caught.value.message
