"""A control entry that nobody can answer is at least told in the worker's log."""

import pytest

from tests.unit.registry.place import Place


@pytest.fixture
def place() -> Place:
    return Place()


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        (b"", ["unreadable control entry", "control entry without a usable reply_to"]),
        (b"no json", ["unreadable control entry", "control entry without a usable reply_to"]),
        (b'{"op":"dance","reply_to":"m.0123456789abcdef"}', ["unreadable control entry"]),
        (b'{"op":"register","agent_id":"a","instance_id":"i"}', ["control entry without a usable reply_to"]),
        (b'{"op":"register","agent_id":"a","instance_id":"i","reply_to":"m.0123456789abcdef"}', []),
    ],
)
async def test_what_nobody_could_answer_stands_in_the_log(
    place: Place, caplog: pytest.LogCaptureFixture, entry: bytes, told: list[str]
) -> None:
    await place.backend.send_control(entry)
    await place.registrar.run_once()
    assert [record.getMessage().partition(" entry=")[0] for record in caplog.records] == told
    assert all(record.levelname == "WARNING" for record in caplog.records)
