"""The word of a process: every five seconds, and once more when it ends."""

import logging

import pytest

from reach.errors import BackendError
from reach.tracing.presence import EVERY_US, Presence


class Told:
    def __init__(self) -> None:
        self.said: list[int | None] = []
        self.refuses = False

    async def tell(self, name: str, at_ms: int | None) -> None:
        assert name == "n1/w1"
        if self.refuses:
            raise BackendError("NOPERM")
        self.said.append(at_ms)


async def test_it_speaks_at_once_then_every_five_seconds_and_says_when_it_goes() -> None:
    told = Told()
    presence = Presence(told.tell, "n1", "w1")
    for mark_us in (0, 1, EVERY_US - 1, EVERY_US, EVERY_US + 1):
        await presence.written(mark_us, 7_000_000 + mark_us)
    assert told.said == [7_000, 12_000]
    await presence.leave()
    await presence.leave()
    await presence.written(9 * EVERY_US, 0)
    assert told.said == [7_000, 12_000, None]


async def test_who_has_said_nothing_takes_no_leave() -> None:
    told = Told()
    await Presence(told.tell, "n1", "w1").leave()
    assert told.said == []


async def test_where_nobody_hears_it_that_is_logged_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    told = Told()
    told.refuses = True
    presence = Presence(told.tell, "n1", "w1")
    with caplog.at_level(logging.INFO):
        await presence.written(0, 0)
    assert "up to when records are written was not told" in caplog.text
    told.refuses = False
    await presence.written(EVERY_US, 5_000_000)
    assert told.said == [5_000]
