"""Every process dies before and after each of its steps, and loses each reply, in every flow: complete, not sampled.

A flow is run once to record its steps; then once for each of (process, step, before | after | reply lost), each time to its end.
"""

import inspect
import logging
from collections.abc import Callable, Iterator

import pytest

from reach.backend.port import Backend
from reach.backend.private_server import PrivateServer
from tests.faults import (
    flows_agent,
    flows_circuit,
    flows_client,
    flows_lines,
    flows_rooms,
    flows_router,
    flows_stages,
    flows_time,
)
from tests.faults.crash_world import CrashWorld
from tests.faults.flows import FLOWS, Flow
from tests.faults.process import HOWS, Fault, How
from tests.faults.stages import MemoryStage, RedisStage, Stage

__all__ = [
    "flows_agent",
    "flows_circuit",
    "flows_client",
    "flows_lines",
    "flows_rooms",
    "flows_router",
    "flows_stages",
    "flows_time",
]

Record = Callable[[str, object], None]


@pytest.fixture(autouse=True)
def no_log() -> Iterator[None]:
    """Hundreds of processes die here, each with a word."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


async def run(
    flow: Flow, target: str = "", fault: Fault | None = None, make: Callable[[], Stage] = MemoryStage
) -> CrashWorld:
    """One run of a flow, to its end and a bit further."""
    async with CrashWorld(target=target, fault=fault, stage=make()) as world:
        await flow.before(world)
        world.arm()
        await flow.during(world)
        await world.finish()
        if flow.after is not None:
            await flow.after(world)
        if flow.dead_letters >= 0:
            assert await world.dead_letters() == flow.dead_letters
        world.told = {code for call in world.calls for code in call.codes}  # before all of them end with the world
    return world


@pytest.mark.parametrize("name", sorted(FLOWS))
async def test_every_crash_point(name: str, record_property: Record) -> None:
    await enumerate_points(FLOWS[name], MemoryStage, "memory", record_property, HOWS)


#: the flows in which most of the scripts run, for every run of the suite; the others are `long`
BY_SCRIPTS = ("request",)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in BY_SCRIPTS else pytest.mark.long) for name in sorted(FLOWS)]
)
async def test_every_crash_point_on_a_server(
    name: str, engine: str, server: PrivateServer, record_property: Record
) -> None:
    await enumerate_points(FLOWS[name], lambda: RedisStage(server.url), engine, record_property, HOWS)


async def enumerate_points(
    flow: Flow, make: Callable[[], Stage], kind: str, record_property: Record, hows: tuple[How, ...]
) -> None:
    """Run it once, then once for each point."""
    calm = await run(flow, make=make)
    assert calm.told <= flow.codes, calm.told
    assert not calm.told or flow.usual in calm.told, calm.told
    points: dict[str, int] = {}
    failures = []
    for target in flow.of:
        steps = next((one.steps for one in calm.all if one.name == target and one.steps), [])
        assert steps, f"{target} has no steps"
        for index, step in enumerate(steps):
            for how in hows:
                problem = await _problem(flow, target, Fault(index, how), make)
                points[target] = points.get(target, 0) + 1
                if problem:
                    failures.append(f"{flow.name}: {target} step {index} {step}, {how}: {problem}")
    record_property("crash points", (kind, flow.name, points))
    assert not failures, f"{len(failures)} of {sum(points.values())}:\n" + "\n".join(failures)


#: written by admins, or read by people: no flow of a message depends on them; `waiting` only orders what `take` takes of several partitions
NOT_IN_A_FLOW = {"waiting", "worker_silence_ms", "dead_letters", "read_events", "record", "set_meta", "now_ms"}
NOT_IN_A_FLOW |= {"swap_meta"}
NOT_IN_A_FLOW |= {"write_schema", "read_schemas", "read_families", "read_policies", "read_meta", "written"}
NOT_IN_A_FLOW |= {
    "follow_events",
    "finish_events",
    "unfollow_events",
    "tell_recorder",
    "silent_recorders",
    "forget_recorder",
    "lying",
    "peers",
    "depths",
    "used_in",
}  # archivers, counts, who vouches, whose records may be missing


async def test_every_step_of_the_port_is_a_crash_point() -> None:
    """A step that no flow makes would be a hole in the enumeration."""
    made: set[str] = set()
    for flow in FLOWS.values():
        world = await run(flow)
        made |= {step.rpartition(".")[2] for one in world.all if one.name in flow.of for step in one.steps}
    steps = {name for name, _ in inspect.getmembers(Backend, inspect.iscoroutinefunction)} - {"close"}
    assert steps - made <= NOT_IN_A_FLOW, sorted(steps - made - NOT_IN_A_FLOW)


async def _problem(flow: Flow, target: str, fault: Fault, make: Callable[[], Stage]) -> str:
    try:
        world = await run(flow, target, fault, make)
    except AssertionError as error:
        return str(error) or repr(error)
    if not world.told <= flow.codes:
        return f"a caller was told {sorted(world.told - flow.codes)}"
    return "" if any(one.met for one in world.all) else "the fault was not met"
