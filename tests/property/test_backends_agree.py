"""The memory backend is the readable specification of the scripts: the same random walk must look the same on both.

Time passes in beats of 2.2 s: no timer of the protocol lies within 400 ms of a number of beats, so the milliseconds that the real
server takes decide nothing.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from reach.backend.private_server import PrivateServer
from reach.backend.steps import Plan
from tests import servers
from tests.property.twin_world import AGENTS, ANSWERS, BOXES, MESSAGES, Ms, World, plan_of
from tests.property.twins import NEAR_MS, HeldUp, Twins

MAX_TRIES = 5
LOOK_EVERY = 3


class Move(NamedTuple):
    """One step of a walk, with words to read in a failure. beats: not a step, only time."""

    text: str
    step: Callable[[World], Coroutine[Any, Any, object]] | None
    beats: int = 0

    def __repr__(self) -> str:
        return self.text


def pause(beats: int) -> Move:
    return Move(f"pause({beats})", None, beats)


def move(name: str, *args: object) -> Move:
    """The method of World with these arguments."""
    words = [
        _plan_text(arg)
        if isinstance(arg, Plan)
        else str([_plan_text(each) for each in arg])
        if isinstance(arg, list)
        else str(arg)
        for arg in args
    ]
    return Move(f"{name}({', '.join(words)})", lambda world: getattr(world, name)(*args))


def _plan_text(plan: Plan) -> str:
    return " ".join(filter(None, [plan.act, plan.agent, "dead" * plan.dead, str(plan.wait_ms or "")]))


def live(steps: int, renewed: int | None) -> list[Move]:
    """A beat a step, with a router that runs `due` all the while, so that no grace holds anything up."""
    renewal = [] if renewed is None else [move("renew", renewed)]
    return [pause(1), *renewal, move("due", None)] * steps


messages = st.integers(0, MESSAGES - 1)
agents = st.sampled_from(AGENTS[:2])
boxes = st.sampled_from((*BOXES, BOXES[0], BOXES[0], ""))
senders = st.sampled_from(("s1", "s1", "s1", "s2"))
results = st.sampled_from(sorted(ANSWERS))
picks = st.sampled_from((0, 0, 0, 1, 1, 2, 5))  # which of the hands, the newest first

delivers = st.builds(plan_of, st.just("deliver"), agents)
plans = st.one_of(
    delivers,
    st.builds(plan_of, st.just("deliver"), agents, max_inbox=st.sampled_from((0, 1))),
    st.builds(plan_of, st.just("deliver"), st.sampled_from(AGENTS)),
    st.builds(plan_of, st.just("delay"), wait_ms=st.sampled_from((0, 1_000, 5_000))),
    st.builds(plan_of, st.just("finish"), st.sampled_from(("", "a2")), dead=st.booleans()),
)
moves_and_stays = st.one_of(
    st.builds(plan_of, st.just("move"), st.sampled_from(AGENTS)), st.builds(plan_of, st.just("stay"))
)
odds = st.sampled_from(("", "", "", "fingerprint", "round", "short", "slow", "silent"))
usual_sends = st.builds(
    move,
    st.just("send"),
    messages,
    st.lists(delivers, min_size=2, max_size=2),
    st.sampled_from(("one", "all")),
    st.sampled_from(BOXES[:3]),
    st.just("s1"),
    st.sampled_from(("", "slow")),
    st.booleans(),
)
odd_sends = st.builds(
    move,
    st.just("send"),
    messages,
    st.lists(plans, min_size=1, max_size=3),
    st.sampled_from(("one", "one", "all")),
    boxes,
    senders,
    odds,
    st.booleans(),
)
usual_decides = st.builds(move, st.just("decide"), delivers, st.just(""))
odd_decides = st.builds(
    move,
    st.just("decide"),
    st.one_of(plans, moves_and_stays, moves_and_stays),
    st.sampled_from(("", "", "", "hand", "attempt", "processing")),
)
usual_takes = st.builds(move, st.just("take"), agents, st.just("i1"), st.just(3), st.none())
odd_takes = st.builds(
    move,
    st.just("take"),
    agents,
    st.sampled_from(("i1", "i1", "i2")),
    st.integers(0, 3),
    st.one_of(st.none(), st.integers(0, 2)),
    st.sampled_from((0, 5, 6, 7)),
)
forgeries = st.builds(
    move,
    st.just("forge"),
    agents,
    st.sampled_from(("high", "normal", "low")),
    messages,
    st.sampled_from(("0", "nan", "-1", "1e0", "")),
)
plain_reads = st.builds(move, st.just("read_plain"), agents, st.sampled_from(("high", "normal", "low")))
usual_settles = st.builds(move, st.just("settle"), picks, results, st.just("self"), st.just(-1))
odd_settles = st.builds(
    move,
    st.just("settle"),
    picks,
    results,
    st.sampled_from(("self", "self", "router", "other")),
    st.sampled_from((-1, -1, 0, 4_000)),
)
signs_of_life = st.builds(move, st.sampled_from(("renew", "progress")), picks)
dues = st.builds(move, st.just("due"), st.one_of(st.none(), messages))
cancels = st.builds(move, st.just("cancel"), messages, senders, st.integers(1, 2))
openings = st.builds(move, st.just("inboxes"), st.sampled_from(("open", "close")), st.sampled_from(AGENTS))
losses = st.builds(
    move,
    st.just("lose"),
    st.sampled_from(("inbox", "entry", "entry", "bytes", "record", "tick", "due", "mailbox")),
    picks,
)
pauses = st.builds(pause, st.sampled_from((1, 2, 7, 15)))
lives = st.builds(live, st.sampled_from((1, 2, 2, 4, 8)), st.one_of(st.none(), st.none(), picks))


def slow_send(message: int, box: str, agent: str) -> Move:
    return move("send", message, [plan_of("deliver", agent)], "one", box, "s1", "slow", False)


def moving(message: int) -> list[Move]:
    """Nobody reads the inbox: the leg is moved until it may not be moved any more."""
    round_trip = [*live(4, None), move("decide", plan_of("move", "a2"), ""), *live(4, None)]
    return [slow_send(message, "b1", "a1"), *([*round_trip, move("decide", plan_of("move", "a1"), "")] * 2)]


def losing(message: int, kept: bool, renewed: int | None) -> list[Move]:
    """A holder that stops renewing, or one that renews and says nothing."""
    begin = [slow_send(message, "b2", "a1"), move("take", "a1", "i1", 3, None)]
    return [*begin, *live(8, renewed), move("decide", plan_of("deliver", "a2"), ""), *(live(4, None) if kept else [])]


def crowding(message: int) -> list[Move]:
    """More callers than a message may have."""
    return [slow_send(message, box, "a1") for box in BOXES]


def leaving(message: int, beats: int) -> list[Move]:
    """An inbox is closed while a message is in hand."""
    return [
        slow_send(message, "b3", "a1"),
        move("take", "a1", "i1", 1, None),
        pause(beats),
        move("inboxes", "close", "a1"),
    ]


def cancelling_twice(message: int) -> list[Move]:
    """The tombstone keeps the greater round; a send of that round is answered, a later one runs."""
    return [move("cancel", message, "s1", 2), move("cancel", message, "s1", 1), *live(1, None)]


def second_round(message: int, scope: str, taken: bool) -> list[Move]:
    """A message runs out of time and is sent anew with a greater round."""
    plans = [plan_of("deliver", "a1"), plan_of("deliver", "a2")]
    takes = [move("take", "a1", "i1", 3, None)] if taken else []
    begin = [move("send", message, plans, scope, "b1", "s1", "short", False), *takes, *live(5, None)]
    return [*begin, move("send", message, plans[:1], scope, "b2", "s1", "round", False), *takes]


def stopped_round(message: int, scope: str, round_: int) -> list[Move]:
    """A message runs out of time, its next round is cancelled, and the send of that round comes."""
    plans = [plan_of("deliver", "a1"), plan_of("deliver", "a2")]
    begin = [move("send", message, plans, scope, "b1", "s1", "short", False), move("take", "a1", "i1", 3, None)]
    stop = [*live(5, None), move("cancel", message, "s1", round_)]
    return [*begin, *stop, move("send", message, plans[:1], scope, "b2", "s1", "round", False)]


stories = st.one_of(
    st.builds(stopped_round, messages, st.sampled_from(("one", "all")), st.sampled_from((1, 2, 2))),
    st.builds(second_round, messages, st.sampled_from(("one", "all")), st.booleans()),
    st.builds(moving, messages),
    st.builds(losing, messages, st.booleans(), st.one_of(st.none(), st.just(0))),
    st.builds(crowding, messages),
    st.builds(leaving, messages, st.sampled_from((1, 7))),
    st.builds(cancelling_twice, messages),
)

usual = (usual_sends, usual_takes, usual_settles, usual_decides)
odd = (
    odd_sends,
    odd_decides,
    odd_takes,
    plain_reads,
    odd_settles,
    signs_of_life,
    dues,
    cancels,
    openings,
    losses,
    forgeries,
    pauses,
)
nothing: st.SearchStrategy[list[Move]] = st.just([])  # first, so that a failing walk shrinks to steps that do nothing
steps = st.one_of(
    nothing, lives, lives, stories, stories, *(each.map(lambda one: [one]) for each in (*usual, *usual, *usual, *odd))
)
walks = st.lists(steps, min_size=30, max_size=30)


@pytest.fixture(scope="module")
def real_server() -> Iterator[PrivateServer]:
    binaries = servers.binaries()
    engine = servers.selected()[0]
    with PrivateServer.start(binary=binaries[engine], extra_args=servers.TEST_OPTIONS) as started:
        yield started


@pytest.mark.parametrize("count", [15, pytest.param(500, marks=[pytest.mark.long, pytest.mark.timeout(900)])])
def test_the_same_walk_looks_the_same_on_both(real_server: PrivateServer, count: int) -> None:
    compared = 0

    # No shrinking: it takes minutes, and a walk of thirty steps can be read. Add Phase.shrink to have the least one.
    @settings(
        max_examples=count,
        deadline=None,
        phases=[Phase.explicit, Phase.reuse, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(walk=walks)
    def walk_both(walk: list[list[Move]]) -> None:
        nonlocal compared
        for _ in range(MAX_TRIES):
            try:
                asyncio.run(_walk_twice(real_server, walk))
            except HeldUp:
                continue
            compared += 1
            return

    walk_both()
    assert compared >= count // 2, f"this machine stood still too often: only {compared} of {count} walks were compared"


async def _walk_twice(server: PrivateServer, walk: list[list[Move]]) -> None:
    twins = await Twins.start(server)
    try:
        for number, group in enumerate(walk):
            await twins.settle_down()
            for step in group:
                if step.step is None:
                    await twins.pass_beats(step.beats)
                    continue
                answers = await twins.run(step.step)
                found = list(differences("", *answers))
                assert not found, f"step {number}, {step}, memory and real differ:\n" + "\n".join(found)
            if number % LOOK_EVERY == LOOK_EVERY - 1 or number == len(walk) - 1:
                found = list(differences("", *await twins.look()))
                assert not found, f"after step {number}, {group}, memory and real differ:\n" + "\n".join(found)
    finally:
        await twins.close()


def differences(path: str, memory: object, real: object) -> Iterator[str]:
    """Where two looks differ, one line for each."""
    if isinstance(memory, dict) and isinstance(real, dict):
        for key in sorted(memory.keys() | real.keys(), key=str):
            yield from differences(f"{path}/{key}", memory.get(key), real.get(key))
    elif isinstance(memory, list | tuple) and isinstance(real, list | tuple) and len(memory) == len(real):
        for number, (one, other) in enumerate(zip(memory, real, strict=True)):
            yield from differences(f"{path}/{number}", one, other)
    elif isinstance(memory, Ms) and isinstance(real, Ms):
        if abs(memory - real) > NEAR_MS:
            yield f"{path}: {memory} ms != {real} ms"
    elif memory != real:
        yield f"{path}: {memory!r} != {real!r}"
