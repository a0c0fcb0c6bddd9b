"""Who waits for room is served in the order in which they came, however many others come at the moment at which a slot is free."""

import uuid
from collections.abc import Sequence
from functools import partial
from itertools import count
from typing import Any

import pytest

from reach.backend.steps import Taken
from reach.envelope.ledger import LegState
from tests.contract.places import KEYS
from tests.integration.spine import Spine, until
from tests.integration.test_capacity import WORK, beats, knows, to

_number = count(1)
LONG: dict[str, Any] = {"timeouts": {"total_ms": 20_000}}


def numbered(**fields: Any) -> dict[str, Any]:
    """A message whose id is greater than those of all before it: that decides between messages of one millisecond."""
    return to(WORK, msg_id=str(uuid.UUID(int=next(_number))), **LONG | fields)


async def waits(spine: Spine, made: dict[str, Any]) -> str:
    """It is sent, and stands in a queue."""
    msg_id = await spine.send(made)

    async def stands() -> bool:
        record = await spine.backend.inspect(0, msg_id)
        return record is not None and record.legs[0].state is LegState.WAITING and bool(record.legs[0].rooms)

    await until(stands, f"{msg_id} in its queue")
    return msg_id


async def taken(spine: Spine, agent: str = "work-1") -> tuple[str, str]:
    """The next message that the agent takes, by the step of that name: its id and hand."""

    async def take() -> Sequence[Taken]:
        return (await spine.backend.take(0, agent, f"{agent}.1", 1)).taken

    (one,) = await until(take, f"work for {agent}")
    return one.msg_id, one.hand


async def begun(spine: Spine, agent: str = "work-1") -> tuple[str, str]:
    """The agent has got the next message: its id and hand."""
    hand, fields = await spine.work(agent, within_s=5.0)
    return fields[b"m"].decode(), hand


@pytest.mark.parametrize("bound", [0, 1, 2])
async def test_newcomers_do_not_pass_who_waits_for_room(spine: Spine, bound: int) -> None:
    await knows(spine, "work-1", work=b'{"max_inbox":%d}' % bound)
    sent, running = [await spine.send(numbered())], await taken(spine)
    for lies in range(-(-bound // 2)):  # as much as the share of one sender
        sent.append(await spine.send(numbered()))
        await until(partial(_lie, spine, lies + 2), "what lies before them")
    sent += [await waits(spine, numbered()) for _ in range(5)]
    served = [running[0]]
    for _ in range(8):
        sent.append(await spine.send(numbered()))
        await spine.settle(*running, {"status": "success"})
        sent.append(await spine.send(numbered()))
        running = await taken(spine)
        served.append(running[0])
    while len(served) < len(sent):
        await spine.settle(*running, {"status": "success"})
        running = await taken(spine)
        served.append(running[0])
    await spine.settle(*running, {"status": "success"})
    assert served == sent
    assert {(await spine.receipt(msg_id))["code"] for msg_id in sent} == {"ok"}


async def _lie(spine: Spine, count: int) -> bool:
    return len(await spine.place.entries(KEYS.inbox(0, "work-1", "normal"))) == count


async def test_who_waits_is_served_at_once_and_not_when_it_would_have_looked_again(spine: Spine) -> None:
    await knows(spine, "work-1", work=b'{"max_inbox":0}')
    await spine.send(numbered())
    running = await begun(spine)
    waiting = await waits(spine, numbered())
    await until(lambda: _sleeps_ms(spine, waiting, 1_500), "a wait of two seconds", within_s=8.0)
    await spine.settle(*running, {"status": "success"})
    msg_id, hand = await begun(spine)
    assert msg_id == waiting
    record = await spine.backend.inspect(0, waiting)
    assert record is not None
    assert record.legs[0].until_ms < record.now_ms
    await spine.settle(msg_id, hand, {"status": "success"})
    await spine.receipt(waiting)


async def _sleeps_ms(spine: Spine, msg_id: str, least_ms: int) -> bool:
    record = await spine.backend.inspect(0, msg_id)
    return record is not None and record.legs[0].until_ms - record.now_ms >= least_ms


async def test_room_that_comes_anywhere_is_taken_by_the_oldest(spine: Spine) -> None:
    agents = [f"work-{n}" for n in range(1, 7)]
    await knows(spine, *agents, work=b'{"max_inbox":0}')
    sent = [await spine.send(numbered()) for _ in agents]
    running = {agent: await begun(spine, agent) for agent in agents}
    waiting = [await waits(spine, numbered()) for _ in range(3)]
    for agent, oldest in zip(("work-6", "work-1", "work-3"), waiting, strict=True):
        sent.append(await spine.send(numbered()))
        await spine.settle(*running[agent], {"status": "success"})
        running[agent] = await begun(spine, agent)
        assert running[agent][0] == oldest
    for agent in agents:
        await spine.settle(*running[agent], {"status": "success"})
    for _ in range(3):
        await until(lambda: _settled_somewhere(spine, agents), "the last ones")
    assert {(await spine.receipt(msg_id))["code"] for msg_id in sent} == {"ok"}


async def _settled_somewhere(spine: Spine, agents: list[str]) -> bool:
    for agent in agents:
        for hand in await spine.place.read_plain(KEYS.inbox(0, agent, "normal"), "agent", f"{agent}.1"):
            fields = dict(await spine.place.entries(KEYS.inbox(0, agent, "normal")))[hand]
            await spine.settle(fields[b"m"].decode(), hand, {"status": "success"})
            return True
    return False


async def test_more_slots_are_used_by_who_waits(spine: Spine) -> None:
    await knows(spine, "work-1", work=b'{"max_inbox":0}')
    await beats(spine, "work-1", avg_response_ms=3_000.0)
    await spine.send(numbered())
    first = await begun(spine)
    waiting = [await waits(spine, numbered()) for _ in range(2)]
    await knows(spine, "work-2")
    second = await begun(spine, "work-2")
    assert second[0] in waiting
    await spine.settle(*first, {"status": "success"})
    third = await begun(spine)
    assert {second[0], third[0]} == set(waiting)
    for running in (second, third):
        await spine.settle(*running, {"status": "success"})
        await spine.receipt(running[0])
