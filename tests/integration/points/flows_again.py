"""Messages that come again, wait for their turn, or for a person."""

from tests.faults.flows import answered, quiet
from tests.integration.points.flows_one import everybody
from tests.integration.points.table import flow
from tests.integration.points.town import Town


@flow(
    """
    message.received router
    route.matched router
    route.sent router run 1 a1
    agent.received a1 run 1 a1
    agent.responding a1 run 1 a1 handler.error
    agent.completed a1 run 1 a1 handler.error
    message.dead router run 1 a1 handler.error final
    message.delivered client run 1 a1 handler.error
    message.received router round 2
    route.matched router round 2
    route.sent router round 2 run 1 a1
    agent.received a1 round 2 run 1 a1
    agent.responding a1 round 2 run 1 a1 ok
    agent.completed a1 round 2 run 1 a1 ok final
    """
)
async def requeued(town: Town) -> None:
    await everybody(town)
    town.ask({"do": "fail once"}, max_attempts=1)
    await answered(town)
    letters = town.clients["client"].dead_letters
    async for letter in letters.list():
        await letters.requeue(letter)
    await quiet(town)


@flow(
    """
    message.received router
    route.matched router
    route.sent router run 1 a1
    agent.received a1 run 1 a1
    agent.responding a1 run 1 a1 handler.error
    agent.completed a1 run 1 a1 handler.error
    message.dead router run 1 a1 handler.error final
    message.delivered client run 1 a1 handler.error
    message.received router round 2
    route.matched router round 2
    route.sent router round 2 run 1 a1
    agent.received a1 round 2 run 1 a1
    agent.responding a1 round 2 run 1 a1 ok
    agent.completed a1 round 2 run 1 a1 ok final
    message.delivered client round 2 run 1 a1 ok
    """
)
async def asked_again_by_key(town: Town) -> None:
    await everybody(town)
    for _ in range(2):
        town.ask({"do": "fail once"}, key="k", max_attempts=1)
        await answered(town)


@flow(
    """
    message.received router
    route.matched router
    route.sent router run 1 a1
    agent.received a1 run 1 a1
    message.received router duplicate
    agent.responding a1 run 1 a1 ok
    agent.completed a1 run 1 a1 ok final
    message.delivered client run 1 a1 ok
    message.delivered client run 1 a1 ok
    """
)
async def a_copy_while_it_runs(town: Town) -> None:
    await everybody(town)
    town.ask({"do": "sleep", "ms": 500}, key="k")
    await town.until(lambda: town.history.runs, "a start")
    town.ask({"do": "sleep", "ms": 500}, key="k")
    await answered(town)


@flow(
    """
    message.received router
    route.matched router
    route.sent router run 1 a1
    agent.received a1 run 1 a1
    agent.responding a1 run 1 a1 ok
    agent.completed a1 run 1 a1 ok final
    message.delivered client run 1 a1 ok
    message.received router duplicate
    message.delivered client run 1 a1 ok stored
    """
)
async def a_copy_when_it_has_ended(town: Town) -> None:
    await everybody(town)
    for _ in range(2):
        town.ask({"do": "ok"}, key="k")
        await answered(town)


@flow(
    """
    message.received router
    route.matched router
    route.sent router run 1 a1
    agent.received a1 run 1 a1
    agent.completed a1 run 1 a1 input_required
    route.matched router run 1
    route.sent router run 1 a1
    agent.received a1 run 1 a1
    agent.responding a1 run 1 a1 ok
    agent.completed a1 run 1 a1 ok final
    message.delivered client run 1 a1 ok
    """
)
async def parked_and_answered(town: Town) -> None:
    await everybody(town)

    async def yes(_: object) -> str:
        return "yes"

    town.ask({"do": "question"}, on_input=yes)
    await answered(town)


@flow(
    """
    message.received router
    route.matched router
    route.sent router run 1 a1
    agent.received a1 run 1 a1
    agent.completed a1 run 1 a1 input_required
    message.expired router run 1 a1 timeout.total final
    message.delivered client run 1 a1 timeout.total
    """
)
async def parked_and_never_answered(town: Town) -> None:
    await everybody(town)
    town.ask({"do": "question"})
    await answered(town)


@flow(
    """
    message.received router
    route.matched router run 1
    route.sent router run 1 a1
    agent.received a1 run 1 a1
    agent.responding a1 run 1 a1 ok
    agent.completed a1 run 1 a1 ok final
    message.delivered client run 1 a1 ok
    """
)
async def delayed(town: Town) -> None:
    await everybody(town)
    town.ask({"do": "ok"}, delay=2)
    await answered(town)


@flow(
    """
    message.received router
    route.matched router
    route.sent router run 1 a1
    agent.received a1 run 1 a1
    agent.responding a1 run 1 a1 ok
    agent.completed a1 run 1 a1 ok final
    message.delivered client run 1 a1 ok
    message.received router
    route.matched router run 1
    route.sent router run 1 a1
    agent.received a1 run 1 a1
    agent.responding a1 run 1 a1 ok
    agent.completed a1 run 1 a1 ok final
    message.delivered client run 1 a1 ok
    """,
    traces=2,
)
async def in_line(town: Town) -> None:
    await everybody(town)
    reach = town.clients["client"]

    async def both() -> object:
        first = await reach.send("capability:work", {"do": "sleep", "ms": 300}, order_key="k")
        second = await reach.send("capability:work", {"do": "ok"}, order_key="k")
        return [await first.receipt(), await second.receipt()]

    town.processes["client"].spawn(both())
    await town.until(lambda: len(town.history.accepted) == 2, "two")
    await quiet(town)
