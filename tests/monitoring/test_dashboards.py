"""Each expression of each dashboard has an answer: a real Prometheus scrapes real workers that have work to do."""

import asyncio
import contextlib
import json
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from reach import Agent, Reach, Reject
from tests.e2e.conftest import StartWorker, start_worker
from tests.e2e.processes import free_port
from tests.monitoring.binaries import ask, find, get, prometheus
from tests.monitoring.questions import filled_in, questions
from tests.monitoring.test_alert_chain import Stub, serving
from tests.rules.files import ROOT
from tests.waiting import eventually

pytestmark = [
    pytest.mark.processes,
    pytest.mark.leaves_work(why="the archivers' group stays, as in life"),
]

WITHIN_S = 60.0
NOTIFICATION: dict[str, object] = {
    "version": "4",
    "status": "firing",
    "alerts": [{"status": "firing", "labels": {"alertname": "Any"}}],
}

__all__ = ["start_worker"]  # the fixture


def all_answered(url: str, silent: dict[str, str]) -> None:
    """Ask until each of them was answered; those that were not are left in `silent`."""

    def look() -> bool:
        for name, expression in list(silent.items()):
            found = ask(url, filled_in(expression))
            if found and all(row["value"][1] != "NaN" for row in found):
                del silent[name]
        return not silent

    with contextlib.suppress(AssertionError):  # what is left is told by name
        eventually(look, WITHIN_S)


@pytest.fixture
def chat() -> Iterator[str]:
    """The address of a chat that takes everything."""
    stub = Stub()
    with serving(stub) as port:
        yield f"http://127.0.0.1:{port}/generic"


def post(url: str, body: dict[str, object]) -> None:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        assert answer.status == 200


def clerk() -> Agent:
    agent = Agent("clerk", concurrency=20)

    @agent.capability("file")
    async def file(body: dict[str, int]) -> int:
        if body["n"] == 1:
            raise Reject("no", "not this one")
        if body["n"] == 2:
            raise OSError("broken")
        return body["n"]

    return agent


def exemplars(url: str, metric: str, since_s: float) -> list[dict[str, Any]]:
    """The observations that are kept as examples beside the numbers."""
    told = get(f"{url}/api/v1/query_exemplars", query=metric, start=str(since_s), end=str(time.time() + 60))
    return [one for series in told["data"] for one in series["exemplars"]]


async def work_while(url: str, port: int, asking: Callable[[], None]) -> set[str]:
    """Messages that are done, refused, tried again, and for nobody, for as long as there are questions; the traces of those done."""
    traces: set[str] = set()
    async with Reach.connect(url, agent_id="boss") as reach, asyncio.TaskGroup() as group:
        serving = group.create_task(clerk().serve(url, metrics_port=port))
        for pattern, n in (("capability:file", 1), ("capability:file", 2), ("capability:nothing", 0)):
            group.create_task(reach.request(pattern, {"n": n}, timeout=3))
        asked = group.create_task(asyncio.to_thread(asking))
        while not asked.done():
            done = await asyncio.gather(*(reach.request("capability:file", {"n": n}, timeout=5) for n in range(10, 40)))
            traces |= {receipt.msg_id.replace("-", "") for receipt in done}
            await asyncio.sleep(0.05)  # the programs that are asked need the machine, too
        serving.cancel()
    return traces


async def test_every_expression_has_an_answer(
    redis_url: str, start_worker: StartWorker, chat: str, tmp_path: Path
) -> None:
    find("prometheus")
    ports = [free_port() for _ in range(4)]
    start_worker("--metrics-port", str(ports[0]))
    store = ("--roles", "archiver", "--event-store", f"sqlite:{tmp_path / 'events'}")
    start_worker("--metrics-port", str(ports[1]), *store).wait_ready()
    listen = f"127.0.0.1:{free_port()}"
    bridge = start_worker(
        "--metrics-port",
        str(ports[3]),
        "--roles",
        "alert-bridge",
        REACH_ALERT_TO=f"generic={chat}",
        REACH_ALERT_LISTEN=listen,
    )
    bridge.wait_ready()
    post(f"http://{listen}/hooks/alertmanager", NOTIFICATION)
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(ROOT / "deploy/prometheus" / name) for name in ("rules.yml", "recording.yml")],
        "scrape_configs": [
            {"job_name": "reach", "static_configs": [{"targets": [f"127.0.0.1:{port}" for port in ports]}]}
        ],
    }
    with prometheus(tmp_path / "prometheus", config, "--enable-feature=exemplar-storage") as url:
        eventually(lambda: len(ask(url, "reach_redis_up == 1")) == 2, WITHIN_S, "both are scraped")
        silent = questions()
        assert len(silent) > 55
        began_s = time.time()
        traces = await work_while(redis_url, ports[2], lambda: all_answered(url, silent))
        assert not silent, "no answer to:\n" + "\n".join(f"{name}: {expression}" for name, expression in silent.items())
        assert ask(url, "sum (reach_route_success_total) >= 100")
        assert ask(url, "sum (reach_retries_total) > 0")
        assert ask(url, "sum (reach_archived_total) > 100")
        groups = get(f"{url}/api/v1/rules")["data"]["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        assert len(rules) > 30
        assert [rule["name"] for rule in rules if rule["health"] != "ok"] == []
        assert ask(url, "reach:route_fail:ratio_rate5m")
        assert {row["metric"]["quantile"] for row in ask(url, "reach_delivery_duration")} == {"0.5", "0.95", "0.99"}
        assert [row["value"][1] for row in ask(url, "reach_agent_offline_count")] == ["0"]
        found = exemplars(url, "reach_delivery_duration_seconds_bucket", began_s)
        assert {one["labels"]["trace_id"] for one in found} & traces
        # Of those that wait for nothing, the one that the work has brought about, and no other.
        assert {row["metric"]["alertname"] for row in ask(url, 'ALERTS{alertstate="firing"}')} <= {
            "ReachDeadLettersGrowing"
        }
