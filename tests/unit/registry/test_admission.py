"""Who may register: tokens, where they are demanded and where they are only shown."""

from typing import Any

import pytest

from reach.envelope.token import Claims, issue
from reach.registry.admission import Admission
from reach.registry.registrar import Registrar
from tests.unit.registry.place import Place

KEY = "0123456789abcdef0123456789abcdef"
GOOD = issue(KEY, Claims(env="dev", agent_id="a", capabilities=("work",)))
WORK = [{"name": "work"}]


def gated(*, demanded: bool, keys: tuple[str, ...] = (KEY,)) -> Place:
    place = Place()

    async def demands() -> bool:
        return demanded

    place.registrar = Registrar(place.backend, "w1", admission=Admission("dev", keys, demands))
    return place


async def code(place: Place, **fields: Any) -> str:
    answer = await place.register(**{"capabilities": WORK, **fields})
    return str(answer.get("code", answer["notice"]))


@pytest.mark.parametrize(
    ("demanded", "keys", "token", "found"),
    [
        (False, (), None, "registered"),
        (False, (), "whatever", "registered"),
        (False, (KEY,), None, "registered"),
        (False, (KEY,), GOOD, "registered"),
        (False, (KEY,), "whatever", "registration.bad_token"),
        (True, (KEY,), GOOD, "registered"),
        (True, (KEY,), None, "registration.missing_token"),
        (True, (KEY,), issue(KEY, Claims(env="prod", agent_id="a")), "registration.bad_token"),
        (True, (), GOOD, "registration.bad_token"),
    ],
)
async def test_the_gate(demanded: bool, keys: tuple[str, ...], token: str | None, found: str) -> None:
    place = gated(demanded=demanded, keys=keys)
    assert await code(place, token=token) == found
    stored, _ = await place.backend.registration("a")
    assert (stored is not None) == (found == "registered"), "who is refused is not in the table"
    if found != "registered":
        assert not place.lanes()


async def test_a_token_ends_by_the_clock_of_the_backend() -> None:
    place = gated(demanded=True)
    token = issue(KEY, Claims(env="dev", agent_id="a", expires_at_ms=await place.backend.now_ms() + 1_000))
    assert await code(place, token=token) == "registered"
    place.clock.advance(1_000)
    assert await code(place, token=token, instance_id="i2") == "registration.bad_token"


async def test_capabilities_that_come_later_need_the_token_as_well() -> None:
    place = gated(demanded=True)
    assert await code(place, token=GOOD) == "registered"
    change: dict[str, Any] = {"op": "capabilities", "agent_id": "a", "instance_id": "i1", "capabilities": WORK}
    assert (await place.ask(change))["code"] == "registration.missing_token"
    assert (await place.ask({**change, "token": GOOD}))["notice"] == "done"
    more = {**change, "capabilities": [*WORK, {"name": "more"}], "token": GOOD}
    assert (await place.ask(more))["code"] == "registration.bad_token"


async def test_nobody_takes_leave_for_another() -> None:
    place = gated(demanded=True)
    assert await code(place, token=GOOD) == "registered"
    leave: dict[str, Any] = {"op": "leave", "agent_id": "a", "instance_id": "i1"}
    assert (await place.ask(leave))["code"] == "registration.missing_token"
    other = issue(KEY, Claims(env="dev", agent_id="b"))
    assert (await place.ask({**leave, "token": other}))["code"] == "registration.bad_token"
    assert (await place.ask({**leave, "token": GOOD}))["notice"] == "done"
    assert (await place.backend.registration("a"))[0] is None
