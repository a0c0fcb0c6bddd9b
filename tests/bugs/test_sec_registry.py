"""SEC, as far as the registry goes: who may speak for an agent, what a registration makes reach do, and which names there can be."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import redis.asyncio

from reach import Agent, ConfigError, Reach, RegistrationRefused
from reach.backend.private_server import PrivateServer
from reach.envelope.token import Claims, issue
from reach.testing import wait_until
from tests.bugs.edge import refused, written
from tests.integration.outsiders import Outsider
from tests.integration.sdk.world import router
from tests.integration.spine import Spine

KEY, OTHER_KEY = "0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"


def token(agent_id: str = "victim", key: str = KEY, **claims: Any) -> str:
    return issue(key, Claims(**{"env": "dev", "agent_id": agent_id, "capabilities": ("work", "work.*")} | claims))


@asynccontextmanager
async def env_with_tokens(server: PrivateServer) -> AsyncIterator[tuple[Outsider, redis.asyncio.Redis]]:
    """An env that demands tokens, with a victim in it; and somebody who can reach `control`."""
    async with redis.asyncio.Redis.from_url(server.url) as raw:
        await raw.hset("reach:{dev}:meta", "require_token", "1")
        victim = Agent("victim", token=token())

        @victim.capability("work")
        async def work() -> str:
            return "the victim's"

        async with (
            router(server.url, token_keys=(KEY,)),
            victim.running(server.url, grace=0),
            Outsider(port=server.port) as out,
        ):
            yield out, raw


async def instance_of_victim(raw: redis.asyncio.Redis) -> str:
    members: Any = await raw.zrange("reach:{dev}:beats", 0, -1)
    (member,) = members
    return str(member.decode().partition("/")[2])


def asks(agent_id: str = "victim", instance_id: str = "thief") -> dict[str, dict[str, Any]]:
    """Every verb by which somebody speaks for an agent."""
    who = {"agent_id": agent_id, "instance_id": instance_id}
    return {
        "register": {"op": "register", **who, "capabilities": [{"name": "work"}]},
        "declare anew": {"op": "register", **who, "capabilities": [{"name": "work.of-mine"}]},
        "change": {"op": "capabilities", **who, "capabilities": []},
        "add": {"op": "capabilities", **who, "capabilities": {"add": [{"name": "work.of-mine"}]}},
        "leave": {"op": "leave", **who},
    }


@pytest.mark.parametrize("verb", asks())
async def test_B134_nobody_speaks_for_an_agent_without_its_credential(server: PrivateServer, verb: str) -> None:
    """No token, another agent's, one of another key, of another env, one that is over: on every verb, also as the live instance."""
    async with env_with_tokens(server) as (out, raw):
        before = await raw.hget("reach:{dev}:agents", "victim")
        own = await instance_of_victim(raw)
        shown = {
            "none": None,
            "another agent's": token("thief"),
            "of another key": token(key=OTHER_KEY),
            "of another env": token(env="prod"),
            "over": token(expires_at_ms=1),
            "made up": "reach1.e30.e30",
            "changed": token("thief").replace(".", ".eyJ", 1),
        }
        for instance_id in ("thief", own):
            for what, text in shown.items():
                answer = await out.ask(asks(instance_id=instance_id)[verb] | ({"token": text} if text else {}))
                assert answer["notice"] == "refused", (what, answer)
                assert answer["code"] == f"registration.{'bad' if text else 'missing'}_token", (what, answer)
                assert text is None or text not in json.dumps(answer), "what was shown is not told on"
        assert await raw.hget("reach:{dev}:agents", "victim") == before
        assert await raw.zcard("reach:{dev}:beats") == 1
        async with Reach.connect(server.url, agent_id="tester") as reach:
            assert await reach.ask("capability:work") == "the victim's"


async def test_B134_what_a_beat_asks_for_needs_the_credential_as_well(server: PrivateServer) -> None:
    async with env_with_tokens(server) as (out, raw):
        before = await raw.hget("reach:{dev}:agents", "victim")
        own = await instance_of_victim(raw)
        async with Reach.connect(server.url, agent_id="thief") as reach:
            await reach.backend.beat("victim", own, b'{"state":"ready","capabilities":[]}')
        assert (await out.ask(asks()["change"] | {"beat": 1}))[
            "code"
        ] == "registration.missing_token"  # behind it in the queue

        async def empty() -> bool:
            return bool(await raw.xlen("reach:{dev}:control") == 0)

        await wait_until(empty, what="nothing is left at the door of the registrars")
        assert await raw.hget("reach:{dev}:agents", "victim") == before


async def test_B134_capabilities_of_others_cannot_be_squatted(server: PrivateServer) -> None:
    """A token names what its agent may offer; messages for all else never come to it, however it asks."""
    async with env_with_tokens(server) as (out, _):
        for capabilities in (["refund"], ["work", "refund"], ["works"], ["wor"]):
            declared = [{"name": name} for name in capabilities]
            entry = {"op": "register", "agent_id": "squatter", "instance_id": "i", "token": token("squatter")}
            answer = await out.ask(entry | {"capabilities": declared})
            assert answer["code"] == "registration.bad_token"
            assert "it does not allow the capabilities" in answer["message"]
        answer = await out.ask({**asks("squatter")["register"], "groups": ["payers"], "token": token("squatter")})
        assert "it does not allow the groups payers" in answer["message"]
        assert (await out.ask(asks("squatter")["register"] | {"token": token("squatter")}))["notice"] == "registered"
        answer = await out.ask(
            asks("squatter")["add"] | {"capabilities": {"add": [{"name": "refund"}]}, "token": token("squatter")}
        )
        assert answer["code"] == "registration.bad_token"
        assert (await out.ask(asks("squatter")["leave"] | {"token": token("squatter")}))["notice"] == "done"


async def test_B136_nobody_opens_what_a_registration_names(server: PrivateServer) -> None:
    """`endpoint` is for people: a message goes to the inbox, and nobody calls at the address, whatever it is."""
    called = asyncio.Event()

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        called.set()
        writer.close()

    listening = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    urls = [f"http://127.0.0.1:{port}/", f"http://[::ffff:127.0.0.1]:{port}/", f"http://2130706433:{port}/"]
    urls += ["http://169.254.169.254/latest/meta-data/", "file:///etc/passwd", "gopher://127.0.0.1:1/_x", "http://a@b/"]
    async with listening, router(server.url):
        for number, url in enumerate(urls):
            agent = Agent(f"agent-{number}", endpoint=url)

            @agent.capability("work")
            async def work() -> str:
                return "done"

            async with agent.running(server.url, grace=0), Reach.connect(server.url, agent_id="tester") as reach:
                assert await reach.ask(f"agent_id:agent-{number}") == "done"
        assert not called.is_set()
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        await wait_until(called.is_set, what="the ear works")
        writer.close()


BAD_NAMES = [
    "../../x",
    "/abs",
    "a/b",
    "a\\b",
    "%2e%2e",
    "a\x00b",
    "x" * 5_000,
    "",
    ".",
    "..",
    "\u0430gent",
    "a\nb",
    "-a",
    " a",
]
#: globs, and what would break the structure of keys
BAD_NAMES += ["*", "a[bc]", "?", "\\*", "a:*", "a:b", "{a}", "a{b", "a}b", "a b"]


def _with(name: str) -> list[dict[str, Any]]:
    """Every verb, with this name in each place that one can stand in."""
    good: dict[str, Any] = {"op": "register", "agent_id": "b", "instance_id": "i"}
    change: dict[str, Any] = {"op": "capabilities", "agent_id": "a", "instance_id": "i", "capabilities": []}
    return [
        good | {"agent_id": name},
        good | {"instance_id": name},
        good | {"node_id": name},
        good | {"groups": [name]},
        good | {"capabilities": [{"name": name}]},
        good | {"accepts": [{"type": name}]},
        change | {"agent_id": name},
        change | {"instance_id": name},
        change | {"capabilities": {"add": [{"name": name}]}},
        {"op": "leave", "agent_id": name, "instance_id": "i"},
        {"op": "leave", "agent_id": "a", "instance_id": name},
    ]


async def test_B140_a_name_that_is_a_path_is_refused_in_every_verb(server: PrivateServer) -> None:
    """agent_id, instance_id, group, capability and type of a registration, and the names of a change and a farewell."""
    async with router(server.url), Outsider(port=server.port) as out:
        assert (await out.ask({"op": "register", "agent_id": "a", "instance_id": "i"}))["notice"] == "registered"
        for name in BAD_NAMES:
            for fields in _with(name):
                answer = await out.ask(fields)
                assert answer["notice"] == "refused", fields
                assert answer["code"].startswith("registration."), answer
                assert len(json.dumps(answer)) < 8_000
        assert await out.registered() == {"a"}
        keys = {key.decode() for key in await out("KEYS", "*")}
        assert {key for key in keys if ":inbox:" in key} == {
            f"reach:{{dev.0}}:inbox:a:{lane}" for lane in ("high", "normal", "low")
        }
    for name in BAD_NAMES:
        with pytest.raises((ConfigError, ValueError)):
            Agent(name).capability(name)(lambda: None)


async def test_B140_a_message_cannot_name_a_path(spine: Spine) -> None:
    for name in ("../../x", "a/b", "%2e%2e", "x" * 5_000, "..", "\x00"):
        for fields in ({"msg_id": name}, {"source": {"agent_id": name}}, {"target": {"pattern": f"agent_id:{name}"}}):
            receipt = await refused(spine, written(**fields))
            assert receipt["code"] in {"envelope.bad_field", "target.bad_pattern", "envelope.malformed"}, (
                fields,
                receipt,
            )


@pytest.mark.parametrize("name", ["*", "v?ctim", "[a-z]*", "vic*", "\\*"])
async def test_B142_a_glob_in_a_name_touches_nobody_else(server: PrivateServer, name: str) -> None:
    """In every verb of the registry, and in every step that looks for the instances of an agent: only the literal name is meant."""
    async with router(server.url), Outsider(port=server.port) as out:
        assert (await out.ask({"op": "register", "agent_id": "victim", "instance_id": "i"}))["notice"] == "registered"
        agent = Agent("one")
        agent.capability("work")(lambda: None)
        async with agent.running(server.url, grace=0):
            backend = agent.instances[0].backend
            assert await backend.registration(name) == (None, {})
            assert await backend.instances(name) == []
            await backend.leave(name, "i")
            for op in ("leave", "capabilities"):
                fields = {"op": op, "agent_id": name, "instance_id": "i"}
                answer = await out.ask(fields | ({"capabilities": []} if op == "capabilities" else {}))
                assert answer["notice"] == "refused"
            _, beats = await backend.registration("victim")
            assert list(beats) == ["i"]
        assert await out.registered() == {"victim"}


async def test_B144_no_separator_makes_two_names_one(server: PrivateServer) -> None:
    """What the grammar lets in (dot, dash, underscore) keeps agents and instances apart; a slash, a colon, a brace never comes in."""
    pairs = [("a", "b.c"), ("a.b", "c"), ("a-b", "c"), ("a_b", "c"), ("a", "b-c")]
    async with router(server.url), Outsider(port=server.port) as out:
        for agent_id, instance_id in pairs:
            answer = await out.ask({"op": "register", "agent_id": agent_id, "instance_id": instance_id})
            assert answer["notice"] == "registered"
        for agent_id, instance_id in (("a/b", "c"), ("a", "b/c"), ("a:b", "c"), ("{dev.1}", "c"), ("a}", "{b")):
            answer = await out.ask({"op": "register", "agent_id": agent_id, "instance_id": instance_id})
            assert (answer["notice"], answer["code"]) == ("refused", "registration.bad_field")
        members = {member.decode() for member in await out("ZRANGE", "reach:{dev}:beats", 0, -1)}
        assert members == {f"{agent_id}/{instance_id}" for agent_id, instance_id in pairs}
        assert (await out.ask({"op": "leave", "agent_id": "a", "instance_id": "b.c"}))["last"] is False
        assert await out.registered() == {"a", "a.b", "a-b", "a_b"}


@pytest.mark.parametrize("what", ["bytes", "capabilities", "members", "depth", "schemas"])
async def test_B134_an_oversized_declaration_is_refused_and_the_next_one_served(
    server: PrivateServer, what: str
) -> None:
    """It costs its sender an answer, and nobody else anything."""
    entry: dict[str, Any] = {"op": "register", "agent_id": "big", "instance_id": "i"}
    deep: Any = "x"
    for _ in range(100):
        deep = [deep]
    larger: dict[str, dict[str, Any]] = {
        "bytes": {"capabilities": [{"name": "a", "description": "x" * (1 << 20)}]},
        "capabilities": {"capabilities": [{"name": f"a.n{number}"} for number in range(1_001)]},
        "members": {f"field{number}": 1 for number in range(30_000)},
        "depth": {"capabilities": [{"name": "a", "examples": deep}]},
        "schemas": {"accepts": [{"type": "request", "schemas": [f"a.n{n}.v1" for n in range(1_001)]}]},
    }
    entry |= larger[what]
    async with router(server.url), Outsider(port=server.port) as out:
        answer = await out.put(out.entry(entry))
        assert (answer["notice"], answer["code"].partition(".")[0]) == ("refused", "registration")
        assert len(json.dumps(answer)) < 16_000
        assert await out.registered() == set()
        assert (await out.ask({"op": "register", "agent_id": "small", "instance_id": "i"}))["notice"] == "registered"


async def test_B134_dev_credentials_never_enter_prods_table(server: PrivateServer) -> None:
    """Whatever of dev is shown at prod's door: its tokens under any name, its key, its env, an agent that is alive in dev."""
    dev_key, prod_key = KEY, OTHER_KEY
    prod = {"env": "prod", "capabilities": ("*",)}
    async with redis.asyncio.Redis.from_url(server.url) as raw:
        await raw.hset("reach:{prod}:meta", "require_token", "1")
        async with (
            router(server.url, "dev-w", token_keys=(dev_key,)),
            router(server.url, "prod-w", env="prod", token_keys=(prod_key,)),
            Outsider(port=server.port, env="prod") as out,
        ):
            dev_token = token("refund", key=dev_key, capabilities=("*",))
            agent = Agent("refund", token=dev_token)
            agent.capability("refund")(lambda: "dev")
            async with agent.running(server.url, env="dev", grace=0):
                with pytest.raises(RegistrationRefused) as caught:
                    async with agent.running(server.url, env="prod", grace=0):
                        pass
                assert caught.value.code == "registration.bad_token"
                declared: dict[str, Any] = {
                    "agent_id": "refund",
                    "instance_id": "i",
                    "capabilities": [{"name": "refund"}],
                }
                verbs: dict[str, dict[str, Any]] = {"capabilities": {"capabilities": []}, "leave": {}}
                shown = [
                    None,
                    dev_token,
                    token("refund", key=dev_key, **prod),  # dev's key signs for prod
                    token("refund", key=prod_key, env="dev", capabilities=("*",)),  # prod's key, for dev
                    token("*", key=dev_key, **prod),
                ]
                for env in ("prod", "dev"):
                    for text in shown:
                        fields = {"op": "register", "env": env, **declared} | ({"token": text} if text else {})
                        answer = await out.ask(fields)
                        assert answer["notice"] == "refused", fields
                for op, more in verbs.items():
                    for text in shown:
                        fields = {"op": op, "agent_id": "refund", "instance_id": "i"} | (
                            {"token": text} if text else {}
                        )
                        fields |= more
                        assert (await out.ask(fields))["notice"] == "refused"
                assert await out.registered() == set()
                assert await raw.exists("reach:{prod}:beats", "reach:{prod.0}:inbox:refund:normal") == 0
            # and the door is no wall: who has prod's token comes in
            fields = {"op": "register", "env": "prod", **declared, "token": token("refund", key=prod_key, **prod)}
            assert (await out.ask(fields))["notice"] == "registered"
            assert await out.registered() == {"refund"}
