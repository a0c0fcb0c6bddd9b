"""Whether there is room at an agent."""

from collections.abc import Callable
from typing import Literal, NamedTuple

from reach.backend.memory_backend.health import shut_ms
from reach.backend.memory_backend.holding import is_behind
from reach.backend.memory_backend.partition import Partition
from reach.backend.memory_backend.sharing import lying_with, share_taken
from reach.backend.memory_backend.store import MessageRecord
from reach.backend.memory_backend.waking import key_of, member, queue_of
from reach.backend.steps import Plan
from reach.envelope.ledger import Head

#: above every moment
_LANE = {"high": 0, "normal": 1 << 42, "low": 1 << 43}


class Filled(NamedTuple):
    """A bound that leaves no room: its queue, what is told of it, and how many stand there before this one."""

    name: str
    told: Literal["", "agent", "share"]
    before: int


class Obstacle(NamedTuple):
    """Why a plan cannot be carried out; "" = it can. `filled`: of `full`, the bound."""

    why: Literal["", "gone", "full", "open"] = ""
    told: str = ""
    filled: Filled | None = None


NOTHING = Obstacle()
NO_BOUND = 1 << 53


def place_in_line(part: Partition, head: Head) -> int:
    """Where a message stands among those that wait."""
    return _LANE[head.lane] + (head.accepted_at_ms or part.now_ms)


def filled(
    part: Partition, record: MessageRecord, plan: Plan, before: Callable[[str], int] = lambda _: 0
) -> Filled | int:
    """Which bound leaves no room, with so many before it in each queue; else for how many there is some."""
    head, agent, left = record.head, plan.agent, NO_BOUND
    if plan.max_agent > 0:
        count = before(name := f"{agent}:all")
        left = plan.max_agent - lying_with(part, agent) - count
        if left <= 0:
            return Filled(name, "agent", count)
    if plan.max_inbox > 0:
        count = before(name := f"{agent}:{head.lane}")
        left = min(left, plan.max_inbox - part.untaken(agent, head.lane) - count)
        if left <= 0:
            return Filled(name, "", count)
    if plan.max_inbox > 0:
        count = before(name := f"{agent}:of:{head.sender}")
        if share_taken(part, head, agent, (plan.max_inbox + 1) // 2 - count):
            return Filled(name, "share", count)
    return left


def obstacle(part: Partition, msg_id: str, record: MessageRecord, plan: Plan, number: int = 0) -> Obstacle:
    """Why the plan cannot be carried out, looked at before anything is written (but for a group that was lost).

    full: with "share" where the inbox is so only for this sender, "agent" where the agent has as much as it may. Who waits counts as if
    it lay there. open: with the ms for which the circuit is.
    """
    if plan.act not in {"deliver", "move"} or (plan.act == "deliver" and is_behind(part, msg_id, record)):
        return NOTHING
    head, agent = record.head, plan.agent
    if part.inbox(agent, head.lane) is None or not part.make_readable(agent, head.lane):
        return Obstacle("gone")

    def before(name: str) -> int:
        queue, mine = queue_of(part, name), member(msg_id, number)
        leg = record.legs.get(number)
        if leg is not None and leg.rooms and mine in queue:
            return queue.ranked().index(mine)
        at = place_in_line(part, head)
        return sum(score <= at for score in queue.values())

    bounds = (head.lane, "all", f"of:{head.sender}")
    some = any(part.store.exists(key_of(part, f"{agent}:{bound}")) for bound in bounds)
    found = filled(part, record, plan, before) if some else filled(part, record, plan)
    if isinstance(found, Filled):
        return Obstacle("full", found.told, found)
    wait_ms = shut_ms(part, agent)
    return Obstacle("open", str(wait_ms)) if wait_ms else NOTHING
