"""Senders and agents without the SDK: what they do not record is derived."""

from typing import Any

from reach.backend.steps import Settlement
from tests.contract.drive import retryable, success
from tests.faults.flows import quiet
from tests.integration.points.flows_one import everybody
from tests.integration.points.table import flow
from tests.integration.points.town import BOX, SENDER, Town

MSG_ID = "a3f2c1e4-9b8d-4f3a-8c2e-1a2b3c4d5e6f"


async def put(town: Town, **more: Any) -> str:
    """Send without the SDK; the msg_id."""
    made = {
        "msg_id": MSG_ID,
        "type": "request",
        "timestamp": 1,
        "source": {"agent_id": "tester"},
        "target": {"pattern": "capability:work"},
        "reply_to": BOX,
        "correlation_id": "conv",
        "payload": {"body": {"do": "ok"}},
        "traces": {"traceparent": SENDER},
    }
    return await town.put(made | more)


@flow(
    """
    message.received router
    route.matched router
    route.sent router run 1 p1
    agent.received router run 1 p1
    agent.responding router run 1 p1 ok
    agent.completed router run 1 p1 ok final
    message.delivered router run 1 p1 ok
    """
)
async def plain_on_both_sides(town: Town) -> None:
    await town.router()
    await town.register("p1")
    msg_id = await put(town)
    hand, _ = await town.work("p1")
    await town.settle_by_entry(msg_id, hand, {"status": "success", "output": 1})
    await quiet(town)
    assert len(await town.mail()) == 1


@flow(
    """
    message.received router
    route.matched router
    route.sent router run 1 p1
    agent.received router run 1 p1
    agent.responding router run 1 p1 handler.error
    agent.completed router run 1 p1 handler.error
    message.retried router run 1 p1 handler.error
    route.matched router run 2
    route.sent router run 2 p1
    agent.received router run 2 p1
    agent.responding router run 2 p1 ok
    agent.completed router run 2 p1 ok final
    message.delivered router run 2 p1 ok
    """
)
async def plain_agent_retries(town: Town) -> None:
    await town.router()
    await town.register("p1")
    msg_id = await put(town)
    for status in ("retryable", "success"):
        hand, _ = await town.work("p1")
        await town.settle_by_entry(msg_id, hand, {"status": status, "output": 1})
    await quiet(town)


@flow(
    """
    message.received router
    route.matched router
    route.sent router run 1 a1
    agent.received a1 run 1 a1
    agent.responding a1 run 1 a1 ok
    agent.completed a1 run 1 a1 ok final
    message.delivered a1 run 1 a1 ok
    """
)
async def plain_sender(town: Town) -> None:
    await everybody(town)
    await put(town)
    await town.until(town.mail, "a receipt")


@flow(
    """
    message.received router
    route.matched router
    route.failed router route.not_found final
    message.delivered router route.not_found
    """
)
async def plain_sender_nobody_answers(town: Town) -> None:
    await everybody(town)
    await put(town, target={"pattern": "capability:other"})
    await town.until(town.mail, "a receipt")


@flow(
    """
    message.received router
    route.matched router
    route.sent router run 1 p1
    agent.received router run 1 p1
    agent.responding router run 1 p1 ok
    agent.completed router run 1 p1 ok final
    message.delivered router run 1 p1 ok
    """
)
async def plain_agent_with_scripts(town: Town) -> None:
    await town.router()
    await town.register("p1")
    msg_id = await put(town)
    hand, _ = await town.work("p1")
    assert await town.settle_by_script("p1", Settlement(msg_id, 0, hand, success(), "p1.1", records=False)) == "done"
    await quiet(town)
    await town.advance(100)


@flow(
    """
    message.received router
    route.matched router
    route.sent router run 1 p1
    agent.received router run 1 p1
    agent.responding router run 1 p1 handler.error
    agent.completed router run 1 p1 handler.error
    message.retried router run 1 p1 handler.error
    route.matched router run 2
    route.sent router run 2 p1
    agent.received router run 2 p1
    agent.responding router run 2 p1 ok
    agent.completed router run 2 p1 ok final
    message.delivered router run 2 p1 ok
    """
)
async def plain_agent_with_scripts_retries(town: Town) -> None:
    await town.router()
    await town.register("p1")
    msg_id = await put(town)
    for answer in (retryable(), success()):
        hand, _ = await town.work("p1")
        assert await town.settle_by_script("p1", Settlement(msg_id, 0, hand, answer, "p1.1", records=False)) == "done"
    await quiet(town)
    await town.advance(100)


@flow(
    """
    message.received router
    route.matched router
    route.sent router run 1 p1
    message.reclaimed router run 1 p1 agent.lost
    message.dead router run 1 p1 agent.lost final
    message.delivered router run 1 p1 agent.lost
    """
)
async def plain_agent_dies(town: Town) -> None:
    await town.router()
    await town.register("p1")
    await put(town, max_attempts=1)
    await town.work("p1")
    await quiet(town)
    await town.advance(100)
