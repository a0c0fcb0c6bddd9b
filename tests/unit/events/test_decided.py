"""Why a message went there: what is made of its records, and how it is told."""

import msgspec

from reach.cli.decided import lines_of
from reach.cli.picture import scored
from reach.events.decided import decisions_of
from tests.unit.events.test_traced import record, run

LOOKED = [
    {"agent": "bank-2", "score": 0.75},
    {"agent": "bank", "score": 0.25, "reason": "much slower"},
    {"agent": "vault", "filter": "state", "reason": "draining"},
    {"agent": "odd", "score": True},
    "junk",
]
RECORDS = [
    record(0, "message.received", "m1", pattern="capability:pay", type="request"),
    record(
        1,
        "route.matched",
        "m1",
        pattern="capability:pay",
        strategy="score",
        chosen="bank-2",
        tier="large: its sender says so",
        duration_us=35,
        counts={"matched": 24, "fit": 2, "state": 22},
        candidates=LOOKED,
    ),
    *run("m1", 1, "bank-2", 1, 2, 3, "handler.error"),
    record(4, "message.retried", "m1", attempt=1, agent="bank-2", code="handler.error"),
    record(5, "route.failed", "m1", attempt=1, code="route.no_capacity", counts={"matched": 1, "fit": 0, "tried": 1}),
    record(0, "message.received", "m2", pattern="other"),
]
TOLD = """\
capability:pay  m1  request: route.no_capacity
policy now: none, so the default holds

2026-05-28 20:26:40.001 (+1.0 ms) score: bank-2
24 answer the pattern, 2 fit; refused by state 22, decided in 35 us
tier large: its sender says so
AGENT   SCORE  SHARE  REFUSED BY  WHY
bank-2  0.75   75.0%  chosen      -
bank    0.25   25.0%  -           much slower
vault   -      -      state       draining
odd     -      -      -           -
and 20 more
  run 1 bank-2/bank-2.1 on box: waited 1.0 ms, ran 1.0 ms, handler.error
  message.retried: run 1, bank-2, handler.error

2026-05-28 20:26:40.005 (+5.0 ms) nobody
1 answer the pattern, 0 fit; refused by tried 1
it ended as route.no_capacity
  route.failed: 0 of 1 fit, run 1, route.no_capacity"""


def test_every_decision_is_told_with_all_who_were_looked_at() -> None:
    found = decisions_of("m1", RECORDS)
    assert found is not None
    assert "\n".join(lines_of(found)) == TOLD
    assert decisions_of("m3", RECORDS) is None


def test_a_score_is_told_in_figures() -> None:
    told = [scored(score) for score in (None, 0.0, 0.12345, 0.75, 12.3456, 1000.0, 123456.0, 5e7)]
    assert told == ["-", "0", "0.123", "0.75", "12.3", "1000", "123000", "5e+07"]


def test_a_decision_of_another_policy_than_todays_says_so() -> None:
    def told(now: str, then: str) -> list[str]:
        found = decisions_of("m1", [*RECORDS[:1], {**RECORDS[1], "policy": then}])
        assert found is not None
        found = msgspec.structs.replace(found, policy_digest=now)
        return [line for line in lines_of(found) if "has changed" in line]

    assert told("none", "none") == told("0f" * 8, "0f" * 8) == []
    assert told("0f" * 8, "") == [], "by a router that has not recorded it"
    assert told("none", "0f" * 8) == [f"the policy has changed since: another one held ({'0f' * 8})"]
    assert told("0f" * 8, "none") == ["the policy has changed since: none was set, the default held"]


def test_where_no_decision_is_recorded_that_is_said() -> None:
    found = decisions_of("m2", RECORDS)
    assert found is not None
    assert lines_of(found) == [
        "other  m2: no end recorded",
        "policy now: none, so the default holds",
        "no decision is recorded",
    ]
