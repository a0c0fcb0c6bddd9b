"""Messages to one."""

from typing import Any

from reach import Context, Result
from tests.contract.places import KEYS
from tests.faults.flows import answered, lies
from tests.faults.handlers import Handler, MakeHandler
from tests.faults.history import History
from tests.faults.process import Process
from tests.integration.points.table import flow
from tests.integration.points.town import Town


def sure_by(confidence: float) -> MakeHandler:
    """Handlers whose answers are so sure."""

    def make(process: Process, history: History) -> Handler:
        async def work(body: dict[str, Any], ctx: Context) -> Any:
            history.started(ctx.msg_id, process)
            return Result(body["do"], confidence=confidence)

        return work

    return make


async def everybody(town: Town, *agents: str) -> None:
    """A router, agents (a1), a client."""
    await town.router()
    for name in agents or ("a1",):
        await town.agent(name)
    await town.client()


@flow(
    """
    message.received router
    route.matched router
    route.sent router run 1 a1
    agent.received a1 run 1 a1
    agent.responding a1 run 1 a1 ok
    agent.completed a1 run 1 a1 ok final
    message.delivered client run 1 a1 ok
    """
)
async def delivered(town: Town) -> None:
    await everybody(town)
    town.ask({"do": "ok"})
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
    """
)
async def rejected(town: Town) -> None:
    await everybody(town)
    town.ask({"do": "reject"})
    await answered(town)


@flow(
    """
    message.received router
    route.matched router
    route.sent router run 1 a1
    agent.received a1 run 1 a1
    agent.responding a1 run 1 a1 handler.error
    agent.completed a1 run 1 a1 handler.error
    message.retried router run 1 a1 handler.error
    route.matched router run 2
    route.sent router run 2 a2
    agent.received a2 run 2 a2
    agent.responding a2 run 2 a2 ok
    agent.completed a2 run 2 a2 ok final
    message.delivered client run 2 a2 ok
    """
)
async def retried(town: Town) -> None:
    await everybody(town, "a1", "a2")
    town.ask({"do": "fail once"})
    await answered(town)


@flow(
    """
    message.received router
    route.matched router
    route.sent router run 1 a1
    agent.received a1 run 1 a1
    agent.responding a1 run 1 a1 handler.retry
    agent.completed a1 run 1 a1 handler.retry
    message.retried router run 1 a1 handler.retry
    route.matched router run 1
    route.sent router run 1 a1
    agent.received a1 run 1 a1
    agent.responding a1 run 1 a1 ok
    agent.completed a1 run 1 a1 ok final
    message.delivered client run 1 a1 ok
    """
)
async def retried_free(town: Town) -> None:
    await everybody(town)
    town.ask({"do": "wait once"})
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
    """
)
async def buried(town: Town) -> None:
    await everybody(town)
    town.ask({"do": "fail"}, max_attempts=1)
    await answered(town)


@flow(
    """
    message.received router
    route.matched router
    route.sent router run 1 a1
    agent.received a1 run 1 a1
    agent.responding a1 run 1 a1 agent.lost
    agent.completed a1 run 1 a1 agent.lost
    message.retried router run 1 a1 agent.lost
    route.matched router run 1
    route.sent router run 1 a2
    agent.received a2 run 1 a2
    agent.responding a2 run 1 a2 ok
    agent.completed a2 run 1 a2 ok final
    message.delivered client run 1 a2 ok
    """
)
async def drained(town: Town) -> None:
    await everybody(town)
    town.ask({"do": "sleep", "ms": 500})
    await town.until(lambda: town.history.runs, "a start")
    await town.agent("a2")
    town.heirs.pop("a1")
    town.processes["a1"].spawn(town.agents["a1"].stop(0))
    await answered(town)


@flow(
    """
    message.received router
    route.matched router
    route.sent router run 1 a1
    agent.received a1 run 1 a1
    message.reclaimed router run 1 a1 agent.lost
    message.retried router run 1 a1 agent.lost
    route.matched router run 2
    route.sent router run 2 a2
    agent.received a2 run 2 a2
    agent.responding a2 run 2 a2 ok
    agent.completed a2 run 2 a2 ok final
    message.delivered client run 2 a2 ok
    """
)
async def reclaimed(town: Town) -> None:
    await everybody(town)
    town.ask({"do": "hang once"})
    await town.until(lambda: town.history.runs, "a start")
    await town.agent("a2")
    town.heirs.pop("a1")
    await town.flush()
    town.processes["a1"].die()
    await answered(town)


@flow(
    """
    message.received router
    route.matched router
    route.sent router run 1 p1
    route.matched router run 1
    message.moved router run 1 a1 timeout.network
    agent.received a1 run 1 a1
    agent.responding a1 run 1 a1 ok
    agent.completed a1 run 1 a1 ok final
    message.delivered client run 1 a1 ok
    """
)
async def moved(town: Town) -> None:
    await town.router()
    await town.client()
    await town.register("p1")
    town.ask({"do": "ok"})
    await town.until(lambda: lies(town, KEYS.inbox(0, "p1", "normal")), "it in the inbox")
    await town.agent("a1")
    await answered(town)


@flow(
    """
    message.received router
    route.matched router
    route.sent router run 1 a1
    agent.received a1 run 1 a1
    agent.responding a1 run 1 a1 timeout.processing
    agent.completed a1 run 1 a1 stale
    message.reclaimed router run 1 a1 timeout.processing
    message.dead router run 1 a1 timeout.processing final
    message.delivered client run 1 a1 timeout.processing
    """
)
async def overdue(town: Town) -> None:
    await everybody(town)
    town.ask({"do": "hang"}, max_attempts=1)
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
    route.matched router
    route.sent router run 1 a2
    agent.received a2 run 1 a2
    agent.responding a2 run 1 a2 ok
    agent.completed a2 run 1 a2 ok final
    message.delivered a1 run 1 a2 ok
    """
)
async def asks_another(town: Town) -> None:
    await everybody(town, "a1", "a2")
    town.ask({"do": "ask", "target": "agent_id:a2", "body": {"do": "ok"}}, "agent_id:a1")
    await answered(town)


@flow(
    """
    message.received router
    route.matched router
    route.sent router run 1 a1
    agent.received a1 run 1 a1
    agent.responding a1 run 1 a1 ok
    agent.completed a1 run 1 a1 ok
    message.retried router run 1 a1 ok
    route.matched router run 2
    route.sent router run 2 a2
    agent.received a2 run 2 a2
    agent.responding a2 run 2 a2 ok
    agent.completed a2 run 2 a2 ok final
    message.delivered client run 2 a2 ok
    """
)
async def unsure(town: Town) -> None:
    """Another one is asked, who is no surer: it ends with one of the two answers."""
    await town.router()
    await town.agent("a1", make=sure_by(0.8))
    await town.agent("a2", make=sure_by(0.8))
    await town.client()
    town.ask({"do": "ok"}, min_confidence=0.9)
    await answered(town)


@flow(
    """
    message.received router
    route.matched router
    route.sent router run 1 a1
    agent.received a1 run 1 a1
    agent.responding a1 run 1 a1 ok
    agent.completed a1 run 1 a1 ok
    agent.completed router run 1 a1 ok final
    message.delivered client run 1 a1 ok
    """
)
async def unsure_and_nobody_else(town: Town) -> None:
    """A router ends it with the best answer that there is."""
    await town.router()
    await town.agent("a1", make=sure_by(0.8))
    await town.client()
    town.ask({"do": "ok"}, min_confidence=0.9)
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
    """
)
async def fallen_back(town: Town) -> None:
    await town.stage.eye.set_meta("routes", "capability:other", b'{"fallback": "agent_id:a1"}')
    await everybody(town)
    town.ask({"do": "ok"}, "capability:other")
    await answered(town)
