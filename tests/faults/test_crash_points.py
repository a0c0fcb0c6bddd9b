"""Every process dies before and after each of its steps, and loses each reply, in every flow: complete, not sampled.

A flow is run once to record its steps; then once for each of (process, step, before | after | reply lost), each time to its end.
"""

import inspect
import logging
from collections.abc import Callable, Iterator

import pytest

from reach.backend.port import Backend
from tests.faults import flows_agent, flows_client, flows_router, flows_time
from tests.faults.crash_world import CrashWorld
from tests.faults.flows import FLOWS, Flow
from tests.faults.process import HOWS, Fault

__all__ = ["flows_agent", "flows_client", "flows_router", "flows_time"]

Record = Callable[[str, object], None]


@pytest.fixture(autouse=True)
def no_log() -> Iterator[None]:
    """Hundreds of processes die here, each with a word."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


async def run(flow: Flow, target: str = "", fault: Fault | None = None) -> CrashWorld:
    """One run of a flow, to its end and a bit further."""
    async with CrashWorld(target=target, fault=fault) as world:
        await flow.before(world)
        world.arm()
        await flow.during(world)
        await world.finish()
        if flow.after is not None:
            await flow.after(world)
        if flow.dead_letters >= 0:
            assert await world.dead_letters() == flow.dead_letters
    return world


def codes_of(world: CrashWorld) -> set[str]:
    return {code for call in world.calls for code in call.codes}


@pytest.mark.parametrize("name", sorted(FLOWS))
async def test_every_crash_point(name: str, record_property: Record) -> None:
    flow = FLOWS[name]
    calm = await run(flow)
    assert codes_of(calm) <= {flow.usual}, codes_of(calm)
    points: dict[str, int] = {}
    failures = []
    for target in flow.of:
        steps = next((one.steps for one in calm.all if one.name == target and one.steps), [])
        assert steps, f"{target} has no steps"
        for index, step in enumerate(steps):
            for how in HOWS:
                where = f"{name}: {target} step {index} {step}, {how}"
                problem = await _problem(flow, target, Fault(index, how))
                points[target] = points.get(target, 0) + 1
                if problem:
                    failures.append(f"{where}: {problem}")
    record_property("crash points", ("memory", name, points))
    assert not failures, f"{len(failures)} of {sum(points.values())}:\n" + "\n".join(failures)


#: written by admins, or read by people: no flow of a message depends on them
NOT_IN_A_FLOW = {"dead_letters", "read_events", "record", "set_meta", "now_ms"}


async def test_every_step_of_the_port_is_a_crash_point() -> None:
    """A step that no flow makes would be a hole in the enumeration."""
    made: set[str] = set()
    for flow in FLOWS.values():
        world = await run(flow)
        made |= {step.rpartition(".")[2] for one in world.all if one.name in flow.of for step in one.steps}
    steps = {name for name, value in vars(Backend).items() if inspect.iscoroutinefunction(value)} - {"close"}
    assert steps - made <= NOT_IN_A_FLOW, sorted(steps - made - NOT_IN_A_FLOW)


async def _problem(flow: Flow, target: str, fault: Fault) -> str:
    try:
        world = await run(flow, target, fault)
    except AssertionError as error:
        return str(error) or repr(error)
    told: set[str] = codes_of(world)
    if not told <= flow.codes:
        return f"a caller was told {sorted(told - flow.codes)}"
    return "" if any(one.met for one in world.all) else "the fault was not met"
