"""Who takes part: a server, routers, and the four agents, each a process."""

import asyncio
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from examples.helpdesk import run_log
from examples.helpdesk.driver.children import Children
from reach import Reach
from reach.backend.private_server import PrivateServer

LOOKUPS = ("docs-lookup-01", "docs-lookup-02")
#: agent_id -> program, and how long a run takes, in seconds, when the desk is to look as busy as with real models
AGENTS = {
    "intent-parser": ("intent_parser", 0.1),
    LOOKUPS[0]: ("docs_lookup", 0.35),
    LOOKUPS[1]: ("docs_lookup", 0.35),
    "answer-writer": ("answer_writer", 0.1),
}
_START_S = 25.0
_POLL_S = 0.05


class StageError(Exception):
    """Somebody did not come up, or fell."""


class Stage:
    """The running processes."""

    def __init__(self, url: str, env: str, children: Children) -> None:
        self.url = url
        self.env = env
        self.children = children

    @property
    def log(self) -> Path:
        return self.children.directory / "runs.jsonl"

    def runs(self) -> list[run_log.Line]:
        return run_log.read(self.log)

    def start(self, routers: tuple[str, ...], *, busy: bool) -> None:
        self.log.touch()
        for router in routers:
            self.children.start(
                router, "reach_worker", "run", "--worker-id", router, "--health-port", "0", "--log-level", "warning"
            )
        for agent_id, (program, pace) in AGENTS.items():
            told = ["--agent-id", agent_id, "--run-log", str(self.log), "--pace", str(pace if busy else 0)]
            self.children.start(agent_id, f"examples.helpdesk.agents.{program}", *told)

    async def complete(self, reach: Reach) -> None:
        """Wait until every agent is registered.

        Raises:
            StageError: One ended, or is not there in time.
        """
        missing = set(AGENTS)
        try:
            async with asyncio.timeout(_START_S):
                while missing:
                    self.look()
                    missing = set(AGENTS) - (await reach.backend.snapshot()).agents.keys()
                    await asyncio.sleep(_POLL_S)
        except TimeoutError as error:
            raise StageError(f"{', '.join(sorted(missing))} did not register within {_START_S:.0f} s") from error

    def look(self) -> None:
        """Raise StageError if a child ended by itself."""
        fallen = self.children.ended()
        if fallen:
            raise StageError(fallen)


@contextmanager
def set_up(url: str | None) -> Iterator[Stage]:
    """A stage on the server at `url`, else on a private one; nothing of it is left at the end. Its env is its own."""
    env = f"demo-{secrets.token_hex(3)}"
    with _server(url) as address, Children({"REACH_REDIS_URL": address, "REACH_ENV": env}) as children:
        yield Stage(address, env, children)


@contextmanager
def _server(url: str | None) -> Iterator[str]:
    if url:
        yield url
        return
    with PrivateServer.start() as server:
        yield server.url
