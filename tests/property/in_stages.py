"""Walks about a broadcast in stages: what may become of it while its first stage runs, and of the second."""

from tests.property.one_move import Move, live, move, pause
from tests.property.walker import plan_of

_PLANS = [plan_of("deliver", "a1"), plan_of("hold", "a2"), plan_of("hold", "a1"), plan_of("observe", "a2")]
_ON = move("decide", "w1", plan_of("deliver", "a2"), "")
_TAKE_A1, _TAKE_A2 = move("take", "a1", "i1", 3, None), move("take", "a2", "i1", 3, None)
_WELL, _ILL, _AGAIN = (move("settle", 0, answer, "self", -1) for answer in ("success", "reject", "error"))


def _send(odd: str, box: str = "b1") -> Move:
    return move("send", "w1", 1, _PLANS, "all", box, "s1", odd, False)


def in_stages(odd: str, between: list[Move], large: bool = False) -> list[Move]:
    """Its first stage runs, and a copy is shown; things happen; then what is called runs to its end, and it is sent once more."""
    rest = [_ON, _TAKE_A2, _WELL, _TAKE_A1, _WELL, *live(2, None), _ON, _TAKE_A1, _WELL, *live(10, None), _ON]
    sent = move("send", "w1", 1, _PLANS, "all", "b1", "s1", odd, large)
    return [sent, _TAKE_A1, _TAKE_A2, *between, _WELL, *rest, _send("stages", "b2"), move("inspect", 1, -1)]


#: what may become of stages
MEANWHILE: tuple[list[Move], ...] = (
    [],
    [_ILL],
    [_AGAIN, _ON, _TAKE_A1],
    [_AGAIN, move("decide", "w1", plan_of("finish", "a1"), ""), _send("stages round", "b3")],
    [_AGAIN, move("decide", "w1", plan_of("delay", wait_ms=1_000), ""), *live(1, None)],
    [move("settle", 0, "unsure", "self", -1)],
    [*live(8, None), _ON, _TAKE_A1],
    [*live(30, 0)],
    [move("cancel", 1, "s1", 1)],
    [move("cancel", 1, "s1", 2), _send("stages round", "b3")],
    [_WELL, move("cancel", 1, "s1", 1)],
    [_WELL, move("lose", "again", 0), *live(2, None)],
    [_WELL, move("decide", "w1", plan_of("deliver", "a2", max_inbox=1), ""), *live(1, None)],
    [_WELL, move("decide", "w1", plan_of("delay", wait_ms=1_000), ""), *live(1, None)],
    [_WELL, move("decide", "w1", plan_of("finish", "a2"), "")],
    [_WELL, move("decide", "w1", plan_of("deliver", "a3"), "")],
    [_WELL, move("decide", "w1", plan_of("deliver", "a2"), "processing"), _TAKE_A2, _ILL],
    [_WELL, move("close_inbox", "a2"), _ON, move("open_inbox", "a2")],
    [_WELL, move("lose", "bytes", 1), _ON],
    [_WELL, _ON, _TAKE_A2, _ILL, _TAKE_A1],
    [
        _WELL,
        _ON,
        _TAKE_A2,
        _AGAIN,
        move("decide", "w1", plan_of("finish", "a2"), ""),
        _TAKE_A1,
        _WELL,
        _send("stages round", "b3"),
    ],
    [
        _ILL,
        _ON,
        _TAKE_A2,
        _AGAIN,
        move("decide", "w1", plan_of("finish", "a2"), ""),
        _TAKE_A1,
        _WELL,
        _send("stages round", "b3"),
    ],
    [move("forge_again", 1, 1, "0"), _ON],
    [move("forge_again", 1, 2, "7-7"), _ON],
    [move("lose", "bytes", 1)],
    [move("lose", "record", 1), _send("stages", "b3")],
    [move("lose", "entry", 0), *live(2, None), _ON],
    [move("park", 0, b'"sure?"', b"[1]", 0), *live(10, None), move("answer", 0, "s1", b"true"), _ON, _TAKE_A1],
    [move("park", 0, b'"sure?"', b"[1]", 5_000), *live(4, None)],
    [move("close_inbox", "a1"), pause(16_000), move("close_inbox", "a1"), move("open_inbox", "a1"), _ON],
    [_send("stages", "b3"), _send("fingerprint", "b4")],
    [pause(-1_500), *live(2, 0)],
    [pause(9_999), _WELL],
    [pause(70_000), *live(2, None)],
    [move("callers_due", 1)],
    [pause(11_000), move("callers_due", 1)],
)
