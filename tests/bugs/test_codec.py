"""JSON and Unicode: what is no message is refused where it comes in, and what is one is carried byte for byte."""

import json
import logging
import math
from typing import Any

import msgspec
import pytest

from reach import Context, Reach, Reject
from reach.backend.steps import Answer, Plan
from reach.envelope.rules import MAX_ROUND
from reach.sdk.bodies import BodyError
from reach_worker.logs import ConsoleFormatter, JsonFormatter
from tests.bugs.edge import answering, refused, thrown, with_body, written
from tests.bugs.served import served
from tests.contract.drive import Drive, core, retryable
from tests.integration.spine import Spine, envelope, still_serves, until

# ---------------------------------------------------------------- B097: numbers that are none


async def test_B097_a_number_that_is_none_is_refused_where_it_comes_in(spine: Spine) -> None:
    await spine.register("refund-1", "refund")
    for number in (b"NaN", b"Infinity", b"-Infinity", b"nan", b"1e", b"0x1", b"01"):
        for data in (
            with_body(number),
            with_body(b'{"a":[1,' + number + b"]}"),
            written(headers={"h": "HERE"}).replace(b'"HERE"', number),
            written(timestamp="HERE").replace(b'"HERE"', number),
        ):
            assert (await refused(spine, data))["code"] == "envelope.malformed"
    await still_serves(spine)


async def test_B097_a_number_that_is_none_in_an_answer_is_no_answer(spine: Spine) -> None:
    await spine.register("refund-1", "refund")
    msg_id = await spine.send(envelope(max_attempts=1))
    hand, _ = await spine.work("refund-1")
    await spine.settle(msg_id, hand, b'{"status":"success","output":NaN}')
    receipt = await spine.receipt(msg_id)
    assert (receipt["status"], receipt["code"]) == ("retryable", "handler.error")
    await still_serves(spine)


async def test_B097_the_sdk_writes_no_such_number_and_its_agent_goes_on(redis_url: str) -> None:
    agent = answering(lambda body: math.nan if body == "nan" else [math.isinf(body[0])])

    @agent.capability("tell")
    async def tell(ctx: Context) -> str:
        try:
            await ctx.progress({"share": math.inf})
        except BodyError as error:
            return error.code
        return "told"

    @agent.capability("reject")
    async def reject() -> None:
        raise Reject("no", "text", share=math.nan)

    async with served(redis_url, agent) as reach:
        for number in (math.nan, math.inf, -math.inf):
            for body in (number, {"a": [1, number]}, {"a": None, "b": (number,)}):
                receipt = await reach.request("echo", body)
                assert (receipt.status, receipt.code) == ("failed", "payload.invalid")
        receipt = await reach.request("make", "nan")
        assert (receipt.status, receipt.code) == ("failed", "handler.error")
        assert await reach.ask("tell") == "payload.invalid"
        receipt = await reach.request("reject")
        assert (receipt.code, receipt.details) == ("handler.rejected", {"share": "nan", "reject": "no"})
        # Legal JSON that no float holds is carried as it is; a handler that takes anything reads it as Python does.
        assert await reach.ask("make", msgspec.Raw(b"[1e400]")) == [True]
        assert bytes(await reach.ask("echo_raw", msgspec.Raw(b"[1e400]"), returns=msgspec.Raw)) == b"[1e400]"
        receipt = await reach.request("echo", msgspec.Raw(b"[1e400]"))
        assert (receipt.status, receipt.code) == ("failed", "handler.error")
        assert await reach.ask("echo", 1) == 1


# ---------------------------------------------------------------- B099: texts

TEXTS = ("\U0001f378", "\x00", "a\x00b", "\uffff", "\u202etxet", "e\u0301", "\u00e9", "\u2028", "\x7f", "\ufeff", "")
HALVES = ("\ud800", "\udfff", "a\ud83c", "\udf78\ud83c")


async def test_B099_every_text_comes_back_as_it_was(redis_url: str) -> None:
    async with served(redis_url, answering(lambda body: body)) as reach:
        for text in TEXTS:
            await echoed(reach, text)


async def echoed(reach: Reach, text: str) -> None:
    body = {"value": text, text: "name", "both": [text, {text: text}]}
    receipt = await reach.request(
        "echo", body, headers={"h": text}, correlation_id=f"x{text}" if text.isprintable() else None
    )
    assert receipt.output == body
    escaped = json.dumps(body).encode()
    assert bytes(await reach.ask("echo_raw", msgspec.Raw(escaped), returns=msgspec.Raw)) == escaped
    assert await reach.ask("echo", msgspec.Raw(escaped)) == body


async def test_B099_half_a_character_is_refused_or_carried_and_crashes_nobody(redis_url: str) -> None:
    agent = answering(lambda body: thrown(ValueError(body)) if isinstance(body, str) else body["half"])
    async with served(redis_url, agent) as reach:
        for half in HALVES:
            receipts = [
                await reach.request("echo", half),
                await reach.request("echo", {half: 1}),
                await reach.request("echo", 1, headers={"h": half}),
                await reach.request("echo", 1, headers={half: "h"}),
                await reach.request("echo", 1, correlation_id=half),
                await reach.request("echo", 1, schema=half),
                await reach.request("echo", 1, type=half),
                await reach.request(half, 1),
                await reach.request(f"capability:{half}", 1),
            ]
            assert {receipt.status for receipt in receipts} == {"failed"}
            # Escaped it is legal JSON, and carried; what a handler makes of it is an answer in any case.
            escaped = json.dumps(half).encode()
            assert bytes(await reach.ask("echo_raw", msgspec.Raw(escaped), returns=msgspec.Raw)) == escaped
            for body in (escaped, b'{"half":' + escaped + b"}"):
                receipt = await reach.request("make", msgspec.Raw(body), max_attempts=1)
                assert receipt.code == "handler.error"
        assert await reach.ask("echo", 1) == 1


async def test_B099_half_a_character_is_no_part_of_a_name(spine: Spine) -> None:
    await spine.register("refund-1", "refund")
    for half in HALVES:
        for fields in (
            {"msg_id": half},
            {"source": {"agent_id": half}},
            {"target": {"pattern": f"agent_id:{half}"}},
            {"correlation_id": half},
            {"headers": {"h": half}},
            {"headers": {half: "h"}},
        ):
            assert (await refused(spine, written(**fields)))["code"] == "envelope.malformed"
    await still_serves(spine)


@pytest.mark.parametrize("text", [*TEXTS, *HALVES], ids=ascii)
@pytest.mark.parametrize("formatter", [JsonFormatter(), ConsoleFormatter()], ids=["json", "console"])
def test_B099_every_text_can_be_logged(formatter: logging.Formatter, text: str) -> None:
    record = logging.makeLogRecord({"msg": text, "levelname": "INFO", "said": text, "parts": [text, {text: text}]})
    assert formatter.format(record).encode()


# ---------------------------------------------------------------- B101: numbers that Lua would mangle

ODD = (
    b'{"id": 130775545883395173,"big":9223372036854775807, "neg":-18446744073709551616,"arr":[],"obj":{}, "f":0.30000000000000004,'
    b'"exp":1e-7,"one":1.0,"zero":-0,"e":"\\u00e9","slash":"\\/"}'
)


async def test_B101_a_payload_is_the_same_bytes_wherever_a_message_goes(drive: Drive) -> None:
    data = with_body(ODD)
    # Handed over, given back, delayed, handed over again.
    taken = await drive.running(envelope=data)
    assert taken.envelope == data
    await drive.settle(taken, retryable())
    assert await drive.bytes_of(taken.msg_id) == data
    await drive.decide(await drive.asked_again(), Plan("delay", wait_ms=1_000))
    assert await drive.bytes_of(taken.msg_id) == data
    await drive.live(2_500)
    await drive.decide(await drive.asked_again(), Plan("deliver", "a1"))
    again = await drive.taken()
    assert again.envelope == data
    # Among the dead letters.
    await drive.settle(again, retryable())
    letter = Plan("finish", answer=retryable(), dead=True)
    await drive.decide(await drive.asked_again(), letter)
    ((_, dead),) = await drive.backend.dead_letters(0)
    assert dead[b"e"] == data


async def test_B101_an_output_is_the_same_bytes_in_every_receipt(drive: Drive) -> None:
    taken = await drive.running()
    await drive.settle(taken, Answer("success", "ok", core(output=ODD.decode())))
    mail = [entry.data for entry in await drive.mail() if entry.kind == "receipt"]
    record = await drive.backend.inspect(0, taken.msg_id)
    assert record is not None
    for receipt in (*mail, record.receipts[0]):
        assert b'"output":' + ODD in receipt
    assert len(mail) == 1


async def test_B101_a_number_that_a_script_counts_with_is_exact_or_refused(spine: Spine) -> None:
    await spine.register("refund-1", "refund")
    for number in (MAX_ROUND + 1, 10**14, 2**53 + 1, 2**63 - 1):
        assert (await refused(spine, written(round=number)))["code"] == "envelope.bad_field"
    last = await spine.backend.now_ms() + 7 * 24 * 3_600_000  # the last moment that a message may wait for
    msg_id = await spine.send(envelope(round=MAX_ROUND, not_before=last, timeouts={"total_ms": 2**63 - 1}))

    async def known() -> Any:
        return await spine.backend.inspect(0, msg_id)

    head = (await until(known, "the record")).head
    assert (head.round, head.not_before_ms, head.total_at_ms) == (MAX_ROUND, last, last + head.total_ms)
    await spine.backend.cancel(0, msg_id, "tester", MAX_ROUND, 0)
    receipt = await spine.receipt(msg_id)
    assert (receipt["code"], receipt["round"]) == ("cancelled", MAX_ROUND)
