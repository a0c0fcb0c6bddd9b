"""A rule that comes true is told in a chat, and again when it is over: Prometheus, Alertmanager and the bridge for real."""

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.e2e.processes import WorkerProcess, free_port
from tests.monitoring.binaries import alertmanager, find, prometheus
from tests.rules.files import ROOT, read
from tests.waiting import eventually

pytestmark = pytest.mark.processes

WITHIN_S = 60.0
SECRET = "0f3a-4711"


class Stub:
    """A worker that is scraped and three chats in one: `redis_up` is what it tells, `said` what it was told."""

    def __init__(self) -> None:
        self.redis_up = 1
        self.said: dict[str, list[str]] = {"/wecom": [], "/slack": [], "/generic": []}

    def texts(self, chat: str) -> str:
        return "\n".join(self.said[chat])


@contextmanager
def serving(stub: Stub) -> Iterator[int]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            lines = f'reach_redis_up {stub.redis_up}\nreach_workers{{role="router"}} 1\n'
            self._answer(lines.encode(), "text/plain; version=0.0.4")

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            stub.said[self.path.partition("?")[0]].append(json.dumps(body, ensure_ascii=False))
            self._answer(b'{"errcode":0,"errmsg":"ok"}', "application/json")

        def _answer(self, body: bytes, kind: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, name="pytest stub")
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def quick(text: str, bridge_port: int) -> str:
    """The configuration of Alertmanager as it is deployed, for a bridge here and with waits for people taken out."""
    found = re.sub(r"group_wait: \w+", "group_wait: 1s", text).replace("group_interval: 1m", "group_interval: 1s")
    return found.replace("http://alert-bridge:9095", f"http://127.0.0.1:{bridge_port}")


def test_an_alert_reaches_the_chats_and_so_does_its_end(tmp_path: Path) -> None:
    find("prometheus")
    find("prometheus-alertmanager", "alertmanager")
    rules = tmp_path / "rules.yml"
    rules.write_text(re.sub(r"for: 1m", "for: 0s", read("deploy/prometheus/rules.yml")))
    stub, bridge_port = Stub(), free_port()
    with serving(stub) as port:
        chat = f"http://127.0.0.1:{port}"
        to = f"wecom={chat}/wecom?key={SECRET} slack={chat}/slack generic={chat}/generic"
        nobody = f"redis://127.0.0.1:{free_port()}"  # no Redis: what has to be told may be that it is away
        listen = f"127.0.0.1:{bridge_port}"
        with WorkerProcess(nobody, "--roles", "alert-bridge", REACH_ALERT_TO=to, REACH_ALERT_LISTEN=listen) as worker:
            worker.wait_ready()
            with alertmanager(tmp_path / "am", quick(read("deploy/alertmanager/alertmanager.yml"), bridge_port)) as am:
                config = {
                    "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
                    "rule_files": [str(rules)],
                    "alerting": {"alertmanagers": [{"static_configs": [{"targets": [am.removeprefix("http://")]}]}]},
                    "scrape_configs": [
                        {
                            "job_name": "reach",
                            "static_configs": [{"targets": [f"127.0.0.1:{port}"], "labels": {"env": "prod"}}],
                        }
                    ],
                }
                with prometheus(tmp_path / "prometheus", config, "--rules.alert.resend-delay=2s"):
                    stub.redis_up = 0
                    for name in stub.said:
                        eventually(lambda name=name: "FIRING ReachRedisDown" in stub.texts(name), WITHIN_S, name)  # type: ignore[misc]
                    stub.redis_up = 1
                    for name in stub.said:
                        eventually(lambda name=name: "RESOLVED ReachRedisDown" in stub.texts(name), WITHIN_S, name)  # type: ignore[misc]
            status, lines = worker.drain()
    assert status == 0
    assert "has no answer from Redis" in stub.texts("/wecom")
    assert "first: reach doctor" in stub.texts("/wecom")
    assert "env=prod" in stub.texts("/slack")
    assert '"startsAt"' in stub.texts("/generic")
    assert SECRET not in json.dumps(lines)
    assert {"alert bridge", "stopped"} & {line["event"] for line in lines}


def test_amtool_takes_the_configuration_that_is_deployed() -> None:
    done = subprocess.run(
        [find("amtool"), "check-config", str(ROOT / "deploy/alertmanager/alertmanager.yml")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
