"""A walk that makes every move of random walks once, each where it has something to do."""

from tests.property.one_move import Move, move, pause
from tests.property.strangers import REGISTRATION
from tests.property.walker import plan_of

_TO_A1 = [plan_of("deliver", "a1")]
_DEAD = [plan_of("finish", dead=True)]


def _sent(message: int, plans: object = _TO_A1, *, box: str = "b1") -> tuple[object, ...]:
    return (message, plans, "one", box, "s1", "slow", False)


TOUR: tuple[Move, ...] = (
    # the registry
    move("register", "a1", "i1", REGISTRATION, "right"),
    move("beat", "a1", "i1", "busy"),
    move("beat", "a1", "i1", "ready", True),
    move("moment"),
    move("set_meta", "routes", "x", b"{}"),
    move("swap_meta", "routes", "x", b"[]", b"{}"),
    move("write_schema", "a", "nothing", b"{}", "a.v1", b"{}"),
    move("watch"),
    move("lock", "opener", "w1", 30_000),
    move("spend_rate", "a1", 3_000, 1_000, 500, False),
    move("spend_rate", "a1", 3_000, 1_000, 500, True),
    move("send_control", b"{}"),
    move("read_control", "w1", 5_000),
    move("finish_control", "b1"),
    # a message that is taken, told of, guarded, settled
    move("send", "w1", *_sent(0)),
    move("take", "a1", "i1", 3, None),
    move("ring", "a1"),
    move("renew", 0),
    move("progress", 0),
    move("once", 0, "run-1", 60_000),
    move("once_end", 0, "run-1", b'{"paid":1}'),
    move("inspect", 0, -1),
    move("settle", 0, "error", "self", -1),
    pause(2_200),
    move("due"),
    move("silence"),
    move("circuits"),
    move("decide", "w1", plan_of("deliver", "a1"), ""),
    move("take", "a1", "i1", 3, None),
    move("settle", 0, "success", "script", -1),
    # one that asks, and is answered
    move("send", "w1", *_sent(0, box="b2")),
    move("send", "w1", *_sent(2)),
    move("take", "a1", "i1", 3, None),
    move("park", 0, b'{"refund": 1}', b"[1]", 0),
    move("answer", 0, "s2", b"true"),
    move("answer", 0, "s1", b"true"),
    move("answer", 0, "s1", b"true"),
    move("hear", "a1"),
    move("cancel", 2, "s1", 1),
    move("hear", "a1"),
    # a circuit
    move("failing", "a1", 5),
    move("circuits"),
    move("tell_circuit", "a1", b"{}"),
    move("lose", "health", 0),
    # routers that die
    move("submit", *_sent(1)),
    move("look", "w1"),
    move("own", "w1"),
    pause(6_000),
    move("claim", "w2", 5_000),
    move("route", "w2"),
    # an agent without scripts
    move("read_plain", "a1", "normal"),
    move("answer_plainly", 0),
    move("settle_for_plain", "w1"),
    # ends
    move("send", "w1", *_sent(3)),
    move("cancel", 3, "s1", 1),
    move("callers_due", 3),
    move("send", "w1", *_sent(3, _DEAD)),
    move("converse", "c1", (0, 1, 2, 3, 15, 6), 1, 1),
    move("meet", "s1", "c0", "a1"),
    move("met", "s1", "c0"),
    move("tell_demand", "w1", b"1", ("w2",)),
    move("ask_demand"),
    move("tell_recorder", "n/w1", 0),
    move("bury_recorders", -1),
    move("tell_recorder", "n/w1", None),
    move("ask_depths"),
    move("spend", "c1", "m1:0:1:1", 400_000, 7),
    move("spend", "c2", "m7:0:1:1", 400_000, 7, 7),
    move("used_in", "c1"),
    move("record", b"[]"),
    move("read_records"),
    move("follow", "w1", 1, 5_000),
    move("follow", "w2", 1, 0),
    move("finish_followed", 1),
    move("unfollow", "w2"),
    move("requeue", 0, "low"),
    move("drop_dead", 0),
    move("read_mail", "b1"),
    move("keep_mailbox", "b1", 60_000),
    move("drop_mailbox", "b1"),
    # those that go
    move("open_inbox", "a3"),
    move("close_inbox", "a3"),
    move("drop_consumer", "i1", "a1"),
    move("open_doors"),
    move("sweep", "", 0),
    move("leave", "a1", "i1", None),
    move("remove", "a1", "right", 2_000, "silent"),
    # strangers and losses
    move("forge", "a1", "low", 1, "nan"),
    move("forge_again", 1, 0, "0"),
    move("take", "a1", "i1", 3, None),
    move("decide", "w1", plan_of("stay"), "hand"),
    move("lose", "due", 0),
    move("spoil", "mailbox"),
    move("due"),
    move("forget_all"),
    move("due"),
)
