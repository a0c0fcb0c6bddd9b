"""What goes wrong with agents: not there, not ready, not let in, not asked."""

import asyncio
import threading
import time
from typing import Any

import pytest

from reach.backend import open_backend
from reach.envelope.token import Claims, issue
from reach.errors import RegistrationRefused
from reach.testing import wait_until
from tests.e2e.symptoms.messages import agent_of, echo
from tests.e2e.symptoms.scene import Scene, symptom

#: nobody has to be waited for who might appear
SOON = b'{"timeouts": {"network_ms": 200}}'
KEY = "0123456789abcdef0123456789abcdef"


@symptom("A message went to a test agent")
async def test_agent(scene: Scene) -> None:
    laptop = agent_of("refund-laptop", "refund", echo, weight=1000)
    reach = await scene.town(laptop, agent_of("refund-1", "refund", echo))
    await reach.routes.set("capability:refund", b'{"strategy": "weighted_random"}')
    await scene.sent(reach, "capability:refund", timeout=20)


@symptom("`route.not_found`, although the agent runs")
async def another_env(scene: Scene) -> None:
    reach = await scene.town()
    await reach.routes.set("capability:refund", SOON)
    await scene.router(worker="w2", env="staging")
    await scene.enter(agent_of("refund-1", "refund", echo).running(scene.url, "staging", grace=0))
    await scene.sent(reach, "capability:refund", timeout=10)


@symptom("`route.not_found`, and the agent is in the list")
async def another_name(scene: Scene) -> None:
    reach = await scene.town(agent_of("refund-1", "billing.refund", echo))
    await reach.routes.set("capability:refund", SOON)
    await scene.sent(reach, "capability:refund", timeout=10)


@symptom("An agent is registered and gets nothing")
async def not_ready(scene: Scene) -> None:
    agent = agent_of("model-1", "predict", echo)

    @agent.ready
    async def ready() -> str:
        return "the model is loading"

    await scene.town(agent)


@symptom("`type.unregistered`, `error.unknown_type`")
async def unknown_type(scene: Scene) -> None:
    reach = await scene.town(agent_of("refund-1", "refund", echo))
    await scene.sent(reach, "agent_id:refund-1", type="order.paid", timeout=10)


@symptom("An agent was there, and is gone")
async def gone(scene: Scene) -> None:
    await scene.router()
    backend = open_backend(scene.url)
    await backend.open()
    try:
        await backend.register("refund-7", b'{"agent_id":"refund-7"}', "i1", b"{}", None)
        stored, _ = await backend.registration("refund-7")
        assert await backend.remove("refund-7", stored or b"", 1 << 52, "silent")
    finally:
        await backend.close()


@symptom("The circuit of an agent is open")
async def circuit_open(scene: Scene) -> None:
    async def pay() -> None:
        raise ConnectionError("the bank cannot be reached")

    reach = await scene.town(agent_of("payer-1", "pay", pay))
    for _ in range(5):
        await reach.request("capability:pay", timeout=20, max_attempts=1)
    assert (await scene.sent(reach, "capability:pay", timeout=1)).code == "circuit.open"


@symptom("Messages are slowed down, or end `overloaded`")
async def rate_limited(scene: Scene) -> None:
    reach = await scene.town(agent_of("mailer-1", "mail", echo, rate_limit=1))
    await reach.request("capability:mail", timeout=20)
    assert (await scene.sent(reach, "capability:mail", timeout=1)).code == "overloaded"


@symptom("All are busy")
async def all_busy(scene: Scene) -> None:
    busy = asyncio.Event()
    agent = agent_of("painter-1", "paint", busy.wait, concurrency=1)
    reach = await scene.town(agent)
    await reach.routes.set("capability:paint", b'{"max_inbox": 0}')

    async def end() -> None:
        busy.set()
        await first.receipt(20)

    first = await reach.send("capability:paint")
    await wait_until(lambda: not agent.instances[0].free)
    scene.at_end(end)


@symptom("A handler blocks the event loop")
async def blocked(scene: Scene) -> None:
    over = threading.Event()

    async def crunch() -> None:
        while not over.is_set():
            time.sleep(0.01)  # noqa: ASYNC251 - that is what is wrong with it

    thread = threading.Thread(target=lambda: asyncio.run(_serve(scene.url, crunch, over)))
    reach = await scene.town()
    thread.start()

    async def end() -> None:
        over.set()
        await handle.receipt(20)
        await asyncio.to_thread(thread.join)

    handle = await reach.send("capability:crunch", timeout=60)
    scene.at_end(end)


async def _serve(url: str, handler: Any, over: threading.Event) -> None:
    async with agent_of("cruncher-1", "crunch", handler, max_process=60).running(url, grace=5):
        while not over.is_set():
            await asyncio.sleep(0.01)


@symptom("The token of an agent is refused")
async def token_refused(scene: Scene) -> None:
    await scene.router(token_keys=[KEY])
    token = issue(KEY, Claims(env="prod", agent_id="refund-*"))
    with pytest.raises(RegistrationRefused) as refused:
        await scene.enter(agent_of("refund-1", "refund", echo, token=token).running(scene.url))
    assert refused.value.code == "registration.bad_token"
    scene.names["TOKEN"] = token


@symptom("`auth.denied`: the rules say no")
async def denied(scene: Scene) -> None:
    reach = await scene.town(agent_of("refund-1", "refund", echo))
    rule = b'{"source": "intern-*", "target": "capability:refund", "effect": "deny"}'
    await reach.rules.set("interns", rule)


@symptom("An agent runs, and another one of its name is refused")
async def conflict(scene: Scene) -> None:
    await scene.town(agent_of("refund-1", "refund", echo))
    with pytest.raises(RegistrationRefused) as refused:
        await scene.enter(agent_of("refund-1", "pay", echo).running(scene.url))
    assert refused.value.code == "registration.conflict"
