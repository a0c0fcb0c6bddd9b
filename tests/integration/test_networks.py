"""Only from inside: the address that Redis sees decides, on real servers, whatever somebody says of himself."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import redis.asyncio

from reach import Agent, RegistrationRefused
from reach.backend.private_server import PrivateServer
from reach.backend.vouching import name_of
from reach.testing import wait_until
from tests.integration.outsiders import Outsider
from tests.integration.sdk.world import router
from tests.servers import StartServer

REGISTER = {"op": "register", "agent_id": "refund", "instance_id": "i1", "capabilities": [{"name": "refund"}]}


def refund_agent() -> Agent:
    agent = Agent("refund")

    @agent.capability("refund")
    async def refund() -> str:
        return "done"

    return agent


@asynccontextmanager
async def guarded(server: PrivateServer, networks: str) -> AsyncIterator[None]:
    """A router of an env with these networks."""
    async with redis.asyncio.Redis.from_url(server.url) as raw:
        await raw.hset("reach:{dev}:meta", "networks", networks)
    async with router(server.url):
        yield


async def refused(server: PrivateServer) -> str:
    with pytest.raises(RegistrationRefused) as caught:
        async with refund_agent().running(server.url, grace=0):
            pass
    assert caught.value.code == "registration.bad_address"
    return str(caught.value)


async def test_agents_from_inside_come_in_and_those_from_outside_do_not(server: PrivateServer) -> None:
    async with guarded(server, "127.0.0.0/8"):
        agent = refund_agent()
        async with agent.running(server.url, grace=0):
            assert await agent.add_capability("more", lambda: None) is True
    async with guarded(server, "10.0.0.0/8,::1"):
        assert "127.0.0.1, outside the networks of env dev" in await refused(server)


async def test_a_setting_that_is_made_while_it_runs_counts_at_once(server: PrivateServer) -> None:
    async with router(server.url), refund_agent().running(server.url, grace=0) as agent:
        backend = agent.instances[0].backend
        await backend.set_meta("meta", "networks", b"10.0.0.0/8")
        with pytest.raises(RegistrationRefused, match="outside"):
            await agent.add_capability("more", lambda: None)
        await backend.set_meta("meta", "networks", b"nonsense")
        with pytest.raises(RegistrationRefused, match="cannot be read"):
            await agent.add_capability("more", lambda: None)
        await backend.set_meta("meta", "networks", None)
        assert await agent.add_capability("more", lambda: None) is True


async def test_nobody_can_lend_himself_an_address(start_server: StartServer) -> None:
    """What an outsider says, signs with another's name, or repeats with changes is judged by where he comes from."""
    server = start_server(extra_args=("--protected-mode", "no"))  # else Redis 7.0 serves 127.0.0.1 alone
    async with (
        guarded(server, "127.0.0.1"),
        Outsider(port=server.port, source="127.0.0.2") as out,
        Outsider(port=server.port) as inside,
    ):
        answer = await out.ask(REGISTER)
        assert (answer["code"], answer["addresses"]) == ("registration.bad_address", ["127.0.0.2"])
        answer = await out.ask(REGISTER | {"instance_id": "i2"}, vouch=False)
        assert (answer["code"], answer["addresses"]) == ("registration.bad_address", [])
        # the name of a live connection from inside goes with that one's bytes alone
        entry = inside.entry(REGISTER | {"agent_id": "shop"})
        assert (await inside.put(entry))["notice"] == "registered"
        await out("CLIENT", "SETNAME", name_of(entry))
        for agent_id in ("shop", "rogue"):
            answer = await out.ask(REGISTER | {"agent_id": agent_id}, vouch=False)
            assert (answer["code"], answer["addresses"]) == ("registration.bad_address", [])
        for op in ("capabilities", "leave"):
            asked: dict[str, object] = {"op": op, "agent_id": "shop", "instance_id": "i1"} | (
                {"capabilities": []} if op == "capabilities" else {}
            )
            assert (await out.ask(asked))["code"] == "registration.bad_address"
        assert await out.registered() == {"shop"}


async def test_a_connection_that_is_gone_vouches_for_nothing(server: PrivateServer) -> None:
    async with Outsider(port=server.port) as one:
        entry = one.entry(REGISTER)
        async with Outsider(port=server.port) as gone:
            await gone("CLIENT", "SETNAME", name_of(entry))
        async with guarded(server, "127.0.0.0/8"):
            answer = await one.put(entry, vouch=False)
            assert (answer["code"], answer["addresses"]) == ("registration.bad_address", [])
            assert (await one.put(entry))["notice"] == "registered"


async def test_ipv6_and_unix_sockets(start_server: StartServer, tmp_path: Path) -> None:
    path = str(tmp_path / "redis.sock")
    server = start_server(extra_args=("--bind", "127.0.0.1", "::1", "--unixsocket", path))
    async with Outsider(path=path) as local, Outsider(port=server.port, host="::1", source="::1") as six:
        async with guarded(server, "::1/128"):
            assert (await six.ask(REGISTER | {"agent_id": "six"}))["notice"] == "registered"
            answer = await local.ask(REGISTER)
            assert (answer["code"], answer["addresses"]) == ("registration.bad_address", ["unix"])
            assert "127.0.0.1" in await refused(server)
        async with guarded(server, "10.0.0.0/8,unix"):
            assert (await local.ask(REGISTER | {"agent_id": "local"}))["notice"] == "registered"
            answer = await six.ask(REGISTER)
            assert (answer["code"], answer["addresses"]) == ("registration.bad_address", ["::1"])
        async with guarded(server, "unix"), refund_agent().running(f"unix://{path}", grace=0) as agent:
            assert agent.instances
        assert await six.registered() == {"six", "local"}


async def test_a_worker_that_may_not_ask_lets_nobody_in(server: PrivateServer) -> None:
    async with redis.asyncio.Redis.from_url(server.url) as raw:
        await raw.execute_command("ACL", "SETUSER", "worker", "on", ">secret", "~*", "&*", "+@all", "-client|list")  # type: ignore[no-untyped-call]
        try:
            await raw.hset("reach:{dev}:meta", "networks", "0.0.0.0/0")
            async with router(server.url.replace("redis://", "redis://worker:secret@")):
                assert "CLIENT LIST" in await refused(server)
        finally:
            await raw.execute_command("ACL", "DELUSER", "worker")  # type: ignore[no-untyped-call]


async def test_an_agent_that_may_not_name_itself_is_missed_only_where_networks_are_set(server: PrivateServer) -> None:
    async with redis.asyncio.Redis.from_url(server.url) as raw:
        await raw.execute_command("ACL", "SETUSER", "agent", "on", ">secret", "~*", "&*", "+@all", "-client|setname")  # type: ignore[no-untyped-call]
        try:
            own = server.url.replace("redis://", "redis://agent:secret@")
            async with router(server.url), refund_agent().running(own, grace=0) as agent:
                await agent.instances[0].backend.set_meta("meta", "networks", b"0.0.0.0/0")
                with pytest.raises(RegistrationRefused, match="no connection vouches"):
                    await agent.add_capability("more", lambda: None)
                await agent.instances[0].backend.set_meta("meta", "networks", None)
        finally:
            await raw.execute_command("ACL", "DELUSER", "agent")  # type: ignore[no-untyped-call]


async def test_a_fleet_that_lost_its_connections_comes_back_from_inside(server: PrivateServer) -> None:
    """Who vouched is looked up when the entry is read; a connection that was cut meanwhile is made good for by asking again."""
    async with guarded(server, "127.0.0.1"), redis.asyncio.Redis.from_url(server.url) as raw:
        agents = [refund_agent() for _ in range(3)]
        async with agents[0].running(server.url, grace=0), agents[1].running(server.url, grace=0):
            await raw.client_kill_filter(_type="normal", skipme=True)
            await raw.delete("reach:{dev}:agents", "reach:{dev}:beats", "reach:{dev}:load")

            async def back() -> bool:
                return (
                    bool(await raw.hexists("reach:{dev}:agents", "refund"))
                    and int(await raw.zcard("reach:{dev}:beats")) == 2
                )

            await wait_until(back, 15)
