"""What records carry of envelopes and receipts: as the env says now, never more than there is room for, and never what breaks a batch."""

import hashlib
from typing import Any

import msgspec
import pytest

from reach.errors import BackendUnavailable
from reach.tracing import hops as hops_module
from reach.tracing.contents import Contents, EnvelopeContent, LeftOut, ReceiptContent
from reach.tracing.hops import BATCH_BYTES, HopRecorder
from reach.tracing.time_base import TimeBase

MSG = "a3f2c1e4-9b8d-4f3a-8c2e-1a2b3c4d5e6f"
BODY = b'{"card": "4111"}'
ENVELOPE = EnvelopeContent(
    b'{"msg_id":"m","payload":{"schema":"pay.refund.v1","body":' + BODY + b"}}", BODY, "pay.refund.v1"
)
CORE = '{"status":"success","code":"ok","output":{"sum":1.50},"schema":"pay.result.v1"}'
FACTS: dict[str, str | int | None] = {"msg_id": MSG, "leg": 2, "target_agent": None}
RECEIPT = ReceiptContent(CORE, '{"a":1}', FACTS, "pay.refund.v1")


class Meta:
    """The settings of an env, and how often they were asked for."""

    def __init__(self, **told: str) -> None:
        self.told, self.asked, self.away = told, 0, False

    async def ask(self) -> dict[str, str]:
        self.asked += 1
        if self.away:
            raise BackendUnavailable("away")
        return self.told


async def contents(env: str = "prod", **told: str) -> Contents:
    made = Contents(env, Meta(**told).ask)
    await made.refresh(0)
    return made


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


async def test_kept_is_the_envelope_byte_for_byte_and_the_receipt_as_its_maker_knows_it() -> None:
    book = await contents(privacy="keep")
    assert book.judge(ENVELOPE, 5) == (msgspec.Raw(ENVELOPE.data), None)
    raw, left_out = book.judge(RECEIPT, 7_000_999)
    assert left_out is None
    assert bytes(raw).endswith(b'"output":{"sum":1.50},"schema":"pay.result.v1","details":{"a":1}}')
    told = msgspec.json.decode(raw)
    assert (told["msg_id"], told["leg"], told["target_agent"], told["finished_at"]) == (MSG, 2, None, 7_000)
    assert (told["code"], told["output"], told["details"]) == ("ok", {"sum": 1.5}, {"a": 1})


async def test_hashed_is_what_its_maker_has_put_into_it_and_dropped_is_nothing() -> None:
    book = await contents(privacy="hash,pay.result=drop")
    assert book.judge(ENVELOPE, 0) == (msgspec.Raw(), LeftOut("hash", len(ENVELOPE.data), sha(BODY)))
    assert book.judge(RECEIPT, 0) == (msgspec.Raw(), LeftOut("drop"))
    plain = ReceiptContent('{"output":[1, 2]}', "{}", {}, "")
    assert book.judge(plain, 0) == (msgspec.Raw(), LeftOut("hash", plain.size, sha(b"[1, 2]")))
    assert book.judge(EnvelopeContent(b"{}"), 0) == (msgspec.Raw(), LeftOut("hash", 2))


async def test_what_is_too_large_is_hashed() -> None:
    book = await contents("dev", max_kept_bytes="20")
    assert book.judge(ENVELOPE, 0) == (msgspec.Raw(), LeftOut("large", len(ENVELOPE.data), sha(BODY)))
    assert book.judge(EnvelopeContent(b"{}"), 0) == (msgspec.Raw(b"{}"), None)


async def test_of_what_nobody_knows_the_strictest_holds_and_what_reach_made_says_nothing_of_anybody() -> None:
    book = await contents(privacy="keep,pay.*=drop")
    assert book.judge(ReceiptContent('{"output":1}', schema=None), 0)[1] == LeftOut("drop")
    assert (await contents()).judge(ReceiptContent('{"output":null}', is_ours=True), 0)[1] is None
    assert (await contents(privacy="drop")).judge(ReceiptContent("{}", is_ours=True), 0)[1] == LeftOut("drop")


@pytest.mark.parametrize("core", ["", "{", "[1]", "\ud800", b"\xff{}", b'{"a":"\xff"}', "[" * 9_000])
async def test_what_is_no_json_is_left_out_alone(core: str | bytes) -> None:
    """Anybody may have written what lies in Redis."""
    for told in ({"privacy": "keep"}, {"privacy": "hash"}):
        raw, left_out = (await contents(**told)).judge(ReceiptContent(core), 0)
        assert not bytes(raw)
        assert left_out is not None
        assert left_out.why in {"unreadable", "hash"}
        assert left_out.why == "unreadable" or told == {"privacy": "hash"}


#: Legal JSON, that whoever reads a record cannot read: half a character, and numbers beyond every float.
NOT_FOR_ALL = [
    r'"\ud83d"',
    r'"a\udc00"',
    r'{"\ud83d":1}',
    "1e400",
    "-1E+999",
    "9" * 300 + "e10",
    "9" * 400 + ".5",
    "9" * 5_000,
]


@pytest.mark.parametrize("odd", NOT_FOR_ALL)
async def test_what_no_reader_could_read_is_left_out_and_hides_nothing_of_its_batch(odd: str) -> None:
    """It would take with it a hundred records of others."""
    written = Written()
    hops = recorder(written, Meta(privacy="keep"))
    body = b'{"x":%s}' % odd.encode()
    data = b'{"msg_id":"m","payload":{"body":%s}}' % body
    hops.add(0, "message.received", MSG, envelope=EnvelopeContent(data, body))
    hops.add(0, "agent.completed", MSG, receipt=ReceiptContent(f'{{"output":{odd}}}', "{}", {}, ""))
    hops.add(0, "message.received", MSG, envelope=ENVELOPE)
    await hops.flush()
    came, ended, other = written.records
    assert (came["left_out"]["why"], came["left_out"]["bytes"], "envelope" in came) == ("unreadable", len(data), False)
    assert (ended["left_out"]["why"], "receipt" in ended) == ("unreadable", False)
    assert other["envelope"]["payload"]["body"] == {"card": "4111"}


@pytest.mark.parametrize("whole", [r'"\ud83d\ude00"', r'"\\ud83d"', "1e99", "9" * 250, '"9E99 3e45"', "1e-400"])
async def test_what_only_looks_so_is_kept(whole: str) -> None:
    data = b'{"payload":{"body":%s}}' % whole.encode()
    assert (await contents("dev")).judge(EnvelopeContent(data, whole.encode()), 0) == (msgspec.Raw(data), None)


@pytest.mark.parametrize("privacy", ["hash", "keep,payments.*=drop"])
async def test_what_was_refused_as_no_envelope_is_not_quoted_where_not_everything_is_kept(privacy: str) -> None:
    """Whoever breaks the form may have put a content anywhere."""
    facts = {
        "msg_id": MSG,
        "status": "failed",
        "code": "target.bad_pattern",
        "error_message": "'card 4111' is no pattern",
    }
    refused = ReceiptContent(
        msgspec.json.encode({**facts, "details": {"pattern": "card 4111", "field": "target.pattern", "bytes": 7}}),
        is_ours=True,
    )
    raw, left_out = (await contents(privacy=privacy)).judge(refused, 0)
    assert left_out is None
    told = msgspec.json.decode(raw)
    assert told == facts | {
        "error_message": "The target pattern breaks the grammar.",
        "details": {"field": "target.pattern", "bytes": 7},
    }
    assert (await contents(privacy="keep")).judge(refused, 0) == (msgspec.Raw(refused.core), None)
    other = ReceiptContent(b'{"code":"route.not_found","error_message":"nobody offers capability:x"}', is_ours=True)
    assert (await contents(privacy=privacy)).judge(other, 0) == (msgspec.Raw(other.core), None)


async def test_settings_are_asked_for_once_a_second_and_hold_while_they_cannot_be() -> None:
    meta = Meta(privacy="keep")
    book = Contents("prod", meta.ask)
    assert book.judge(ENVELOPE, 0)[1] == LeftOut("drop")  # nothing is known yet
    for now_ms in (0, 500, 999, 1_000):
        await book.refresh(now_ms)
    assert meta.asked == 2
    meta.away = True
    with pytest.raises(BackendUnavailable):
        await book.refresh(2_000)
    assert book.judge(ENVELOPE, 0)[1] is None
    meta.away, meta.told = False, {"privacy": "drop"}
    await book.refresh(2_001)
    assert book.judge(ENVELOPE, 0)[1] == LeftOut("drop")


class Written:
    """The batches that were written."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []

    async def write(self, _partition: int, batch: bytes) -> None:
        self.batches.append(batch)

    @property
    def records(self) -> list[dict[str, Any]]:
        return [record for batch in self.batches for record in msgspec.json.decode(batch)]


def recorder(written: Written, meta: Meta | None = None) -> HopRecorder:
    book = Contents("prod", meta.ask) if meta is not None else None
    return HopRecorder(written.write, TimeBase(lambda: 5_000_000), contents=book, flush_ms=0)


async def test_a_record_carries_it_and_what_stands_for_it() -> None:
    written = Written()
    hops = recorder(written, Meta(privacy="keep,pay.result=hash"))
    hops.add(0, "message.received", MSG, type="request", envelope=ENVELOPE)
    hops.add(0, "agent.completed", MSG, final=True, receipt=RECEIPT)
    hops.add(0, "route.sent", MSG)
    await hops.flush()
    received, completed, sent = written.records
    assert received["envelope"] == msgspec.json.decode(ENVELOPE.data)
    assert received["type"] == "request"
    assert completed["left_out"] == {"why": "hash", "bytes": RECEIPT.size, "sha256": sha(b'{"sum":1.50}')}
    assert completed["final"] is True
    assert not {"envelope", "receipt", "left_out", "final", "type"} & sent.keys()


async def test_without_anybody_who_knows_nothing_is_kept() -> None:
    written = Written()
    hops = recorder(written)
    hops.add(0, "message.received", MSG, envelope=ENVELOPE)
    await hops.flush()
    assert written.records[0]["left_out"] == {"why": "drop"}
    assert b"4111" not in written.batches[0]


async def test_a_batch_ends_where_it_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    written = Written()
    hops = recorder(written, Meta(privacy="keep"))
    body = b'"' + b"x" * 50_000 + b'"'
    for number in range(7):
        hops.add(number % 2, "message.received", f"{MSG[:-1]}{number}", envelope=EnvelopeContent(body, body))
        hops.add(number % 2, "route.sent", f"{MSG[:-1]}{number}")
    assert await hops.flush() == 14
    assert all(len(batch) < BATCH_BYTES + 51_000 for batch in written.batches)
    assert len(written.batches) == 4
    for odd in (0, 1):
        told = [(r["msg_id"], r["point"]) for r in written.records if int(r["msg_id"][-1]) % 2 == odd]
        assert told == sorted(told)  # message.received, then route.sent: the order in which they were told


async def test_while_nothing_can_be_written_records_go_on_without_what_there_is_no_room_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hops_module, "MAX_HELD_BYTES", ENVELOPE.size * 2)
    written = Written()
    hops = recorder(written, Meta(privacy="keep"))
    for number in range(4):
        hops.add(number % 2, "message.received", f"{MSG[:-1]}{number}", envelope=ENVELOPE)
    await hops.flush()
    found = {record["msg_id"][-1]: "envelope" in record or record["left_out"]["why"] for record in written.records}
    assert found == {"0": True, "1": True, "2": "full", "3": "full"}
    hops.add(0, "message.received", MSG, envelope=ENVELOPE)  # there is room again
    await hops.flush()
    assert "envelope" in written.records[-1]
