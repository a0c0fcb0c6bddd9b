"""Schemas of an env: stored, refused with all that is wrong, brought along by registrations."""

import json
from typing import Any

import pytest

from reach.backend.steps import Change
from reach.errors import SchemaRefused
from reach.registry.schemas import MAX_TRIES, Schemas
from reach.testing import FaultyBackend
from tests.unit.registry.place import Place

V1, V2 = "weather.query.v1", "weather.query.v2"
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
UNITS = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "units": {"enum": ["C", "F"]}},
    "required": ["city"],
}
DAYS = {"type": "object", "properties": {"city": {"type": "integer"}}, "required": ["city", "days"]}


@pytest.fixture
def place() -> Place:
    return Place()


def problems(error: SchemaRefused) -> list[tuple[str, str]]:
    return [(problem["code"], problem["field"]) for problem in error.details["problems"]]


async def test_a_schema_is_stored_shown_listed_and_removed(place: Place) -> None:
    schemas = Schemas(place.backend)
    assert await schemas.get(V1) is None
    assert await schemas.set(V1, json.dumps(CITY).encode())
    assert not await schemas.set(V1, {"$id": V1, "title": "a city", **CITY})
    assert await schemas.get(V1) == CITY
    assert await schemas.set(V2, UNITS)
    (family,) = (await schemas.list()).values()
    assert [(v.name, v.by, v.reads, v.read_by) for v in family.versions] == [
        (V1, "admin", (), ()),
        (V2, "admin", (V1,), (V1,)),
    ]
    assert await schemas.remove(V1)
    assert not await schemas.remove(V1)
    assert await schemas.remove(V2)
    assert await schemas.list() == {}
    assert not place.keys("schemas") + place.keys("families")


async def test_a_version_that_breaks_the_rule_is_refused_with_every_place(place: Place) -> None:
    schemas = Schemas(place.backend)
    await schemas.set(V1, CITY)
    with pytest.raises(SchemaRefused) as refused:
        await schemas.set(V2, DAYS)
    assert refused.value.code == "schema.incompatible"
    assert problems(refused.value) == [("schema.incompatible", "$.days"), ("schema.incompatible", "$.city")]
    assert f"$.city: {V2} takes no string, {V1} does" in refused.value.message
    assert await schemas.get(V2) is None


async def test_what_is_stored_does_not_change_unless_its_family_says_so(place: Place) -> None:
    schemas = Schemas(place.backend)
    await schemas.set(V1, CITY)
    with pytest.raises(SchemaRefused) as refused:
        await schemas.set(V1, UNITS)
    assert refused.value.code == "schema.changed"
    assert "--compatibility none" in refused.value.message
    await schemas.set_compatibility("weather.query", "none")
    assert await schemas.set(V1, UNITS)
    assert await schemas.get(V1) == UNITS
    assert await schemas.set(V2, DAYS)
    await schemas.remove(V1)
    await schemas.remove(V2)
    assert (await schemas.list())["weather.query"].compatibility == "none"


@pytest.mark.parametrize(
    ("name", "schema", "fields"),
    [
        ("weather", b"[]", ["", ""]),
        (V1, b'{"type": 1, "$ref": "http://x/y"}', ["/$ref", "/type"]),
        (V1, b'{"$id": "weather.query.v2"}', ["/$id"]),
    ],
)
async def test_what_is_no_sound_schema_is_refused(place: Place, name: str, schema: bytes, fields: list[str]) -> None:
    for refusing in (Schemas(place.backend).set, Schemas(place.backend).check):
        with pytest.raises(SchemaRefused) as refused:
            await refusing(name, schema)
        assert sorted(problems(refused.value)) == [("schema.bad", field) for field in fields]


@pytest.mark.parametrize(("family", "rule"), [("weather.query.v1", "none"), ("Weather", "none"), ("weather", "maybe")])
async def test_a_rule_of_no_family_or_no_rule_is_refused(place: Place, family: str, rule: str) -> None:
    with pytest.raises(SchemaRefused):
        await Schemas(place.backend).set_compatibility(family, rule)


async def test_a_check_stores_nothing(place: Place) -> None:
    schemas = Schemas(place.backend)
    await schemas.set(V1, {**CITY, "not": {"required": ["x"]}})
    checked = await schemas.check(V2, {**UNITS, "not": {"required": ["x"]}})
    assert (checked.is_new, checked.is_same, checked.verdict.ok, checked.compatibility) == (
        True,
        False,
        True,
        "backward",
    )
    assert [one.path for one in checked.verdict.unread] == ["$"]
    assert (await schemas.check(V1, {**CITY, "not": {"required": ["x"]}})).is_same
    assert not (await schemas.check(V2, DAYS)).verdict.ok
    assert await schemas.get(V2) is None


async def test_a_full_env_and_a_full_family_are_told(place: Place) -> None:
    schemas = Schemas(place.backend)
    await place.backend.set_meta("meta", "max_schemas", b"1")
    await schemas.set("a.v1", {})
    with pytest.raises(SchemaRefused) as refused:
        await schemas.set("b.v1", {})
    assert refused.value.code == "schema.full"
    await place.backend.set_meta("meta", "max_schemas", b"100")
    for n in range(2, 33):
        await schemas.set(f"a.v{n}", {})
    with pytest.raises(SchemaRefused, match="32 versions"):
        await schemas.set("a.v33", {})


class _Others(FaultyBackend):
    """Somebody else writes the same family just before us, so often."""

    times = 0

    def __getattr__(self, name: str) -> Any:
        step = super().__getattr__(name)
        if name != "write_schema" or self.times <= 0:
            return step

        async def late(family: str, *args: Any) -> Any:
            self.times -= 1
            known = (await self._inner.read_families([family])).get(family)
            new = b'{"compatibility":"full"}' if self.times % 2 else b'{"compatibility":"forward"}'
            assert await self._inner.write_schema(family, known, new) == "done"
            return await step(family, *args)

        return late


async def test_who_comes_second_reads_again_and_gives_up_in_the_end(place: Place) -> None:
    others = _Others(place.backend)
    others.times = 1
    assert await Schemas(others.backend).set(V1, CITY)
    assert (await Schemas(place.backend).list())["weather.query"].compatibility == "forward"
    for change in (
        lambda: Schemas(others.backend).set(V2, CITY),
        lambda: Schemas(others.backend).remove(V1),
        lambda: Schemas(others.backend).set_compatibility("weather.query", "none"),
    ):
        others.times = MAX_TRIES
        with pytest.raises(SchemaRefused, match=f"others changed .* {MAX_TRIES} times"):
            await change()


async def test_junk_in_a_family_or_a_schema_is_written_anew(place: Place) -> None:
    await place.backend.write_schema("weather.query", None, b"junk", V1, b"junk")
    schemas = Schemas(place.backend)
    assert await schemas.list() == {}
    assert await schemas.get(V1) is None
    assert await schemas.set(V1, CITY)
    assert await schemas.get(V1) == CITY
    await place.backend.write_schema(
        "weather.query", (await place.backend.snapshot()).families["weather.query"], b"junk"
    )
    assert await schemas.remove(V1)


# ---------------------------------------------------------------- registrations
def offers(*schemas: object, side: str = "input_schema") -> list[dict[str, object]]:
    return [{"name": f"work.n{n}", side: schema} for n, schema in enumerate(schemas)]


async def test_a_registration_brings_its_schemas_along_and_keeps_their_names(place: Place) -> None:
    capabilities = [{"name": "weather", "input_schema": {"$id": V1, **CITY}, "output_schema": {"type": "object"}}]
    assert (await place.register(capabilities=capabilities))["notice"] == "registered"
    stored = json.loads(await place.backend.registered("a") or b"")
    assert stored["capabilities"] == [{"name": "weather", "input_schema": V1, "output_schema": {"type": "object"}}]
    assert await Schemas(place.backend).get(V1) == CITY
    assert (await Schemas(place.backend).list())["weather.query"].versions[0].by == "a"
    changes: list[Change] = await place.backend.changes("0-0", 0)
    assert [change.op for change in changes] == ["schema", "agent"]
    again = await place.register(instance_id="i2", capabilities=capabilities)
    assert again["notice"] == "registered"
    assert [change.op for change in await place.backend.changes("0-0", 0)] == ["schema", "agent", "agent"]


async def test_a_registration_with_schemas_that_break_something_is_refused_with_all_of_it(place: Place) -> None:
    await Schemas(place.backend).set(V1, CITY)
    wanted = offers({"$id": V1, **UNITS}, {"$id": V2, **DAYS}, {"$id": "other.v1", "type": 5})
    answer = await place.register(capabilities=wanted)
    assert (answer["notice"], answer["code"]) == ("refused", "registration.incompatible_schema")
    assert [(problem["code"], problem["field"]) for problem in answer["problems"]] == [
        ("registration.incompatible_schema", f"capabilities[0].input_schema ({V1})"),
        ("registration.incompatible_schema", f"capabilities[1].input_schema ({V2}) $.days"),
        ("registration.incompatible_schema", f"capabilities[1].input_schema ({V2}) $.city"),
        ("registration.bad_schema", "capabilities[2].input_schema (other.v1) /type"),
    ]
    assert await place.backend.registered("a") is None
    answer = await place.register(
        capabilities=offers({"$id": "other.v1", "$ref": "file:///etc/x"}, side="output_schema")
    )
    assert answer["code"] == "registration.bad_schema"


async def test_problems_without_end_are_counted(place: Place) -> None:
    answer = await place.register(capabilities=offers(*({"$id": f"x.v{n}", "type": 5} for n in range(25))))
    assert (len(answer["problems"]), answer["more"]) == (20, 5)


async def test_a_conflict_stores_no_schema(place: Place) -> None:
    await place.register(capabilities=offers("a.v1"))
    answer = await place.register(instance_id="i2", capabilities=offers({"$id": V1, **CITY}))
    assert answer["code"] == "registration.conflict"
    assert await Schemas(place.backend).get(V1) is None


async def test_a_type_that_is_left_behind_stays_known(place: Place) -> None:
    """A message that comes while its agents start anew waits for them, and is not refused."""
    await place.register(accepts=[{"type": "own.type"}])
    await place.ask({"op": "leave", "agent_id": "a", "instance_id": "i1"})
    assert (await place.backend.snapshot()).types == {"own.type"}
