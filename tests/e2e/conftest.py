"""Worker processes and a plain client on a real server."""

from collections.abc import Callable, Iterator

import pytest

from reach.backend.private_server import PrivateServer
from tests.e2e.plain import Wire
from tests.e2e.processes import WorkerProcess

StartWorker = Callable[..., WorkerProcess]


@pytest.fixture
def client(server: PrivateServer) -> Iterator[Wire]:
    """A plain client."""
    with Wire(server.url) as one:
        yield one


@pytest.fixture
def start_worker(server: PrivateServer) -> Iterator[StartWorker]:
    """Starts workers on the server; what still runs at the end is ended as in life, by SIGTERM, and leaves nothing in Redis."""
    started: list[WorkerProcess] = []

    def start(*arguments: str, **extra: str) -> WorkerProcess:
        started.append(WorkerProcess(server.url, *arguments, **extra))
        return started[-1]

    yield start
    for worker in started:
        worker.end()
