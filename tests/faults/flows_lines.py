"""Messages of one order_key: whoever dies on the way, they are handed over one after the other, and nothing of their line is left."""

from reach.errors import BackendUnavailable
from reach.sdk.receipts import Receipts
from tests.faults.crash_world import CrashWorld
from tests.faults.flows import answered, everybody, flow, two_agents

PATIENT = {"timeout": 90, "ttl": 90}


async def in_turn(world: CrashWorld) -> None:
    """Nobody was handed over when one that had been sent before it had not ended; a run that was fenced meanwhile does not count."""
    order = list(world.history.accepted)
    handed = [order.index(msg_id) for msg_id in world.history.handed]
    assert handed == sorted(handed), handed
    told = {code for call in world.calls for code in call.codes}
    assert told <= {"ok", "handler.rejected"}, told
    assert [key for key in await world.place.keys() if "}:line:" in key] == []


async def _send(world: CrashWorld, *what: str) -> object:
    """One after the other, each when the one before has its place, and all while the first runs; then wait for all."""
    reach = world.clients["client"]
    bodies = [{"do": "sleep", "ms": 300}, *({"do": do} for do in what)]
    handles = [await reach.send("capability:work", body, order_key="k", **PATIENT) for body in bodies]  # type: ignore[arg-type]
    return Receipts([await handle.receipt() for handle in handles])


def send(world: CrashWorld, *what: str) -> None:
    """A client does it; where it dies, what it has sent goes on."""
    world.do("client", _send(world, *what), total_ms=90_000)


@flow("client router a1 a2", before=two_agents, after=in_turn)
async def a_line(world: CrashWorld) -> None:
    send(world, "ok", "ok")
    await answered(world)


@flow("router a1 a2", before=two_agents, after=in_turn)
async def a_line_with_a_retry(world: CrashWorld) -> None:
    """The first keeps its place while it waits."""
    send(world, "fail once", "ok")
    await answered(world)


@flow("router a1", "ok handler.rejected", before=everybody, after=in_turn)
async def a_line_whose_first_is_rejected(world: CrashWorld) -> None:
    send(world, "reject", "ok")
    await answered(world)


async def heard(world: CrashWorld) -> None:
    """Wait until the client, where it lives, has heard of all that it has sent."""
    client = world.processes["client"]
    await world.until(lambda: client.dead or not world.clients["client"].outstanding, "all that was sent")


async def one_runs_and_one_is_held(world: CrashWorld) -> None:
    """a1 hangs with the first."""
    await everybody(world)
    for do, timeout in (("hang", 18), ("ok", 80)):
        run = world.clients["client"].send("capability:work", {"do": do}, order_key="k", timeout=timeout, ttl=80)
        sending = world.processes["client"].spawn(run)
        await world.until(sending.done, "its place in the line")
    await world.until(lambda: world.history.runs, "the start of the first")


@flow("client router a1", "", before=one_runs_and_one_is_held, after=in_turn)
async def cancel_the_first_of_a_line(world: CrashWorld) -> None:
    """The other is called by the cancel; where its caller dies before, the first ends by its total."""
    first = next(iter(world.history.accepted))

    async def cancel() -> object:
        while True:
            try:
                await world.clients["client"].backend.cancel(0, first, "client", 1, 60_000)
                return Receipts([])
            except BackendUnavailable:
                continue  # it may or may not have been done: calling again is safe

    world.do("client", cancel())
    await answered(world)
    await heard(world)


async def a_line_was_lost(world: CrashWorld) -> None:
    """The second has put itself back, and may not go yet."""
    await one_runs_and_one_is_held(world)
    (key,) = [key for key in await world.place.keys() if "}:line:" in key]
    await world.place.delete(key)
    await world.advance(20_500)


@flow("router", "", before=a_line_was_lost)
async def a_line_is_put_together_again(world: CrashWorld) -> None:
    """The second goes on in its turn, when a lease has passed and the first has ended."""
    first, second = world.history.accepted
    await world.until(lambda: second in world.history.handed, "the second in its turn")
    record = await world.look(first)
    assert record is not None
    assert record.legs[0].finished_at_ms > 0
    await heard(world)
