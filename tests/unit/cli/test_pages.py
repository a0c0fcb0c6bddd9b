"""The pictures in docs/search.md are what the commands draw."""

from reach.cli.decided import lines_of
from reach.events.decided import decisions_of
from tests.rules.files import read
from tests.unit.events.test_decided import LOOKED
from tests.unit.events.test_traced import PICTURE, record, run


def blocks(page: str) -> list[str]:
    """What stands between its fences without a language."""
    return [part.removeprefix("\n").removesuffix("\n") for part in read(page).split("```")[1::2]]


def test_the_picture_of_a_trace_is_the_one_that_is_drawn() -> None:
    assert PICTURE in blocks("docs/search.md")


def test_the_decision_on_the_page_is_told_like_that() -> None:
    told = {"pattern": "capability:pay", "strategy": "score", "chosen": "bank-2", "duration_us": 35}
    counts = {"matched": 24, "fit": 2, "state": 22}
    found = decisions_of(
        "m1",
        [
            record(0, "message.received", "m1", pattern="capability:pay", type="request"),
            record(1, "route.matched", "m1", counts=counts, candidates=LOOKED[:3], **told),
            *run("m1", 1, "bank-2", 1, 2, 3, "ok"),
        ],
    )
    assert found is not None
    assert "\n".join(lines_of(found)) in blocks("docs/search.md")
