"""settle: what an agent leaves out of its receipt is filled in, and what it says is carried as it stands."""

import json

import pytest

from reach.backend.steps import Answer, Plan
from reach.envelope.ledger import LegState
from reach.errors import BackendError
from tests.contract.drive import AGENT, Drive, core, retryable
from tests.contract.receipt_fields import assert_whole

STATUSES = ("success", "failed", "retryable")
DEFAULTS = {"success": "ok", "failed": "handler.rejected", "retryable": "handler.error"}
ODD = '{"a" : 1.0,"s":"\\"]}{\\\\","status":"failed","n":[[],{},[{"details":1e400}]]}'
FULL = json.loads(core())


async def settled(drive: Drive, status: str, code: str, text: str, details: str = "{}") -> dict[str, object]:
    """The one receipt of a message that ends so; a retryable one by the router that keeps the answer."""
    taken = await drive.running()
    assert await drive.settle(taken, Answer(status, code, text, details)) == "done"  # type: ignore[arg-type]
    if status == "retryable":
        leg = await drive.leg(taken.msg_id)
        plan = Plan("finish", answer=Answer("retryable", leg.code, leg.core, leg.details))
        assert (await drive.decide(await drive.asked_again(), plan)).verdict == "done"
    leg = await drive.leg(taken.msg_id)
    assert (leg.status, leg.code) == (status, json.loads(leg.core)["code"])
    receipt = await drive.receipt()
    assert_whole(receipt)
    return receipt


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("text", ["{}", " { } ", '{"status":"%s"}', '{ "status" :\t"%s" }\n'])
async def test_a_status_is_enough(drive: Drive, status: str, text: str) -> None:
    receipt = await settled(drive, status, "", text.replace("%s", status))
    assert (receipt["status"], receipt["code"]) == (status, DEFAULTS[status])
    assert {name: receipt[name] for name in FULL} == FULL | {"status": status, "code": DEFAULTS[status], "output": None}


@pytest.mark.parametrize("text", ['{"code":"my.code"}', '{"code":""}', '{"output":1,"code": null}', "{}"])
async def test_the_code_of_the_arguments_is_filled_in(drive: Drive, text: str) -> None:
    assert (await settled(drive, "failed", "my.code", text))["code"] == "my.code"


@pytest.mark.parametrize(
    ("text", "code"),
    [('{"code":"my.code"}', "my.code"), ('{"code":""}', "handler.rejected"), ('{"code":null}', "handler.rejected")],
)
async def test_without_an_argument_the_code_of_the_core_counts(drive: Drive, text: str, code: str) -> None:
    assert (await settled(drive, "failed", "", text))["code"] == code


async def test_a_code_of_any_characters_stays_json(drive: Drive) -> None:
    code = 'a"b\\c/é'
    receipt = await settled(drive, "retryable", code, json.dumps({"code": code}))
    assert (receipt["code"], receipt["attempts"]) == (code, 1)


async def test_what_is_there_stands_as_it_was_sent(drive: Drive) -> None:
    text = f'{{ "output" : {ODD} ,\n"error_message":"no, \\"no\\"", "confidence": 0.5, "own":{{"x":[1]}} }}'
    taken = await drive.running()
    await drive.settle(taken, Answer("success", "ok", text, '{"d":{"leg":1}}'))
    receipt = await drive.receipt()
    assert (receipt["error_message"], receipt["confidence"], receipt["own"]) == ('no, "no"', 0.5, {"x": [1]})
    assert (receipt["details"], receipt["status"], receipt["leg"]) == ({"d": {"leg": 1}}, "success", 0)
    assert f'"output" : {ODD} ,' in (await drive.leg(taken.msg_id)).core


async def test_a_whole_core_is_not_touched(drive: Drive) -> None:
    for text in (core(), core(output=ODD), json.dumps(FULL), json.dumps(dict(reversed(FULL.items())))):
        taken = await drive.running()
        await drive.settle(taken, Answer("success", "ok", text))
        assert (await drive.leg(taken.msg_id)).core == text
        assert_whole(await drive.receipt())


@pytest.mark.parametrize("missing", FULL)
async def test_each_member_may_be_missing(drive: Drive, missing: str) -> None:
    for output in (1, {"x": 1, "error_message": None}, {"x": FULL}):
        text = json.dumps({name: output if name == "output" else FULL[name] for name in FULL if name != missing})
        receipt = await settled(drive, "success", "ok", text.replace('": ', '":').replace(', "', ',"'))
        assert receipt["output"] == (None if missing == "output" else output)


WRONG = {
    "no JSON": "not an object",
    "empty": "",
    "an array": "[]",
    "a text": '"{}"',
    "no end": '{"output":1',
    "no end of a text": '{"output":"1}',
    "no end of a list": '{"output":[1}',
    "brackets that cross": '{"output":[{]}}',
    "a comma at the end": '{"output":1,}',
    "no comma": '{"output":1 "cost":1}',
    "no colon": '{"output"}',
    "no value": '{"output":}',
    "a bare word": '{"output":NaN}',
    "more than one": '{"output":1}{"cost":1}',
    "a member of the script": '{"output":1,"leg":7}',
    "details inside": '{"details":{}}',
    "an id": '{"msg_id":"x"}',
    "twice": '{"output":1,"cost":1,"output":2}',
    "in disguise": '{"l\\u0065g":7}',
    "another status": '{"status":"failed"}',
    "a status that is none": '{"status":["success"]}',
    "another code": '{"code":"other"}',
    "a code that is no text": '{"code":5}',
    "ours and one more": core()[:-1] + ',"stored":true}',
}


@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG)
async def test_what_does_not_fit_is_refused_and_changes_nothing(drive: Drive, text: str) -> None:
    taken = await drive.running()
    with pytest.raises(BackendError, match="REACH_RECEIPT"):
        await drive.settle(taken, Answer("success", "ok", text))
    assert (await drive.leg(taken.msg_id)).state is LegState.RUNNING
    assert await drive.receipts() == []


@pytest.mark.parametrize("details", ["", "[]", "1", '{"a":1},"leg":{}', "{", '{"a":"}'])
async def test_details_are_one_object(drive: Drive, details: str) -> None:
    taken = await drive.running()
    with pytest.raises(BackendError, match="REACH_RECEIPT"):
        await drive.settle(taken, Answer("success", "ok", core(), details))


async def test_there_are_three_statuses(drive: Drive) -> None:
    taken = await drive.running()
    with pytest.raises(BackendError, match="REACH_RECEIPT"):
        await drive.settle(taken, Answer("maybe", "ok", "{}"))  # type: ignore[arg-type]


async def test_a_large_output_is_scanned_quickly(drive: Drive) -> None:
    """Linear: what is quadratic in a text of this length needs minutes."""
    texts = ['"' + '\\"' * 100_000 + '"', "[" * 100_000 + "]" * 100_000, "[" + ",".join(['"x"'] * 100_000) + "]"]
    for text in texts:
        taken = await drive.running()
        assert await drive.settle(taken, Answer("success", "", f'{{"output":{text}}}')) == "done"
        assert text in (await drive.leg(taken.msg_id)).core


# ---------------------------------------------------------------- status and code are kept beside the core


@pytest.mark.parametrize("text", ['{ "output":null, "status" : "retryable" }', '{"output":{"status":"success"}}', "{}"])
async def test_a_new_round_re_opens_whatever_the_core_looks_like(drive: Drive, text: str) -> None:
    receipt = await settled(drive, "retryable", "", text)
    msg_id = str(receipt["msg_id"])
    _, result = await drive.send(msg_id=msg_id, round=2)
    assert (result.verdict, result.known) == ("done", "")
    assert (await drive.taken()).msg_id == msg_id


async def test_a_new_round_re_opens_nothing_that_looks_retryable(drive: Drive) -> None:
    receipt = await settled(drive, "success", "", '{"output":{"status":"retryable"}}')
    assert (await drive.send(msg_id=str(receipt["msg_id"]), round=2))[1].known == "duplicate"


async def test_the_last_code_is_told_whatever_the_core_looks_like(drive: Drive) -> None:
    taken = await drive.running()
    text = '{"output":{"code":"x.y"}, "code" : "handler.retry"}'
    await drive.settle(taken, Answer("retryable", "handler.retry", text))
    await drive.backend.cancel(0, taken.msg_id, "sender-1", 1, 0)
    assert (await drive.receipt())["details"] == {"state": "returned", "last_code": "handler.retry"}
    other = await drive.running()
    await drive.settle(other, retryable())
    assert (
        (await drive.leg(other.msg_id)).history[0].startswith(f'{{"attempt":1,"agent":"{AGENT}","code":"handler.error"')
    )
