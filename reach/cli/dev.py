"""`reach dev`: a private server and workers in one command, gone when it ends, however it ends."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

import click
from click.core import ParameterSource

from reach import ids
from reach.backend import open_backend
from reach.backend.private_server import HOST, PrivateServer
from reach.cli import edge
from reach.errors import BackendUnavailable, ConfigError
from reach.settings import safe_url

USUAL_PORT = 6379
STOP_S = 12.0
LOOK_S = 0.2


@click.command()
@click.option(
    "--redis-url",
    metavar="URL",
    envvar="REACH_REDIS_URL",
    show_envvar=True,
    help="Use this server and start none.",
    callback=edge.shared,
)
@click.option("--env", metavar="ENV", envvar="REACH_ENV", default=ids.DEFAULT_ENV, show_default=True, show_envvar=True)
@click.option(
    "--port", type=click.IntRange(0, 65_535), help="The server's port; default: 6379 if it is free, else another."
)
@click.option("--workers", type=click.IntRange(1, 64), default=1, show_default=True, help="How many routers.")
@click.option(
    "--health-port", type=click.IntRange(0, 65_535), default=0, show_default=True, help="Of the first worker; 0 = off."
)
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="warning", show_default=True
)
def dev(redis_url: str | None, env: str, port: int | None, workers: int, health_port: int, log_level: str) -> int:
    """Start a private server and workers, print the address, and wait for Ctrl-C. Nothing is kept.

    With --redis-url or REACH_REDIS_URL the workers serve that server; none is started, and what is in it stays.
    """
    if not ids.is_env(env):
        raise ConfigError(f"{env!r} is no env: lower-case letters, digits and dashes, at most 32")
    asked = threading.Event()
    status = [edge.OK]
    with _signals(asked, status), _server(redis_url, port, env) as (url, server):
        running: list[subprocess.Popen[bytes]] = []
        try:
            running += [_worker(url, env, health_port if number == 0 else 0, log_level) for number in range(workers)]
            click.echo(url)
            sys.stdout.flush()
            if server is not None and server.port != USUAL_PORT:
                edge.say(f"in the other terminals: export REACH_REDIS_URL={url}")
            if server is None:
                source = click.get_current_context().get_parameter_source("redis_url")
                of = "REACH_REDIS_URL" if source is ParameterSource.ENVIRONMENT else "--redis-url"
                edge.say(f"this is the server of {of}: reach dev starts none and leaves it running")
            edge.say(f"{workers} worker(s) serve env {env} at {safe_url(url)}; Ctrl-C ends it all")
            while not asked.wait(LOOK_S):
                if server is not None and not server.running:
                    edge.say("reach: the server ended, and with it all that was in it")
                    return edge.UNAVAILABLE
                ended = [worker.returncode for worker in running if worker.poll() is not None]
                if ended:
                    edge.say(f"reach: a worker ended with status {ended[0]}")
                    return ended[0] or edge.FAILED
        finally:
            _stop(running)
    return status[0]


@contextmanager
def _signals(asked: threading.Event, status: list[int]) -> Iterator[None]:
    """Ctrl-C and SIGTERM end the waiting instead of the process, so that what was started is stopped in its order."""

    def on_signal(number: int, _: FrameType | None) -> None:
        status[0] = edge.INTERRUPTED if number == signal.SIGINT else edge.OK
        asked.set()

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _server(redis_url: str | None, port: int | None, env: str) -> Iterator[tuple[str, PrivateServer | None]]:
    """The address, and the server that was started for it."""
    if redis_url:
        edge.run(_reached(redis_url, env))
        yield redis_url, None
        return
    with _started(port) as server:
        yield server.url, server


async def _reached(url: str, env: str) -> None:
    """Raises BackendError where nobody answers: workers would wait for it, and look as if they served."""
    backend = open_backend(url, env=env)
    try:
        await backend.open()
    finally:
        await backend.close()


def _started(port: int | None) -> PrivateServer:
    if port is not None:
        if port and _taken(port):
            raise BackendUnavailable(f"port {port} is taken: choose another with --port, 0 for any that is free")
        return PrivateServer.start(port=port)
    try:
        return PrivateServer.start(port=USUAL_PORT)  # then every command finds it without being told
    except BackendUnavailable:
        return PrivateServer.start()


def _taken(port: int) -> bool:
    try:
        with socket.create_connection((HOST, port), timeout=1.0):
            return True
    except OSError:
        return False


def _worker(url: str, env: str, health_port: int, log_level: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "reach_worker", "run", "--env", env, "--health-port", str(health_port)]
    command += ["--log-format", "console", "--log-level", log_level, "--exit-with-stdin"]
    # The address goes by the environment: a password in it would be seen in the list of processes. stdin stays open as long as we live:
    # its end is how a worker learns that we were killed. A session of its own: Ctrl-C comes to us, and we stop it in order.
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=sys.stderr,
        env={**os.environ, "REACH_REDIS_URL": url},
        start_new_session=True,
    )


def _stop(running: list[subprocess.Popen[bytes]]) -> None:
    for worker in running:
        worker.terminate()
    for worker in running:
        with suppress(subprocess.TimeoutExpired):
            worker.wait(STOP_S)
        worker.kill()
        worker.wait()
        if worker.stdin is not None:
            worker.stdin.close()
