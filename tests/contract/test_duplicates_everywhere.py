"""A duplicate finds the message in any state, by any router: it runs nothing, attaches while it goes on, and hears how it ended."""

from collections.abc import Awaitable, Callable

import pytest

from reach.backend.port import Backend
from reach.backend.steps import Plan, RouteResult, Send
from reach.envelope.ledger import Head
from tests.contract.asking import parked as parked_by_hand
from tests.contract.drive import ENVELOPE, TO_AGENT, Drive, failure, head_of, success
from tests.contract.line_moves import queue_up
from tests.contract.places import KEYS

SECOND = "second"
Make = Callable[[Drive], Awaitable[str]]


async def queued(drive: Drive) -> str:
    return await drive.sent()


async def running(drive: Drive) -> str:
    return (await drive.running()).msg_id


async def moved(drive: Drive) -> str:
    await drive.backend.open_inbox(0, "a2")
    await drive.past_grace()
    msg_id = await drive.sent()
    await drive.live(4_000)
    assert (await drive.decide(await drive.asked_again(), Plan("move", "a2"))).verdict == "done"
    return msg_id


async def delayed(drive: Drive) -> str:
    return await drive.sent(Plan("delay", wait_ms=20_000))


async def returned(drive: Drive) -> str:
    return (await drive.returned())[0]


async def waits_for_its_retry(drive: Drive) -> str:
    msg_id, entry = await drive.returned()
    await drive.decide(entry, Plan("delay", wait_ms=5_000))
    return msg_id


async def runs_again(drive: Drive) -> str:
    msg_id, entry = await drive.returned()
    await drive.decide(entry, TO_AGENT)
    assert (await drive.taken("i2")).attempt == 2
    return msg_id


async def held(drive: Drive) -> str:
    return (await queue_up(drive, 2))[1]


async def parked(drive: Drive) -> str:
    return (await parked_by_hand(drive)).msg_id


async def broadcast(drive: Drive) -> str:
    await drive.backend.open_inbox(0, "a2")
    return await drive.sent(TO_AGENT, Plan("deliver", "a2"), scope="all")


async def broadcast_half_ended(drive: Drive) -> str:
    msg_id = await broadcast(drive)
    assert await drive.settle(await drive.taken(), success()) == "done"
    return msg_id


OPEN: tuple[Make, ...] = (
    queued,
    running,
    moved,
    delayed,
    returned,
    waits_for_its_retry,
    runs_again,
    held,
    parked,
    broadcast,
    broadcast_half_ended,
)


async def succeeded(drive: Drive) -> str:
    taken = await drive.running()
    await drive.settle(taken, success('"secret"'))
    return taken.msg_id


async def rejected(drive: Drive) -> str:
    taken = await drive.running()
    await drive.settle(taken, failure())
    return taken.msg_id


async def succeeded_after_a_retry(drive: Drive) -> str:
    msg_id, entry = await drive.returned()
    await drive.decide(entry, TO_AGENT)
    await drive.settle(await drive.taken("i2"), success('"secret"'), "i2")
    return msg_id


async def given_up(drive: Drive) -> str:
    """Its attempts are used up: retryable, and the same round is a duplicate."""
    msg_id, entry = await drive.returned()
    await drive.decide(entry, Plan("finish", answer=failure("handler.error"), dead=True))
    return msg_id


async def cancelled(drive: Drive) -> str:
    msg_id = await drive.sent()
    await drive.backend.cancel(0, msg_id, "sender-1", 1, 0)
    return msg_id


async def expired(drive: Drive) -> str:
    msg_id = await drive.sent(total_ms=5_000)
    await drive.live(5_000)
    return msg_id


async def broadcast_ended(drive: Drive) -> str:
    msg_id = await broadcast_half_ended(drive)
    (taken,) = await drive.take(agent="a2")
    assert await drive.settle_as("a2", taken, success('"secret"')) == "done"
    return msg_id


ENDED: tuple[Make, ...] = (
    succeeded,
    rejected,
    succeeded_after_a_retry,
    given_up,
    cancelled,
    expired,
    broadcast_ended,
)


class Sight:
    """All that a duplicate must leave as it is."""

    def __init__(self, head: Head, legs: object, work: object) -> None:
        self.boxes = head.mailboxes
        self.rest = (head.round, head.open, head.total_at_ms, head.fingerprint, head.sender, legs, work)

    @classmethod
    async def of(cls, drive: Drive, msg_id: str) -> "Sight":
        record = await drive.backend.inspect(0, msg_id)
        assert record is not None
        keys = [key for key in await drive.place.keys() if ":inbox:" in key or key == KEYS.again(0)]
        return cls(record.head, record.legs, [(key, await drive.place.entries(key)) for key in keys])


async def sent_again(drive: Drive, msg_id: str, **changes: object) -> RouteResult:
    """The same send once more, for another mailbox, through another router."""
    router: Backend = await drive.place.connect()
    await router.keep_mailbox(SECOND, [0])
    await drive.mail(SECOND)
    record = await drive.backend.inspect(0, msg_id)
    assert record is not None
    same = {"scope": record.head.scope, "round": record.head.round, "line": record.head.line}
    entry_id = await router.submit(0, "normal", ENVELOPE)
    entries = await router.read_work("router-2", [0], 100, 0)  # ids are unique within one stream
    (entry,) = [one for one in entries if (one.kind, one.id) == ("ingress", entry_id)]
    head = head_of(msg_id, **same | changes)
    plans = (TO_AGENT, TO_AGENT) if record.head.scope == "all" else (TO_AGENT,)
    (result,) = await router.route(0, [Send(entry, msg_id, head, plans, ENVELOPE, SECOND, "{}")])
    return result


@pytest.mark.parametrize("make", [*OPEN, *ENDED], ids=lambda make: make.__name__)
async def test_it_runs_nothing_and_moves_nothing(drive: Drive, make: Make) -> None:
    msg_id = await make(drive)
    before = await Sight.of(drive, msg_id)
    for _ in range(2):
        result = await sent_again(drive, msg_id)
        assert (result.verdict, result.known) == ("done", "duplicate")
    assert (await Sight.of(drive, msg_id)).rest == before.rest


@pytest.mark.parametrize("make", OPEN, ids=lambda make: make.__name__)
async def test_while_it_goes_on_its_sender_attaches(drive: Drive, make: Make) -> None:
    msg_id = await make(drive)
    record = await drive.backend.inspect(0, msg_id)
    assert record is not None
    ended = {number for number, leg in record.legs.items() if leg.finished_at_ms}
    assert (await sent_again(drive, msg_id)).known == "duplicate"
    assert {receipt["leg"] for receipt in await drive.receipts(SECOND)} == ended
    assert (await drive.backend.cancel(0, msg_id, "sender-1", 1, 0)).what == "cancelled"
    found = [(receipt["leg"], receipt["code"], receipt["stored"]) for receipt in await drive.receipts(SECOND)]
    assert sorted(found) == [(number, "cancelled", False) for number in sorted(record.legs.keys() - ended)]


@pytest.mark.parametrize("make", ENDED, ids=lambda make: make.__name__)
async def test_when_it_has_ended_the_stored_receipt_is_given_again(drive: Drive, make: Make) -> None:
    msg_id = await make(drive)
    told = {receipt["leg"]: receipt for receipt in await drive.receipts()}
    assert (await sent_again(drive, msg_id)).known == "duplicate"
    again = {receipt["leg"]: receipt for receipt in await drive.receipts(SECOND)}
    assert again == {leg: receipt | {"stored": True} for leg, receipt in told.items()}
    assert await drive.receipts() == []


@pytest.mark.parametrize("changes", [{"fingerprint": "0" * 16}, {"sender": "sender-2"}], ids=["content", "sender"])
@pytest.mark.parametrize("make", [*OPEN, *ENDED], ids=lambda make: make.__name__)
async def test_other_content_or_another_sender_is_a_conflict_that_shows_and_changes_nothing(
    drive: Drive, make: Make, changes: dict[str, object]
) -> None:
    msg_id = await make(drive)
    before = await Sight.of(drive, msg_id)
    result = await sent_again(drive, msg_id, **changes)
    assert (result.verdict, result.known) == ("done", "conflict")
    after = await Sight.of(drive, msg_id)
    assert (after.rest, after.boxes) == (before.rest, before.boxes)
    receipts = await drive.receipts(SECOND)
    assert [(one["code"], one["status"], one["output"], one["target_agent"]) for one in receipts] == [
        ("envelope.id_conflict", "failed", None, None)
    ]
