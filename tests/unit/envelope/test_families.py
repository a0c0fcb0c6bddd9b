"""Families of schemas: what a new version must be, and who reads whom."""

import pytest

from reach.envelope.families import (
    Compatibility,
    Family,
    decode_family,
    encode_family,
    family_of,
    judge,
    number_of,
    with_version,
    without_version,
)
from reach.envelope.json_schema import Node
from reach.errors import RecordError

TEXT: Node = {"type": "string"}
MAYBE: Node = {"type": ["null", "string"]}
ANY: Node = True


def grown(compatibility: Compatibility, *nodes: tuple[str, Node]) -> Family:
    family, others = Family(compatibility), dict[str, Node]()
    for name, node in nodes:
        family = with_version(family, name, node, others, by="admin", at_ms=5)
        others[name] = node
    return family


def test_names_have_a_family_and_a_number() -> None:
    assert (family_of("weather.query.v12"), number_of("weather.query.v12")) == ("weather.query", 12)
    assert family_of("a.v1.v2") == "a.v1"


@pytest.mark.parametrize(
    ("compatibility", "old", "new", "fine"),
    [
        ("backward", TEXT, MAYBE, True),
        ("backward", MAYBE, TEXT, False),
        ("forward", TEXT, MAYBE, False),
        ("forward", MAYBE, TEXT, True),
        ("full", TEXT, MAYBE, False),
        ("full", TEXT, TEXT, True),
        ("none", TEXT, {"type": "null"}, True),
    ],
)
def test_a_new_version_is_judged_by_the_rule(compatibility: Compatibility, old: Node, new: Node, fine: bool) -> None:
    assert judge(Family(compatibility), "a.v2", new, {"a.v1": old}).ok is fine


def test_it_is_judged_by_both_neighbours_and_by_no_other() -> None:
    others = {"a.v1": {"type": "null"}, "a.v3": TEXT, "a.v9": MAYBE}
    assert judge(Family(), "a.v5", TEXT, others).ok
    assert [one.message for one in judge(Family(), "a.v5", ANY, others).differences][:1] == [
        "a.v9 takes no boolean, a.v5 does"
    ]
    assert judge(Family(), "a.v10", MAYBE, others).ok


def test_who_reads_whom_is_promised_by_the_rule_alone() -> None:
    versions = (("a.v1", TEXT), ("a.v2", MAYBE), ("a.v3", ANY))
    assert grown("backward", *versions).readers() == {"a.v1": {"a.v2", "a.v3"}, "a.v2": {"a.v3"}}
    assert grown("forward", *reversed([("a.v3", TEXT), ("a.v2", MAYBE), ("a.v1", ANY)])).readers() == {
        "a.v2": {"a.v1"},
        "a.v3": {"a.v1", "a.v2"},
    }
    assert grown("none", *versions).readers() == {}
    assert grown("full", ("a.v1", TEXT), ("a.v2", TEXT)).readers() == {"a.v1": {"a.v2"}, "a.v2": {"a.v1"}}


def test_one_that_comes_late_finds_its_place() -> None:
    family = grown("backward", ("a.v1", TEXT), ("a.v10", ANY), ("a.v2", MAYBE))
    assert [version.name for version in family.versions] == ["a.v1", "a.v2", "a.v10"]
    assert family.versions[2].reads == ("a.v1", "a.v2")
    assert family.versions[1].read_by == ()
    left = without_version(family, "a.v1")
    assert [version.reads for version in left.versions] == [(), ("a.v2",)]
    assert left.version("a.v1") is None


def test_one_that_changes_is_compared_anew() -> None:
    family = grown("none", ("a.v1", TEXT), ("a.v2", TEXT))
    changed = with_version(family, "a.v1", {"type": "null"}, {"a.v1": TEXT, "a.v2": TEXT}, by="b", at_ms=6)
    assert changed.versions[1].reads == changed.versions[1].read_by == ()
    assert changed.versions[0].by == "b"


def test_one_whose_schema_cannot_be_read_stays_as_it_is() -> None:
    family = grown("backward", ("a.v1", TEXT))
    assert [v.name for v in with_version(family, "a.v2", TEXT, {}, by="b", at_ms=6).versions] == ["a.v1", "a.v2"]


def test_a_family_is_written_and_read_and_junk_is_refused() -> None:
    family = grown("full", ("a.v1", TEXT), ("a.v2", TEXT))
    assert decode_family(encode_family(family)) == family
    assert encode_family(Family()) == b"{}"
    for junk in (b"", b"[]", b'{"compatibility":"some"}', b'{"versions":[{}]}', b"\xff", b" " * (1 << 20) + b"{}"):
        with pytest.raises(RecordError):
            decode_family(junk)
