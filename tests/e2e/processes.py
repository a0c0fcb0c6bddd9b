"""Real processes, started and stopped from outside, as a user would."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.waiting import eventually

ROOT = Path(__file__).resolve().parents[2]
START_S = 60.0


def environ(**extra: str) -> dict[str, str]:
    """The environment of a child: nothing of ours but the path, so that no REACH_ variable of the tester's gets in."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("REACH_", "OTEL_"))}
    return {**kept, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'workers'}", "PYTHONUNBUFFERED": "1", **extra}


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def run(module: str, *arguments: str, stdin: bytes | None = None, **extra: str) -> subprocess.CompletedProcess[bytes]:
    """Run a command line to its end."""
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        env=environ(**extra),
        input=stdin,
        stdin=None if stdin is not None else subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )


def reach(*arguments: str, stdin: bytes | None = None, **extra: str) -> subprocess.CompletedProcess[bytes]:
    """`reach ...`."""
    return run("reach.cli", *arguments, stdin=stdin, **extra)


class Process:
    """A child with its output in memory once it has ended."""

    def __init__(self, module: str, *arguments: str, **extra: str) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            env=environ(**extra),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._child.pid

    @property
    def running(self) -> bool:
        """Whether it lives."""
        return self._child.poll() is None

    def signal(self, number: int) -> None:
        """Send a signal."""
        self._child.send_signal(number)

    def wait(self, within_s: float = 60.0) -> tuple[int, str, str]:
        """Wait for its end: (status, stdout, stderr)."""
        out, err = self._child.communicate(timeout=within_s)
        return self._child.returncode, out.decode(), err.decode()

    def first_line(self) -> str:
        """The first line that it prints."""
        assert self._child.stdout is not None
        return self._child.stdout.readline().decode().strip()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.running:
            self._child.kill()
        self._child.communicate()


class WorkerProcess(Process):
    """A `reach-worker` with its health server on a port of its own."""

    def __init__(self, url: str, *arguments: str, **extra: str) -> None:
        self.health_port = free_port()
        health = ("--health-port", str(self.health_port), "--health-host", "127.0.0.1", "--metrics-port", "0")
        super().__init__("reach_worker", "run", "--redis-url", url, *health, *arguments, **extra)

    def probe(self, path: str) -> tuple[int, dict[str, Any]]:
        """What a probe answers: (HTTP status, body); 0 where nobody listens yet."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.health_port}{path}", timeout=5) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)
        except OSError:
            return 0, {}

    def wait_ready(self, status: int = 200, within_s: float = START_S) -> Self:
        """Wait until /readyz answers with this status."""

        def answered() -> bool:
            assert self.running, self.wait()
            return self.probe("/readyz")[0] == status

        eventually(answered, within_s, f"/readyz {status}")
        return self

    def end(self) -> None:
        """SIGTERM where it runs still; kill it where that does not end it."""
        try:
            if self.running:
                self.signal(signal.SIGTERM)
                self.wait()
        except subprocess.TimeoutExpired:
            pass
        finally:
            self.__exit__(None, None, None)

    def drain(self, within_s: float = 60.0) -> tuple[int, list[dict[str, Any]]]:
        """SIGTERM, and wait: (status, log lines)."""
        self.signal(signal.SIGTERM)
        status, _, err = self.wait(within_s)
        return status, [json.loads(line) for line in err.splitlines()]
