"""requeue: what a dead letter goes on as is sent and the letter taken away in one step, so that a letter is sent once and never lost."""

import pytest

from reach.backend.steps import Plan
from reach.errors import IngressFull
from tests.contract.drive import ENVELOPE, Drive, retryable
from tests.contract.places import KEYS


async def letters(drive: Drive, count: int = 1) -> list[str]:
    for _ in range(count):
        await drive.sent(Plan("finish", answer=retryable("overloaded"), dead=True))
    return [entry_id for entry_id, _ in await drive.backend.dead_letters(0)]


async def test_it_is_sent_byte_for_byte_and_its_letter_goes_and_no_other(drive: Drive) -> None:
    one, two = await letters(drive, 2)
    assert await drive.backend.requeue(0, "high", ENVELOPE, one) is True
    (entry,) = await drive.work("ingress")
    assert (entry.stream, entry.fields) == (KEYS.ingress(0, "high"), {b"e": ENVELOPE})
    assert [entry_id for entry_id, _ in await drive.backend.dead_letters(0)] == [two]


async def test_again_nothing_is_sent(drive: Drive) -> None:
    (letter,) = await letters(drive)
    assert await drive.backend.requeue(0, "normal", ENVELOPE, letter) is True
    assert await drive.backend.requeue(0, "normal", ENVELOPE, letter) is False
    assert len(await drive.work("ingress")) == 1


@pytest.mark.parametrize("how", ["never was", "purged", "deleted", "spoilt", "junk"])
async def test_without_the_letter_nothing_is_sent(drive: Drive, how: str) -> None:
    (letter,) = await letters(drive)
    if how == "purged":
        await drive.backend.drop_dead(0, [letter])
    elif how == "deleted":
        await drive.place.delete(KEYS.dead(0))
    elif how == "spoilt":
        await drive.place.spoil(KEYS.dead(0))
    asked = {"never was": "7-7", "junk": "junk"}.get(how, letter)
    assert await drive.backend.requeue(0, "normal", ENVELOPE, asked) is False
    assert await drive.work("ingress") == []
    await drive.place.delete(KEYS.dead(0))


async def test_a_full_door_leaves_the_letter_where_it_is(drive: Drive) -> None:
    (letter,) = await letters(drive)
    await drive.backend.set_meta("meta", "max_ingress", b"1")
    sender = await drive.place.connect()
    await sender.submit(0, "normal", ENVELOPE)
    with pytest.raises(IngressFull) as told:
        await sender.requeue(0, "normal", ENVELOPE, letter)
    assert told.value.details == {"partition": 0, "lane": "normal", "entries": 1}
    assert [entry_id for entry_id, _ in await drive.backend.dead_letters(0)] == [letter]
    assert await sender.requeue(0, "low", ENVELOPE, letter) is True


async def test_a_door_of_the_wrong_type_is_mended_and_the_letter_sent(drive: Drive) -> None:
    (letter,) = await letters(drive)
    await drive.place.spoil(KEYS.ingress(0, "normal"))
    assert await drive.backend.requeue(0, "normal", ENVELOPE, letter) is True
    assert len(await drive.work("ingress")) == 1
    assert await drive.backend.dead_letters(0) == []
