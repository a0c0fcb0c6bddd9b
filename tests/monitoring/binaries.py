"""The programs of Prometheus, and how they are started for a test."""

import json
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.processes import free_port
from tests.waiting import eventually

START_S = 30.0
INSTALL = "apt-get install -y --no-install-recommends prometheus prometheus-alertmanager"


def find(*names: str) -> str:
    """The first of these programs that is there. Without any the test says that it could not run, and why."""
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip(f"could not run: there is no {names[0]} on PATH ({INSTALL})")
    return found


@contextmanager
def started(url: str, log: Path, *command: str) -> Iterator[str]:
    """A program that runs, and answers `url`/-/ready; killed at the end."""
    with log.open("wb") as out:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=log.parent)
        try:
            eventually(lambda: _ready(child, url, log), START_S, f"{command[0]} to be ready")
            yield url
        finally:
            child.terminate()
            try:
                child.wait(10)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


@contextmanager
def prometheus(folder: Path, config: dict[str, Any], *flags: str) -> Iterator[str]:
    """Prometheus with this configuration (JSON is YAML); its address."""
    binary, port = find("prometheus"), free_port()
    folder.mkdir(exist_ok=True)
    (folder / "prometheus.yml").write_text(json.dumps(config))
    with started(
        f"http://127.0.0.1:{port}",
        folder / "prometheus.log",
        binary,
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        *flags,
    ) as url:
        yield url


@contextmanager
def alertmanager(folder: Path, config: str) -> Iterator[str]:
    """Alertmanager with this configuration; its address."""
    binary, port = find("prometheus-alertmanager", "alertmanager"), free_port()
    folder.mkdir(exist_ok=True)
    (folder / "alertmanager.yml").write_text(config)
    with started(
        f"http://127.0.0.1:{port}",
        folder / "alertmanager.log",
        binary,
        f"--config.file={folder / 'alertmanager.yml'}",
        f"--storage.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
    ) as url:
        yield url


def get(url: str, **query: str) -> Any:
    """JSON of an address."""
    with urllib.request.urlopen(f"{url}?{urllib.parse.urlencode(query)}", timeout=20) as answer:
        return json.load(answer)


def ask(url: str, expression: str) -> list[Any]:
    """What Prometheus answers to an expression now."""
    found = get(f"{url}/api/v1/query", query=expression)["data"]["result"]
    assert isinstance(found, list)
    return found


def _ready(child: "subprocess.Popen[bytes]", url: str, log: Path) -> bool:
    assert child.poll() is None, log.read_text(errors="replace")[-3_000:]
    try:
        with urllib.request.urlopen(f"{url}/-/ready", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
