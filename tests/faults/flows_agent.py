"""What an agent does: register, take, settle, renew, change what it declares, drain, leave."""

import msgspec

from reach.backend.steps import Turn
from reach.delivery.spending import millionths
from tests.faults.crash_world import CrashWorld
from tests.faults.flows import answered, everybody, flow, nobody_works
from tests.faults.handlers import PRICE, make_handler


@flow("a1 router", before=nobody_works)
async def register(world: CrashWorld) -> None:
    """A message waits for somebody who offers it; an agent comes."""
    world.ask({"do": "ok"})
    await world.settle()
    await world.agent("a1", armed=True)
    await answered(world)


@flow("a1 router", "ok route.not_found error.unknown_type", before=everybody)
async def declare(world: CrashWorld) -> None:
    """A running agent learns something new; the instance that comes after a dead one learns it too."""
    world.heirs["a1"] = lambda: _reborn(world)
    world.ask({"do": "ok"}, "capability:more")
    _learn(world)
    await answered(world)


def _learn(world: CrashWorld) -> None:
    process = world.processes["a1"]
    process.spawn(world.declared["a1"].add_capability("more", make_handler(process, world.history)))


async def _reborn(world: CrashWorld) -> None:
    """Its dead forerunner may have declared more: until that one is silent for 15 s that is a conflict, and it is started again."""
    while not world.declared["a1"].instances or world.processes["a1"].dead:
        await world.agent("a1")
        await world.advance(1_000)
    _learn(world)


@flow("a1", before=everybody)
async def renew(world: CrashWorld) -> None:
    """A handler that works for 12 s keeps its message: only its death costs an attempt."""
    world.ask({"do": "sleep", "ms": 12_000})
    await answered(world)


@flow("a1", before=everybody)
async def take_again(world: CrashWorld) -> None:
    """The reply of a take is lost: the next one names what is held, and meets one more fault."""
    world.processes["a1"].planned["take"] = "lost"
    world.ask({"do": "ok"})
    await answered(world)


@flow("a1", before=everybody)
async def settle_again(world: CrashWorld) -> None:
    """The same for an answer that was written, and is written again."""
    world.processes["a1"].planned["settle"] = "lost"
    world.ask({"do": "ok"})
    await answered(world)


@flow("a1", "ok", before=everybody)
async def child(world: CrashWorld) -> None:
    """A handler asks somebody else, and dies or loses replies on the way."""
    await world.agent("a2")
    world.ask({"do": "ask", "target": "agent_id:a2", "body": {"do": "ok"}}, "agent_id:a1")
    await answered(world)


@flow("a1 router", before=everybody)
async def effect(world: CrashWorld) -> None:
    """A guarded effect, then an error, then the next run: made again only where its maker died or slept before it was written down."""
    world.ask({"do": "effect"})
    await answered(world)
    gone = sum(process.name == "a1" and (process.dead or process.froze) for process in world.all)
    assert 1 <= len(world.history.effects) <= 1 + gone, f"{len(world.history.effects)} effects"


@flow("a1 router client", before=everybody)
async def spend(world: CrashWorld) -> None:
    """A conversation with a budget: its message is counted once, and of what its runs cost nothing twice."""
    world.ask({"do": "pay"}, correlation_id="conv", budget={"hops": 0, "cost": 100.0})
    await answered(world)
    probe = Turn(conversation="conv", msg_id="probe")
    asked = [msgspec.structs.replace(probe, max_hops=0), msgspec.structs.replace(probe, max_cost=0)]
    hops, cost = await world.stage.eye.converse(asked, 0, 0)
    assert hops.spent == len(world.history.accepted) <= 1, hops
    assert cost.spent % millionths(PRICE) == 0, cost
    assert cost.spent <= millionths(PRICE) * len(world.history.runs), cost
    if not any(process.dead or process.froze for process in world.all):
        assert cost.spent == millionths(PRICE), cost


@flow("a1 router client", before=everybody)
async def question(world: CrashWorld) -> None:
    """A handler asks, and its caller answers; a caller that died asks again with the same key, and is asked again."""
    world.heirs["client"] = lambda: _asks_again(world)
    _ask_with_an_answer(world)
    await answered(world)
    gone = sum(process.name == "a1" and (process.dead or process.froze) for process in world.all)
    assert 1 <= len(world.history.effects) <= 1 + gone, f"{len(world.history.effects)} effects"


async def _asks_again(world: CrashWorld) -> None:
    await world.client()
    _ask_with_an_answer(world)


def _ask_with_an_answer(world: CrashWorld) -> None:
    async def yes(_: object) -> str:
        return "yes"

    world.ask({"do": "question"}, key="order-1", on_input=yes)


async def something_runs_at_a1(world: CrashWorld) -> None:
    await everybody(world)
    world.ask({"do": "sleep", "ms": 500})
    await world.until(lambda: world.history.runs, "a start")
    await world.agent("a2")


@flow("a1 a2 router", before=something_runs_at_a1)
async def drain(world: CrashWorld) -> None:
    """An agent stops while a handler runs: the message is handed back, and goes on elsewhere."""
    world.heirs.pop("a1")
    world.processes["a1"].spawn(world.agents["a1"].stop(0))
    await answered(world)


@flow("a1 router", "", before=everybody)
async def leave(world: CrashWorld) -> None:
    """An agent that is idle goes: in the end nothing of it is left, whoever died on the way."""
    world.heirs.pop("a1")
    world.processes["a1"].spawn(world.agents["a1"].stop(0))
    await world.until(lambda: _is_gone(world), "the end of its registration")


async def _is_gone(world: CrashWorld) -> bool:
    inboxes = [key for key in await world.place.keys() if ":inbox:a1:" in key]
    return not inboxes and not await world.knows("a1")
