"""Walks about an answer that is not sure enough."""

from tests.property.one_move import Move, live, move, pause
from tests.property.walker import plan_of


def asking(message: int, scope: str, odd: str, second: list[Move]) -> list[Move]:
    """An answer that is not sure enough is kept, and another agent is asked, or not any more."""
    plans = [plan_of("deliver", "a1"), plan_of("deliver", "a2")]
    return [
        move("send", "w1", message, plans, scope, "b1", "s1", odd, False),
        move("take", "a1", "i1", 3, None),
        move("settle", 0, "unsure", "self", -1),
        *second,
    ]


def _asked(*then: Move) -> list[Move]:
    """The other one runs it, and then ..."""
    return [move("decide", "w1", plan_of("deliver", "a2"), ""), move("take", "a2", "i2", 3, None), *then]


SETTLED = (("sure", -1), ("as unsure", -1), ("less sure", -1), ("reject", -1), ("error", -1), ("retry", 4_000))
#: what may become of a leg that has a best answer: one way each
SECONDS = (
    *(_asked(move("settle", 0, answer, "self", wait)) for answer, wait in SETTLED),
    *(_asked(move("settle", 0, answer, "script", wait)) for answer, wait in SETTLED[2:4]),
    _asked(*live(8, None)),  # its holder is lost
    _asked(*live(30, 0)),  # it renews and says nothing
    _asked(move("lose", "entry", 0), *live(2, None)),
    [move("decide", "w1", plan_of("deliver", "a2"), ""), move("lose", "inbox", 0), *live(2, None)],
    _asked(pause(15_000), move("close_inbox", "a2")),
    _asked(pause(14_999), move("settle", 0, "sure", "self", -1)),  # late, where total is short
    [
        move("decide", "w1", plan_of("deliver", "a2"), ""),
        move("read_plain", "a2", "normal"),
        pause(15_000),
        move("close_inbox", "a2"),
    ],
    [move("decide", "w1", plan_of("deliver", "a2"), ""), pause(14_999), move("take", "a2", "i2", 3, None)],
    [move("decide", "w1", plan_of("deliver", "a2"), ""), move("close_inbox", "a2"), *live(2, None)],
    [move("decide", "w1", plan_of("finish", dead=True), "")],
    [move("decide", "w1", plan_of("finish", "a2"), "")],
    [move("decide", "w1", plan_of("delay", wait_ms=5_000), ""), *live(4, None)],
    [move("lose", "bytes", 1), move("decide", "w1", plan_of("deliver", "a2"), "")],
    [move("cancel", 1, "s1", 1)],
    [*live(8, None), move("send", "w2", 1, [plan_of("deliver", "a1")], "one", "b2", "s1", "round", False)],
)
