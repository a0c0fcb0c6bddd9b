"""`reach token` and `reach settings` from outside: an env that lets nobody in without a token."""

import json
from pathlib import Path

import pytest

from reach import Agent
from reach.backend.private_server import PrivateServer
from reach.errors import RegistrationRefused
from tests.e2e.conftest import StartWorker
from tests.e2e.processes import reach

pytestmark = pytest.mark.processes
KEY = "0123456789abcdef0123456789abcdef"


def agent(token: str | None) -> Agent:
    made = Agent("refund-1", token=token)

    @made.capability("refund")
    async def refund(body: object) -> object:
        return body

    return made


async def test_an_env_that_demands_tokens_lets_in_who_has_one(
    server: PrivateServer, start_worker: StartWorker, tmp_path: Path
) -> None:
    start_worker(REACH_TOKEN_KEYS=KEY).wait_ready()
    assert reach("settings", "set", "require_token", "1", REACH_REDIS_URL=server.url).returncode == 0
    assert json.loads(reach("settings", "ls", "-o", "json", REACH_REDIS_URL=server.url).stdout)["require_token"] == "1"
    with pytest.raises(RegistrationRefused) as caught:
        async with agent(None).running(url=server.url):
            pass
    assert caught.value.code == "registration.missing_token"
    for env, problem in (("prod", "for env prod"), ("dev", "")):
        done = reach("token", "issue", "--agent-id", "refund-*", "--env", env, REACH_TOKEN_KEYS=KEY)
        token = done.stdout.decode().strip()
        if problem:
            with pytest.raises(RegistrationRefused, match=problem):
                async with agent(token).running(url=server.url):
                    pass
        else:
            async with agent(token).running(url=server.url):
                assert b"refund-1" in reach("agents", REACH_REDIS_URL=server.url).stdout
    assert reach("settings", "rm", "require_token", REACH_REDIS_URL=server.url).returncode == 0
    async with agent(None).running(url=server.url):
        pass


def test_a_token_is_read_and_bad_wishes_are_told(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text(KEY + "\n")
    token = reach(
        "token", "issue", "--agent-id", "a", "--capability", "x.*", "--expires", "never", "--key-file", str(path)
    )
    claims = json.loads(reach("token", "show", token.stdout.decode().strip()).stdout)
    assert claims == {"env": "dev", "agent_id": "a", "capabilities": ["x.*"], "groups": [], "expires_at_ms": None}
    assert reach("token", "show", "nonsense").returncode == 1
    assert reach("token", "issue", "--agent-id", "a", REACH_TOKEN_KEYS="").returncode == 78
    assert reach("token", "issue", "--agent-id", "a", REACH_TOKEN_KEYS="short").returncode == 78
    assert reach("token", "issue", "--agent-id", "a b", "--key-file", str(path)).returncode == 78
    assert reach("token", "issue", "--agent-id", "a", "--expires", "soon", "--key-file", str(path)).returncode == 2
    assert reach("token", "issue", "--agent-id", "a", "--key-file", str(tmp_path / "none")).returncode == 78


def test_settings_that_there_are_not_are_refused(server: PrivateServer) -> None:
    def run(*arguments: str) -> int:
        return reach("settings", *arguments, REACH_REDIS_URL=server.url).returncode

    assert run("set", "max_inbx", "1") == 2
    assert run("set", "max_inbox", "many") == 2
    assert run("set", "partitions", "4") == 2
    assert run("rm", "nothing") == 2
    for networks in ("10.0.0.0/33", "", "here", "10.0.0.1/8"):
        assert run("set", "networks", networks) == 2
    assert run("set", "networks", "10.0.0.0/8,::1/128,unix") == 0
    assert b"10.0.0.0/8,::1/128,unix" in reach("settings", "ls", REACH_REDIS_URL=server.url).stdout
    assert run("rm", "networks") == 0
    assert json.loads(reach("settings", "ls", "-o", "json", REACH_REDIS_URL=server.url).stdout)["networks"] is None
    assert run("set", "max_inbox", "5") == 0
    assert b"max_inbox" in reach("settings", "ls", REACH_REDIS_URL=server.url).stdout
