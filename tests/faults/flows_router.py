"""What a router does: read, route, again, settle on behalf, claim, recover."""

import json

from reach.backend.steps import Settlement
from tests.contract.drive import success
from tests.contract.places import KEYS
from tests.faults.crash_world import CrashWorld
from tests.faults.flows import answered, everybody, flow, lies, nobody_works, plain_agent, quiet, two_agents


@flow("router a1 a2 client", before=two_agents)
async def retry(world: CrashWorld) -> None:
    """The first run fails; it waits, and another agent runs it."""
    world.ask({"do": "fail once"})
    await answered(world)


@flow("router a1", before=everybody)
async def retry_after(world: CrashWorld) -> None:
    world.ask({"do": "wait once"})
    await answered(world)


async def one_at_a_time(world: CrashWorld) -> None:
    """An agent that takes six messages a minute, and has taken five."""
    await world.router()
    await world.agent("a1", rate_limit=6)
    await world.client()
    for _ in range(5):
        world.ask({"do": "ok"})
    await answered(world)


@flow("router", before=one_at_a_time)
async def over_the_rate_limit(world: CrashWorld) -> None:
    """One is paid for, the other waits for its turn; a router that dies with what it has paid for makes both wait longer, and no more."""
    for _ in range(2):
        world.ask({"do": "ok"}, timeout=120, ttl=120)
    await answered(world)


async def fresh_eyes(world: CrashWorld) -> None:
    """Who has met whom is written down; a router that dies before it is has lost that, and nothing else."""
    await world.choose("capability:work", "fresh_eyes")
    await two_agents(world)


@flow("router a1 a2", before=fresh_eyes)
async def somebody_else_each_time(world: CrashWorld) -> None:
    world.ask({"do": "fail once"})
    await answered(world)
    world.ask({"do": "ok"})
    await answered(world)


async def one_open(world: CrashWorld) -> None:
    """Only one message may be open."""
    await world.allow("max_inflight", 1)
    await everybody(world)


@flow("router a1", before=one_open)
async def one_after_the_other(world: CrashWorld) -> None:
    """Whoever dies in between, what has ended counts no more: the next one is let in."""
    for _ in range(2):
        world.ask({"do": "ok"})
        await answered(world)


@flow("router a1", "handler.error agent.lost", before=everybody, dead_letters=1)
async def attempts_run_out(world: CrashWorld) -> None:
    """One dead letter, however often the step that writes it is repeated."""
    world.ask({"do": "fail"}, max_attempts=1)
    await answered(world)


@flow("router a1", "handler.rejected", before=everybody)
async def rejected(world: CrashWorld) -> None:
    world.ask({"do": "reject"})
    await answered(world)


async def refused_once(world: CrashWorld) -> None:
    told = list(world.history.slots().values())
    assert told == [1], told


@flow("router", "", before=nobody_works, after=refused_once)
async def refused(world: CrashWorld) -> None:
    """What is no envelope is answered once, and kept nowhere."""
    data = b'{"msg_id":"0192f0c1-4c5e-7b1a-9d2e-1a2b3c4d5e6f","reply_to":"%s",' % world.mailbox.encode()
    await world.place.append(KEYS.ingress(0, "normal"), {"e": data})
    await quiet(world)


@flow("router", "route.not_found", before=nobody_works)
async def nobody_comes(world: CrashWorld) -> None:
    """It waits network_ms for somebody who offers it, and ends."""
    world.ask({"do": "ok"})
    await answered(world)


@flow("router", "ok", before=plain_agent)
async def receipts_on_behalf(world: CrashWorld) -> None:
    """An agent without scripts reads its inbox and appends a receipt; a router settles it."""
    world.ask({"do": "ok"}, "agent_id:p1")
    key = KEYS.inbox(0, "p1", "normal")
    await world.until(lambda: lies(world, key), "the message in the inbox")
    (hand,) = await world.place.read_plain(key, "agent", "p1.1")
    msg_id = next(iter(world.history.accepted))
    receipt = json.dumps({"status": "success", "output": 1}).encode()
    for _ in range(2):  # it is not sure that the first one came through
        entry = {"m": msg_id.encode(), "l": b"0", "h": hand.encode(), "r": receipt}
        await world.place.append(KEYS.receipts(0), entry)
    await answered(world)


@flow("router", "ok", before=plain_agent)
async def told_by_scripts(world: CrashWorld) -> None:
    """An agent settles by the script and records nothing, and a sender cancels: a router is told of both, and that too may be its end."""
    world.ask({"do": "ok"}, "agent_id:p1")
    key = KEYS.inbox(0, "p1", "normal")
    await world.until(lambda: lies(world, key), "the message in the inbox")
    (hand,) = await world.place.read_plain(key, "agent", "p1.1")
    msg_id = next(iter(world.history.accepted))
    settlement = Settlement(msg_id, 0, hand, success(), records=False)
    assert await world.stage.backend().settle(0, "p1", [settlement]) == ["done"]
    await answered(world)
    handle = await world.clients["client"].send("agent_id:p1", {"do": "ok"})
    await world.until(lambda: lies(world, key), "the next message in the inbox")
    assert await handle.cancel()
    await quiet(world)


async def read_and_died(world: CrashWorld) -> None:
    """A router has read a message, and is dead."""
    await everybody(world)
    router = world.processes["router"]
    router.planned["read_work"] = "after"
    world.ask({"do": "ok"})
    world.heirs.pop("router")
    await world.until(lambda: router.dead, "the death of the router")
    world.forget(router)


@flow("router", before=read_and_died)
async def claim(world: CrashWorld) -> None:
    """Another router claims after 5 s what one has read and left; it may die of it too."""
    await world.router(armed=True)
    await answered(world)


@flow("router", before=everybody)
async def recover(world: CrashWorld) -> None:
    """A read's reply is lost: the router begins again with what is pending to it, and meets one more fault."""
    world.processes["router"].planned["read_work"] = "lost"
    world.ask({"do": "fail once"})
    await answered(world)


@flow("router", before=everybody)
async def recover_what_returned(world: CrashWorld) -> None:
    """The same for the internal door."""
    world.ask({"do": "wait once"})
    await world.until(lambda: world.history.runs, "the first run")
    world.processes["router"].planned["read_work"] = "lost"
    await answered(world)
