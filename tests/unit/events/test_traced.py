"""The tree of a conversation, made of records alone, and its picture as a golden text."""

from typing import Any

import pytest

from reach.cli.picture import lines_of, spoken
from reach.events.traced import trace_of

START = 1_780_000_000_000_000


def record(at_ms: float, point: str, msg_id: str, **more: Any) -> dict[str, Any]:
    told = {"at_us": START + round(at_ms * 1000), "point": point, "msg_id": msg_id, "leg": 0, "attempt": 0}
    return told | {"correlation_id": "c1"} | more


def run(
    msg_id: str, attempt: int, agent: str, sent: float, began: float, ended: float, code: str
) -> list[dict[str, Any]]:
    who = {"attempt": attempt, "agent": agent, "node": "box", "span_id": f"{msg_id}.{attempt}"}
    return [
        record(sent, "route.sent", msg_id, attempt=attempt, agent=agent),
        record(began, "agent.received", msg_id, instance=f"{agent}.1", **who),
        record(ended, "agent.completed", msg_id, instance=f"{agent}.1", code=code, **who),
    ]


CONVERSATION = [
    record(0, "message.received", "m1", pattern="capability:help", type="request", schema="help.v1"),
    record(1, "route.matched", "m1", strategy="score", chosen="desk", counts={"matched": 3, "fit": 2, "state": 1}),
    *run("m1", 1, "desk", 1, 5, 95, "ok"),
    record(10, "message.received", "m2", pattern="capability:pay", parent_span_id="m1.1"),
    *run("m2", 1, "bank", 10, 20, 30, "handler.retry"),
    record(31, "message.retried", "m2", attempt=1, agent="bank", code="handler.retry", counts={"wait_ms": 30}),
    *run("m2", 2, "bank-2", 61, 62, 80, "ok"),
    record(81, "message.delivered", "m2", attempt=2, agent="bank-2", code="ok"),
    record(100, "message.delivered", "m1", attempt=1, agent="desk", code="ok"),
]
PICTURE = """\
conversation c1: 2 messages, 3 runs, 100 ms from 2026-05-28 20:26:40.000
     +0.0 ms  ########################  capability:help  m1  request help.v1: ok, 100 ms
     +1.0 ms  |                         ├─ route.matched: 2 of 3 fit, score chose desk
     +1.0 ms  .######################   ├─ run 1 desk/desk.1 on box: waited 4.0 ms, ran 90 ms, ok
      +10 ms    ##################      │  └─ capability:pay  m2: ok, 71 ms
      +10 ms    ..####                  │     ├─ run 1 bank/bank.1 on box: waited 10 ms, ran 10 ms, handler.retry
      +31 ms         |                  │     ├─ message.retried: run 1, bank, handler.retry, waits 30 ms
      +61 ms                ######      │     ├─ run 2 bank-2/bank-2.1 on box: waited 1.0 ms, ran 18 ms, ok
      +81 ms                     |      │     └─ message.delivered: run 2, bank-2, ok
     +100 ms                         |  └─ message.delivered: run 1, desk, ok
2 records (of any conversation) were lost meanwhile: something may be missing here"""


def test_the_picture_of_a_conversation() -> None:
    gap = record(50, "gap", "", counts={"missing": 2})
    assert "\n".join(lines_of(trace_of("c1", [*reversed(CONVERSATION), gap]))) == PICTURE


def test_batches_that_are_gone_are_no_records() -> None:
    gone = [record(50, "gap", "", code="batches.trimmed", counts={"batches": 3}) for _ in range(2)]
    dropped = record(50, "gap", "", counts={"missing": 2})
    trace = trace_of("c1", [*CONVERSATION, *gone, dropped])
    assert (trace.missing, trace.missing_batches) == (2, 6)
    assert [line for line in lines_of(trace) if "lost" in line] == [
        "2 records (of any conversation) were lost meanwhile: something may be missing here",
        "6 batches of records (each of up to 100, of any conversation) were lost meanwhile: something may be missing here",
    ]


def test_what_answers_a_message_hangs_below_it_also_without_spans() -> None:
    child = record(10, "message.received", "m2", envelope={"in_reply_to": "m1", "source": {"agent_id": "desk"}})
    hopped = record(12, "message.received", "m3", envelope={"traces": {"previous_hops": ["front", "desk"]}})
    strange = record(13, "message.received", "m4", envelope={"in_reply_to": "m4"}, parent_span_id="nowhere")
    tree = trace_of(
        "c1", [record(0, "message.received", "m1"), *run("m1", 1, "desk", 1, 5, 95, "ok"), child, hopped, strange]
    )
    assert [message.msg_id for message in tree.messages] == ["m1", "m4"]
    below = tree.messages[0].children
    assert [(one.msg_id, one.in_reply_to, one.in_run) for one in below] == [("m2", "m1", 0), ("m3", "m1", 0)]
    assert below[0].source == "desk"
    assert (tree.count, len(tree.walk())) == (4, 4)


def test_a_run_whose_clock_is_a_little_late_has_sent_what_came_before_it() -> None:
    early = record(4.9, "message.received", "m2", in_reply_to="m1", source="desk")
    tree = trace_of("c1", [record(0, "message.received", "m1"), *run("m1", 1, "desk", 1, 5, 95, "ok"), early])
    (child,) = tree.messages[0].children
    assert (child.in_run, child.source) == (0, "desk")


def test_messages_that_answer_each_other_in_a_circle_are_all_there() -> None:
    circle = [record(n, "message.received", f"m{n}", envelope={"in_reply_to": f"m{(n + 1) % 3}"}) for n in range(3)]
    assert trace_of("c1", circle).count == len(trace_of("c1", circle).walk()) == 3
    deep = [record(n, "message.received", f"m{n}", envelope={"in_reply_to": f"m{n - 1}"}) for n in range(200)]
    assert len(trace_of("c1", deep).walk()) == 200


def test_a_free_run_and_a_zombie_are_runs_of_their_own() -> None:
    zombie = record(9, "agent.completed", "m1", attempt=1, agent="a", instance="a.1", code="stale")
    records = [*run("m1", 1, "b", 1, 2, 3, "handler.retry"), *run("m1", 1, "a", 4, 5, 6, "ok"), zombie]
    tree = trace_of("m1", records)
    assert [(one.attempt, one.agent, one.code) for one in tree.messages[0].runs] == [
        (1, "b", "handler.retry"),
        (1, "a", "ok"),
        (1, "a", "stale"),
    ]


@pytest.mark.parametrize(
    ("records", "code", "is_open"),
    [
        ([record(0, "message.received", "m1")], "", True),
        ([record(0, "message.rejected", "m1", code="auth.denied")], "auth.denied", False),
        (run("m1", 1, "a", 0, 1, 2, "ok")[:2], "", True),
        ([*run("m1", 1, "a", 0, 1, 2, "handler.error"), record(3, "message.retried", "m1", attempt=1)], "", True),
        ([*run("m1", 1, "a", 0, 1, 2, "handler.error"), record(3, "message.dead", "m1", code="handler.error")], "handler.error", False),
        ([record(0, "route.sent", "m1"), record(0, "route.sent", "m1", leg=1),
          record(2, "message.expired", "m1", leg=1, code="ttl.expired")], "ttl.expired", True),
        ([record(1, "agent.completed", "m1", leg=leg, code="ok") for leg in (0, 1)], "2 ok", False),
    ],
)  # fmt: skip
def test_how_a_message_ended(records: list[dict[str, Any]], code: str, is_open: bool) -> None:
    (message,) = trace_of("m1", records).messages
    assert (message.code, message.open) == (code, is_open)


def test_what_is_told_twice_of_one_span_and_moment_is_told_once() -> None:
    """A router that died before it was done with what it had been told left that to another."""
    ended = [
        record(9, "message.cancelled", "m3", span_id="s9", code="cancelled", worker="w1"),
        record(9, "message.delivered", "m3", span_id="s10", code="cancelled", worker="w1"),
    ]
    again = [one | {"worker": "w2"} for one in (*CONVERSATION[2:5], *ended)]
    once = trace_of("c1", [*CONVERSATION, *ended])
    assert trace_of("c1", [*CONVERSATION, *ended, *[one for one in again if "span_id" in one]]) == once
    later = [one | {"at_us": one["at_us"] + 1} for one in ended]  # another record, which says what it says
    assert trace_of("c1", [*CONVERSATION, *ended, *later]).records == once.records + 2


@pytest.mark.parametrize("end", ["message.cancelled", "message.expired", "route.failed"])
def test_the_receipt_of_an_end_comes_behind_it_also_in_its_moment(end: str) -> None:
    told = [record(9, "message.delivered", "m1", code="x"), record(9, end, "m1", code="x")]
    (message,) = trace_of("c1", told).messages
    assert [mark.point for mark in message.marks] == [end, "message.delivered"]


def test_what_came_first_is_a_mark_where_it_is_no_arrival_and_so_is_each_copy() -> None:
    refused = [record(1, "message.rejected", "m1", code="auth.denied")]
    assert [mark.point for mark in trace_of("c1", refused).messages[0].marks] == ["message.rejected"]
    late = [record(1, "route.matched", "m1"), record(2, "route.failed", "m1", code="route.not_found")]
    assert [mark.point for mark in trace_of("c1", late).messages[0].marks] == ["route.matched", "route.failed"]
    copied = [record(1, "message.received", "m1"), record(2, "message.received", "m1", code="duplicate")]
    assert [mark.code for mark in trace_of("c1", copied).messages[0].marks] == ["duplicate"]


def test_records_of_strangers_do_no_harm() -> None:
    odd: list[dict[str, Any]] = [
        {"msg_id": "m1"},
        {"msg_id": "m1", "at_us": "soon", "point": 7, "leg": "x", "counts": [], "envelope": 3},
        {},
    ]
    assert lines_of(trace_of("m1", odd))[1].strip().startswith("+0.0 ms")
    assert lines_of(trace_of("m1", [{"msg_id": "m1", "at_us": 1 << 62}]))


@pytest.mark.parametrize(
    ("us", "said"), [(340, "0.3 ms"), (12_400, "12 ms"), (1_204_000, "1.204 s"), (185_000_000, "3 min 5 s")]
)
def test_durations_as_people_say_them(us: int, said: str) -> None:
    assert spoken(us) == said
