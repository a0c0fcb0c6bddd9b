"""Whatever an agent says of itself, no router falls over it, and nobody else loses its turn."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reach.envelope.records import encode_beat, read_beat
from reach.envelope.registration import Beat
from reach.errors import RecordError
from reach.routing.decide import decide
from reach.routing.index import CapabilityIndex
from reach.routing.steps import Deliver
from tests.unit.routing.seen import NOW, add, chooser, message, stored

ODD = (
    *(0, -1, 1, 2**31, 2**63 - 1, -(2**63), 2**63, -(2**70)),
    *(1.5, 0.1, -0.0, 99.9, 1e308, -1e308, 5e-324, 1e18),
    *(None, True, "", "1", [1], {"a": 1}),
)
ANYTHING = st.sampled_from(ODD)
FIELDS = [name for name in Beat.__struct_fields__ if name != "state"]
BEATS = st.fixed_dictionaries(
    {"state": st.sampled_from(["ready", "busy"])}, optional=dict.fromkeys([*FIELDS, "mood"], ANYTHING)
)


@given(
    beats=st.lists(BEATS, min_size=1, max_size=4),
    steps=st.lists(st.sampled_from((0, 1, 900, 6_000, 20_000)), max_size=4),
)
def test_no_beat_brings_a_decision_down_or_keeps_the_others_from_their_turn(
    beats: list[dict[str, Any]], steps: list[int]
) -> None:
    index = CapabilityIndex()
    add(index, "good", "work")
    index.apply("agent", "odd", stored("odd", "work"))
    for number, beat in enumerate(beats):
        assert index.beat("odd", f"odd.{number}", NOW, json.dumps(beat).encode())
    by = chooser(index)
    sent: set[str] = set()
    now_ms = NOW
    for after_ms in [0] * 30 + steps:
        now_ms += after_ms
        assert index.beat("good", "good.1", now_ms, b"{}")
        found = decide(message(total_at_ms=now_ms + 30_000, first_at_ms=now_ms + 30_000), None, by, now_ms)
        sent |= {step.agent for step in found.steps if isinstance(step, Deliver)}
    assert "good" in sent


def test_what_cannot_be_read_counts_as_not_said_and_is_complained_of_once() -> None:
    told: list[tuple[str, str]] = []
    index = CapabilityIndex(lambda name, problem: told.append((name, problem)))
    index.apply("agent", "a", stored("a", "work"))
    assert index.beat("a", "i1", NOW, b'{"state":"busy","load":"high","inflight":3,"success_rate":7}')
    beat = index.agents["a"].instances["i1"].beat
    assert (beat.state, beat.load, beat.inflight, beat.success_rate) == ("busy", 0.0, 3, None)
    ((name, problem),) = told
    assert name == "a/i1"
    assert "load" in problem


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b'{"load":NaN}',
        b'{"load":1',
        b'{"state":"dreaming"}',
        b'{"state":5}',
        b'{"state":"ready","state":"busy"}',
        b'{"load":1,"load":2,"inflight":"x"}',
        b'{"reason":"\xff"}',
        b'{"x":' + b"[" * 100 + b"]" * 100 + b"}",
        b'{"reason":"' + b"x" * (1 << 20) + b'"}',
    ],
)
def test_what_is_no_beat_is_none(data: bytes) -> None:
    with pytest.raises(RecordError):
        read_beat(data)


def test_null_is_absent() -> None:
    assert read_beat(b'{"state":null,"load":null,"inflight":2}')[0] == Beat(inflight=2)


@pytest.mark.parametrize("reason", ["\ud800", "x" * 1_000_000, "a\udfffb" * 10_000, "😀" * 10_000])
def test_no_reason_keeps_a_beat_from_being_told(reason: str) -> None:
    data = encode_beat(Beat(state="not_ready", reason=reason))
    assert len(data) < 16_384
    beat, problem = read_beat(data)
    assert (beat.state, problem) == ("not_ready", "")
    assert beat.reason
