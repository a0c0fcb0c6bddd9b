"""The memory backend is the readable specification of the scripts: the same random walk must look the same on it and on every server.

One clock for all, which only the walk moves: answers, stored bytes, ids, moments and lifetimes are compared exactly, after every step.
"""

import inspect
import logging
import time
from collections.abc import Iterator
from typing import Literal

import pytest

from reach.backend.port import Backend
from tests.property.breaking import PROBED, breaking
from tests.property.in_a_line import BETWEEN, in_a_line
from tests.property.in_a_queue import BOUNDS, in_a_queue
from tests.property.in_a_queue import MEANWHILE as OF_A_QUEUE
from tests.property.in_stages import MEANWHILE, in_stages
from tests.property.moves import NAMES
from tests.property.one_move import Move, live, move
from tests.property.tour import TOUR
from tests.property.trio import Differ, How, Trio
from tests.property.unsure import SECONDS, asking
from tests.property.walk import Tally, explore, follow, running_servers

EXAMPLES = 25
LONG_S = 600

#: what no walk does: the life of a backend, asking who vouches (only servers have connections), and hearing hints: what is heard depends
#: on when somebody listens, and may be lost by right
LIFE = {"open", "close", "hear", "peers"}


@pytest.fixture(autouse=True)
def no_log() -> Iterator[None]:
    """Streams are lost all the time, each with a warning."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module")
def urls() -> Iterator[dict[str, str]]:
    with running_servers() as found:
        yield found


def test_the_same_walk_looks_the_same_everywhere(urls: dict[str, str]) -> None:
    """Always the same walks: a run of the suite says something of the change that it was made for. New ones: the long run."""
    tally = Tally()
    explore(urls, tally, EXAMPLES)
    print(tally)
    assert tally.walks == EXAMPLES
    assert {"lost", "doubled", "crash"} <= tally.faults.keys()


@pytest.mark.parametrize("how", ["", "lost", "doubled", "crash"])
async def test_the_tour_of_all_moves_looks_the_same_everywhere(urls: dict[str, str], how: How | Literal[""]) -> None:
    """With the same fault at the first step of every move."""
    tally = Tally()
    await follow(urls, [([each], (0, how) if how else None) for each in TOUR], tally)
    assert tally.walks == 1


@pytest.mark.parametrize("odd", ["wants", "wants soon"])
async def test_what_becomes_of_an_answer_that_is_not_sure_looks_the_same_everywhere(
    urls: dict[str, str], odd: str
) -> None:
    """Every end that it may come to, for one and for all; told to a caller that comes late, and left alone by what is due."""
    tally = Tally()
    for scope in ("one", "all"):
        for second in SECONDS:
            late = [*live(1, None), move("send", "w1", 1, [], "one", "b3", "s1", odd, False), move("inspect", 1, -1)]
            await follow(urls, [(asking(1, scope, odd, second), None), (late, None)], tally)
    assert tally.walks == 2 * len(SECONDS)


@pytest.mark.parametrize("waited_ms", [5_000, 33_000])
async def test_what_becomes_of_an_open_circuit_looks_the_same_everywhere(urls: dict[str, str], waited_ms: int) -> None:
    """Before and after it lets a probe go, and every way in which that ends."""
    tally = Tally()
    for second in PROBED:
        await follow(urls, [(breaking(0, "a1", waited_ms, second), None)], tally)
    assert tally.walks == len(PROBED)
    assert tally.answers["route open"]


@pytest.mark.parametrize("odd", ["line", "line short", "line later"])
async def test_what_becomes_of_an_order_line_looks_the_same_everywhere(urls: dict[str, str], odd: str) -> None:
    tally = Tally()
    for between in BETWEEN:
        await follow(urls, [(in_a_line(odd, between), None)], tally)
    assert tally.walks == len(BETWEEN)


@pytest.mark.parametrize("bound", BOUNDS)
async def test_what_becomes_of_who_waits_for_room_looks_the_same_everywhere(urls: dict[str, str], bound: str) -> None:
    tally = Tally()
    for between in OF_A_QUEUE:
        await follow(urls, [(in_a_queue(bound, between), None)], tally)
    assert tally.walks == len(OF_A_QUEUE)


@pytest.mark.parametrize("odd", ["stages", "stages short", "stages gone past"])
async def test_what_becomes_of_stages_looks_the_same_everywhere(urls: dict[str, str], odd: str) -> None:
    tally = Tally()
    for between in MEANWHILE:
        await follow(urls, [(in_stages(odd, between), None)], tally)
    await follow(urls, [(in_stages(odd, [], large=True), None)], tally)
    assert tally.walks == len(MEANWHILE) + 1


@pytest.mark.parametrize(
    ("what", "asked"),
    [
        ("load", move("watch")),
        ("due", move("callers_due", 1)),
        ("health", move("circuits")),
        ("circuit", move("circuits")),
    ],
)
async def test_who_only_asks_mends_no_key_more_on_one_of_them(urls: dict[str, str], what: str, asked: Move) -> None:
    await follow(urls, [([move("spoil", what), asked], None)], Tally())


async def test_every_step_of_the_port_is_a_part_of_random_walks(urls: dict[str, str]) -> None:
    """A step that the port gets and no walk makes would be a hole."""
    tally = Tally()
    await follow(urls, [([each], None) for each in TOUR], tally)
    steps = {name for name, _ in inspect.getmembers(Backend, inspect.iscoroutinefunction)} - LIFE
    assert steps <= tally.steps.keys(), f"never done: {sorted(steps - tally.steps.keys())}"
    toured = {each.text.partition("(")[0] for each in TOUR if each.make is not None}
    assert toured <= NAMES, f"in the tour only: {sorted(toured - NAMES)}"
    assert toured >= NAMES, f"not in the tour: {sorted(NAMES - toured)}"


@pytest.mark.long
@pytest.mark.timeout(LONG_S + 300)
def test_new_walks_look_the_same_everywhere(urls: dict[str, str]) -> None:
    tally = Tally()
    until = time.monotonic() + LONG_S
    while time.monotonic() < until:
        explore(urls, tally, 50, fixed=False, until=until)
    print(tally)


async def test_a_difference_is_seen(urls: dict[str, str]) -> None:
    """In an answer, in a lifetime, in a moment: of one server alone."""
    trio = await Trio.start(urls)
    try:
        await trio.backend.keep_mailbox("b1", [0])
        place = next(iter(trio._servers.values()))
        await place.raw.pexpire("reach:{test.0}:mail:b1", 10_000_000)
        with pytest.raises(Differ, match="mail:b1"):
            await trio.backend.due(0)
        await trio.by_hand("forget_all")
        await place.move_to(trio.moment_ms() + 1)
        with pytest.raises(Differ, match="answer differently"):
            await trio.backend.now_ms()
    finally:
        await trio.close()
