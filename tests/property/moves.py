"""Random walks: moves of a `WholeWalker`, time that passes, and the fault that each move meets."""

from typing import Any

from hypothesis import strategies as st

from tests.property.breaking import LOST, PROBED, SPOILT, breaking
from tests.property.in_a_line import BETWEEN, in_a_line
from tests.property.in_a_queue import BOUNDS, in_a_queue
from tests.property.in_a_queue import MEANWHILE as OF_A_QUEUE
from tests.property.in_stages import MEANWHILE as IN_STAGES
from tests.property.in_stages import in_stages
from tests.property.one_move import Move, live, move, pause
from tests.property.questions import MEANWHILE, answering
from tests.property.schema_moves import SCHEMA_ARGUMENTS
from tests.property.strangers import REGISTRATION
from tests.property.trio import How
from tests.property.unsure import SECONDS, asking
from tests.property.walker import AGENTS, ANSWERS, BOXES, MESSAGES, ODD, plan_of

#: a fault at the step number n of a move; most moves meet none
Fault = tuple[int, How] | None


#: the names of the moves that random walks are made of
NAMES: set[str] = set()


def built(name: str, *of: "st.SearchStrategy[Any]") -> "st.SearchStrategy[Move]":
    NAMES.add(name)
    return st.builds(move, st.just(name), *of)


def often(usual: object, *odd: object) -> "st.SearchStrategy[Any]":
    """The usual one three times of four."""
    return st.sampled_from([*[usual] * 3 * len(odd), *odd])


messages = st.integers(0, MESSAGES - 1)
workers = often("w1", "w2")
two_agents, any_agents = st.sampled_from(AGENTS[:2]), st.sampled_from(AGENTS)
instances = often("i1", "i2")
lanes = st.sampled_from(("high", "normal", "low"))
boxes = st.sampled_from(BOXES)
senders = often("s1", "s2")
picks = st.sampled_from((0, 0, 0, 1, 1, 2, 5))  # which of the hands, the newest first
prompts = often(b'{"refund": "\xf0\x9f\x98\x80"}', b" null ", b'"\xff"', b"1 2")
whys, waits_ms = st.sampled_from(("left", "silent", "removed")), st.sampled_from((0, 1_000, 5_000))

delivers = st.builds(plan_of, st.just("deliver"), two_agents)
bounded = st.builds(
    plan_of,
    st.just("deliver"),
    two_agents,
    max_inbox=st.sampled_from((0, 1, 2, 4)),
    max_agent=st.sampled_from((0, 0, 1)),
)
plans = st.one_of(
    delivers,
    bounded,
    st.builds(plan_of, st.just("delay"), wait_ms=waits_ms, rooms=st.lists(bounded, min_size=1, max_size=2)),
    st.builds(plan_of, st.just("deliver"), any_agents),
    st.builds(plan_of, st.just("delay"), wait_ms=waits_ms),
    st.builds(plan_of, st.just("finish"), st.sampled_from(("", "a2")), dead=st.booleans()),
)
moves_and_stays = st.one_of(
    st.builds(plan_of, st.just("move"), any_agents, free=st.booleans(), room=st.sampled_from((0, 0, 1, 2))),
    st.builds(plan_of, st.just("stay")),
)
usual_sends = (
    messages,
    st.lists(delivers, min_size=2, max_size=2),
    st.sampled_from(("one", "all")),
    st.sampled_from(BOXES[:3]),
    st.just("s1"),
    st.sampled_from(("", "slow", "wants", "line")),
    st.booleans(),
)
odd_sends = (
    messages,
    st.lists(plans, min_size=1, max_size=3),
    often("one", "all"),
    st.sampled_from((*BOXES, BOXES[0], BOXES[0], "")),
    senders,
    st.sampled_from(sorted(ODD)),
    st.booleans(),
)
looks, flushes = built("look", workers), built("forget_all")
usual = (
    built("send", workers, *usual_sends),
    built("take", two_agents, st.just("i1"), st.just(3), st.none()),
    built("settle", picks, st.sampled_from(sorted(ANSWERS)), often("self", "script"), st.just(-1)),
    built("decide", workers, delivers, st.just("")),
)
odd = (
    built("send", workers, *odd_sends),
    built("submit", *odd_sends),
    looks,
    built("own", workers),
    built("claim", workers, st.sampled_from((0, 5_000, 15_000))),
    built("route", workers),
    built(
        "decide",
        workers,
        st.one_of(plans, moves_and_stays, moves_and_stays),
        often("", "hand", "attempt", "processing"),
    ),
    built(
        "take",
        two_agents,
        instances,
        st.integers(0, 3),
        st.none() | st.integers(0, 2),
        st.sampled_from((0, 5, 6, 7)),
        often("", "high", "low"),
    ),
    built("ring", two_agents),
    built("hear", two_agents),
    built("read_plain", two_agents, lanes),
    built("answer_plainly", picks),
    built("settle_for_plain", workers),
    built(
        "settle",
        picks,
        st.sampled_from(sorted(ANSWERS)),
        st.sampled_from(("self", "script", "router", "other")),
        often(-1, 0, 4_000),
    ),
    built("park", picks, prompts, often(b"", b'{"\xc3\xa9": 1}', b"[1"), often(0, 5_000)),
    built("answer", picks, senders, prompts),
    built("renew", picks),
    built("progress", picks),
    built("once", picks, st.sampled_from(("run-1", "run-2")), st.sampled_from((1_000, 60_000))),
    built("once_end", messages, st.sampled_from(("run-1", "run-2")), st.sampled_from((b"", b'{"paid":1}'))),
    built("due"),
    built("callers_due", messages),
    built("silence"),
    built("circuits"),
    built("failing", two_agents, st.sampled_from((1, 4, 5, 6))),
    built("cancel", messages, senders, st.integers(1, 3)),
    built("inspect", messages, st.integers(-1, 2)),
    built("open_inbox", any_agents),
    built("close_inbox", any_agents),
    built("drop_consumer", st.sampled_from(("w1", "w2", "i1", "i2")), st.sampled_from(("", *AGENTS))),
    built("open_doors"),
    built("sweep", st.sampled_from(("", *AGENTS)), st.sampled_from((0, 10_000, 600_000))),
    built("keep_mailbox", boxes, st.sampled_from((60_000, 3_600_000))),
    built("drop_mailbox", boxes),
    built("read_mail", boxes),
    built("read_records"),
    built("drop_dead", st.integers(0, 2)),
    built("requeue", st.integers(0, 2), lanes),
    built("record", st.sampled_from((b"[]", b'[{"hop":1}]'))),
    built("follow", workers, st.integers(1, 3), waits_ms),
    built("finish_followed", st.integers(1, 3)),
    built("unfollow", workers),
)
registry = (
    built(
        "register",
        any_agents,
        instances,
        st.sampled_from((REGISTRATION, REGISTRATION, b'{"agent_id":"a1"}')),
        often("right", "nothing", "other"),
    ),
    built("remove", any_agents, often("right", "other"), st.sampled_from((-1, 2_000, 30_000)), whys),
    built("moment"),
    built("beat", any_agents, instances, st.sampled_from(("ready", "busy", "draining", "not_ready")), st.booleans()),
    built("leave", any_agents, instances, st.sampled_from((None, -1, 2_000))),
    built("watch"),
    built(
        "set_meta",
        st.sampled_from(("meta", "routes", "types")),
        st.sampled_from(("x", "y")),
        st.sampled_from((None, b"{}")),
    ),
    built(
        "swap_meta",
        st.sampled_from(("meta", "routes", "types")),
        st.sampled_from(("x", "y")),
        st.sampled_from((None, b"{}", b"[]")),
        st.sampled_from((None, b"{}", b"")),
    ),
    built("write_schema", *SCHEMA_ARGUMENTS),
    built("tell_circuit", two_agents, st.sampled_from((b"", b"{}"))),
    built("lock", st.just("opener"), workers, st.sampled_from((1_000, 30_000))),
    built(
        "spend_rate",
        two_agents,
        st.sampled_from((0, 500, 3_000, 999_999_999)),
        st.sampled_from((0, 1_000, 1_000_000_000)),
        st.sampled_from((0, 7, 500, 2_000)),
        st.booleans(),
    ),
    built("send_control", st.sampled_from((b"{}", b'{"op":"beat"}'))),
    built("read_control", workers, st.sampled_from((0, 5_000))),
    built("finish_control", st.sampled_from(("", *BOXES[:2]))),
)
talks = (
    built(
        "converse",
        often("c1", "c2"),
        st.lists(st.integers(0, 30), min_size=1, max_size=4).map(tuple),
        often(1, 2),
        st.sampled_from((0, 1, 3)),
    ),
    built("meet", often("s1", "s2"), often("c0", "c1"), two_agents),
    built("met", often("s1", "s2"), often("c0", "c1")),
    built("tell_demand", often("w1", ":wanted"), st.sampled_from((b"1", b"{}")), st.sampled_from(((), ("w1", "w2")))),
    built("ask_demand"),
    built("tell_recorder", often("n/w1", "/w2"), st.sampled_from((0, -5_000, 5_000, None))),
    built("bury_recorders", st.sampled_from((-1, 2_000))),
    built("ask_depths"),
    built(
        "spend",
        often("c1", "c2"),
        st.sampled_from(("m1:0:1:1", "m1:0:1:2", "m2:0:1:1")),
        st.sampled_from((0, 400_000)),
        st.sampled_from((0, 7)),
        st.one_of(st.none(), st.integers(0, 12)),
    ),
    built("used_in", often("c1", "c2")),
)
losses = (
    built(
        "lose",
        st.sampled_from(LOST),
        picks,
    ),
    built("forge", two_agents, lanes, messages, st.sampled_from(("0", "nan", "-1", "1e0", ""))),
    built("forge_again", messages, st.integers(0, 3), st.sampled_from(("0", "7-7"))),
    st.integers(0, 3).flatmap(lambda n: flushes if n == 0 else looks),  # rarely: it ends what a walk was about
    built(
        "spoil",
        st.sampled_from(SPOILT),
    ),
)
pauses = st.builds(pause, st.sampled_from((1, 500, 2_200, 5_000, 14_999, 15_000, 33_000, 70_000, 700_000, -1_500)))
lives = st.builds(live, st.sampled_from((1, 2, 2, 4, 8)), st.one_of(st.none(), st.none(), picks))


def slow_send(message: int, box: str, agent: str) -> Move:
    return move("send", "w1", message, [plan_of("deliver", agent)], "one", box, "s1", "slow", False)


def moving(message: int) -> list[Move]:
    """Nobody reads the inbox: the leg is moved until it may not be moved any more."""
    there = [*live(4, None), move("decide", "w1", plan_of("move", "a2"), "")]
    back = [*live(4, None), move("decide", "w1", plan_of("move", "a1"), "")]
    return [slow_send(message, "b1", "a1"), *([*there, *back] * 2)]


def losing(message: int, kept: bool, renewed: int | None) -> list[Move]:
    """A holder that stops renewing, or one that renews and says nothing."""
    begin = [slow_send(message, "b2", "a1"), move("take", "a1", "i1", 3, None)]
    return [
        *begin,
        *live(8, renewed),
        move("decide", "w1", plan_of("deliver", "a2"), ""),
        *(live(4, None) if kept else []),
    ]


def crowding(message: int) -> list[Move]:
    """More callers than a message may have."""
    return [slow_send(message, box, "a1") for box in BOXES]


def leaving(message: int, ms: int) -> list[Move]:
    """An inbox is closed while a message is in hand."""
    return [slow_send(message, "b3", "a1"), move("take", "a1", "i1", 1, None), pause(ms), move("close_inbox", "a1")]


def cancelling_twice(message: int) -> list[Move]:
    """The tombstone keeps the greater round; a send of that round is answered, a later one runs."""
    cancels = [move("cancel", message, "s1", 2), move("cancel", message, "s1", 1)]
    return [move("hear", "a1"), *cancels, move("hear", "a1"), *live(1, None)]


def second_round(message: int, scope: str, taken: bool) -> list[Move]:
    """A message runs out of time and is sent anew with a greater round."""
    plans = [plan_of("deliver", "a1"), plan_of("deliver", "a2")]
    takes = [move("take", "a1", "i1", 3, None)] if taken else []
    begin = [move("send", "w1", message, plans, scope, "b1", "s1", "short", False), *takes, *live(5, None)]
    return [*begin, move("send", "w1", message, plans[:1], scope, "b2", "s1", "round", False), *takes]


def claiming(message: int) -> list[Move]:
    """A router dies with what it has read, and another one takes it over."""
    submit = move("submit", message, [plan_of("deliver", "a1")], "one", "b1", "s1", "", False)
    return [
        submit,
        move("look", "w1"),
        *live(3, None),
        move("claim", "w2", 5_000),
        move("route", "w2"),
        move("route", "w1"),
    ]


stories = st.one_of(
    st.builds(breaking, messages, two_agents, st.sampled_from((5_000, 33_000)), st.sampled_from(PROBED)),
    st.builds(
        asking,
        st.just(1),
        often("one", "all"),
        st.sampled_from(("wants", "wants soon")),
        st.sampled_from(SECONDS),
    ),
    st.builds(
        answering,
        st.just(1),
        often("one", "all"),
        st.sampled_from(("", "slow", "wants", "short", "one attempt")),
        st.sampled_from(MEANWHILE),
        st.booleans(),
    ),
    st.builds(in_a_line, st.sampled_from(("line", "line", "line short", "line later")), st.sampled_from(BETWEEN)),
    st.builds(
        in_stages,
        st.sampled_from(("stages", "stages", "stages short", "stages gone past")),
        st.sampled_from(IN_STAGES),
        st.booleans(),
    ),
    st.builds(in_a_queue, st.sampled_from(sorted(BOUNDS)), st.sampled_from(OF_A_QUEUE)),
    st.builds(second_round, messages, st.sampled_from(("one", "all")), st.booleans()),
    st.builds(moving, messages),
    st.builds(losing, messages, st.booleans(), st.one_of(st.none(), st.just(0))),
    st.builds(crowding, messages),
    st.builds(leaving, messages, st.sampled_from((2_000, 15_000))),
    st.builds(cancelling_twice, messages),
    st.builds(claiming, messages),
)


def _alone(each: "st.SearchStrategy[Move]") -> "st.SearchStrategy[list[Move]]":
    return each.map(lambda one: [one])


nothing: st.SearchStrategy[list[Move]] = st.just([])  # first, so that a failing walk shrinks to moves that do nothing
groups = st.one_of(
    nothing,
    *[lives, stories] * 8,
    *map(_alone, (*[*usual] * 7, *[*odd] * 2, *[*registry] * 2, *[*talks] * 3, *losses, *[pauses] * 4)),
)
faults: "st.SearchStrategy[Fault]" = st.sampled_from(
    (
        *[None] * 9,
        (0, "lost"),
        (1, "lost"),
        (2, "lost"),
        (0, "doubled"),
        (1, "doubled"),
        (0, "crash"),
        (1, "crash"),
        (2, "crash"),
    )
)
#: thirty groups of moves; the fault is for the first move of its group
walks = st.lists(st.tuples(groups, faults), min_size=30, max_size=30)
