"""submit: a door has room for so many messages, and who finds none is told so; what was let in is never dropped."""

import pytest

from reach.backend.port import Backend
from reach.errors import IngressFull
from tests.contract.drive import ENVELOPE, Drive
from tests.contract.places import KEYS


async def bounded(drive: Drive, most: bytes) -> Backend:
    """A sender that has read this bound."""
    await drive.backend.set_meta("meta", "max_ingress", most)
    return await drive.place.connect()


async def test_a_full_door_takes_nothing_and_says_so(drive: Drive) -> None:
    sender = await bounded(drive, b"2")
    for _ in range(2):
        await sender.submit(0, "normal", ENVELOPE)
    with pytest.raises(IngressFull) as told:
        await sender.submit(0, "normal", ENVELOPE)
    assert (told.value.retryable, told.value.retry_after_ms) == (True, 1_000)
    assert told.value.details == {"partition": 0, "lane": "normal", "entries": 2}
    assert len(await drive.place.entries(KEYS.ingress(0, "normal"))) == 2


async def test_each_lane_has_a_door_of_its_own(drive: Drive) -> None:
    sender = await bounded(drive, b"1")
    for lane in ("high", "normal", "low"):
        assert await sender.submit(0, lane, ENVELOPE)
        with pytest.raises(IngressFull):
            await sender.submit(0, lane, ENVELOPE)


async def test_what_a_router_has_applied_makes_room(drive: Drive) -> None:
    sender = await bounded(drive, b"1")
    await drive.send()
    entry_id = await sender.submit(0, "normal", ENVELOPE)
    (read,) = await drive.work("ingress")
    assert read.id == entry_id
    with pytest.raises(IngressFull):  # read is not applied: it may come again
        await sender.submit(0, "normal", ENVELOPE)
    await drive.send(entry=read)
    assert await sender.submit(0, "normal", ENVELOPE)


async def test_a_plain_xadd_beyond_the_bound_is_accepted_and_ends(drive: Drive) -> None:
    sender = await bounded(drive, b"1")
    await sender.submit(0, "normal", ENVELOPE)
    await drive.place.append(KEYS.ingress(0, "normal"), {"e": ENVELOPE})
    assert len(await drive.work("ingress")) == 2, "accepted is accepted: nothing is dropped"


@pytest.mark.parametrize("junk", [b"0", b"-1", b"lots", b"1.5"])
async def test_a_bound_that_is_none_counts_as_the_default(drive: Drive, junk: bytes) -> None:
    sender = await bounded(drive, junk)
    assert await sender.submit(0, "normal", ENVELOPE)


async def test_a_door_that_holds_something_else_is_mended(drive: Drive) -> None:
    await drive.place.spoil(KEYS.ingress(0, "normal"))
    entry_id = await drive.backend.submit(0, "normal", ENVELOPE)
    assert [each.id for each in await drive.work("ingress")] == [entry_id]
