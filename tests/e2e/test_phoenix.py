"""The spans in a backend that people use. By hand: REACH_TEST_PHOENIX=<venv>/bin/phoenix pytest -m phoenix tests/e2e/test_phoenix.py.

Arize Phoenix (pip install arize-phoenix, 850 MB, in an environment of its own) is a tool for this test alone, never a dependency.
"""

import json
import os
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import StartWorker
from tests.e2e.plain import Wire
from tests.e2e.processes import environ, free_port
from tests.e2e.test_spans import TRACE, one_message
from tests.waiting import eventually

pytestmark = [
    pytest.mark.phoenix,
    pytest.mark.processes,
    pytest.mark.timeout(300),
    pytest.mark.leaves_work(why="the group of the spans stays, as in life"),
]


@pytest.fixture
def phoenix(tmp_path: Path) -> Iterator[str]:
    """The address of one that runs."""
    binary = os.environ.get("REACH_TEST_PHOENIX")
    if not binary:
        pytest.fail("REACH_TEST_PHOENIX names no phoenix")
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    told = {
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(free_port()),
        "PHOENIX_WORKING_DIR": str(tmp_path),
        "PHOENIX_TELEMETRY_ENABLED": "false",
    }
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen([binary, "serve"], env=environ(**told), stdout=log, stderr=log)
    try:
        eventually(lambda: answers(url + "/healthz"), 120, "phoenix")
        yield url
    finally:
        server.terminate()
        server.wait(30)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def spans(url: str) -> list[dict[str, Any]]:
    with urllib.request.urlopen(f"{url}/v1/projects/default/spans?limit=100", timeout=10) as answer:
        found: list[dict[str, Any]] = json.load(answer)["data"]
        return [span for span in found if span["context"]["trace_id"] == TRACE]


def test_phoenix_shows_one_tree(client: Wire, start_worker: StartWorker, phoenix: str) -> None:
    worker = start_worker(OTEL_EXPORTER_OTLP_ENDPOINT=phoenix)
    one_message(client, worker)
    found = {span["name"]: span for span in eventually(lambda: whole(phoenix), 30, "five spans")}
    ids = {span["context"]["span_id"]: name for name, span in found.items()}
    assert {name: ids.get(span["parent_id"], "the sender") for name, span in found.items()} == {
        "process reach.inbox": "the sender",
        "route": "process reach.inbox",
        "send reach.agent.{agent}": "process reach.inbox",
        "send reach.reply": "the sender",  # this agent records nothing itself: its `process` span is missing
    }
    assert found["send reach.reply"]["attributes"]["gen_ai.agent.name"] == "plain-refund"


def whole(url: str) -> list[dict[str, Any]]:
    found = spans(url)
    return found if len(found) >= 4 else []
