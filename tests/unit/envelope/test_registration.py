"""A registration is judged whole: every problem, each with its code."""

import json
import math
from typing import Any

import pytest

from reach.envelope import records
from reach.envelope.registration import (
    Accept,
    Capability,
    Rate,
    RateLimit,
    Registration,
    StoredRegistration,
    Tombstone,
    problems_of,
    rate_of,
)
from reach.errors import RecordError, RegistrationRefused


def fields(**changes: Any) -> bytes:
    return json.dumps({"agent_id": "a", "instance_id": "i", **changes}).encode()


def problems(data: bytes, env: str = "dev") -> list[tuple[str, str]]:
    with pytest.raises(RegistrationRefused) as caught:
        records.read_registration(data, env=env)
    found = caught.value.details["problems"]
    assert caught.value.code == found[0]["code"]
    assert all(problem["message"] for problem in found)
    return [(problem["code"].removeprefix("registration."), problem["field"]) for problem in found]


def test_the_least_registration() -> None:
    registration = records.read_registration(fields(zone=None, accepts=[]), env="dev")
    assert registration == Registration(agent_id="a", instance_id="i")
    assert registration.accepts == (Accept(type="request"), Accept(type="event"))


def test_a_whole_registration_by_way_of_control() -> None:
    registration = Registration(
        agent_id="refund-01",
        instance_id="node-1-abc",
        node_id="node-1",
        env="prod",
        zone="eu",
        groups=("billing",),
        capabilities=(
            Capability(name="refund", description="gives money back", examples=("refund me", {"a": 1}), cost=0.5),
            Capability(
                name="refund", input_schema="refund.request.v1", output_schema={"type": "object"}, max_process_ms=5
            ),
        ),
        accepts=(Accept(type="request", schemas=("refund.request.v1",)),),
        partitions=4,
        concurrency=2,
        max_process_ms=60_000,
        weight=0.5,
        cost=0,
        tier="gold",
        rate_limit=10,
        endpoint="http://x",
        adapter="http",
        token="secret",
    )
    entry = records.decode_control(records.encode_control(records.register_entry(registration, "mb")))
    assert (entry.op, entry.reply_to) == ("register", "mb")
    assert records.read_registration(entry.fields, env="prod") == registration


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"\xff", b"{", b'{"agent_id":"a","agent_id":"b","instance_id":"i"}', b"[" * 999]
)
def test_malformed(data: bytes) -> None:
    assert problems(data) == [("malformed", "")]


@pytest.mark.parametrize(
    ("changes", "code", "field"),
    [
        ({"agent_id": None}, "missing_field", "agent_id"),
        ({"instance_id": None}, "missing_field", "instance_id"),
        ({"agent_id": 5}, "bad_field", "agent_id"),
        ({"agent_id": "a:b"}, "bad_field", "agent_id"),
        ({"instance_id": ""}, "bad_field", "instance_id"),
        ({"node_id": "{"}, "bad_field", "node_id"),
        ({"zone": " "}, "bad_field", "zone"),
        ({"env": "a.b"}, "bad_field", "env"),
        ({"env": "prod"}, "wrong_env", "env"),
        ({"groups": ["a", "*"]}, "bad_field", "groups[1]"),
        ({"groups": ["a"] * 101}, "bad_field", "groups"),
        ({"groups": "a"}, "bad_field", "groups"),
        ({"typo": 1}, "unknown_field", "typo"),
        ({"partitions": 0}, "bad_field", "partitions"),
        ({"partitions": True}, "bad_field", "partitions"),
        ({"concurrency": 0}, "bad_field", "concurrency"),
        ({"max_process_ms": 0}, "bad_field", "max_process_ms"),
        ({"partitions": 16_385}, "bad_field", "partitions"),
        ({"concurrency": 1_000_001}, "bad_field", "concurrency"),
        ({"max_process_ms": 7 * 86_400_000 + 1}, "bad_field", "max_process_ms"),
        ({"weight": -1}, "bad_field", "weight"),
        ({"weight": 1.7e308}, "bad_field", "weight"),
        ({"cost": 1e7}, "bad_field", "cost"),
        ({"rate_limit": 1e300}, "bad_field", "rate_limit"),
        ({"capabilities": [{"name": "a", "cost": 1e300}]}, "bad_field", "capabilities[0].cost"),
        ({"capabilities": [{"name": "a", "max_process_ms": 2**62}]}, "bad_field", "capabilities[0].max_process_ms"),
        ({"cost": -1}, "bad_field", "cost"),
        ({"rate_limit": -1}, "bad_field", "rate_limit"),
        ({"rate_limit": 0}, "bad_field", "rate_limit"),
        ({"rate_limit": True}, "bad_field", "rate_limit"),
        ({"rate_limit": "6"}, "bad_field", "rate_limit"),
        ({"rate_limit": [6]}, "bad_field", "rate_limit"),
        ({"rate_limit": {}}, "bad_field", "rate_limit"),
        ({"rate_limit": {"messages": 0}}, "bad_field", "rate_limit.messages"),
        ({"rate_limit": {"messages": "6"}}, "bad_field", "rate_limit.messages"),
        ({"rate_limit": {"tokens": 0}}, "bad_field", "rate_limit.tokens"),
        ({"rate_limit": {"tokens": 1.5}}, "bad_field", "rate_limit.tokens"),
        ({"rate_limit": {"tokens": 2_000_000_000}}, "bad_field", "rate_limit.tokens"),
        ({"rate_limit": {"tokens": 1, "bytes": 1}}, "unknown_field", "rate_limit.bytes"),
        ({"endpoint": ""}, "bad_field", "endpoint"),
        ({"adapter": "x" * 129}, "bad_field", "adapter"),
        ({"token": ""}, "bad_field", "token"),
        ({"capabilities": [{"name": "Upper"}]}, "bad_field", "capabilities[0].name"),
        ({"capabilities": [{"name": "a"}, {}]}, "missing_field", "capabilities[1].name"),
        ({"capabilities": [{"name": "a"}, {"name": "a"}]}, "bad_field", "capabilities[1].name"),
        ({"capabilities": [{"name": "a", "input_schema": "x"}]}, "bad_field", "capabilities[0].input_schema"),
        ({"capabilities": [{"name": "a", "output_schema": ""}]}, "bad_field", "capabilities[0].output_schema"),
        ({"capabilities": [{"name": "a", "max_process_ms": 0}]}, "bad_field", "capabilities[0].max_process_ms"),
        ({"capabilities": [{"name": "a", "cost": -1}]}, "bad_field", "capabilities[0].cost"),
        ({"capabilities": [{"name": "a", "shape": 1}]}, "unknown_field", "capabilities[0].shape"),
        ({"capabilities": ["a"]}, "bad_field", "capabilities"),
        ({"capabilities": [{"name": f"c{i}"} for i in range(1001)]}, "bad_field", "capabilities"),
        ({"accepts": [{"type": "No"}]}, "bad_field", "accepts[0].type"),
        ({"accepts": [{"type": "t", "schemas": ["s.v1", "s"]}]}, "bad_field", "accepts[0].schemas"),
        ({"accepts": [{"type": "t"}] * 1001}, "bad_field", "accepts"),
    ],
)
def test_one_problem(changes: dict[str, Any], code: str, field: str) -> None:
    assert problems(fields(**changes)) == [(code, field)]


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, 10**400])
def test_numbers_that_are_none_are_problems(number: float) -> None:
    declared = Registration(
        agent_id="a",
        instance_id="i",
        weight=number,
        cost=number,
        rate_limit=number,
        capabilities=(Capability(name="c", cost=number),),
    )
    assert {problem.field for problem in problems_of(declared, env="dev")} == {
        "weight",
        "cost",
        "rate_limit",
        "capabilities[0].cost",
    }


@pytest.mark.parametrize(
    "policy",
    [
        b'{"weights":{"a":-1}}',
        b'{"weights":{"a":1.7e308}}',
        b'{"max_inbox":-1}',
        b'{"timeouts":{"network_ms":0}}',
        b'{"timeouts":{"total_ms":-5}}',
        b'{"min_confidence":2}',
        b'{"canary":{"schema":"s.v1","share":2}}',
    ],
)
def test_a_policy_with_numbers_out_of_their_range_is_none(policy: bytes) -> None:
    with pytest.raises(RecordError):
        records.decode_policy(policy)


def test_all_problems_at_once() -> None:
    found = problems(
        fields(
            agent_id="a b",
            instance_id=None,
            nonsense=1,
            env="prod",
            concurrency="8",
            partitions=0,
            capabilities=[{"name": "X", "speed": 1}, {"cost": -1}],
        )
    )
    assert set(found) == {
        ("unknown_field", "nonsense"),
        ("missing_field", "instance_id"),
        ("unknown_field", "capabilities[0].speed"),
        ("missing_field", "capabilities[1].name"),
        ("bad_field", "concurrency"),
        ("bad_field", "agent_id"),
        ("bad_field", "capabilities[0].name"),
        ("bad_field", "capabilities[1].cost"),
        ("bad_field", "partitions"),
        ("wrong_env", "env"),
    }


@pytest.mark.parametrize(
    ("changes", "first", "more"),
    [
        ({f"f{n:04}": 1 for n in range(2_000)}, "f0000", 1_980),
        ({"groups": ["a b"] * 90}, "groups[0]", 70),
        ({"groups": ["a b"] * 140_000}, "groups", 81),
        ({"capabilities": [{"name": "C"}] * 1_000}, "capabilities[0].name", 1_979),
        ({"capabilities": [{}] * 200_000}, "capabilities", 0),
        ({"capabilities": [{"name": "c", **{f"f{n:05}": 1 for n in range(50_000)}}]}, "capabilities[0].f00000", 49_980),
        ({"accepts": [{"type": "t", "schemas": ["s"] * 200_000}]}, "accepts[0].schemas", 981),
    ],
    ids=["unknown", "groups", "very many groups", "bad", "very many capabilities", "unknown inside", "schemas"],
)
def test_the_first_problems_are_told_and_the_rest_is_counted(changes: dict[str, Any], first: str, more: int) -> None:
    with pytest.raises(RegistrationRefused) as caught:
        records.read_registration(fields(**changes), env="dev")
    error = caught.value
    assert error.details["problems"][0]["field"] == first
    assert error.details.get("more", 0) == more
    assert len(error.details["problems"]) == (records.MAX_PROBLEMS if more else 1)
    assert error.message.endswith(f"; and {more} more") is bool(more)
    assert len(error.message) < records.MAX_TOLD + 100


def test_of_very_many_capabilities_only_the_allowed_are_judged() -> None:
    many = Registration(agent_id="a", instance_id="i", capabilities=(Capability(name="C", cost=-1),) * 50_000)
    found = problems_of(many, env="dev")
    assert found[0].message == "more than 1000"
    assert len(found) == 1 + 3 * 1_000 - 1  # the name and the cost of each, and all but the first come again


def test_what_the_hash_of_agents_holds() -> None:
    written = records.encode_registration(Registration(agent_id="a", instance_id="i", weight=2.0))
    stored = records.decode_stored_registration(written[:-1] + b',"v":7}')
    assert stored == StoredRegistration(agent_id="a", instance_id="i", weight=2.0, v=7)
    assert records.decode_stored_registration(b'{"gone_at":5,"v":8}') == Tombstone(gone_at=5, v=8)
    for junk in (b"", b"1", b'{"v":1}', b'{"gone_at":"x"}'):
        with pytest.raises(RecordError):
            records.decode_stored_registration(junk)


@pytest.mark.parametrize(
    ("limit", "rate"),
    [
        (None, None),
        (6, Rate(6_000, 0)),
        (0.5, Rate(500, 0)),
        (RateLimit(tokens=90_000), Rate(0, 90_000)),
        (RateLimit(messages=6, tokens=90_000), Rate(6_000, 90_000)),
        (-1.0, Rate(0, 0)),
        (math.inf, Rate(1_000_000_000, 0)),
        (RateLimit(tokens=2**62), Rate(0, 1_000_000_000)),
    ],
)
def test_a_rate_is_reckoned_in_whole_numbers_whoever_wrote_the_limit(limit: Any, rate: Rate | None) -> None:
    assert rate_of(limit) == rate


def test_a_limit_of_both_kinds_is_read_and_stored() -> None:
    said = records.read_registration(fields(rate_limit={"messages": 6.5, "tokens": 9}), env="dev")
    assert records.read_registration(records.encode_registration(said), env="dev") == said
    assert said.rate_limit == RateLimit(messages=6.5, tokens=9)
