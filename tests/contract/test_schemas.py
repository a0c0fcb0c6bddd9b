"""Schemas and their families: compared, set, told and bounded in one step; and the types that registrations leave behind."""

from reach.backend.bounds import MAX_TYPES
from tests.contract.drive import Drive
from tests.contract.places import KEYS

ONE, TWO = b'{"compatibility":"full"}', b'{"compatibility":"none"}'


async def test_a_schema_is_stored_with_its_family_and_told(drive: Drive) -> None:
    backend = drive.backend
    assert await backend.write_schema("a", None, ONE, "a.v1", b'{"type":"null"}') == "done"
    assert await backend.read_families(["a", "b"]) == {"a": ONE}
    assert await backend.read_schemas(["a.v1", "a.v2"]) == {"a.v1": b'{"type":"null"}'}
    assert (await backend.snapshot()).families == {"a": ONE}
    (change,) = await backend.changes("0-0", 0)
    assert (change.version, change.op, change.name, change.data) == (1, "schema", "a", ONE)
    assert await backend.read_schemas([]) == {}


async def test_who_read_another_record_writes_nothing(drive: Drive) -> None:
    backend = drive.backend
    assert await backend.write_schema("a", ONE, TWO, "a.v1", b"{}") == "changed"
    assert await backend.write_schema("a", None, ONE, "a.v1", b"{}") == "done"
    for expected in (None, TWO, b""):
        assert await backend.write_schema("a", expected, TWO, "a.v1", b'{"type":"null"}') == "changed"
    assert await backend.read_families(["a"]) == {"a": ONE}
    assert await backend.read_schemas(["a.v1"]) == {"a.v1": b"{}"}
    assert len(await backend.changes("0-0", 0)) == 1


async def test_a_schema_and_a_family_are_removed(drive: Drive) -> None:
    backend = drive.backend
    assert await backend.write_schema("a", None, ONE, "a.v1", b"{}") == "done"
    assert await backend.write_schema("a", ONE, TWO, "a.v1") == "done"
    assert await backend.read_schemas(["a.v1"]) == {}
    assert await backend.write_schema("a", TWO, b"") == "done"
    assert (await backend.snapshot()).families == {}
    assert [change.data for change in await backend.changes("0-0", 0)] == [ONE, TWO, b""]
    assert not {KEYS.schemas(), KEYS.families()} & set(await drive.place.keys())


async def test_no_more_than_max_schemas_are_stored_and_known_ones_may_change(drive: Drive) -> None:
    backend = drive.backend
    await backend.set_meta("meta", "max_schemas", b"1")
    assert await backend.write_schema("a", None, ONE, "a.v1", b"{}") == "done"
    assert await backend.write_schema("b", None, ONE, "b.v1", b"{}") == "full"
    assert await backend.read_families(["b"]) == {}
    assert await backend.write_schema("a", ONE, TWO, "a.v1", b'{"type":"null"}') == "done"
    assert await backend.write_schema("b", None, ONE) == "done"
    await backend.set_meta("meta", "max_schemas", b"x")
    assert await backend.write_schema("b", ONE, TWO, "b.v1", b"{}") == "done"


async def test_registrations_leave_no_more_than_so_many_types(drive: Drive) -> None:
    types = [f"type.n{n}" for n in range(MAX_TYPES + 5)]
    stored: bytes | None = None
    for at in range(0, len(types), 1_000):
        done = await drive.backend.register("a1", b"{}", "i1", b"{}", stored, types[at : at + 1_000])
        assert done.ok
        stored = await drive.backend.registered("a1")
    assert len((await drive.backend.snapshot()).types) == MAX_TYPES
    await drive.backend.set_meta("types", "by.an.admin", b"admin")
    assert "by.an.admin" in (await drive.backend.snapshot()).types


async def test_settings_are_read_by_name(drive: Drive) -> None:
    backend = drive.backend
    assert await backend.read_meta(["privacy"]) == {}
    await backend.set_meta("meta", "privacy", b"keep")
    await backend.set_meta("meta", "max_dead", b"7")
    assert await backend.read_meta(["privacy", "max_dead", "networks"]) == {"privacy": b"keep", "max_dead": b"7"}
    await backend.set_meta("meta", "privacy", None)
    assert await backend.read_meta(["privacy"]) == {}
