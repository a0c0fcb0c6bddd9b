"""What a client does: connect, request, send, cancel, close."""

from collections.abc import Awaitable, Callable

from reach.delivery.dead_letters import DeadLetter, DeadLetters
from reach.errors import BackendUnavailable
from tests.faults.crash_world import CrashWorld
from tests.faults.flows import answered, everybody, flow, nobody_works, two_agents


async def no_client(world: CrashWorld) -> None:
    await world.router()
    await world.agent("a1")


@flow("client", before=no_client)
async def connect(world: CrashWorld) -> None:
    """A client that could not connect, or died of it, connects again."""
    process = await world.client(armed=True)
    if process.dead or not world.connected():
        await world.client()
    world.ask({"do": "ok"})
    await answered(world)


@flow("client router a1", before=everybody)
async def request(world: CrashWorld) -> None:
    world.ask({"do": "ok"})
    await answered(world)


@flow("client router a1 a2", before=two_agents)
async def broadcast(world: CrashWorld) -> None:
    world.ask({"do": "ok"}, scope="all")
    await answered(world)


@flow("client router", before=everybody)
async def request_with_a_key(world: CrashWorld) -> None:
    """Whoever dies of it asks again with the same key: it runs once."""
    world.heirs["client"] = lambda: _again(world)
    world.ask({"do": "ok"}, key="order-1")
    await answered(world)


async def _again(world: CrashWorld) -> None:
    await world.client()
    world.ask({"do": "ok"}, key="order-1")


async def two_clients(world: CrashWorld) -> None:
    await everybody(world)
    await world.client("client-2")


@flow("router", before=everybody)
async def two_at_once_with_one_key(world: CrashWorld) -> None:
    world.ask({"do": "sleep", "ms": 50}, key="order-1")
    world.ask({"do": "sleep", "ms": 50}, key="order-1")
    await answered(world)
    assert len(world.history.accepted) == 1


async def ended_retryable(world: CrashWorld) -> None:
    await everybody(world)
    call = world.ask({"do": "fail once"}, key="order-1", max_attempts=1)
    await world.until(lambda: call.over, "the first round")
    world.calls.clear()


@flow("client router a1", "ok", before=ended_retryable, dead_letters=-1)
async def next_round(world: CrashWorld) -> None:
    """A key that ended retryable is asked for again: one receipt in each round."""
    world.ask({"do": "fail once"}, key="order-1", max_attempts=2)
    await answered(world)


@flow("client router a1", "", before=ended_retryable, dead_letters=-1)
async def requeue(world: CrashWorld) -> None:
    """A dead letter is sent once more, by somebody who dies on the way, and by the next one."""
    _administer(world, DeadLetters.requeue)
    await world.until(lambda: _runs_again(world), "the next round")


@flow("client", "", before=ended_retryable, dead_letters=0)
async def purge(world: CrashWorld) -> None:
    """A dead letter is thrown away, by somebody who dies on the way, and by the next one."""
    _administer(world, lambda letters, letter: letters.purge([letter]))
    await world.until(lambda: _no_letters(world), "the end of the letter")


def _administer(world: CrashWorld, act: Callable[[DeadLetters, DeadLetter], Awaitable[object]]) -> None:
    async def run() -> None:
        letters = world.clients["client"].dead_letters
        while True:
            try:
                async for letter in letters.list():
                    await act(letters, letter)
                return
            except BackendUnavailable:
                continue  # it may or may not have been done: that is what asking twice must be safe for

    async def another() -> None:
        await world.client()
        _administer(world, act)

    world.heirs["client"] = another
    world.processes["client"].spawn(run())


async def _no_letters(world: CrashWorld) -> bool:
    return not await world.dead_letters()


async def _runs_again(world: CrashWorld) -> bool:
    (msg_id,) = world.history.accepted
    record = await world.look(msg_id)
    return record is not None and record.head.round == 2


@flow("client router a1", before=everybody)
async def send_and_wait(world: CrashWorld) -> None:
    async def run() -> object:
        handle = await world.clients["client"].send("capability:work", {"do": "tell"})
        _ = [step async for step in handle.progress()]
        return await handle.receipt()

    world.do("client", run())
    await answered(world)


async def something_runs(world: CrashWorld) -> None:
    await everybody(world)
    await _send(world, {"do": "hang"}, "capability:work", timeout=12)
    await world.until(lambda: world.history.runs, "the start of the handler")


async def something_is_queued(world: CrashWorld) -> None:
    """For an agent that is registered and does not read."""
    await world.router()
    await world.agent("a1")
    await world.client()
    world.agents["a1"].condition.not_ready = "it says no word of it"
    await _send(world, {"do": "ok"}, "agent_id:a1", ttl=60, timeout=12)
    await world.until(lambda: _is_queued(world), "the message in its inbox")


async def _is_queued(world: CrashWorld) -> bool:
    return bool([key for key in await world.place.keys() if ":inbox:" in key and await world.place.entries(key)])


async def something_is_unrouted(world: CrashWorld) -> None:
    await world.client()
    await _send(world, {"do": "ok"}, "capability:work", timeout=20)


async def _send(world: CrashWorld, body: object, target: str, **options: float) -> None:
    sending = world.processes["client"].spawn(world.clients["client"].send(target, body, **options))  # type: ignore[arg-type]
    await world.until(sending.done, "its acceptance")
    world.handle = sending.result()


@flow("client router a1", "cancelled timeout.total", before=something_runs)
async def cancel_running(world: CrashWorld) -> None:
    world.do("client", _cancelled(world))
    await answered(world)


@flow("client router", "cancelled timeout.total", before=something_is_queued)
async def cancel_queued(world: CrashWorld) -> None:
    world.do("client", _cancelled(world))
    await answered(world)


@flow("client router", "cancelled route.not_found", before=something_is_unrouted)
async def cancel_unrouted(world: CrashWorld) -> None:
    """It leaves a tombstone, which the router meets."""
    call = world.do("client", _cancelled(world))
    await world.settle()
    await world.router(armed=True)
    await world.until(lambda: call.over, "the answer")


async def one_asks_another(world: CrashWorld) -> None:
    """The handler of a1 waits for a2, where one hangs."""
    await two_agents(world)
    body = {"do": "ask", "target": "agent_id:a2", "body": {"do": "hang"}}
    await _send(world, body, "agent_id:a1", timeout=12)
    await world.until(lambda: len(world.history.runs) == 2, "the start of both handlers")


@flow("client router a1 a2", "cancelled timeout.total", before=one_asks_another)
async def cancel_with_a_child(world: CrashWorld) -> None:
    """What the cancelled handler has asked for is cancelled as well, or ends by its total."""
    world.do("client", _cancelled(world))
    await answered(world)


@flow("client router a1", "- timeout.total", before=everybody)
async def give_up(world: CrashWorld) -> None:
    """A caller that gives up cancels what it has started; where it dies of that, total ends it."""
    call = world.ask({"do": "hang"}, timeout=12)
    await world.until(lambda: world.history.runs or call.over, "the start of the handler")
    call.task.cancel()
    await answered(world)


async def _cancelled(world: CrashWorld) -> object:
    """Cancel, again where nobody answers, and wait for the end."""
    try:
        await world.handle.cancel()
    except BackendUnavailable:
        await world.handle.cancel()
    return await world.handle.receipt()


@flow("client", "backend.unavailable ok", before=everybody)
async def close(world: CrashWorld) -> None:
    """What a client leaves behind is cancelled, or goes on and ends."""
    world.ask({"do": "sleep", "ms": 300})
    process = world.processes["client"]
    await world.until(lambda: world.history.runs or process.dead, "the start of the handler")
    reach = world.clients["client"]
    closing = process.spawn(reach.close())
    await world.until(closing.done, "the end of the client")


@flow("client", "timeout.total", before=nobody_works)
async def nobody_routes(world: CrashWorld) -> None:
    """The client's own deadline: no router is there, and one comes later."""
    world.heirs.pop("router")
    world.processes["router"].die()
    world.ask({"do": "ok"}, timeout=2)
    await answered(world)
    world.disarm()
    await world.router()
