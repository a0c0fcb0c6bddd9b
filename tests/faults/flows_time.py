"""What time does: lost, overdue and late work, moves, deadlines; the registrar's plain entries; the reaper."""

import json

from tests.contract.places import KEYS
from tests.faults.crash_world import CrashWorld
from tests.faults.flows import answered, control, everybody, flow, lies, plain_agent, register_plainly

INBOX = KEYS.inbox(0, "p1", "normal")


async def holder_is_dead(world: CrashWorld) -> None:
    """a1 has died with a message 14 s ago, a2 is free."""
    await everybody(world)
    world.ask({"do": "hang once"})
    await world.until(lambda: world.history.runs, "a start")
    await world.agent("a2")
    world.heirs.pop("a1")
    world.processes["a1"].die()
    await world.advance(14_000)


@flow("router a2", "ok timeout.total", before=holder_is_dead)
async def takeover(world: CrashWorld) -> None:
    await answered(world)


@flow("client router a1", "timeout.total", before=everybody)
async def total_is_over(world: CrashWorld) -> None:
    """The ledger ends it, at the caller's wish or by itself: the same answer, once."""
    world.ask({"do": "hang"}, timeout=2)
    await answered(world)


@flow("router", "ttl.expired", before=plain_agent)
async def ttl_is_over(world: CrashWorld) -> None:
    """Nobody takes it in time."""
    world.ask({"do": "ok"}, "agent_id:p1", ttl=1.5)
    await answered(world)


async def hangs_for_14_s(world: CrashWorld) -> None:
    await everybody(world)
    world.ask({"do": "hang"}, max_attempts=1)
    await world.advance(14_000)


@flow("router a1", "timeout.processing agent.lost", before=hangs_for_14_s, dead_letters=1)
async def processing_is_over(world: CrashWorld) -> None:
    """No sign of life of the handler for 15 s: the agent ends it, or the ledger does."""
    await answered(world)


async def queued_at_p1(world: CrashWorld) -> None:
    await plain_agent(world)
    world.ask({"do": "ok"})
    await world.until(lambda: lies(world, INBOX), "the message in the inbox")
    await world.agent("a1")


@flow("router a1", before=queued_at_p1)
async def move(world: CrashWorld) -> None:
    """Nobody reads that inbox, and another agent has a free slot."""
    await answered(world)


@flow("router", before=everybody)
async def registrar(world: CrashWorld) -> None:
    """Plain entries: register, change, cancel, leave; each is handled, and answered."""
    await register_plainly(world)
    capabilities = [{"name": "work"}, {"name": "more"}]
    await control(world, "capabilities", capabilities=capabilities, accepts=[{"type": "request"}])
    await world.until(lambda: _declares(world, "more"), "the new declaration")
    call = world.ask({"do": "ok"}, "capability:more")
    await world.until(lambda: lies(world, INBOX), "the message in the inbox")
    msg_id = next(iter(world.history.accepted))
    await world.place.append(KEYS.control(), {"c": json.dumps(_cancel(world, msg_id)).encode()})
    await world.until(lambda: call.over, "the answer")
    await control(world, "leave")
    await world.until(lambda: _has_left(world), "its leave")
    assert call.codes == ["cancelled"]
    world.calls.clear()


def _cancel(world: CrashWorld, msg_id: str) -> dict[str, object]:
    return {"op": "cancel", "reply_to": world.mailbox, "msg_id": msg_id, "source": "client"}


async def _declares(world: CrashWorld, capability: str) -> bool:
    return capability in str(await world.registered("p1"))


async def _has_left(world: CrashWorld) -> bool:
    return not await world.knows("p1")


async def silent_for_29_s(world: CrashWorld) -> None:
    """p1 has never beaten, and a message lies in its inbox."""
    await plain_agent(world)
    await world.advance(14_000)
    world.ask({"do": "ok"}, "agent_id:p1", timeout=25, ttl=25)
    await world.until(lambda: lies(world, INBOX), "the message in the inbox")
    await world.advance(15_000)


@flow("router", "route.no_candidate agent.lost timeout.total route.not_found", before=silent_for_29_s)
async def reaper(world: CrashWorld) -> None:
    """It is removed, and what lay there comes back to a router; another reaper goes on where one died."""
    await world.until(lambda: _has_left(world), "its removal")


@flow("router a1 client", "ok", before=everybody)
async def nothing_to_do(world: CrashWorld) -> None:
    """Everybody waits for 5.5 s: beats, renewals of mailboxes, looks at what is due."""
    await world.advance(5_500)
    world.ask({"do": "ok"})
    await answered(world)
