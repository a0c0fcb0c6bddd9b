"""`reach schemas`, `reach types` and `reach accepts` from outside."""

import asyncio
import json
from pathlib import Path

import msgspec
import pytest

from reach import Agent
from reach.backend.private_server import PrivateServer
from tests.e2e.conftest import StartWorker
from tests.e2e.processes import reach

pytestmark = pytest.mark.processes

CITY = '{"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}'


def run(server: PrivateServer, *arguments: str) -> tuple[int, str, str]:
    done = reach(*arguments, REACH_REDIS_URL=server.url)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_a_schema_comes_is_checked_and_goes(server: PrivateServer, tmp_path: Path) -> None:
    assert "no schemas" in run(server, "schemas", "ls")[2]
    path = tmp_path / "query.json"
    path.write_text(CITY)
    assert run(server, "schemas", "set", "weather.query.v1", f"@{path}")[0] == 0
    assert "means the same" in run(server, "schemas", "set", "weather.query.v1", CITY)[2]
    assert json.loads(run(server, "schemas", "show", "weather.query.v1")[1]) == json.loads(CITY)
    status, out, _ = run(server, "schemas", "check", "weather.query.v2", '{"type": "string"}')
    assert (status, "$: weather.query.v2 takes no object" in out) == (1, True)
    status, _, talk = run(server, "schemas", "set", "weather.query.v2", '{"type": "string"}')
    assert (status, "weather.query.v2 takes no object" in talk) == (1, True)
    assert run(server, "schemas", "set", "weather.query", "--compatibility", "none")[0] == 0
    assert run(server, "schemas", "set", "weather.query.v2", '{"type": "string"}')[0] == 0
    listed = json.loads(run(server, "schemas", "ls", "-o", "json")[1])
    assert [(row["schema"], row["compatibility"], row["by"], row["reads"]) for row in listed] == [
        ("weather.query.v1", "none", "admin", []),
        ("weather.query.v2", "none", "admin", []),
    ]
    assert run(server, "schemas", "rm", "weather.query.v2")[0] == 0
    for arguments in (("rm", "weather.query.v2"), ("show", "weather.query.v2"), ("set", "x.v1", "{")):
        assert run(server, "schemas", *arguments)[0] == 1
    assert run(server, "schemas", "set", "x.v1")[0] == 2
    assert run(server, "schemas", "set", "x.v1", "@/nowhere")[0] == 2


def test_what_is_kept_of_a_schema_is_set_and_shown(server: PrivateServer) -> None:
    def kept() -> dict[str, str]:
        return {row["schema"]: row["privacy"] for row in json.loads(run(server, "schemas", "ls", "-o", "json")[1])}

    for name in ("weather.query.v1", "weather.query.v2", "payments.refund.v1"):
        assert run(server, "schemas", "set", name, CITY)[0] == 0
    assert set(kept().values()) == {"keep"}, "in env dev"
    for name, rule in (("weather.query", "hash"), ("weather.query.v2", "drop"), ("payments.*", "drop")):
        assert run(server, "schemas", "set", name, "--privacy", rule)[0] == 0
    assert kept() == {"weather.query.v1": "hash", "weather.query.v2": "drop", "payments.refund.v1": "drop"}
    settings = json.loads(run(server, "settings", "ls", "-o", "json")[1])
    assert settings["privacy"] == "keep,weather.query=hash,weather.query.v2=drop,payments.*=drop"
    (line,) = [one for one in run(server, "schemas", "ls")[1].splitlines() if one.startswith("weather.query.v2")]
    assert "drop" in line.split()
    assert run(server, "schemas", "set", "weather.query.v2", "--privacy", "default")[0] == 0
    assert kept()["weather.query.v2"] == "hash"
    assert run(server, "schemas", "set", "x.v1", "--privacy", "hash", "--env", "prod")[0] == 0
    prod = json.loads(run(server, "settings", "ls", "--env", "prod", "-o", "json")[1])
    assert prod["privacy"] == "hash,x.v1=hash", "what held in an env where nothing was said goes on to hold"
    for arguments in (
        ("no name", "--privacy", "drop"),
        ("x.v1", "--privacy", "some"),
        ("x.v1", CITY, "--privacy", "drop"),
    ):
        assert run(server, "schemas", "set", *arguments)[0] == 2
    assert settings["privacy"].startswith("keep,")


def test_a_type_comes_and_goes(server: PrivateServer) -> None:
    assert run(server, "types", "add", "market.news")[0] == 0
    (found,) = [row for row in json.loads(run(server, "types", "ls", "-o", "json")[1]) if not row["built_in"]]
    assert found == {"type": "market.news", "built_in": False, "accepted_by": []}
    assert "market.news" in run(server, "types", "ls")[1]
    assert run(server, "types", "rm", "market.news")[0] == 0
    assert run(server, "types", "rm", "market.news")[0] == 1
    assert run(server, "types", "rm", "request")[0] == 2
    assert run(server, "types", "add", "Market News")[0] == 2


class Query(msgspec.Struct):
    city: str


async def test_who_accepts_what_is_shown_with_its_schemas(server: PrivateServer, start_worker: StartWorker) -> None:
    start_worker().wait_ready()
    agent = Agent("weather-01")

    @agent.capability(
        "weather", schema="weather.query.v1", type="weather.asked", description="tells it", max_process=20
    )
    async def weather(body: Query) -> object:
        return body.city

    assert (await asyncio.to_thread(run, server, "accepts", "weather"))[0] == 1
    async with agent.running(url=server.url):
        status, out, _ = await asyncio.to_thread(run, server, "accepts", "capability:weather", "-o", "json")
        told = json.loads(out)
        assert status == 0
        (one,) = told["agents"]
        assert (one["agent_id"], one["state"]) == ("weather-01", "ready")
        assert one["accepts"] == {"weather.asked": ["weather.query.v1"]}
        assert one["offers"] == [
            {
                "name": "weather",
                "description": "tells it",
                "input_schema": "weather.query.v1",
                "max_process_ms": 20_000,
            }
        ]
        out = (await asyncio.to_thread(run, server, "accepts", "capability:weather"))[1]
        assert all(word in out for word in ("weather-01", "weather.asked: weather.query.v1", "20 s"))
        _, _, talk = await asyncio.to_thread(run, server, "types", "rm", "weather.asked")
        assert "weather-01 accepts weather.asked" in talk
    assert (await asyncio.to_thread(run, server, "accepts", "no pattern"))[0] == 2
