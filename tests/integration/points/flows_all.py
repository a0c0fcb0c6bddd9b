"""Messages to all: each leg has its own end."""

from typing import Any

from reach import Context
from tests.faults.flows import answered, quiet
from tests.faults.handlers import Handler
from tests.faults.history import History
from tests.faults.process import Process
from tests.integration.points.flows_ends import no_router
from tests.integration.points.flows_one import everybody
from tests.integration.points.table import flow
from tests.integration.points.town import Town

ORDER: dict[str, Any] = {"scope": "all", "process_order": [["agent_id:a1"], ["agent_id:a2"]], "timeout": 90, "ttl": 90}


def fails_once(process: Process, history: History) -> Handler:
    """A handler whose first run fails."""

    async def work(_: dict[str, Any], ctx: Context) -> Any:
        history.started(ctx.msg_id, process)
        if ctx.attempt == 1:
            raise RuntimeError("the first run")
        return ctx.attempt

    return work


def fails_first(process: Process, history: History) -> Handler:
    """A handler whose first call fails."""
    calls: list[str] = []

    async def work(_: dict[str, Any], ctx: Context) -> Any:
        history.started(ctx.msg_id, process)
        calls.append(ctx.msg_id)
        if len(calls) == 1:
            raise RuntimeError("the first call")
        return len(calls)

    return work


@flow(
    """
    message.received router
    route.matched router
    route.sent router run 1 a1
    agent.received a1 run 1 a1
    agent.responding a1 run 1 a1 ok
    agent.completed a1 run 1 a1 ok final
    message.delivered client run 1 a1 ok
    route.sent router leg 1 run 1 a2
    agent.received a2 leg 1 run 1 a2
    agent.responding a2 leg 1 run 1 a2 handler.error
    agent.completed a2 leg 1 run 1 a2 handler.error
    message.retried router leg 1 run 1 a2 handler.error
    route.matched router leg 1 run 2
    route.sent router leg 1 run 2 a2
    agent.received a2 leg 1 run 2 a2
    agent.responding a2 leg 1 run 2 a2 ok
    agent.completed a2 leg 1 run 2 a2 ok final
    message.delivered client leg 1 run 2 a2 ok
    """
)
async def broadcast(town: Town) -> None:
    await town.router()
    await town.agent("a1")
    await town.agent("a2", make=fails_once)
    await town.client()
    town.ask({"do": "ok"}, scope="all")
    await answered(town)


@flow(
    """
    message.received router
    route.matched router
    route.failed router route.not_found final
    message.delivered client route.not_found
    """
)
async def nobody_of_all(town: Town) -> None:
    await everybody(town)
    town.ask({"do": "ok"}, "capability:other", scope="all")
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
    route.matched router leg 1 run 1
    route.sent router leg 1 run 1 a2
    agent.received a2 leg 1 run 1 a2
    agent.responding a2 leg 1 run 1 a2 ok
    agent.completed a2 leg 1 run 1 a2 ok final
    message.delivered client leg 1 run 1 a2 ok
    """
)
async def stages(town: Town) -> None:
    """Whoever only observes (o1) runs nothing and answers nothing: the choice alone names it."""
    await everybody(town, "a1", "a2", "o1")
    town.ask({"do": "ok"}, **ORDER)
    await answered(town)


@flow(
    """
    message.received router
    route.matched router
    route.sent router run 1 a1
    agent.received a1 run 1 a1
    agent.responding a1 run 1 a1 handler.rejected
    agent.completed a1 run 1 a1 handler.rejected final
    message.delivered client run 1 a1 handler.rejected
    route.failed router leg 1 a2 stage.failed final
    message.delivered client leg 1 a2 stage.failed
    """
)
async def a_stage_fails(town: Town) -> None:
    await everybody(town, "a1", "a2", "o1")
    town.ask({"do": "reject"}, **ORDER)
    await answered(town)


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
    route.failed router leg 1 a2 stage.failed final
    message.delivered client leg 1 a2 stage.failed
    route.matched router leg 1 round 2 run 1
    route.sent router leg 1 round 2 run 1 a2
    agent.received a2 leg 1 round 2 run 1 a2
    agent.responding a2 leg 1 round 2 run 1 a2 ok
    agent.completed a2 leg 1 round 2 run 1 a2 ok final
    message.delivered client leg 1 round 2 run 1 a2 ok
    """
)
async def a_stage_fails_and_is_asked_again(town: Town) -> None:
    await everybody(town, "a1", "a2")
    for _ in range(2):
        town.ask({"do": "fail once"}, key="k", max_attempts=1, **ORDER)
        await answered(town)
        await town.advance(10)


@flow(
    """
    message.received router
    route.matched router
    route.sent router run 1 a1
    agent.received a1 run 1 a1
    agent.responding a1 run 1 a1 ok
    agent.completed a1 run 1 a1 ok final
    message.delivered client run 1 a1 ok
    route.sent router leg 1 run 1 a2
    route.failed router leg 1 a2 agent.lost final
    message.delivered client leg 1 a2 agent.lost
    """
)
async def an_agent_of_all_is_gone(town: Town) -> None:
    await everybody(town, "a1", "a2")
    town.heirs.pop("a2")
    await town.flush()
    town.processes["a2"].die()
    town.ask({"do": "ok"}, scope="all", timeout=120, ttl=120)
    await answered(town)


@flow(
    """
    message.received router
    route.matched router
    route.failed router a2 stage.failed final
    message.delivered client a2 stage.failed
    """
)
async def nobody_is_in_the_first_stage(town: Town) -> None:
    await everybody(town, "a2")
    town.ask({"do": "ok"}, **ORDER)
    await answered(town)


@flow(
    """
    message.received router
    message.cancelled router cancelled final
    message.delivered client cancelled
    message.cancelled router leg 1 cancelled final
    message.delivered client leg 1 cancelled
    """
)
async def all_cancelled_before_it_was_routed(town: Town) -> None:
    await everybody(town, "a1", "a2")
    await no_router(town)

    async def send() -> None:
        town.handle = await town.clients["client"].send("capability:work", {"do": "ok"}, scope="all")

    await town.until(town.processes["client"].spawn(send()).done, "the send")
    town.processes["client"].spawn(town.handle.cancel())
    await town.settle()
    await town.router("router-2")
    await quiet(town)


@flow(
    """
    message.received router
    route.matched router
    route.sent router run 1 a1
    agent.received a1 run 1 a1
    agent.responding a1 run 1 a1 ok
    agent.completed a1 run 1 a1 ok final
    message.delivered client run 1 a1 ok
    message.received router round 2
    route.matched router round 2
    message.delivered client round 2 run 1 a1 ok stored
    route.sent router leg 1 run 1 a2
    agent.received a2 leg 1 run 1 a2
    agent.responding a2 leg 1 run 1 a2 handler.error
    agent.completed a2 leg 1 run 1 a2 handler.error
    message.dead router leg 1 run 1 a2 handler.error final
    message.delivered client leg 1 run 1 a2 handler.error
    route.sent router leg 1 round 2 run 1 a2
    agent.received a2 leg 1 round 2 run 1 a2
    agent.responding a2 leg 1 round 2 run 1 a2 ok
    agent.completed a2 leg 1 round 2 run 1 a2 ok final
    message.delivered client leg 1 round 2 run 1 a2 ok
    """
)
async def one_of_all_is_asked_again(town: Town) -> None:
    await town.router()
    await town.agent("a1")
    await town.agent("a2", make=fails_first)
    await town.client()
    for _ in range(2):
        town.ask({"do": "ok"}, key="k", max_attempts=1, scope="all", timeout=90, ttl=90)
        await answered(town)
        await town.advance(10)
