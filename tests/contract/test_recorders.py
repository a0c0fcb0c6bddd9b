"""Up to when processes have written their records: who has said nothing for long is named, who ends in order is not."""

import pytest

from reach.errors import BackendError
from tests.contract.drive import Drive
from tests.contract.places import KEYS


async def test_who_is_silent_is_named_the_longest_ago_first(drive: Drive) -> None:
    backend, now_ms = drive.backend, await drive.backend.now_ms()
    await backend.tell_recorder("n1/w1", now_ms - 2_000)
    await backend.tell_recorder("/w2", now_ms - 3_000)
    await backend.tell_recorder("n1/w3", now_ms)
    assert await backend.silent_recorders(now_ms) == [("/w2", now_ms - 3_000), ("n1/w1", now_ms - 2_000)]
    await backend.tell_recorder("/w2", now_ms)
    assert await backend.silent_recorders(now_ms) == [("n1/w1", now_ms - 2_000)]
    for name in ("n1/w1", "/w2", "n1/w3", "n1/w3"):
        await backend.tell_recorder(name, None)
    assert await backend.silent_recorders(now_ms + 1) == []
    assert await drive.place.type_of(KEYS.recorders()) == "none"


async def test_one_that_has_spoken_meanwhile_is_not_forgotten(drive: Drive) -> None:
    backend, now_ms = drive.backend, await drive.backend.now_ms()
    await backend.tell_recorder("n1/w1", now_ms - 2_000)
    assert not await backend.forget_recorder("n1/w1", now_ms - 2_000)
    assert await backend.forget_recorder("n1/w1", now_ms - 1_999)
    assert await backend.forget_recorder("n1/w1", now_ms - 1_999)
    assert await backend.silent_recorders(now_ms + 1) == []


async def test_words_of_the_future_count_from_now(drive: Drive) -> None:
    backend, now_ms = drive.backend, await drive.backend.now_ms()
    await backend.tell_recorder("n1/w1", now_ms + 3_600_000)
    ((_, said_ms),) = await backend.silent_recorders(now_ms + 60_000)
    assert said_ms < now_ms + 60_000
    await backend.tell_recorder("n1/w1", -5)
    assert await backend.silent_recorders(1) == [("n1/w1", 0)]
    await backend.tell_recorder("n1/w1", None)


@pytest.mark.parametrize("name", ["", "w1", "n1/", "n/1/w", "n1/w 1", "n{1}/w", "n/" + "w" * 256])
async def test_what_is_no_name_is_refused(drive: Drive, name: str) -> None:
    with pytest.raises(BackendError):
        await drive.backend.tell_recorder(name, 1)
    with pytest.raises(BackendError):
        await drive.backend.forget_recorder(name, 1)
    assert await drive.backend.silent_recorders(1 << 52) == []


async def test_a_key_of_another_type_makes_way(drive: Drive) -> None:
    await drive.place.push(KEYS.recorders(), "no set")
    assert await drive.backend.silent_recorders(1 << 52) == []
    await drive.place.push(KEYS.recorders(), "no set")
    await drive.backend.tell_recorder("n1/w1", 7)
    assert await drive.backend.silent_recorders(8) == [("n1/w1", 7)]
    await drive.backend.tell_recorder("n1/w1", None)
