"""Walks about messages that wait for room at an agent: what may become of their queue, and of the room."""

from tests.property.one_move import Move, live, move, pause
from tests.property.walker import plan_of

_TO_A1, _TO_A2 = plan_of("deliver", "a1"), plan_of("deliver", "a2")
#: which bound refuses: the slots, the room of a lane, the share of a sender
BOUNDS = {
    "slots": plan_of("deliver", "a1", max_agent=1),
    "lane": plan_of("deliver", "a1", max_inbox=1),
    "share": plan_of("deliver", "a1", max_inbox=2),
}
_ELSEWHERE = plan_of("deliver", "a2", max_agent=1)


def _waits(message: int, bound: str, sender: str = "s1", wait_ms: int = 5_000, scope: str = "one") -> Move:
    plan = plan_of("delay", wait_ms=wait_ms, rooms=(BOUNDS[bound], _ELSEWHERE))
    return move("send", "w1", message, [plan], scope, "b1", sender, "slow", False)


def in_a_queue(bound: str, between: list[Move]) -> list[Move]:
    """One runs and two wait; things happen; then each that is called goes on, if there is room, to its end."""
    decided = [
        move("decide", "w1", BOUNDS[bound], ""),
        move("take", "a1", "i1", 3, None),
        move("settle", 0, "success", "self", -1),
    ]
    return [
        move("send", "w1", 0, [_TO_A1], "one", "b1", "s1", "slow", False),
        move("send", "w1", 3, [_TO_A2], "one", "b2", "s1", "slow", False),
        _waits(1, bound),
        pause(1),
        _waits(2, bound),
        move("take", "a1", "i1", 3, None),
        *between,
        move("settle", 0, "success", "self", -1),
        *decided,
        *live(2, None),
        *decided,
        *live(3, None),
        move("inspect", 2, 0),
    ]


#: what may become of a queue
MEANWHILE: tuple[list[Move], ...] = (
    [],
    [move("send", "w2", 0, [_TO_A1], "one", "b3", "s1", "round", False)],
    [move("decide", "w1", _TO_A2, ""), *live(3, None), move("decide", "w1", _TO_A2, "")],
    [*live(3, 0), move("decide", "w1", plan_of("delay", wait_ms=500, rooms=(_ELSEWHERE,)), "")],
    [*live(3, 0), move("decide", "w1", plan_of("delay", wait_ms=500), "")],
    [*live(3, 0), move("decide", "w1", plan_of("delay", wait_ms=500, rooms=(BOUNDS["slots"], BOUNDS["lane"])), "")],
    [
        *live(3, 0),
        move("decide", "w1", plan_of("delay", wait_ms=9, rooms=(plan_of("deliver", "a1", max_agent=3),)), ""),
    ],
    [move("cancel", 1, "s1", 1)],
    [move("settle", 0, "error", "self", -1), move("cancel", 1, "s1", 1), move("decide", "w1", _ELSEWHERE, "")],
    [move("lose", "room", 0)],
    [move("lose", "room", 0), *live(3, 0), move("decide", "w1", plan_of("delay", rooms=(BOUNDS["slots"],)), "")],
    [move("spoil", "room")],
    [move("spoil", "room"), *live(3, 0), move("decide", "w1", plan_of("delay", rooms=(BOUNDS["slots"],)), "")],
    [move("spoil", "share"), move("send", "w1", 0, [BOUNDS["share"]], "one", "b1", "s1", "round", False)],
    [move("lose", "record", 1)],
    [move("lose", "bytes", 1)],
    [move("forge_again", 2, 0, "0"), move("decide", "w1", BOUNDS["slots"], "")],
    [move("park", 0, b'"sure?"', b"[1]", 0), move("answer", 0, "s1", b"true")],
    [move("close_inbox", "a1"), pause(16_000), move("close_inbox", "a1"), move("open_inbox", "a1")],
    [move("read_plain", "a2", "normal"), move("answer_plainly", 0), move("settle_for_plain", "w1")],
    [pause(-1_500), *live(2, 0)],
    [pause(33_000), *live(2, None)],
    [move("callers_due", 2)],
    [_waits(0, "slots", scope="all")],
)
