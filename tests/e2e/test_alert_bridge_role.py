"""The role `alert-bridge` beside a router: it takes alerts before there is a Redis, and ends in order."""

import json
import urllib.request

import pytest

from tests.e2e.conftest import StartWorker
from tests.e2e.processes import WorkerProcess, free_port, run
from tests.waiting import eventually

pytestmark = pytest.mark.processes

BODY = {"version": "4", "status": "firing", "alerts": [{"status": "firing", "labels": {"alertname": "ReachRedisDown"}}]}


def tell(port: int) -> int:
    """Post a notification; the status, 0 where nobody listens yet."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/hooks/alertmanager", json.dumps(BODY).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return int(answer.status)
    except OSError:
        return 0


def environment(port: int) -> dict[str, str]:
    chat = f"generic=http://127.0.0.1:{free_port()}/hunter2"  # nobody is there
    return {"REACH_ALERT_TO": chat, "REACH_ALERT_LISTEN": f"127.0.0.1:{port}"}


def test_it_takes_alerts_while_redis_is_away_and_says_by_name_what_it_could_not_tell() -> None:
    port = free_port()
    nobody = f"redis://127.0.0.1:{free_port()}"
    with WorkerProcess(nobody, "--roles", "router,alert-bridge", **environment(port)) as worker:
        eventually(lambda: tell(port) == 200, 20, "the bridge")
        assert worker.probe("/readyz")[0] == 503
        status, lines = worker.drain()
    assert status == 0
    lost = [line for line in lines if line["event"] == "alerts lost"]
    assert [line["alerts"] for line in lost] == [["firing ReachRedisDown"]]
    assert "hunter2" not in json.dumps(lines)


def test_its_numbers_are_at_metrics_without_any_redis() -> None:
    port = free_port()
    nobody = f"redis://127.0.0.1:{free_port()}"
    with WorkerProcess(nobody, "--roles", "alert-bridge", **environment(port)) as worker:
        worker.wait_ready()
        assert tell(port) == 200

        def failed() -> bool:
            lines = page(worker.health_port)
            return float(lines['reach_alerts_failed_total{chat="generic"}']) > 0

        eventually(failed, 20, "a try that failed")
        lines = page(worker.health_port)
        assert lines['reach_alerts_sent_total{chat="generic"}'] == "0.0"
        assert lines['reach_alerts_waiting{chat="generic"}'] == "1.0"
        assert any(name.startswith("reach_build_info") for name in lines)
        assert "reach_loop_lag_seconds" in lines
        worker.drain()


def page(port: int) -> dict[str, str]:
    """/metrics: each number by name and labels."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        lines = answer.read().decode().splitlines()
    return dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))


def test_beside_a_router_both_serve(start_worker: StartWorker) -> None:
    port = free_port()
    worker = start_worker("--roles", "router,alert-bridge", **environment(port)).wait_ready()
    assert tell(port) == 200
    status, lines = worker.drain()
    assert status == 0
    assert {"serving", "alert bridge", "stopped"} <= {line["event"] for line in lines}


def test_an_address_that_cannot_be_used_ends_it_at_once_and_is_not_shown() -> None:
    done = run("reach_worker", "run", "--roles", "alert-bridge", REACH_ALERT_TO="wecom=hunter2 teams=x")
    assert done.returncode == 78
    assert b"wecom" in done.stderr
    assert b"teams" in done.stderr
    assert b"hunter2" not in done.stderr
