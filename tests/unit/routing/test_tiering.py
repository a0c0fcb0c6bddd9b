"""Which tier a message needs, as the policy of its pattern reads it from the payload: bounded, and never a reason to fail."""

from typing import Any

import msgspec
import pytest

from reach.envelope.message import Envelope
from reach.envelope.records import decode_policy
from reach.errors import ConfigError
from reach.routing.decide import decide
from reach.routing.index import CapabilityIndex
from reach.routing.message import message_of
from reach.routing.policies import read_policy
from reach.routing.steps import Deliver
from reach.routing.tiering import MAX_READ_BYTES, tier_of
from tests.unit.routing.seen import NOW, add, chooser, step

SIZE: dict[str, Any] = {"by": "size_bytes", "steps": [[10, "small"], [20, "mid"], [None, "large"]]}
FIELD: dict[str, Any] = {
    "by": "field",
    "path": "/a/0/b~1c",
    "map": {"hot": "large", "5": "mid", "true": 7},
    "default": "small",
}


def read(by: dict[str, Any], body: bytes) -> tuple[str | None, str]:
    told = decode_policy(msgspec.json.encode({"tier_by": by})).tier_by
    assert told is not None
    return tier_of(told, body)


@pytest.mark.parametrize(
    ("size", "tier"), [(0, "small"), (10, "small"), (11, "mid"), (20, "mid"), (21, "large"), (1 << 20, "large")]
)
def test_by_size(size: int, tier: str) -> None:
    assert read(SIZE, b"x" * size)[0] == tier


def test_a_body_beyond_the_last_step_says_nothing() -> None:
    assert read({"by": "size_bytes", "steps": [[10, "small"]]}, b"x" * 11) == (None, "11 bytes, more than any step")


@pytest.mark.parametrize(
    ("value", "tier"), [(b'"hot"', "large"), (b"5", "mid"), (b"true", "7"), (b'"cold"', "small"), (b"null", "small")]
)
def test_by_a_field(value: bytes, tier: str) -> None:
    assert read(FIELD, b'{"x": 1e400, "a": [{"b/c": %s}]}' % value)[0] == tier


@pytest.mark.parametrize("key", ["1", "1.0", "10e-1"])
@pytest.mark.parametrize(("value", "tier"), [(b"1", "large"), (b"1.0", "large"), (b"1e0", "large"), (b"2", "small")])
def test_a_number_is_the_same_however_it_is_written(key: str, value: bytes, tier: str) -> None:
    by = {"by": "field", "path": "/n", "map": {key: "large", "true": "no"}, "default": "small"}
    assert read(by, b'{"n": %s}' % value)[0] == tier


def test_a_text_is_no_number_and_true_is_not_one() -> None:
    by = {"by": "field", "path": "/n", "map": {"1.0": "large"}, "default": "small"}
    assert read(by, b'{"n": "1"}')[0] == read(by, b'{"n": true}')[0] == "small"
    assert read(by, b'{"n": "1.0"}')[0] == "large"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"7",
        b'"text"',
        b"[]",
        b"{}",
        b'{"a": {}}',
        b'{"a": [1]}',
        b'{"a": [{"b/c": {"d": 1}}]}',
        b'{"a": [{"b/c": 1e999}]}',
        b"\xff\xfe",
        b"{" * 60,
        b'{"a": [{"b/c": "hot"}], "pad": "' + b"x" * MAX_READ_BYTES + b'"}',
    ],
    ids=lambda body: repr(body[:20]),
)
def test_what_cannot_be_read_goes_by_the_default_and_says_why(body: bytes) -> None:
    tier, why = read(FIELD, body)
    assert tier == "small"
    assert why.startswith("the default: ")


def sent(index: CapabilityIndex, body: Any, **fields: Any) -> tuple[str, str]:
    """To whom it goes, and what is told of its tier."""
    data = {
        "msg_id": "0b6a9c1e-0000-4000-8000-000000000000",
        "type": "request",
        "timestamp": 1,
        "source": {"agent_id": "s"},
        "target": {"pattern": "capability:work"},
        "payload": {"body": body},
    }
    made = message_of(
        msgspec.json.decode(msgspec.json.encode(data | fields), type=Envelope),
        env="dev",
        partition=0,
        start_at_ms=NOW,
        first_at_ms=NOW + 1_000,
        total_at_ms=NOW + 1_000,
        network_ms=100,
        tier_by=index.policy("capability:work").tier_by,
    )
    choice = decide(made, None, chooser(index), NOW)
    chosen = step(choice)
    assert isinstance(chosen, Deliver)
    return chosen.agent, choice.why.tier


@pytest.mark.parametrize("value", ["4111 1111", "hot", 5, True, ["4111"], {"x": "4111"}, None])
def test_what_is_told_of_a_tier_holds_nothing_of_the_payload(value: Any) -> None:
    """Hop records tell it, also where the env keeps nothing of contents."""
    index = CapabilityIndex()
    add(index, "small-1", "work", tier="small")
    by = FIELD | {"path": "/card", "default": "small"}
    policy = {"strategy": "tiered", "tiers": ["small", "large", "mid", 7], "tier_by": by}
    index.apply("route", "capability:work", msgspec.json.encode(policy))
    told = sent(index, {"card": value})[1]
    assert told.partition(":")[2] in {
        " by /card",
        " the default: /card is none of the map",
        " the default: the body has no /card",
    }


def test_the_message_goes_to_its_tier_and_the_sender_knows_best() -> None:
    index = CapabilityIndex()
    for tier in ("small", "mid", "large"):
        add(index, f"{tier}-1", "work", tier=tier)
    policy = {"strategy": "tiered", "tiers": ["small", "mid", "large"], "weights": {"large": 0}, "tier_by": SIZE}
    index.apply("route", "capability:work", msgspec.json.encode(policy))
    assert sent(index, "x" * 3) == ("small-1", "small: 5 bytes, at most 10")
    assert sent(index, "x" * 13) == ("mid-1", "mid: 15 bytes, at most 20")
    assert sent(index, "x" * 100) == ("large-1", "large: 102 bytes, more than any step")
    assert sent(index, "x", needs={"tier": "large"}) == ("large-1", "large: its sender needs it")


def problems(by: dict[str, Any], **fields: Any) -> list[str]:
    policy = {"strategy": "tiered", "tier_by": by} | fields
    with pytest.raises(ConfigError) as caught:
        read_policy("capability:work", msgspec.json.encode(policy))
    return [problem["field"] for problem in caught.value.details["problems"]]


def test_all_that_is_wrong_is_told_at_once() -> None:
    wrong_steps = {"by": "size_bytes", "steps": [[None, "small"], [20, "mid"], [10, "huge"]]}
    assert problems(wrong_steps, tiers=["small", "mid"]) == ["tier_by.steps", "tier_by.steps", "tier_by"]
    assert problems({"by": "size_bytes", "steps": []}, strategy="score") == ["tier_by.steps", "tier_by"]
    wrong_field = {"by": "field", "path": "priority", "map": {}, "default": "huge"}
    assert problems(wrong_field, tiers=["small"]) == ["tier_by.path", "tier_by.map", "tier_by"]
    assert problems({"by": "weather"}) == ["tier_by"]
    assert problems({"by": "field", "path": "/a", "map": {"1": "x"}, "speed": 1}) == ["tier_by"]
    twice = {"by": "field", "path": "/a", "map": {"1": "small", "1.0": "large", "1e0": "small", "nan": "large"}}
    assert problems(twice, tiers=["small", "large"]) == ["tier_by.map"]
    read_policy("capability:work", msgspec.json.encode({"strategy": "tiered", "tier_by": FIELD}))
