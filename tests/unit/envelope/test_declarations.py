"""Two declarations of one agent: the same, one that can stand in for the other, or neither."""

from typing import Any

import pytest

from reach.envelope.declarations import can_stand_in, differing, label_of
from reach.envelope.registration import Accept, Capability, Registration


def declared(*capabilities: str | Capability, **fields: Any) -> Registration:
    made = tuple(Capability(name=one) if isinstance(one, str) else one for one in capabilities)
    return Registration(**{"agent_id": "a", "instance_id": "i", "capabilities": made} | fields)


SCHEMA = Capability(name="x", input_schema="x.v1")


def test_a_label_is_the_same_for_the_same_declaration_alone() -> None:
    one = declared("x", "y")
    assert label_of(one) == label_of(declared("y", "x", instance_id="j", node_id="n", token="t", partitions=4))
    for other in (declared("x"), declared("x", "y", zone="z"), declared("x", "y", weight=2)):
        assert label_of(other) != label_of(one)
    assert differing(one, declared("x", zone="z")) == ["capabilities", "zone"]
    assert differing(one, declared("y", "x", declares="l")) == []


@pytest.mark.parametrize(
    ("able", "other", "can"),
    [
        (declared("x", "y"), declared("x"), True),
        (declared("x"), declared("x", "y"), False),
        (declared(SCHEMA), declared("x"), False),
        (declared("x", SCHEMA), declared("x"), True),
        (declared(Capability(name="x", output_schema="x.v2")), declared("x"), False),
        (declared(Capability(name="x", description="new", max_process_ms=9)), declared("x"), True),
        (declared("x", weight=3, concurrency=2, cost=1.0, rate_limit=5.0), declared("x"), True),
        (declared("x", groups=("g", "h")), declared("x", groups=("g",)), True),
        (declared("x"), declared("x", groups=("g",)), False),
        *(
            (declared("x", **{field: "other"}), declared("x"), False)
            for field in ("zone", "tier", "endpoint", "adapter")
        ),
        (declared(accepts=(Accept(type="t"),)), declared(accepts=(Accept(type="t", schemas=("x.v1",)),)), True),
        (declared(accepts=(Accept(type="t", schemas=("x.v1",)),)), declared(accepts=(Accept(type="t"),)), False),
        (
            declared(accepts=(Accept(type="t", schemas=("x.v1", "x.v2")),)),
            declared(accepts=(Accept(type="t", schemas=("x.v1",)),)),
            True,
        ),
        (
            declared(accepts=(Accept(type="t", schemas=("x.v2",)), Accept(type="t", schemas=("x.v1",)))),
            declared(accepts=(Accept(type="t", schemas=("x.v1",)),)),
            True,
        ),
        (declared(accepts=(Accept(type="u"),)), declared(accepts=(Accept(type="t"),)), False),
        (
            declared(accepts=(Accept(type="t"), Accept(type="t", schemas=("x.v1",)))),
            declared(accepts=(Accept(type="t"),)),
            True,
        ),
    ],
)
def test_who_can_stand_in(able: Registration, other: Registration, can: bool) -> None:
    assert can_stand_in(able, other) is can
