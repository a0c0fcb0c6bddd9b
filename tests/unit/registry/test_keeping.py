"""What admins say of contents: several at once, and what each of them said holds."""

import asyncio
from typing import Any

import pytest

from reach.errors import ConfigError
from reach.registry.keeping import keep
from reach.registry.swapping import MAX_TRIES
from reach.testing import FaultyBackend
from tests.unit.registry.place import Place


class Others(FaultyBackend):
    """Somebody else says something of another schema between our reading and our writing, so often."""

    times = 0

    def __getattr__(self, name: str) -> Any:
        step = super().__getattr__(name)
        if name != "read_meta" or self.times <= 0:
            return step

        async def first(names: list[str]) -> dict[str, bytes]:
            read: dict[str, bytes] = await step(names)
            self.times -= 1
            await keep(self._inner, f"other.n{self.times}", "hash")
            return read

        return first


@pytest.fixture
def place() -> Place:
    return Place()


async def told(place: Place) -> str:
    return (await place.backend.snapshot()).meta["privacy"]


async def test_a_rule_is_put_beside_those_that_are_there(place: Place) -> None:
    assert await keep(place.backend, "a.b", "drop") == "keep,a.b=drop"
    assert await keep(place.backend, "c.*", "hash") == await told(place) == "keep,a.b=drop,c.*=hash"
    assert await keep(place.backend, "a.b", None) == await told(place) == "keep,c.*=hash"


async def test_who_comes_second_puts_his_rule_beside_that_of_the_first(place: Place) -> None:
    others = Others(place.backend)
    others.times = 3
    await keep(others.backend, "a.b", "drop")
    assert await told(place) == "keep,other.n2=hash,other.n1=hash,other.n0=hash,a.b=drop"


async def test_many_at_once_lose_nothing(place: Place) -> None:
    names = [f"a.n{number}" for number in range(20)]
    await asyncio.gather(*(keep(place.another(), name, "drop") for name in names))
    assert sorted((await told(place)).split(",")) == sorted(["keep", *(f"{name}=drop" for name in names)])


async def test_where_others_write_without_end_it_says_so_and_has_changed_nothing(place: Place) -> None:
    others = Others(place.backend)
    others.times = MAX_TRIES
    with pytest.raises(ConfigError, match=f"others changed privacy {MAX_TRIES} times"):
        await keep(others.backend, "a.b", "drop")
    assert "a.b" not in await told(place)


@pytest.mark.parametrize(("there", "name"), [(b"junk", "a.b"), (b"\xff", "a.b"), (b"hash", "no name")])
async def test_what_cannot_be_read_or_named_is_told_and_left_as_it_is(place: Place, there: bytes, name: str) -> None:
    await place.backend.set_meta("meta", "privacy", there)
    with pytest.raises(ValueError, match=r"none of|no schema|decode"):
        await keep(place.backend, name, "drop")
    assert await place.backend.read_meta(["privacy"]) == {"privacy": there}
