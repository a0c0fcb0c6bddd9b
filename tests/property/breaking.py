"""A circuit opens, a probe goes, and what may become of it: told for random walks, and each once."""

from tests.property.one_move import Move, live, move, pause
from tests.property.walker import MESSAGES, plan_of

#: what a walk loses, and of what it makes something else: see `lose` and `spoil`
LOST = (
    "inbox",
    "entry",
    "entry",
    "bytes",
    "record",
    "tick",
    "due",
    "mailbox",
    "events",
    "again",
    "ingress",
    "agents",
    "control",
    "share",
    "room",
    "line",
    "inflight",
    "conversation",
    "met",
    "rate",
    "health",
)
SPOILT = (
    "mailbox",
    "inbox",
    "due",
    "tick",
    "again",
    "ingress",
    "dead",
    "events",
    "bytes",
    "agents",
    "beats",
    "load",
    "changes",
    "control",
    "routes",
    "types",
    "meta",
    "lock",
    "share",
    "room",
    "line",
    "inflight",
    "conversation",
    "met",
    "rate",
    "health",
    "circuit",
)


def _send(message: int, box: str, agent: str) -> Move:
    plan = plan_of("deliver", agent)
    return move("send", "w1", message % MESSAGES, [plan], "one", box, "s1", "slow", False)


def breaking(message: int, agent: str, waited_ms: int, second: list[Move]) -> list[Move]:
    """A circuit opens, and a probe goes, or not yet."""
    sends = [_send(message, "b1", agent), _send(message + 1, "b2", agent)]
    return [
        _send(message + 2, "b3", agent),
        move("failing", agent, 5),
        move("take", agent, "i2", 3, None),
        *live(2, None),
        move("decide", "w2", plan_of("deliver", agent), ""),
        pause(waited_ms),
        *sends,
        move("circuits"),
        *second,
        _send(message + 3, "b3", agent),
        move("circuits"),
    ]


def _probed(*then: Move) -> list[Move]:
    """The probe runs, and then ..."""
    return [move("take", "a1", "i1", 3, None), *then]


#: how a run may be settled
ENDS = (("success", -1), ("reject", -1), ("error", -1), ("retry", 4_000), ("error", 0))
#: what may become of a probe
PROBED = (
    *(_probed(move("settle", 0, answer, "self", wait)) for answer, wait in ENDS),
    _probed(*live(8, None)),
    _probed(*live(30, 0)),
    _probed(pause(33_000)),
    _probed(move("lose", "entry", 0), *live(2, None)),
    _probed(move("lose", "health", 0)),
    _probed(move("spoil", "health")),
    _probed(pause(-1_500)),
    _probed(pause(-40_000)),
    [move("cancel", 0, "s1", 1), move("cancel", 1, "s1", 1)],
    [move("read_plain", "a1", "high"), move("answer_plainly", 0), move("settle_for_plain", "w1")],
    [move("close_inbox", "a1"), move("open_inbox", "a1")],
    [*live(4, None), move("decide", "w1", plan_of("move", "a2"), "")],
)
