"""Everything bad that can stand in a door by hand: each ends as the protocol says, the router goes on, nothing stays pending."""

import json
from typing import Any

import pytest

from tests.contract.places import KEYS
from tests.integration.spine import Spine, envelope, still_serves, until

YEAR_5138 = "99999999999999-0"
LAST_ID = f"{2**64 - 1}-{2**64 - 2}"


def raw(**fields: Any) -> bytes:
    return json.dumps(envelope(**fields)).encode()


def with_bytes(old: bytes, new: bytes, **fields: Any) -> bytes:
    made = raw(**fields)
    assert old in made
    return made.replace(old, new, 1)


#: name -> (the bytes of e, the code, whether somebody can be told)
REFUSED: dict[str, tuple[bytes, str, bool]] = {
    "junk bytes": (b"\x00\xff\xfe junk", "envelope.malformed", False),
    "empty": (b"", "envelope.malformed", False),
    "a list": (b"[1,2]", "envelope.malformed", False),
    "no object": (b"null", "envelope.malformed", False),
    "cut off": (raw()[:-1], "envelope.malformed", True),
    "byte order mark": (b"\xef\xbb\xbf" + raw(), "envelope.malformed", True),
    "wrong type": (raw(priority="high"), "envelope.bad_field", True),
    "bool for int": (raw(ttl_ms=True), "envelope.bad_field", True),
    "missing target": (
        json.dumps({k: v for k, v in envelope().items() if k != "target"}).encode(),
        "envelope.missing_field",
        True,
    ),
    "2 MiB": (raw(payload={"body": "x" * (2 << 20)}), "envelope.too_large", True),
    "unknown field": (raw(prioritty=3), "envelope.unknown_field", True),
    "unknown nested field": (raw(source={"agent_id": "tester", "agentid": "x"}), "envelope.unknown_field", True),
    "depth 2000": (with_bytes(b'{"amount": 1}', b"[" * 2000 + b"]" * 2000), "envelope.malformed", True),
    "duplicate keys": (with_bytes(b'"timestamp": 1', b'"timestamp": 1, "timestamp": 2'), "envelope.malformed", True),
    "escaped duplicate": (
        with_bytes(b'"timestamp": 1', b'"timestamp": 1, "\\u0074imestamp": 2'),
        "envelope.malformed",
        True,
    ),
    "bad UTF-8": (with_bytes(b"amount", b"amo\xc3\x28nt"), "envelope.malformed", True),
    "NaN": (with_bytes(b'"amount": 1', b'"amount": NaN'), "envelope.malformed", True),
    "unknown type": (raw(type="never.heard.of"), "type.unregistered", True),
    "bad pattern": (raw(target={"pattern": "refund"}), "target.bad_pattern", True),
    "no intent": (raw(target={"pattern": "intent:"}), "target.bad_pattern", True),
    "an empty intent": (raw(target={"pattern": "intent: \u3000\n"}), "target.bad_pattern", True),
    "pattern with braces": (raw(target={"pattern": "agent_id:a{b}"}), "target.bad_pattern", True),
    "bad scope": (raw(target={"pattern": "capability:refund", "scope": "some"}), "target.bad_scope", True),
    "ttl zero": (raw(ttl_ms=0), "ttl.zero", True),
    "ttl negative": (raw(ttl_ms=-5), "ttl.zero", True),
    "33 hops": (raw(traces={"previous_hops": [f"a{n}" for n in range(33)]}), "loop.too_many_hops", True),
    "msg_id with braces": (raw(msg_id="{dev.0}"), "envelope.bad_field", True),
    "msg_id with newline": (raw(msg_id="a3f2c1e4-9b8d-4f3a-8c2e-1a2b3c4d5e6f\n"), "envelope.bad_field", True),
    "msg_id in capitals": (raw(msg_id="A3F2C1E4-9B8D-4F3A-8C2E-1A2B3C4D5E6F"), "envelope.bad_field", True),
    "agent with newline": (raw(source={"agent_id": "a\nb"}), "envelope.bad_field", True),
    "reply_to with braces": (raw(reply_to="x}:y"), "envelope.bad_field", False),
    "version 2": (raw(version="2.0"), "envelope.unsupported_version", True),
    "round zero": (raw(round=0), "envelope.bad_field", True),
    "attempts 11": (raw(max_attempts=11), "envelope.bad_field", True),
    "too large a number": (
        with_bytes(b'"timestamp": 1', b'"timestamp": 9223372036854775808'),
        "envelope.bad_field",
        True,
    ),
}


async def test_every_refusal_has_its_code_and_its_event(spine: Spine) -> None:
    await spine.register("refund-1", "refund")
    for data, _, _ in REFUSED.values():
        await spine.put({"e": data})
    await spine.put({"x": b"no envelope at all"})
    expected = sorted([code for _, code, _ in REFUSED.values()] + ["envelope.malformed"])

    async def rejected() -> bool:
        codes = [record["code"] for record in await spine.events() if record["point"] == "message.rejected"]
        return sorted(codes) == expected

    await until(rejected, "an event for each", 10)
    receipts = await spine.mail()
    assert sorted(receipt["code"] for receipt in receipts) == sorted(code for _, code, told in REFUSED.values() if told)
    assert {receipt["status"] for receipt in receipts} == {"failed"}
    await spine.quiet()
    await still_serves(spine)


@pytest.mark.parametrize("name", [name for name, (_, _, told) in REFUSED.items() if told and name != "2 MiB"])
async def test_a_refusal_names_the_message_where_it_can_be_read(spine: Spine, name: str) -> None:
    data, code, _ = REFUSED[name]
    await spine.put({"e": data})
    receipt = (await until(spine.mail, "the receipt"))[0]
    assert (receipt["code"], receipt["attempts"], receipt["target_agent"]) == (code, 0, None)
    assert receipt["error_message"]
    readable = "msg_id" not in name
    assert bool(receipt["msg_id"]) == readable


@pytest.mark.leaves_work(why="what the agent takes it does not answer")
async def test_priority_99_is_clamped_and_runs_in_the_high_lane(spine: Spine) -> None:
    await spine.register("refund-1", "refund")
    msg_id = await spine.send(envelope(priority=99))
    _, fields = await spine.work("refund-1", lane="high")
    assert fields[b"m"].decode() == msg_id


@pytest.mark.leaves_work(why="what the agent takes it does not answer")
async def test_other_fields_of_an_entry_are_ignored(spine: Spine) -> None:
    await spine.register("refund-1", "refund")
    await spine.put({"e": raw(), "\n{x}": b"\xff", "by": b""})
    await spine.work("refund-1")


@pytest.mark.leaves(r"reach:\{test\.0\}:mail:box\.string", why="the test puts it there")
async def test_a_reply_to_that_names_a_string_does_not_stop_the_work(spine: Spine) -> None:
    await spine.register("refund-1", "refund")
    await spine.place.spoil(KEYS.mail(0, "box.string"))
    msg_id = await spine.send(envelope(reply_to="box.string"))
    hand, _ = await spine.work("refund-1")
    await spine.settle(msg_id, hand, {"status": "success", "output": 7})

    async def ended() -> bytes:
        record = await spine.backend.inspect(0, msg_id)
        return record.receipts.get(0, b"") if record is not None else b""

    assert json.loads(await until(ended, "the receipt in the ledger"))["output"] == 7
    await spine.put({"e": raw(reply_to="box.string", ttl_ms=0)})
    await spine.quiet()
    await still_serves(spine)


@pytest.mark.parametrize("entry_id", [YEAR_5138, LAST_ID])
@pytest.mark.parametrize("door", ["ingress", "again", "receipts"])
async def test_an_entry_id_of_the_far_future_is_handled_and_the_stream_heals(
    spine: Spine, door: str, entry_id: str
) -> None:
    await spine.register("refund-1", "refund")
    keys = {"ingress": KEYS.ingress(0, "normal"), "again": KEYS.again(0), "receipts": KEYS.receipts(0)}
    if door == "ingress":
        msg_id = await spine.send(envelope(), entry_id=entry_id)
        hand, fields = await spine.work("refund-1")
        now_ms = await spine.backend.now_ms()
        assert abs(int(fields[b"x"]) - now_ms - 30_000) < 5_000  # accepted now, not in the year 5138
        await spine.settle(msg_id, hand, {"status": "success"})
        await spine.receipt(msg_id)
    else:
        await spine.place.append(keys[door], {"m": b"x", "l": b"0", "h": b"0"}, entry_id)
    await spine.quiet()
    fresh = await spine.place.append(keys[door], {"m": b"x"})
    assert int(fresh.partition("-")[0]) < await spine.backend.now_ms() + 60_000
    await spine.quiet()
    await still_serves(spine)


AGAINS: dict[str, dict[str, bytes]] = {
    "nothing": {"x": b"y"},
    "no uuid": {"m": b"{dev.0}:x", "l": b"0", "h": b"0"},
    "bad UTF-8": {"m": b"\xff\xfe", "l": b"0", "h": b"0"},
    "leg of letters": {"m": b"a3f2c1e4-9b8d-4f3a-8c2e-1a2b3c4d5e6f", "l": b"one", "h": b"0"},
    "leg beyond all": {"m": b"a3f2c1e4-9b8d-4f3a-8c2e-1a2b3c4d5e6f", "l": b"9" * 50, "h": b"0"},
    "superscript leg": {"m": b"a3f2c1e4-9b8d-4f3a-8c2e-1a2b3c4d5e6f", "l": "²".encode(), "h": b"0"},
    "unknown message": {"m": b"a3f2c1e4-9b8d-4f3a-8c2e-1a2b3c4d5e6f", "l": b"0", "h": b"0"},
    "endless hand": {"m": b"a3f2c1e4-9b8d-4f3a-8c2e-1a2b3c4d5e6f", "l": b"0", "h": b"1" * 10_000},
}


async def test_forged_references_do_nothing(spine: Spine) -> None:
    await spine.register("refund-1", "refund")
    msg_id = await spine.send(envelope())
    hand, _ = await spine.work("refund-1")
    for fields in AGAINS.values():
        await spine.place.append(KEYS.again(0), fields)
        await spine.place.append(KEYS.receipts(0), {**fields, "r": b'{"status":"success"}'})
    for forged in ("0", "1-1", hand + "0"):
        await spine.place.append(KEYS.again(0), {"m": msg_id.encode(), "l": b"0", "h": forged.encode()})
        await spine.settle(msg_id, forged, {"status": "success", "output": "forged"})
    await spine.settle(msg_id, hand, {"status": "success", "output": "forged"}, leg=1)
    await spine.quiet()
    assert await spine.mail(msg_id) == []
    await spine.settle(msg_id, hand, {"status": "success", "output": "true"})
    assert (await spine.receipt(msg_id))["output"] == "true"
    await spine.quiet()


async def test_a_junk_receipt_with_the_right_hand_is_a_handler_error(spine: Spine) -> None:
    await spine.register("refund-1", "refund")
    msg_id = await spine.send(envelope(max_attempts=1))
    hand, _ = await spine.work("refund-1")
    await spine.settle(msg_id, hand, b"\xff[")
    receipt = await spine.receipt(msg_id)
    assert (receipt["code"], receipt["status"], receipt["attempts"]) == ("handler.error", "retryable", 1)
    assert receipt["details"]["dead_letter"]
    dead = await spine.backend.dead_letters(0)
    assert [fields[b"m"].decode() for _, fields in dead] == [msg_id]


async def test_a_key_of_the_wrong_type_where_the_record_belongs_is_overwritten(spine: Spine) -> None:
    await spine.register("refund-1", "refund")
    made = envelope()
    await spine.place.spoil(KEYS.message(0, made["msg_id"]))
    await spine.send(made)
    hand, _ = await spine.work("refund-1")
    await spine.settle(made["msg_id"], hand, {"status": "success"})
    assert (await spine.receipt(made["msg_id"]))["status"] == "success"
    await spine.quiet()


@pytest.mark.leaves_work(why="what the agent takes it does not answer")
async def test_lost_doors_and_lost_groups_heal(spine: Spine) -> None:
    await spine.register("refund-1", "refund")
    await still_serves(spine)
    for key in KEYS.work(0):
        await spine.place.delete(key)
    await still_serves(spine)
    await spine.put({"e": raw(reply_to=None)})
    await spine.work("refund-1")
    for key in KEYS.work(0):
        await spine.place.drop_group(key, "routers")
    await still_serves(spine)


async def test_a_box_named_in_the_envelope_is_told_even_where_the_body_names_another(spine: Spine) -> None:
    await spine.put({"e": raw(payload={"body": {"reply_to": "somebody.else"}}, ttl_ms=0)})
    assert (await until(spine.mail, "the receipt"))[0]["code"] == "ttl.zero"
