"""Whether one of several instances may change what their agent declares."""

from typing import Any

import pytest

from reach.backend.steps import LastBeat
from reach.envelope.registration import Capability, Registration
from reach.registry.agreeing import Other, Verdict, judge, others_of


def declared(*capabilities: str, **fields: Any) -> Registration:
    made = tuple(Capability(name=one) for one in capabilities)
    return Registration(**{"agent_id": "a", "instance_id": "i1", "capabilities": made} | fields)


OLD, SAME, NEW = Other("i2", None), Other("i3", "l"), Other("i4", "m")


@pytest.mark.parametrize(
    ("wanted", "known", "others", "less", "found"),
    [
        (declared("x"), declared("x"), [OLD], False, Verdict("same")),
        (declared("y"), declared("x"), [], False, Verdict("write")),
        (declared("y"), declared("x"), [OLD], False, Verdict("conflict", ("i2",))),
        (declared("x", "y"), declared("x"), [OLD], False, Verdict("conflict", ("i2",))),
        (declared("x", "y", declares="l"), declared("x"), [OLD, SAME, NEW], False, Verdict("joins", ("i2", "i4"))),
        (declared("y", declares="l"), declared("x"), [SAME], False, Verdict("write")),
        (declared("y", declares="l"), declared("x"), [NEW], False, Verdict("conflict", ("i4",))),
        (declared(declares="l"), declared("x"), [OLD], False, Verdict("conflict", ("i2",))),
        (declared(), declared("x"), [OLD], True, Verdict("write")),
        (declared("y"), declared("x"), [OLD], True, Verdict("conflict", ("i2",))),
    ],
)
def test_the_judgement(
    wanted: Registration, known: Registration, others: list[Other], less: bool, found: Verdict
) -> None:
    assert judge(wanted, known, others, less=less) == found


def test_who_is_silent_or_drains_is_bound_by_nothing() -> None:
    beats = [
        LastBeat("a", "i1", 20_000, b'{"state":"ready"}'),
        LastBeat("a", "i5", 20_000, b"junk"),
        LastBeat("a", "i2", 5_001, b'{"state":"not_ready","declares":"l"}'),
        LastBeat("a", "i3", 5_000, b'{"state":"ready"}'),
        LastBeat("a", "i4", 20_000, b'{"state":"draining"}'),
    ]
    assert others_of(beats, "i1", 20_000) == [Other("i2", "l"), Other("i5", None)]
