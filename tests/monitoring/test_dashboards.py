"""Each expression of each dashboard has an answer: a real Prometheus scrapes real workers that have work to do."""

import asyncio
from pathlib import Path

import pytest

from reach import Agent, Reach, Reject
from tests.e2e.conftest import StartWorker, start_worker
from tests.e2e.processes import free_port
from tests.monitoring.binaries import ask, find, prometheus
from tests.monitoring.questions import filled_in, questions
from tests.waiting import eventually

pytestmark = [
    pytest.mark.processes,
    pytest.mark.leaves_work(why="the archivers' group stays, as in life"),
]

WITHIN_S = 60.0

__all__ = ["start_worker"]  # the fixture


async def work(url: str) -> None:
    """Messages that are done, refused, tried again until they are dead, and for nobody."""
    agent = Agent("clerk", concurrency=20)

    @agent.capability("file")
    async def file(body: dict[str, int]) -> int:
        if body["n"] == 1:
            raise Reject("no", "not this one")
        if body["n"] == 2:
            raise OSError("broken")
        return body["n"]

    async with Reach.connect(url, agent_id="boss") as reach, agent.running(url):
        await asyncio.gather(
            *(reach.request("capability:file", {"n": n}, timeout=5) for n in range(300)),
            reach.request("capability:nothing", {}, timeout=2),
        )


async def test_every_expression_has_an_answer(redis_url: str, start_worker: StartWorker, tmp_path: Path) -> None:
    find("prometheus")
    ports = [free_port(), free_port()]
    start_worker("--metrics-port", str(ports[0]))
    store = ("--roles", "archiver", "--event-store", f"sqlite:{tmp_path / 'events'}")
    start_worker("--metrics-port", str(ports[1]), *store).wait_ready()
    config = {
        "global": {"scrape_interval": "1s"},
        "scrape_configs": [
            {"job_name": "reach", "static_configs": [{"targets": [f"127.0.0.1:{port}" for port in ports]}]}
        ],
    }
    with prometheus(tmp_path / "prometheus", config, "--enable-feature=exemplar-storage") as url:
        eventually(lambda: len(ask(url, "reach_redis_up == 1")) == 2, WITHIN_S, "both are scraped")
        await work(redis_url)
        asked = questions()
        assert len(asked) > 50
        silent = dict(asked)

        def all_answered() -> bool:
            for name, expression in list(silent.items()):
                found = ask(url, filled_in(expression))
                if found and all(row["value"][1] != "NaN" for row in found):
                    del silent[name]
            return not silent

        try:
            eventually(all_answered, WITHIN_S)
        except AssertionError:
            pytest.fail("no answer to:\n" + "\n".join(f"{name}: {expression}" for name, expression in silent.items()))
        assert ask(url, "sum (reach_route_success_total) >= 100")
        assert ask(url, "sum (reach_retries_total) > 0")
        assert ask(url, "sum (reach_archived_total) > 100")
