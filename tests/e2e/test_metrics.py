"""/metrics of a real worker and a real agent under load: every metric of the list is there, and promtool finds no fault."""

import asyncio
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics

from reach import Agent, Reach, SyncReach
from reach.backend.private_server import PrivateServer
from reach.errors import ConfigError
from reach.tracing.metrics import METRICS, Who
from tests.collector import Collector
from tests.e2e.conftest import StartWorker
from tests.e2e.processes import free_port
from tests.integration.spine import until
from tests.rules.files import ROOT

pytestmark = [pytest.mark.processes, pytest.mark.leaves_work(why="the archivers' group stays, as in life")]

OPENMETRICS = {"Accept": "application/openmetrics-text;version=1.0.0"}
MESSAGES = 50
#: told only where somebody asks a capability for more than it has
ONLY_SOMETIMES = {"reach_capability_instances_wanted"}
#: who tells something of his own, and has a test of his own (test_alert_bridge_role)
BRIDGE: Who = "alert bridge"


def get(port: int, path: str = "/metrics", **headers: str) -> tuple[int, str]:
    asked = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers)
    try:
        with urllib.request.urlopen(asked, timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    families = list(openmetrics(text))  # type: ignore[no-untyped-call]
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for one in families for s in one.samples}


async def scraped(port: int) -> dict[Any, float]:
    status, text = await asyncio.to_thread(get, port, **OPENMETRICS)
    assert status == 200
    return samples(text)


def judge(text: str) -> None:
    """Ask promtool, where there is one; the parser of prometheus-client has read it in any case."""
    promtool = shutil.which("promtool")
    if promtool is None:
        print("promtool is not on PATH: its lint did not run")
        return
    done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    ours = [line for line in done.stdout.splitlines() + done.stderr.splitlines() if "reach_" in line]
    assert not ours, ours
    assert done.returncode == 0, done.stderr


@asynccontextmanager
async def served(agent: Agent, url: str, metrics_port: int) -> AsyncIterator[None]:
    serving = asyncio.create_task(agent.serve(url, metrics_port=metrics_port))
    try:
        yield
    finally:
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as made:
        yield made


async def test_a_worker_and_an_agent_tell_every_metric_and_count_exactly(
    server: PrivateServer, start_worker: StartWorker, collector: Collector, tmp_path: Path
) -> None:
    of_worker, of_agent = free_port(), free_port()
    hook = f"http://127.0.0.1:{free_port()}"  # nobody listens there
    roles = ("--roles", "router,archiver", "--event-store", f"sqlite:{tmp_path}", "--receipt-hook", hook)
    variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
    worker = start_worker("--metrics-port", str(of_worker), *roles, **variables).wait_ready()
    agent = Agent("echoes")

    @agent.capability("echo")
    async def echo(body: int) -> int:
        return body

    async with served(agent, server.url, of_agent):
        async with Reach.connect(server.url) as reach:
            receipts = await asyncio.gather(*(reach.request("capability:echo", n, timeout=20) for n in range(MESSAGES)))
            assert all(receipt.ok for receipt in receipts)

        async def all_told() -> dict[Any, float]:
            found = await scraped(of_worker)
            kept = found.get(("reach_archived_total", ()), 0)
            exported = found.get(("reach_spans_exported_total", ()), 0)
            told = ("reach_workers", (("role", "router"),)) in found
            return found if told and min(kept, exported) >= 5 * MESSAGES else {}

        found = await until(all_told, "what is told of the env", 30.0)
        assert found["reach_messages_in_total", ()] == MESSAGES
        assert found["reach_route_success_total", ()] == MESSAGES
        assert found["reach_delivery_duration_seconds_count", ()] == MESSAGES
        assert found["reach_redis_up", ()] == 1
        assert found["reach_workers", (("role", "router"),)] == 1
        own = await scraped(of_agent)
        assert own["reach_runs_total", (("agent", "echoes"), ("code", "ok"))] == MESSAGES
        assert own["reach_queue_duration_seconds_count", ()] == MESSAGES
        assert own["reach_processing_duration_seconds_count", ()] == MESSAGES
        assert own["reach_agent_running", (("agent", "echoes"),)] == 0
        assert own["reach_agent_slots", (("agent", "echoes"),)] == 8
        failures = {labels[0][1]: value for (name, labels), value in own.items() if name == "reach_service_failures"}
        assert failures.keys() >= {"take", "settle", "membership", "pulse", "mailbox.read", "hops", "server-watch"}
        names = {name for name, _ in [*found, *own]}
        missing = [
            one.name
            for one in METRICS
            if one.who != BRIDGE
            and one.name not in ONLY_SOMETIMES
            and not names & {one.name, f"{one.name}_bucket", f"{one.name}_info"}
        ]
        assert not missing
        for port in (of_worker, of_agent):
            judge((await asyncio.to_thread(get, port))[1])
        assert get(worker.health_port)[0] == 200, "beside the probes as well"
        assert get(of_worker, "/livez")[0] == 404


async def test_a_program_that_only_sends_tells_what_it_waited_for(
    server: PrivateServer, start_worker: StartWorker
) -> None:
    start_worker().wait_ready()
    agent, port = Agent("echoes"), free_port()

    @agent.capability("echo")
    async def echo(body: int) -> int:
        return body

    async with agent.running(server.url):
        async with Reach.connect(server.url, metrics_port=port) as reach:
            for number in range(3):
                assert (await reach.request("capability:echo", number, timeout=20)).ok
            found = await scraped(port)
            assert found["reach_request_duration_seconds_count", ()] == 3
            assert found["reach_redis_up", ()] == 1
            assert "reach_loop_lag_seconds" in {name for name, _ in found}
            assert "reach_agent_slots" not in {name for name, _ in found}
            with pytest.raises(ConfigError, match=f"metrics_port {port}"):
                await Reach.connect(server.url, metrics_port=port)
        with pytest.raises(urllib.error.URLError):
            await scraped(port)

        def without_a_loop() -> int:
            with SyncReach.connect(server.url, metrics_port=port) as reach:
                assert reach.request("capability:echo", 1, timeout=20).ok
                return get(port)[0]

        assert await asyncio.to_thread(without_a_loop) == 200


async def test_a_port_that_is_taken_is_told(server: PrivateServer, start_worker: StartWorker) -> None:
    port = free_port()
    start_worker("--metrics-port", str(port)).wait_ready()
    agent = Agent("echoes")

    @agent.capability("echo")
    async def echo(body: int) -> int:
        return body

    with pytest.raises(ConfigError, match=f"metrics_port {port}"):
        await agent.serve(server.url, metrics_port=port)


def test_the_recording_rules_are_rules() -> None:
    rules = ROOT / "deploy/prometheus/recording.yml"
    text = rules.read_text()
    assert {"reach_delivery_duration", "reach_agent_offline_count"} == {
        line.partition("record:")[2].strip() for line in text.splitlines() if "record:" in line
    }
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not on PATH")
    done = subprocess.run(["promtool", "check", "rules", str(rules)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
