"""Messages that nobody answers: expired, cancelled, refused."""

import json

from tests.contract.places import KEYS
from tests.faults.flows import answered, lies, quiet
from tests.integration.points.flows_one import everybody
from tests.integration.points.flows_plain import put
from tests.integration.points.table import flow
from tests.integration.points.town import BOX, Town


async def no_router(town: Town) -> None:
    """From now on there is none."""
    await town.supervisors["router"].stop(drain_ms=100)
    town.heirs.pop("router", None)


@flow(
    """
    message.received router
    message.expired router ttl.expired final
    message.delivered client ttl.expired
    """
)
async def expired_at_the_door(town: Town) -> None:
    await everybody(town)
    await no_router(town)
    town.ask({"do": "ok"}, timeout=2, ttl=1)
    await town.advance(1_500)
    await town.router("router-2")
    await answered(town)


@flow(
    """
    message.received router
    route.matched router
    route.sent router run 1 p1
    message.expired router run 1 p1 ttl.expired final
    message.delivered client p1 ttl.expired
    """
)
async def expired_in_an_inbox(town: Town) -> None:
    await town.router()
    await town.client()
    await town.register("p1")
    town.ask({"do": "ok"}, "agent_id:p1", ttl=1.5)
    await answered(town)


@flow(
    """
    message.received router
    route.matched router
    route.sent router run 1 a1
    message.expired router run 1 a1 ttl.expired final
    message.delivered client a1 ttl.expired
    """
)
async def found_expired_by_take(town: Town) -> None:
    await everybody(town)
    town.heirs.clear()
    town.processes["a1"].freeze()
    town.ask({"do": "ok"}, "agent_id:a1", ttl=1.5)
    await town.settle()
    await no_router(town)
    await town.advance(1_600)
    town.processes["a1"].thaw()
    await town.advance(1_000)
    await town.router("router-2")
    await answered(town)


@flow(
    """
    message.received router
    route.matched router
    route.sent router run 1 a1
    agent.received a1 run 1 a1
    agent.responding a1 run 1 a1 timeout.total
    agent.completed a1 run 1 a1 stale
    message.expired router run 1 a1 timeout.total final
    message.delivered client run 1 a1 timeout.total
    """
)
async def total_is_over(town: Town) -> None:
    await everybody(town)
    town.ask({"do": "hang"}, timeout=2)
    await answered(town)


@flow(
    """
    message.received router
    route.matched router
    route.sent router run 1 a1
    agent.received a1 run 1 a1
    agent.responding a1 run 1 a1 timeout.total
    agent.completed a1 run 1 a1 stale
    message.expired router run 1 a1 timeout.total final
    message.delivered client run 1 a1 timeout.total
    """
)
async def ended_by_its_caller(town: Town) -> None:
    await everybody(town)
    town.ask({"do": "hang"}, timeout=2)
    await town.until(lambda: town.history.runs, "a start")
    await no_router(town)
    await answered(town)
    await town.router("router-2")
    await town.advance(1_000)


async def _cancel(town: Town) -> None:
    town.processes["client"].spawn(town.handle.cancel())
    await town.settle()


async def _send(town: Town, do: str) -> None:
    async def send() -> None:
        town.handle = await town.clients["client"].send("capability:work", {"do": do})

    await town.until(town.processes["client"].spawn(send()).done, "the send")


@flow(
    """
    message.received router
    message.cancelled router cancelled final
    message.delivered client cancelled
    """
)
async def cancelled_before_it_was_routed(town: Town) -> None:
    await everybody(town)
    await no_router(town)
    await _send(town, "ok")
    await _cancel(town)
    await town.router("router-2")
    await quiet(town)


@flow(
    """
    message.received router
    route.matched router
    route.sent router run 1 p1
    message.cancelled router run 1 p1 cancelled final
    message.delivered client p1 cancelled
    """
)
async def cancelled_in_an_inbox(town: Town) -> None:
    await town.router()
    await town.client()
    await town.register("p1")
    await _send(town, "ok")
    await town.until(lambda: lies(town, KEYS.inbox(0, "p1", "normal")), "it in the inbox")
    await _cancel(town)


@flow(
    """
    message.received router
    route.matched router
    route.sent router run 1 a1
    agent.received a1 run 1 a1
    message.cancelled router run 1 a1 cancelled final
    message.delivered client run 1 a1 cancelled
    """
)
async def cancelled_while_it_runs(town: Town) -> None:
    await everybody(town)
    await _send(town, "hang")
    await town.until(lambda: town.history.runs, "a start")
    await _cancel(town)
    await town.advance(6_000)


@flow(
    """
    message.received router
    route.matched router
    route.sent router run 1 a1
    agent.received a1 run 1 a1
    message.cancelled router run 1 a1 cancelled final
    message.delivered client run 1 a1 cancelled
    """
)
async def cancelled_by_a_plain_entry(town: Town) -> None:
    await everybody(town)
    await _send(town, "hang")
    await town.until(lambda: town.history.runs, "a start")
    entry = {"op": "cancel", "reply_to": BOX, "msg_id": town.handle.msg_id, "source": {"agent_id": "client"}}
    await town.place.append(KEYS.control(), {"c": json.dumps(entry).encode()})
    await town.advance(6_000)


@flow(
    """
    message.received router
    route.matched router
    route.failed router route.not_found final
    message.delivered client route.not_found
    """
)
async def nobody_offers_it(town: Town) -> None:
    await everybody(town)
    town.ask({"do": "ok"}, "capability:other")
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
    message.rejected router client overloaded final
    message.delivered client overloaded
    """,
    traces=2,
)
async def no_room(town: Town) -> None:
    await everybody(town)
    await town.allow("max_inflight", 1)
    await town.advance(1_000)
    town.ask({"do": "sleep", "ms": 500})
    await town.until(lambda: town.history.runs, "a start")
    town.ask({"do": "ok"})
    await answered(town)


@flow(
    """
    message.received router
    route.matched router
    route.failed router auth.denied final
    message.delivered client auth.denied
    """
)
async def rules_deny(town: Town) -> None:
    rule = {"source": "agent_id:client", "target": "capability:work", "effect": "deny"}
    await town.stage.eye.set_meta("rules", "none", json.dumps(rule).encode())
    await everybody(town)
    town.ask({"do": "ok"})
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
    route.failed router overloaded final
    message.delivered client overloaded
    """,
    traces=2,
)
async def capacity_is_exhausted(town: Town) -> None:
    await town.router()
    await town.agent("a1", rate_limit=1)
    await town.client()
    town.ask({"do": "ok"})
    await answered(town)
    town.ask({"do": "ok"}, timeout=5)
    await answered(town)


@flow(
    """
    message.received router
    route.matched router
    route.failed router circuit.open final
    message.delivered client circuit.open
    """
)
async def circuit_is_open(town: Town) -> None:
    await everybody(town)
    for _ in range(5):
        town.ask({"do": "fail"}, max_attempts=1)
        await answered(town)
    await town.forget_records()
    town.ask({"do": "ok"})
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
    route.failed router budget.exceeded final
    message.delivered client budget.exceeded
    """,
    traces=2,
)
async def budget_is_spent(town: Town) -> None:
    await everybody(town)
    for _ in range(2):
        town.ask({"do": "pay"}, correlation_id="conv", budget={"cost": 0.1})
        await answered(town)


@flow(
    """
    message.rejected router envelope.missing_field final
    message.delivered router envelope.missing_field
    """
)
async def refused_at_the_door(town: Town) -> None:
    await everybody(town)
    await town.put({"msg_id": "a3f2c1e4-9b8d-4f3a-8c2e-1a2b3c4d5e6f", "type": "request", "reply_to": BOX})
    await town.advance(100)


@flow(
    """
    message.received router
    route.matched router
    message.rejected router type.unregistered final
    message.delivered client type.unregistered
    """
)
async def of_an_unknown_type(town: Town) -> None:
    await everybody(town)
    town.ask({"do": "ok"}, type="strange")
    await answered(town)


@flow(
    """
    message.received router
    route.matched router
    route.sent router run 1 a1
    agent.received a1 run 1 a1
    agent.responding a1 run 1 a1 ok
    agent.completed a1 run 1 a1 ok final
    message.delivered a1 run 1 a1 ok
    message.received router duplicate
    message.rejected router envelope.id_conflict final
    message.delivered router envelope.id_conflict
    """
)
async def another_content_with_one_id(town: Town) -> None:
    await everybody(town)
    await put(town)
    await town.until(town.mail, "a receipt")
    await put(town, payload={"body": {"do": "fail"}})
    await town.advance(100)


@flow(
    """
    message.received router
    route.matched router
    route.sent router run 1 p1
    message.reclaimed router run 1 p1 agent.lost
    route.failed router run 1 p1 backend.unavailable final
    message.delivered client p1 backend.unavailable
    """
)
async def bytes_lost_with_the_inbox(town: Town) -> None:
    await town.router()
    await town.client()
    await town.register("p1")
    town.ask({"do": "ok"})
    key = KEYS.inbox(0, "p1", "normal")
    await town.until(lambda: lies(town, key), "it in the inbox")
    ((entry_id, _),) = await town.place.entries(key)
    await town.place.remove(key, entry_id)
    await answered(town)
