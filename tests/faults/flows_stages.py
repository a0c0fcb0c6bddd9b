"""A broadcast in stages: whoever dies on the way, no stage begins before the one before it has ended well, and each leg has one receipt."""

from typing import Any

from reach.errors import BackendUnavailable
from reach.sdk.receipts import Receipts
from tests.faults.crash_world import CrashWorld
from tests.faults.flows import answered, flow, two_agents
from tests.faults.flows_lines import heard

ORDER: dict[str, Any] = {"scope": "all", "process_order": [["agent_id:a1"], ["agent_id:a2"]], "timeout": 90, "ttl": 90}


async def three_agents(world: CrashWorld) -> None:
    """a1 and a2 have their stages, o1 only observes."""
    await two_agents(world)
    await world.agent("o1")


async def in_stages(world: CrashWorld) -> None:
    """Nobody of the first stage begins a run when the second has begun, and who only observes runs nothing."""
    runs = [name for _, name in world.history.runs]
    assert runs == sorted(runs), runs
    assert "o1" not in runs


def ask(world: CrashWorld, do: str) -> None:
    world.ask({"do": do}, **ORDER)


@flow("client router a1 a2 o1", before=three_agents, after=in_stages)
async def stages(world: CrashWorld) -> None:
    ask(world, "ok")
    await answered(world)


@flow("router a1", before=two_agents, after=in_stages)
async def stages_with_a_retry(world: CrashWorld) -> None:
    """The second stage waits for the run that comes after."""
    ask(world, "fail once")
    await answered(world)


@flow("router a1", "handler.rejected stage.failed", before=three_agents, after=in_stages)
async def stages_of_which_the_first_fails(world: CrashWorld) -> None:
    ask(world, "reject")
    await answered(world)


async def the_first_stage_hangs(world: CrashWorld) -> None:
    await three_agents(world)
    soon = {**ORDER, "timeout": 18, "ttl": 18}
    run = world.clients["client"].send("capability:work", {"do": "hang"}, **soon)
    sending = world.processes["client"].spawn(run)
    await world.until(sending.done, "the send")
    await world.until(lambda: world.history.runs, "the start of the first stage")


@flow("client router a1", "", before=the_first_stage_hangs, after=in_stages)
async def cancel_stages(world: CrashWorld) -> None:
    """Held legs too; where the caller dies before, they end by their total. Nobody of the second stage ever runs."""
    (msg_id,) = world.history.accepted

    async def cancel() -> object:
        while True:
            try:
                await world.clients["client"].backend.cancel(0, msg_id, "client", 1, 60_000)
                return Receipts([])
            except BackendUnavailable:
                continue  # it may or may not have been done: calling again is safe

    world.do("client", cancel())
    await answered(world)
    await heard(world)
    assert "a2" not in {name for _, name in world.history.runs}
