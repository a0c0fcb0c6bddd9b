"""The judge of the kill run must be able to say no: each promise is broken in turn, in histories made by hand."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from reach import Receipt, Status
from reach.envelope.receipt import ReceiptRecord
from reach.envelope.records import encode_receipt
from tests.chaos.cast import Kill
from tests.chaos.histories import Call, Mail, Message
from tests.chaos.ledger_file import Run
from tests.chaos.report import Report
from tests.chaos.verdict import Judge

MSG = "0192f0c1-4c5e-7b1a-9d2e-1a2b3c4d5e6f"
BOX = "box.1"
END = 10_000


class Case:
    """A message that was run once by `work-1` (pid 1) and ended well, until somebody spoils it."""

    def __init__(self) -> None:
        self.runs = [Run("start", MSG, "work-1", 1, 9_000, 1), Run("end", MSG, "work-1", 1, 9_900, 1)]
        self.receipts = [self.receipt()]
        self.mail = [self.receipt()]
        self.kills: list[Kill] = []
        self.message = Message(0, "plain", "one", MSG)
        self.seconds = 1.0
        self.stall_ms = 0

    @staticmethod
    def receipt(**changes: Any) -> Receipt[Any]:
        made: Receipt[Any] = Receipt(
            msg_id=MSG,
            status=Status.SUCCESS,
            code="ok",
            output={"n": 0},
            target_agent="work-1",
            attempts=1,
            finished_at=END,
        )
        return msgspec.structs.replace(made, **changes)

    def ended(self, code: str, status: Status = Status.FAILED, **changes: Any) -> None:
        """It ended in another way."""
        self.receipts = [self.receipt(code=code, status=status, output=None, **changes)]
        self.mail = list(self.receipts)

    def broken(self) -> list[str]:
        """What the judge says."""
        mail, report = Mail(), Report()
        for n, receipt in enumerate(self.mail):
            mail.add(BOX, f"{n}-0", encode_receipt(_record(receipt)))
        self.message.calls.append(Call(BOX, 8_900, self.seconds, 60.0, tuple(self.receipts), self.stall_ms))
        Judge(report, {MSG: self.runs}, mail, self.kills, 0).judge([self.message])
        return report.broken


def _record(receipt: Receipt[Any]) -> ReceiptRecord:
    fields = {name: getattr(receipt, name) for name in ReceiptRecord.__struct_fields__ if name != "output"}
    return ReceiptRecord(**fields, output=msgspec.Raw(msgspec.json.encode(receipt.output)))


def nobody_answered(case: Case) -> None:
    case.receipts = []


def by_its_own_clock(case: Case) -> None:
    case.receipts = [case.receipt(code="timeout.total", status=Status.RETRYABLE, details={"local": True})]


def too_late(case: Case) -> None:
    case.seconds, case.stall_ms = 60.5, 200


def failed(case: Case) -> None:
    case.ended("handler.error", Status.RETRYABLE)


def another_output(case: Case) -> None:
    case.receipts = case.mail = [case.receipt(output={"n": 1})]


def two_receipts(case: Case) -> None:
    case.mail *= 2


def a_duplicate_gets_another(case: Case) -> None:
    case.mail.append(case.receipt(stored=True, finished_at=END + 1))


def no_mail(case: Case) -> None:
    case.mail = []


def ran_after_completion(case: Case) -> None:
    case.runs.append(Run("start", MSG, "work-2", 2, END + 1, 1))


def success_without_a_run(case: Case) -> None:
    case.runs = []


def cancelled_and_ran(case: Case) -> None:
    case.message.kind, case.message.cancelled_at_ms = "cancel", 8_000
    case.ended("cancelled", finished_at=8_000, details={"state": "queued"})


def cancel_confirmed_and_went_on(case: Case) -> None:
    case.message.kind, case.message.cancelled_at_ms = "cancel", 8_000


def taken_from_the_living(case: Case) -> None:
    case.message.losses[0] = [{"attempt": 1, "agent": "work-1", "code": "agent.lost", "at": 9_500}]


def taken_over_late(case: Case) -> None:
    case.kills = [Kill(1_000, "work-1", 7)]
    case.runs.insert(0, Run("start", MSG, "work-1", 7, 900, 1))
    case.message.losses[0] = [{"attempt": 1, "agent": "work-1", "code": "agent.lost", "at": 18_001}]


def before_its_time(case: Case) -> None:
    case.message.kind, case.message.not_before_ms = "later", 9_001


def a_silent_one_was_lost(case: Case) -> None:
    case.message.kind, case.runs = "silent", case.runs[:1]


def a_silent_one_ran_twice(case: Case) -> None:
    case.message.kind = "silent"
    case.runs.append(Run("start", MSG, "work-2", 2, 9_950, 1))


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (nobody_answered, "lost"),
        (by_its_own_clock, "lost"),
        (too_late, "500 ms after its total"),
        (failed, "ended retryable/handler.error"),
        (another_output, "has the output"),
        (two_receipts, "2 terminal receipts"),
        (a_duplicate_gets_another, "ended in several ways"),
        (no_mail, "no receipt of leg 0 came"),
        (ran_after_completion, "ran after its end"),
        (success_without_a_run, "no handler came to its end"),
        (cancelled_and_ran, "ran after its end"),
        (cancel_confirmed_and_went_on, "ended success/ok"),
        (taken_from_the_living, "which lived"),
        (taken_over_late, "a takeover took 17001 ms"),
        (before_its_time, "began 1 ms before its time"),
        (a_silent_one_was_lost, "lost"),
        (a_silent_one_ran_twice, "ran twice"),
    ],
)
def test_each_broken_promise_is_seen(spoil: Callable[[Case], None], says: str) -> None:
    case = Case()
    spoil(case)
    found = case.broken()
    assert any(says in what for what in found), found


def test_nothing_is_said_of_a_good_run() -> None:
    assert Case().broken() == []


def test_at_its_time_is_in_time() -> None:
    case = Case()
    case.message.kind, case.message.not_before_ms = "later", 9_000
    assert case.broken() == []


def test_what_a_cancel_cut_off_may_just_have_begun() -> None:
    """It had been taken when the cancel came: the handler starts a moment later, once, and is stopped."""
    case = Case()
    case.message.kind, case.message.cancelled_at_ms = "cancel", 8_990
    case.ended("cancelled", finished_at=8_990, details={"state": "running"})
    assert case.broken() == []
    case = Case()
    case.message.kind, case.message.cancelled_at_ms = "cancel", 8_990
    case.ended("cancelled", finished_at=8_990, details={"state": "running"})
    case.runs.append(Run("start", MSG, "work-2", 2, 9_100, 1))
    assert case.broken()


def test_a_stall_of_the_callers_own_loop_is_not_held_against_reach() -> None:
    case = Case()
    case.seconds, case.stall_ms = 60.5, 250
    assert case.broken() == []
