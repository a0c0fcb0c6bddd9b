"""From where agents may register: asked of Redis alone, and only where an env has networks."""

from collections.abc import Sequence

import pytest

from reach.backend import Backend
from reach.errors import BackendDenied, BackendUnavailable, ScriptFailed
from reach.registry.admission import Admission
from reach.registry.registrar import Registrar
from reach.testing import FaultyBackend
from tests.unit.registry.place import MAILBOX, Place


async def _no() -> bool:
    return False


class Seen(FaultyBackend):
    """A backend whose connections come from these addresses."""

    def __init__(self, inner: Backend, addresses: list[str]) -> None:
        super().__init__(inner)
        self._addresses = addresses

    async def peers(self, entries: Sequence[bytes]) -> list[list[str]] | None:
        self.calls.append("peers")
        self._meet("peers", before=True)
        return [self._addresses for _ in entries]


def placed(networks: str | None, *addresses: str) -> tuple[Place, Seen]:
    place = Place()
    backend = Seen(place.another(), list(addresses))

    async def of_the_env() -> str | None:
        return networks

    place.registrar = Registrar(backend.backend, "w1", admission=Admission("dev", (), _no, of_the_env))
    return place, backend


@pytest.mark.parametrize(
    ("networks", "addresses", "says"),
    [
        ("10.0.0.0/8", ("10.1.1.1",), ""),
        ("10.0.0.0/8", ("192.168.0.1", "10.1.1.1"), ""),
        ("10.0.0.0/8", ("192.168.0.1",), "192.168.0.1, outside the networks of env dev"),
        ("10.0.0.0/8", ("unix",), "outside"),
        ("10.0.0.0/8", (), "no connection vouches"),
        ("10.0.0.0/33", ("10.1.1.1",), "cannot be read, so nobody"),
        ("", ("10.1.1.1",), "cannot be read, so nobody"),
    ],
)
@pytest.mark.parametrize("op", ["register", "capabilities", "leave"])
async def test_who_comes_from_outside_is_refused_whatever_it_asks(
    networks: str, addresses: tuple[str, ...], says: str, op: str
) -> None:
    place, _ = placed(networks, *addresses)
    entry: dict[str, object] = {"op": op, "agent_id": "a", "instance_id": "i1"}
    if op == "capabilities":
        entry["capabilities"] = []
    answer = await place.ask(entry)
    if says:
        assert (answer["notice"], answer["code"]) == ("refused", "registration.bad_address")
        assert says in answer["message"]
        assert await place.backend.registered("a") is None
        assert not place.lanes()
    else:
        assert answer.get("code") in {None, "registration.unknown_agent"}


async def test_nobody_is_asked_where_there_are_no_networks_and_once_for_a_page_where_there_are() -> None:
    place, backend = placed(None)
    assert (await place.register())["notice"] == "registered"
    assert "peers" not in backend.calls
    place, backend = placed("10.0.0.0/8", "10.0.0.1")
    await place.backend.keep_mailbox(MAILBOX, [0])
    for number in range(20):
        entry = b'{"op":"register","reply_to":"%s","agent_id":"a%d","instance_id":"i"}' % (MAILBOX.encode(), number)
        await place.backend.send_control(entry)
    assert await place.registrar.run_once() == {"registered": 20}
    assert backend.calls.count("peers") == 1


@pytest.mark.parametrize("error", [BackendDenied("NOPERM"), ScriptFailed("unknown command")])
async def test_where_it_cannot_be_learnt_nobody_comes_in(error: Exception) -> None:
    place, backend = placed("0.0.0.0/0", "10.0.0.1")
    backend.fail("peers", error=error)
    answer = await place.register()
    assert (answer["code"], await place.backend.registered("a")) == ("registration.bad_address", None)
    assert "CLIENT LIST" in answer["message"]


async def test_where_redis_is_away_the_entry_waits() -> None:
    place, backend = placed("0.0.0.0/0", "10.0.0.1")
    backend.fail("peers")
    with pytest.raises(BackendUnavailable):
        await place.register()
    assert await place.registrar.run_once() == {"registered": 1}


async def test_a_cancel_is_asked_for_from_anywhere() -> None:
    place, _ = placed("10.0.0.0/8", "192.168.0.1")
    msg_id = "a3f2c1e4-9b8d-4f3a-8c2e-1a2b3c4d5e6f"
    assert (await place.ask({"op": "cancel", "msg_id": msg_id, "source": "s"}))["notice"] == "done"


async def test_in_memory_there_are_no_addresses_and_everybody_is_inside() -> None:
    place = Place()

    async def networks() -> str | None:
        return "10.0.0.0/8"

    place.registrar = Registrar(place.backend, "w1", admission=Admission("dev", (), _no, networks))
    assert (await place.register())["notice"] == "registered"
