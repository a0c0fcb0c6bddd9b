"""The setting `privacy`: what hop records keep of which schema, and what is no such text."""

import pytest

from reach.envelope.privacy import (
    MAX_KEPT_BYTES,
    MAX_RULES,
    Keeping,
    Privacy,
    privacy_of,
    problem_of,
    read_privacy,
    with_rule,
)

TEXT = "hash, weather.query=keep, payments.*=drop, payments.status.v2=keep, weather.*=hash"


@pytest.mark.parametrize(
    ("schemas", "keeping"),
    [
        ([], "hash"),
        (["", ""], "hash"),
        (["orders.new.v1"], "hash"),
        (["weather.query.v1"], "keep"),
        (["weather.query.v22"], "keep"),
        (["weather.forecast.v1"], "hash"),
        (["payments.refund.v1"], "drop"),
        (["payments.cards.show.v3"], "drop"),
        (["payments.status.v2"], "keep"),
        (["payments.status.v1"], "drop"),
        (["payments"], "hash"),
        (["weather.query.v1", ""], "keep"),
        (["weather.query.v1", "orders.new.v1"], "hash"),
        (["weather.query.v1", "payments.refund.v1"], "drop"),
    ],
)
def test_the_nearest_word_holds_and_of_several_schemas_the_strictest(schemas: list[str], keeping: Keeping) -> None:
    assert read_privacy(TEXT).of(schemas) == keeping


def test_of_what_nobody_can_tell_the_schema_the_strictest_of_all_holds() -> None:
    assert read_privacy("keep").strictest() == "keep"
    assert read_privacy("keep,a.b=hash").strictest() == "hash"
    assert read_privacy(TEXT).strictest() == "drop"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "none of keep, hash, drop"),
        ("all", "none of keep, hash, drop"),
        ("a=keep", "begins with what holds for all"),
        ("keep,a", "'a': '' is none of"),
        ("keep,a=no", "'a': 'no' is none of"),
        ("keep,A=drop", "'A': no schema"),
        ("keep,*=drop", "'*': no schema"),
        ("keep,a*=drop", "'a*': no schema"),
        ("keep,a.*.b=drop", "no schema"),
        ("keep,=drop", "no schema"),
        ("keep,a=drop,a=keep", "stands there twice"),
        ("keep,," + "a=drop", "'': '' is none of"),
        ("keep" + ",a=drop" * (MAX_RULES + 1), f"at most {MAX_RULES}"),
        ("keep" + " " * 10_000, "at most 8192"),
    ],
)
def test_what_cannot_be_read_is_named_and_everything_is_dropped(text: str, says: str) -> None:
    assert says in (problem_of(text) or "")
    assert privacy_of({"privacy": text}, "dev").of(["a.v1"]) == "drop"


def test_one_rule_is_put_in_and_taken_out() -> None:
    assert with_rule(None, "dev", "a.b", "drop") == "keep,a.b=drop"
    assert with_rule(None, "prod", "a.*", "keep") == "hash,a.*=keep"
    assert with_rule("drop,a.b=keep,c.*=hash", "dev", "a.b", "hash") == "drop,c.*=hash,a.b=hash"
    assert with_rule("drop,a.b=keep,c.*=hash", "dev", "c.*", None) == "drop,a.b=keep"
    assert with_rule("hash", "dev", "a.b", None) == "hash"
    for text, name in (("hash", "no name"), ("hash", "*"), ("hash", "a=drop,b"), ("junk", "a.b")):
        with pytest.raises(ValueError, match=r"is none of|no schema"):
            with_rule(text, "dev", name, "keep")


def test_all_that_is_wrong_is_said_at_once() -> None:
    problem = problem_of("all,A=drop,b=no") or ""
    assert all(part in problem for part in ("'all'", "'A'", "'no'"))


def test_where_nothing_is_set_a_developer_sees_everything_and_nobody_else_does() -> None:
    assert privacy_of({}, "dev") == Privacy("keep")
    assert privacy_of({}, "prod") == privacy_of({}, "dev2") == Privacy("hash")
    assert privacy_of({"privacy": "keep"}, "prod").of([]) == "keep"
    assert privacy_of({"max_kept_bytes": "10"}, "dev").max_bytes == 10
    assert privacy_of({"max_kept_bytes": "junk"}, "dev").max_bytes == MAX_KEPT_BYTES
