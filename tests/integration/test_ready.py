"""`@agent.ready` on real servers: no work before it, every router told at once, and its reason wherever somebody asks."""

import time

from reach import Agent, Reach
from reach.backend import open_backend
from reach.cli.agents import _found
from reach.registry.watcher import Watcher
from reach.routing.index import CapabilityIndex
from reach.service import Supervisor
from reach.testing import wait_until
from tests.integration.sdk.world import router
from tests.lag import lagging


async def test_a_change_is_told_to_every_router_and_its_reason_to_whoever_asks(redis_url: str) -> None:
    answer: list[bool | str] = ["no credentials"]
    said_at: list[float] = []
    runs: list[str] = []
    agent = Agent("one")

    @agent.capability("work")
    async def work() -> str:
        runs.append("work")
        return "done"

    @agent.ready
    def ready() -> bool | str:
        said_at.append(time.monotonic())
        return answer[0]

    backends = [open_backend(redis_url) for _ in range(2)]
    for backend in backends:
        await backend.open()
    watchers = [Watcher(backend, CapabilityIndex()) for backend in backends]

    def states() -> set[str]:
        found = [watcher.index.agents["one"].state(0) for watcher in watchers if "one" in watcher.index.agents]
        return set(found) if len(found) == 2 else set()

    async with router(redis_url), agent.running(redis_url, grace=0), Supervisor(watchers), lagging() as lag:
        async with Reach.connect(redis_url, agent_id="tester") as reach:
            await wait_until(lambda: states() == {"not_ready"})

            async def told() -> bool:
                (facts,) = await _found(redis_url, "dev")
                return bool((facts["state"], facts["reason"]) == ("not_ready", "no credentials"))

            await wait_until(told)
            (seen,) = (await reach.explain("capability:work")).candidates
            assert (seen.agent, seen.filter, seen.reason) == ("one", "ready", "not_ready: no credentials")
            receipt = await reach.request("capability:work", timeout=1)
            assert (receipt.code, runs) == ("route.no_candidate", [])
            took = []
            for to, state in ((True, "ready"), ("gone", "not_ready"), (True, "ready")):
                answer[0], asked = to, len(said_at)
                await wait_until(lambda asked=asked: len(said_at) > asked, 10)  # type: ignore[misc]
                await wait_until(lambda state=state: states() == {state})  # type: ignore[misc]
                took.append(time.monotonic() - said_at[asked])
            assert await reach.ask("capability:work") == "done"
            assert sorted(took)[1] < 0.2 + lag.allowed_s, f"one slow one is the machine's, two are ours: {took}"
    for backend in backends:
        await backend.close()
