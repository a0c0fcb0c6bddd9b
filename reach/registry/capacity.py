"""How many instances each capability wants, for those who ask: people, autoscalers, metrics."""

import msgspec

from reach.backend.port import Backend
from reach.routing.wanted import RESULT, read_result


class Capacity(msgspec.Struct, frozen=True, kw_only=True):
    """One capability: what is asked of it over all routers, and how many instances it wants.

    Attributes:
        capability: Its name.
        agents: How many offer it and live.
        instances: Their processes.
        slots: How many messages those run at once.
        inflight: How many run; of agents that offer several capabilities in proportion to what comes for each.
        backlog: How many lie in inboxes and are not begun; the same.
        waiting: How many find nobody.
        arrivals_per_s: How many come in a second, over the last 30 s.
        wanted: How many instances are wanted.
    """

    capability: str
    agents: int
    instances: int
    slots: int
    inflight: float
    backlog: int
    waiting: float
    arrivals_per_s: float
    wanted: int


async def read_capacity(backend: Backend) -> tuple[list[Capacity], int]:
    """All capabilities that anything was asked of within the last minutes, by name, and of which moment that is (ms; 0 = never told).

    Raises:
        BackendError: It cannot be read.
    """
    result = read_result((await backend.read_demand()).get(RESULT, b""))
    return [
        Capacity(
            capability=line.capability,
            agents=line.demand.agents,
            instances=line.demand.instances,
            slots=line.demand.slots,
            inflight=line.demand.inflight,
            backlog=line.demand.backlog,
            waiting=line.demand.waiting,
            arrivals_per_s=line.demand.arrivals_per_s,
            wanted=line.wanted.instances,
        )
        for line in result.lines
    ], result.at_ms
