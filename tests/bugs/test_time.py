"""TIME: a number that is no time is refused where it is said, and one that is too great never means at once."""

import contextlib
import datetime as dt
import json
import math
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from click.testing import CliRunner

from reach import Agent, Retry
from reach.backend.steps import Record
from reach.cli import main
from reach.delivery.answers import read_answer
from reach.envelope.ledger import LegState
from reach.envelope.records import decode_policy, read_registration
from reach.errors import RecordError, RegistrationRefused
from reach.testing import TestReach
from tests.bugs.edge import refused, written
from tests.integration.spine import Spine, envelope, still_serves, until
from tests.unit.sdk.shops import agent_with

DAY_MS = 24 * 3600 * 1000
WEEK_MS = 7 * DAY_MS

DAY_MS = 24 * 3600 * 1000
WEEK_MS = 7 * DAY_MS

# ---------------------------------------------------------------- B089: numbers that are no time

#: what nobody can wait, in seconds, and what is no number at all
NO_SECONDS = [-1, -0.0004, 2**31, 2**53, 2**63, 1e308, 10**400, math.nan, math.inf, -math.inf, "5", True, b"5", [5]]
OF_VALUE = pytest.mark.parametrize("value", NO_SECONDS, ids=lambda value: repr(value)[:12])
Call = Callable[[TestReach, Any], Coroutine[Any, Any, object]]


async def _receipt(bus: TestReach, value: Any) -> object:
    handle = await bus.send("agent_id:nobody", timeout=1)
    try:
        return await handle.receipt(value)
    finally:
        await bus.advance(2)


async def _gather(bus: TestReach, value: Any) -> object:
    return await bus.gather("work", timeout=value)


async def _add(_: TestReach, value: Any) -> object:
    await Agent("x").add_capability("work", lambda: None, max_process=value)
    return None


#: every option of the SDK that is a time
CALLS: dict[str, Call] = {
    "request timeout": lambda bus, value: bus.request("work", timeout=value),
    "ask timeout": lambda bus, value: bus.ask("work", timeout=value),
    "send timeout": lambda bus, value: bus.send("work", timeout=value),
    "send ttl": lambda bus, value: bus.send("work", ttl=value),
    "send delay": lambda bus, value: bus.send("work", delay=value),
    "gather timeout": _gather,
    "receipt timeout": _receipt,
    "add_capability max_process": _add,
}


@OF_VALUE
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_B089_what_nobody_can_wait_is_refused_by_the_sdk_and_nothing_is_sent(call: Call, value: Any) -> None:
    async with TestReach() as bus:
        with pytest.raises(ValueError, match=r"(too (long|short): at (most|least)|seconds or a timedelta)"):
            await call(bus, value)
        assert [sent.target.pattern for sent in bus.sent if sent.target.pattern != "agent_id:nobody"] == []
        assert bus.reach.outstanding == 0


@pytest.mark.parametrize("name", ["request timeout", "send timeout", "gather timeout", "add_capability max_process"])
async def test_B089_no_time_at_all_is_none_to_wait(name: str) -> None:
    async with TestReach() as bus:
        with pytest.raises(ValueError, match="too short: at least 1 ms"):
            await CALLS[name](bus, 0)
        assert bus.sent == []


@OF_VALUE
def test_B089_a_declaration_and_a_retry_say_it_where_they_are_made(value: Any) -> None:
    with pytest.raises(ValueError, match="max_process"):
        Agent("x", max_process=value)
    with pytest.raises(ValueError, match="max_process"):
        Agent("x").capability("work", max_process=value)(lambda: None)
    with pytest.raises((ValueError, TypeError), match="after") if value != "5" else contextlib.nullcontext():
        Retry(after=value)  # a text alone is the message


async def test_B089_a_fraction_of_a_millisecond_is_a_whole_one() -> None:
    async with TestReach(agent_with(lambda: 1)) as bus:
        await bus.send("work", timeout=0.0004, ttl=0.0004)
        await bus.settle()
        assert (bus.sent[0].timeouts.total_ms, bus.sent[0].ttl_ms) == (1, 1)
    assert Retry(after=0.0004).after_ms == 1


@pytest.mark.parametrize("days", [7, 7 + 1 / 86_400])
async def test_B089_the_longest_delay_is_exact_and_a_second_more_is_refused(days: float) -> None:
    runs: list[int] = []
    async with TestReach() as bus:

        async def work() -> None:
            runs.append(bus.clock.wall_ms())

        await bus.start(agent_with(work))
        begun_ms = bus.clock.wall_ms()
        when = dt.datetime.fromtimestamp(begun_ms / 1000, dt.UTC) + dt.timedelta(days=days)
        if days > 7:
            for options in ({"delay": dt.timedelta(days=days)}, {"not_before": when}):
                with pytest.raises(ValueError, match="seven days"):
                    await bus.send("work", **options)
            assert bus.sent == []
            return
        await bus.send("work", delay=dt.timedelta(days=days))
        await bus.send("work", not_before=when)
        await bus.settle()
        assert [sent.not_before for sent in bus.sent] == [begun_ms + WEEK_MS] * 2
        assert runs == []


@pytest.mark.parametrize("option", ["--timeout", "--ttl", "--delay"])
@pytest.mark.parametrize("value", ["-1", str(2**31), str(2**63), "1e308", "1" + "0" * 400, "nan", "inf", "five"])
def test_B089_the_command_line_calls_it_wrong_usage(option: str, value: str) -> None:
    """Before anybody is connected to."""
    ended = CliRunner().invoke(main, ["send", "work", f"{option}={value}", "--redis-url", "redis://127.0.0.1:1"])
    assert ended.exit_code == 2, ended.output
    assert option in ended.output


#: raw JSON in ms: the code that it is refused with, or what counts
TTL = {
    "0": "ttl.zero", "-1": "ttl.zero", "0.4": "envelope.bad_field", "1": 1, str(2**31): DAY_MS, str(2**53): DAY_MS,
    str(2**63 - 1): DAY_MS, str(2**63): "envelope.bad_field", "1e308": "envelope.bad_field", "NaN": "envelope.malformed",
    "Infinity": "envelope.malformed", '"5"': "envelope.bad_field", "true": "envelope.bad_field", "1e999": "envelope.",
}  # fmt: skip
TIMEOUT = TTL | {
    "0": "envelope.bad_field", "-1": "envelope.bad_field", str(2**31): WEEK_MS, str(2**53): WEEK_MS, str(2**63 - 1): WEEK_MS,
}  # fmt: skip
MOMENT = TIMEOUT | {
    "0": 0, str(2**31): 2**31, str(2**53): "envelope.bad_field", str(2**63 - 1): "envelope.bad_field",
    "253402300799999": "envelope.bad_field",
}  # fmt: skip


def with_number(field: str, text: str) -> bytes:
    """An envelope with this number, letter by letter."""
    made: dict[str, Any] = {"timeouts": {"total_ms": 60_000}, "target": {"pattern": "agent_id:idle-1"}}
    part, _, name = field.rpartition(".")
    (made.setdefault(part, {}) if part else made)[name] = "HERE"
    return written(**made).replace(b'"HERE"', text.encode())


async def known(spine: Spine, msg_id: str) -> Record:
    """Its record, once it is in the ledger."""

    async def looked_up() -> Record | None:
        return await spine.backend.inspect(0, msg_id)

    found = await until(looked_up, "the message in the ledger")
    assert found is not None
    return found


RAW = [
    *(("ttl_ms", text, found) for text, found in TTL.items()),
    *(
        (f"timeouts.{name}_ms", text, found)
        for name in ("network", "processing", "total")
        for text, found in TIMEOUT.items()
    ),
    *(("not_before", text, found) for text, found in MOMENT.items()),
]


@pytest.mark.leaves_work(why="what is accepted lies in the inbox of an agent that takes nothing")
async def test_B089_every_number_in_raw_json_is_exact_clamped_as_documented_or_refused_with_a_code(
    spine: Spine,
) -> None:
    await spine.register("idle-1", "idle")
    await spine.register("refund-1", "refund")
    wrong = []
    for field, text, expected in RAW:
        data = with_number(field, text)
        if isinstance(expected, str):
            code = (await refused(spine, data))["code"]
            wrong += [] if code.startswith(expected) else [(field, text, code)]
            continue
        await spine.put({"e": data})
        msg_id = json.loads(data)["msg_id"]
        head = (await known(spine, msg_id)).head
        counted = {"ttl_ms": head.ttl_ms, "not_before": head.not_before_ms}
        counted |= {f"timeouts.{name}_ms": getattr(head, f"{name}_ms") for name in ("network", "processing", "total")}
        wrong += [] if counted[field] == expected else [(field, text, counted[field])]
    assert wrong == []
    await still_serves(spine)


async def test_B089_a_moment_within_seven_days_waits_and_one_behind_them_is_refused(spine: Spine) -> None:
    await spine.register("refund-1", "refund")
    now_ms = await spine.backend.now_ms()
    msg_id = await spine.send(envelope(not_before=now_ms + WEEK_MS))
    record = await known(spine, msg_id)
    assert record.legs[0].state is LegState.WAITING
    assert record.legs[0].until_ms >= now_ms + WEEK_MS
    receipt = await refused(spine, written(not_before=now_ms + WEEK_MS + 120_000))
    assert (receipt["code"], receipt["details"]["field"]) == ("envelope.bad_field", "not_before")
    assert "seven days" in receipt["error_message"]


@pytest.mark.parametrize("text", ["0", "-1", "0.4", str(WEEK_MS + 1), str(2**53), str(2**63), "1e308", '"5"', "true"])
def test_B089_a_registration_with_such_a_number_is_refused_with_its_field(text: str) -> None:
    for where in ('"max_process_ms":%s', '"capabilities":[{"name":"work","max_process_ms":%s}]'):
        declared = '{"agent_id":"x","instance_id":"x.1","node_id":"n","env":"dev","zone":null,' + where % text + "}"
        with pytest.raises(RegistrationRefused, match="max_process_ms"):
            read_registration(declared.encode(), env="dev")


@pytest.mark.parametrize("text", ["0", "-1", "0.4", str(WEEK_MS + 1), str(2**63), "1e308", "NaN", '"5"', "true"])
def test_B089_a_policy_with_such_a_number_is_none(text: str) -> None:
    with pytest.raises(RecordError):
        decode_policy(b'{"timeouts":{"total_ms":%s}}' % text.encode())


@pytest.mark.parametrize(
    ("text", "wait_ms"),
    [
        ("0", 0), ("-1", 0), (str(2**31), WEEK_MS), (str(2**53), WEEK_MS), (str(2**63 - 1), WEEK_MS), ("0.4", -1),
        (str(2**63), -1), ("1e308", -1), ("NaN", -1), ('"5"', -1), ("true", -1),
    ],
)  # fmt: skip
def test_B089_the_wait_that_a_receipt_asks_for_is_bounded_or_makes_it_junk(text: str, wait_ms: int) -> None:
    """-1: an ordinary failure, backed off as such."""
    answer, found_ms = read_answer(b'{"status":"retryable","code":"handler.retry","retry_after_ms":%s}' % text.encode())
    assert (answer.status, found_ms) == ("retryable", wait_ms)
