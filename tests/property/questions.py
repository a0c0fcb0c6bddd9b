"""Walks about a handler that asks: what may become of its message while it is parked."""

from tests.property.one_move import Move, live, move, pause
from tests.property.walker import plan_of


def answering(message: int, scope: str, odd: str, between: list[Move], again: bool) -> list[Move]:
    """A handler asks; things happen meanwhile; it is answered, and perhaps asks once more."""
    plans = [plan_of("deliver", "a1"), plan_of("deliver", "a2")]
    ask, tell = move("park", 0, b'"sure?"', b"[1]", 0), move("answer", 0, "s1", b"true")
    runs = [move("decide", "w1", plan_of("deliver", "a1"), ""), move("take", "a1", "i1", 3, None)]
    return [
        move("send", "w1", message, plans, scope, "b1", "s1", odd, False),
        move("take", "a1", "i1", 3, None),
        move("once", 0, "run-1", 1_000),
        *[ask, *between, tell, *runs] * (1 + again),
        move("settle", 0, "error" if again else "success", "self", -1),
        *live(2, None),
    ]


#: what may become of a leg while it is parked
MEANWHILE: tuple[list[Move], ...] = (
    [],
    [pause(70_000), *live(2, None)],
    [pause(700_000), move("callers_due", 1)],
    [pause(86_400_000), *live(1, None)],
    [pause(86_300_000)],
    [move("park", 0, b'"another?"', b"", 0), move("settle", 0, "success", "self", -1)],
    [move("send", "w2", 1, [plan_of("deliver", "a2")], "one", "b2", "s1", "", False)],
    [move("close_inbox", "a1"), move("open_inbox", "a1")],
    [move("cancel", 1, "s1", 1)],
    [move("lose", "bytes", 1)],
    [move("forge_again", 1, 0, "0"), move("decide", "w1", plan_of("deliver", "a2"), "")],
    [pause(-1_500), *live(2, None)],
    [move("answer", 0, "s2", b"1"), move("answer", 1, "s1", b"1")],
)
