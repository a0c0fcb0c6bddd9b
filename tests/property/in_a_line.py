"""Walks about messages of one order line: what may become of it while the first of it runs."""

from tests.property.one_move import Move, live, move, pause
from tests.property.walker import plan_of

_TO_A1, _TO_A2 = plan_of("deliver", "a1"), plan_of("deliver", "a2")


def _send(message: int, odd: str = "line", box: str = "b1") -> Move:
    return move("send", "w1", message, [_TO_A1], "one", box, "s1", odd, False)


def in_a_line(odd: str, between: list[Move]) -> list[Move]:
    """Three of one line, of which the first runs; things happen; then each that is called runs to its end."""
    decided = [
        move("decide", "w1", _TO_A2, ""),
        move("take", "a2", "i1", 3, None),
        move("settle", 0, "success", "self", -1),
    ]
    return [
        _send(1, odd),
        _send(2),
        _send(3, "line", "b2"),
        move("take", "a1", "i1", 3, None),
        *between,
        move("settle", 0, "success", "self", -1),
        *decided,
        *live(2, None),
        *decided,
        *live(10, None),
        *decided,
        move("inspect", 3, 0),
    ]


#: what may become of a line
BETWEEN: tuple[list[Move], ...] = (
    [],
    [move("settle", 0, "error", "self", -1), move("decide", "w1", plan_of("delay", wait_ms=1_000), ""), *live(1, None)],
    [*live(8, None), move("decide", "w1", _TO_A1, ""), move("take", "a1", "i1", 3, None)],
    [*live(8, 0)],
    [move("cancel", 1, "s1", 1)],
    [move("cancel", 2, "s1", 1)],
    [move("cancel", 2, "s1", 1), _send(2, "line round")],
    [_send(1), _send(2), _send(3, "line", "b3")],
    [move("lose", "line", 0), *live(2, 0)],
    [move("lose", "line", 0), *live(8, 0), _send(0)],
    [move("lose", "line", 0), _send(0), *live(8, None), move("decide", "w1", _TO_A1, "")],
    [move("spoil", "line"), *live(8, 0)],
    [move("spoil", "line"), _send(0)],
    [move("lose", "record", 1), *live(2, None)],
    [move("lose", "record", 2), _send(2)],
    [move("lose", "bytes", 2)],
    [move("lose", "again", 0), move("settle", 0, "success", "self", -1), move("lose", "again", 0), *live(2, None)],
    [move("forge_again", 2, 0, "0"), move("decide", "w1", _TO_A1, "")],
    [move("park", 0, b'"sure?"', b"[1]", 0), *live(1, None), move("answer", 0, "s1", b"true")],
    [move("close_inbox", "a1"), pause(16_000), move("close_inbox", "a1"), move("open_inbox", "a1")],
    [pause(-1_500), *live(2, 0)],
    [pause(70_000), *live(2, None)],
    [pause(110_000), *live(2, None)],
    [move("callers_due", 2)],
)
