"""Schemas from end to end, on memory: derived from types, validated at both ends, read by newer handlers, asked for."""

import dataclasses
import logging
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

import msgspec
import pydantic
import pytest

from reach import Agent, Context, RegistrationRefused, Result
from reach.envelope.registration import Registration
from reach.sdk import declaration, deriving
from reach.sdk.deriving import declared_schema
from reach.sdk.handlers import read_handler
from reach.testing import TestReach

V1, V2 = "weather.query.v1", "weather.query.v2"


class Query(msgspec.Struct):
    city: str
    days: int = 1


class Wider(msgspec.Struct):
    city: str
    days: int | None = 1
    units: str = "C"


@dataclasses.dataclass
class Data:
    city: str


class Typed(TypedDict):
    city: str


class Model(pydantic.BaseModel):
    city: str


class Holding(msgspec.Struct):
    model: Model


class Strange(msgspec.Struct):
    what: complex


def weather(agent_id: str, kind: Any, schema: str, **options: Any) -> Agent:
    agent = Agent(agent_id, **options)

    async def told(body: Any, ctx: Context) -> Any:
        return {"by": agent_id, "body": msgspec.to_builtins(body)}

    told.__annotations__["body"] = kind
    agent.capability("weather", schema=schema)(told)
    return agent


@pytest.mark.parametrize("kind", [Query, Data, Typed, Model])
def test_a_type_says_what_it_is(kind: Any) -> None:
    schema = declared_schema(V1, kind)
    assert isinstance(schema, dict)
    assert schema["$id"] == V1
    assert "city" in str(schema)


def test_one_within_another_says_it_too() -> None:
    schema = declared_schema(V1, Holding)
    assert isinstance(schema, dict)
    assert "city" in str(schema)


@pytest.mark.parametrize("kind", [dict, Any, str, list[int], dict[str, int], Strange])
def test_what_says_nothing_has_its_name_alone(kind: Any) -> None:
    assert declared_schema(V1, kind) == V1
    assert declared_schema(None, kind) is None


class Calling(pydantic.BaseModel):
    call: Callable[[int], int]


class Looking(pydantic.BaseModel, regex_engine="python-re"):
    word: Annotated[str, pydantic.Field(pattern="(?=a)b")]


class Own(pydantic.BaseModel):
    @classmethod
    def model_json_schema(cls, *_: Any, **__: Any) -> Any:
        raise KeyError("whatever the user's code raises")


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (Calling, "no JSON Schema can be made of Calling: PydanticInvalidForJsonSchema"),
        (Looking, "the JSON Schema of Looking cannot be stored: /properties/word/pattern: no pattern that can be used"),
        (Own, "no JSON Schema can be made of Own: KeyError"),
        (Strange, "no JSON Schema can be made of Strange"),
    ],
)
def test_a_type_that_no_schema_comes_of_is_told_once(kind: Any, reason: str, caplog: pytest.LogCaptureFixture) -> None:
    deriving._derived.cache_clear()
    caplog.set_level(logging.WARNING)
    assert [declared_schema(V1, kind) for _ in range(3)] == [V1, V1, V1]
    (record,) = caplog.records
    assert record.getMessage().startswith("schema not declared ")
    assert record.schema == V1  # type: ignore[attr-defined]
    assert record.reason.startswith(reason)  # type: ignore[attr-defined]


async def test_an_agent_whose_type_has_no_schema_works_all_the_same() -> None:
    class Seeing(msgspec.Struct):
        city: Annotated[str, msgspec.Meta(pattern="^(?=O)")]

    async with TestReach(weather("a", Seeing, V1)) as bus:
        assert (await bus.request("capability:weather", {"city": "Oslo"}, schema=V1)).ok
        assert await bus.reach.schemas.get(V1) is None


def test_a_registration_has_room_for_so_many_schemas(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(declaration, "MAX_SCHEMAS_BYTES", 400)
    handlers = [
        read_handler(lambda body: body, type="request", capability=f"c.n{n}", schema=f"c.v{n}") for n in range(5)
    ]
    handlers = [dataclasses.replace(handler, body_kind=Query) for handler in handlers]
    own = Registration(agent_id="a", instance_id="i")
    made = declaration.registration_of(own, own, handlers, "")
    assert [isinstance(one.input_schema, dict) for one in made.capabilities] == [True, True, False, False, False]
    assert made.capabilities[4].input_schema == "c.v4"
    assert [record.schema for record in caplog.records] == ["c.v2", "c.v3", "c.v4"]  # type: ignore[attr-defined]


async def test_a_handlers_type_is_stored_under_its_schemas_name() -> None:
    async with TestReach(weather("a", Query, V1)) as bus:
        schema = await bus.reach.schemas.get(V1)
        assert schema is not None
        assert "$id" not in schema
        told = await bus.reach.accepts("weather")
        (agent,) = told.agents
        assert (told.pattern, agent.agent_id, agent.state) == ("capability:weather", "a", "ready")
        assert agent.accepts == {"request": [V1]}
        assert (agent.offers[0].input_schema, agent.offers[0].max_process) == (V1, None)
        assert told.schemas == {V1: schema}


async def test_who_is_asked_tells_what_else_it_reads_and_what_it_costs() -> None:
    agent = Agent("b", cost=2.0)

    @agent.capability("weather", schema=V2, output_schema="weather.answer.v1", max_process=20)
    async def told(body: Wider) -> Query:
        return Query(body.city)

    async with TestReach(agent, weather("a", Query, V1)) as bus:
        found = await bus.reach.accepts("agent_id:b")
        (one,) = found.agents
        assert one.reads == {V1: [V2]}
        assert [(offer.name, offer.output_schema, offer.max_process) for offer in one.offers] == [
            ("weather", "weather.answer.v1", 20.0)
        ]
        assert sorted(found.schemas) == ["weather.answer.v1", V1, V2]
        assert (await bus.reach.accepts("capability:nothing")).agents == []


async def test_a_message_of_an_older_schema_is_handled_by_a_newer_handler() -> None:
    async with TestReach(weather("b", Wider, V2), agent_id="me") as bus:
        await bus.reach.schemas.set(V1, msgspec.json.schema(Query))
        receipt = await bus.request("capability:weather", {"city": "Oslo"}, schema=V1, timeout=2)
        assert receipt.output == {"by": "b", "body": {"city": "Oslo", "days": 1, "units": "C"}}
        await bus.start(weather("a", Query, V1))
        receipt = await bus.request("capability:weather", {"city": "Oslo"}, schema=V1)
        assert "'by': 'a'" in repr(receipt.output)
        handle = await bus.send("agent_id:a", {"city": "Oslo"}, schema=V2, timeout=1)
        await bus.advance(2)
        assert (await handle.receipt(1)).code == "route.no_candidate"


async def test_the_nearest_version_handles_it() -> None:
    agent = Agent("a")
    for n in (5, 3, 4):

        def handled(body: Wider, n: int = n) -> int:
            return n

        agent.capability("weather", schema=f"weather.query.v{n}")(handled)
    async with TestReach(agent) as bus:
        await bus.reach.schemas.set(V1, msgspec.json.schema(Query))
        assert await bus.ask("capability:weather", {"city": "Oslo"}, schema=V1) == 3


async def test_a_type_that_changes_under_its_name_is_refused_with_what_helps() -> None:
    async with TestReach(weather("a", Query, V1)) as bus:
        with pytest.raises(RegistrationRefused) as refused:
            await bus.start(weather("b", Wider, V1))
        assert refused.value.code == "registration.incompatible_schema"
        assert "reach schemas set weather.query --compatibility none" in refused.value.message


# ---------------------------------------------------------------- validation
async def test_a_sender_is_told_all_that_is_wrong_before_it_sends() -> None:
    async with TestReach(weather("a", Query, V1)) as bus:
        wrong = {"days": "x"}
        receipt = await bus.request("capability:weather", wrong, schema=V1, validate=True)
        assert (receipt.code, receipt.status) == ("payload.invalid", "failed")
        assert [problem["at"] for problem in receipt.details["problems"]] == ["", "/days"]
        assert bus.sent == []
        assert (await bus.request("capability:weather", {"city": "Oslo"}, schema=V1, validate=True)).ok
        assert (
            await bus.request("capability:weather", {"city": "Oslo"}, schema="x.v1", validate=True)
        ).code == "schema.unknown"
        assert len(bus.sent) == 1


async def test_a_client_that_validates_does_so_unless_a_call_says_otherwise() -> None:
    async with TestReach(weather("a", Query, V1)) as bus:
        bus.reach.origin.validates = True
        assert (await bus.request("capability:weather", {}, schema=V1)).details["schema"] == V1
        assert bus.sent == []
        assert (await bus.request("capability:weather", {}, schema=V1, validate=False)).code == "payload.invalid"
        assert len(bus.sent) == 1
        assert (await bus.request("capability:weather", {"city": "Oslo"})).ok


async def test_an_agent_that_validates_refuses_before_its_handler_runs() -> None:
    async with TestReach(weather("a", dict, V1, validate=True)) as bus:
        assert (await bus.request("capability:weather", {"days": "x"}, schema=V1)).ok  # nothing is stored to judge by
        await bus.reach.schemas.set(V1, msgspec.json.schema(Query))
        await bus.advance(1)
        receipt = await bus.request("capability:weather", {"days": "x"}, schema=V1)
        assert (receipt.status, receipt.code, receipt.attempts) == ("failed", "payload.invalid", 1)
        assert [problem["at"] for problem in receipt.details["problems"]] == ["", "/days"]
        assert (await bus.request("capability:weather", {"city": "Oslo"}, schema=V1)).ok


ANSWER = "weather.answer.v1"


def answering(*answers: Any, **options: Any) -> tuple[Agent, list[Any]]:
    """Returns one after the other."""
    agent, left = Agent("a", **options), list(answers)

    @agent.capability("weather", output_schema=ANSWER)
    async def told(body: Any) -> Any:
        return left.pop(0)

    return agent, left


async def test_an_agent_that_validates_hands_out_no_result_that_does_not_fit() -> None:
    agent, left = answering(Result({"days": "x"}, cost=2.0, tokens=7), {"city": "Oslo"}, validate=True)
    async with TestReach(agent) as bus:
        await bus.reach.schemas.set(ANSWER, msgspec.json.schema(Query))
        receipt = await bus.request("capability:weather", max_attempts=1)
        assert (receipt.status, receipt.code, receipt.cost) == ("retryable", "handler.unfit", 2.0)
        assert [problem["at"] for problem in receipt.details["problems"]] == ["", "/days"]
        assert receipt.details["tokens"] == 7
        assert "the handler's result: it does not fit weather.answer.v1: " in (receipt.error_message or "")
        assert (await bus.request("capability:weather")).output == {"city": "Oslo"}
        assert left == []


async def test_a_result_that_does_not_fit_is_tried_again_as_other_junk_is() -> None:
    agent, _ = answering({}, {"city": "Oslo"}, validate=True)
    async with TestReach(agent) as bus:
        await bus.reach.schemas.set(ANSWER, msgspec.json.schema(Query))
        handle = await bus.send("capability:weather")
        await bus.advance(5)
        receipt = await handle.receipt(1)
        assert (receipt.output, receipt.attempts) == ({"city": "Oslo"}, 2)


async def test_a_result_is_judged_by_the_schema_that_it_names_itself() -> None:
    agent, _ = answering(Result({}, schema="other.v1"), validate=True)
    async with TestReach(agent) as bus:
        await bus.reach.schemas.set("other.v1", {"required": ["all"]})
        receipt = await bus.request("capability:weather", max_attempts=1)
        assert (receipt.code, receipt.details["schema"]) == ("handler.unfit", "other.v1")


async def test_an_agent_that_does_not_validate_hands_out_any_result() -> None:
    agent, _ = answering({})
    async with TestReach(agent) as bus:
        await bus.reach.schemas.set(ANSWER, msgspec.json.schema(Query))
        assert (await bus.request("capability:weather")).output == {}


async def test_a_result_that_nothing_can_judge_goes_out_and_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    agent, _ = answering({"city": 1}, {"city": 2}, object(), validate=True)
    async with TestReach(agent) as bus:
        assert (await bus.request("capability:weather")).output == {"city": 1}  # not stored
        bus.backend_of(agent).fail("read_schemas")
        await bus.advance(60)
        assert (await bus.request("capability:weather")).output == {"city": 2}
        assert (await bus.request("capability:weather")).code == "handler.error"  # no JSON at all: told as ever
    told = [record.getMessage() for record in caplog.records if "result not validated" in record.getMessage()]
    assert "no such schema is stored" in told[0]
    assert len(told) == 2


async def test_a_schema_that_is_missing_is_told_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "reach.agent")
    async with TestReach(weather("a", dict, V1, validate=True)) as bus:
        assert (await bus.request("capability:weather", {}, schema=V1)).ok
    assert "not validated" in caplog.text


async def test_an_agent_whose_redis_is_away_while_it_looks_a_schema_up_gives_the_message_back() -> None:
    agent = weather("a", dict, V1, validate=True)
    async with TestReach(agent) as bus:
        bus.backend_of(agent).fail("read_schemas")
        handle = await bus.send("capability:weather", {"city": "Oslo"}, schema=V1)
        await bus.advance(5)
        receipt = await handle.receipt(1)
        assert (receipt.ok, receipt.attempts) == (True, 2)


async def test_an_agent_that_has_lost_the_extra_lets_another_one_do_it(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = weather("a", dict, V1, validate=True)
    async with TestReach(agent) as bus:
        await bus.reach.schemas.set(V1, {})
        monkeypatch.setitem(__import__("sys").modules, "jsonschema_rs", None)
        receipt = await bus.request("capability:weather", {}, schema=V1, max_attempts=1)
        assert (receipt.status, receipt.code) == ("retryable", "handler.error")
        assert "reachmq[schemas]" in (receipt.error_message or "")
