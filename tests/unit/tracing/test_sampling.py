"""Which traces are kept: all that failed, were retried or slow, and a share of the rest; what is held is bounded."""

import pytest

from reach.errors import ConfigError
from reach.tracing.record import HopRecord, Point
from reach.tracing.sampling import Decided, Sampling, TailSampler, is_in_share, sampling_of

NOBODY = Sampling(share=0.0, slow_us=10_000_000)
T = "0af7651916cd43dd8448eb211c80319c"


def hop(
    point: Point, at_s: float = 0.0, code: str = "", *, trace: str = T, msg: str = "m", **more: object
) -> HopRecord:
    told = {"leg": 0, "attempt": 1, **more}
    return HopRecord(point=point, at_us=round(at_s * 1e6), msg_id=msg, code=code, trace_id=trace, **told)  # type: ignore[arg-type]


WAY = [
    hop("message.received", 0.0, attempt=0),
    hop("route.sent", 0.1),
    hop("agent.received", 0.2),
    hop("agent.completed", 0.9, "ok"),
    hop("message.delivered", 1.0, "ok"),
]


def points(items: object) -> list[str]:
    return [item.record.point for item in items]  # type: ignore[attr-defined]


def feed(sampler: TailSampler[int], *records: HopRecord) -> Decided[int]:
    decided: Decided[int] = Decided([], [])
    for number, record in enumerate(records):
        kept, dropped = sampler.add(record, number)
        decided.kept.extend(kept)
        decided.dropped.extend(dropped)
    return decided


def test_what_went_well_is_dropped_once_it_has_ended_and_nothing_more_came() -> None:
    sampler: TailSampler[int] = TailSampler(NOBODY)
    assert feed(sampler, *WAY) == Decided([], [])
    assert sampler.due(2_900_000) == Decided([], [])
    over = sampler.due(3_200_000)
    assert (over.kept, points(over.dropped)) == ([], points_of(WAY))
    assert sampler.held == 0


def points_of(records: list[HopRecord]) -> list[str]:
    return [record.point for record in records]


@pytest.mark.parametrize(
    "last",
    [
        hop("agent.completed", 1.0, "handler.rejected"),
        hop("message.retried", 1.0, "handler.error"),
        hop("message.moved", 1.0),
        hop("message.dead", 1.0),
        hop("route.sent", 1.0, attempt=2),
        hop("message.delivered", 12.0, "ok"),
        hop("agent.responding", 11.0, "ok", duration_us=10_500_000),
    ],
    ids=["failed", "retried", "moved", "dead", "second run", "slow", "slow run"],
)
def test_what_is_worth_a_look_is_kept_whole_and_what_comes_late_follows(last: HopRecord) -> None:
    sampler: TailSampler[int] = TailSampler(NOBODY)
    kept = feed(sampler, *WAY[:3], last).kept
    assert points(kept) == [*points_of(WAY[:3]), last.point]
    assert points(feed(sampler, hop("message.delivered", 20.0, "ok")).kept) == ["message.delivered"]


def test_a_conversation_that_goes_on_is_slow_and_one_of_several_messages_ends_with_the_last() -> None:
    sampler: TailSampler[int] = TailSampler(NOBODY)
    child = hop("message.received", 0.5, msg="child", attempt=0)
    feed(sampler, *WAY, child)
    assert sampler.due(9_000_000) == Decided([], [])
    assert points(sampler.due(10_000_000).kept) == [*points_of(WAY), "message.received"]


def test_a_question_that_is_open_has_not_ended() -> None:
    sampler: TailSampler[int] = TailSampler(NOBODY)
    feed(sampler, WAY[0], hop("agent.completed", 0.5, "input_required"))
    assert sampler.due(9_000_000) == Decided([], [])
    assert len(sampler.due(10_000_000).kept) == 2


def test_the_share_hangs_on_the_trace_alone_and_is_kept_at_once() -> None:
    ids = [
        f"0192f000000070008000{number:012x}" for number in range(4_000)
    ]  # as UUIDs are: not all their bits are chance
    some = {trace for trace in ids if is_in_share(trace, 0.1)}
    assert 300 < len(some) < 500
    sampler: TailSampler[int] = TailSampler(Sampling(share=0.1))
    kept = [len(feed(sampler, hop("message.received", trace=trace, msg=trace)).kept) for trace in ids[:200]]
    assert kept == [int(trace in some) for trace in ids[:200]]
    assert {trace for trace in ids if is_in_share(trace, 0.3)} > some


def test_what_the_sender_does_not_sample_is_kept_only_where_it_is_worth_it() -> None:
    sampler: TailSampler[int] = TailSampler(Sampling(share=1.0))
    unsampled = hop("message.received", sampled=False)
    assert feed(sampler, unsampled).kept == []
    assert len(feed(sampler, hop("route.failed", code="route.not_found", sampled=False)).kept) == 2
    everything: TailSampler[int] = TailSampler(Sampling(share=1.0, heeds_sender=False))
    assert len(feed(everything, unsampled).kept) == 1
    nothing: TailSampler[int] = TailSampler(Sampling(off=True))
    assert len(feed(nothing, hop("route.failed", code="route.not_found")).dropped) == 1


def test_what_is_held_is_bounded_and_the_oldest_go_first() -> None:
    sampler: TailSampler[int] = TailSampler(NOBODY, max_held=10)
    decided = [feed(sampler, hop("message.received", trace=f"{n:032x}", msg=str(n))) for n in range(15)]
    assert [item.record.msg_id for each in decided for item in each.dropped] == ["0", "1", "2", "3", "4"]
    assert (sampler.held, sampler.let_go) == (10, 5)


def test_a_gap_is_kept_and_what_is_in_no_trace_is_not() -> None:
    sampler: TailSampler[int] = TailSampler(NOBODY)
    assert points(feed(sampler, hop("gap", trace="")).kept) == ["gap"]
    assert points(feed(sampler, hop("capacity.wanted", trace="")).dropped) == ["capacity.wanted"]


@pytest.mark.parametrize(
    ("sampler", "argument", "share", "env", "found"),
    [
        ("", "", None, "dev", Sampling(share=1.0)),
        ("", "", None, "prod", Sampling(share=0.1)),
        ("", "", 0.5, "dev", Sampling(share=0.5)),
        ("always_on", "", None, "prod", Sampling(share=1.0, heeds_sender=False)),
        ("parentbased_always_on", "", None, "prod", Sampling(share=1.0)),
        ("always_off", "", None, "dev", Sampling(share=0.0, heeds_sender=False, off=True)),
        ("parentbased_always_off", "", None, "dev", Sampling(share=0.0)),
        ("traceidratio", "0.25", None, "dev", Sampling(share=0.25, heeds_sender=False)),
        ("parentbased_traceidratio", "0.25", None, "dev", Sampling(share=0.25)),
        ("parentbased_traceidratio", "0.25", 0.5, "dev", Sampling(share=0.5)),
    ],
)
def test_what_the_environment_says(sampler: str, argument: str, share: float | None, env: str, found: Sampling) -> None:
    environ = {"OTEL_TRACES_SAMPLER": sampler, "OTEL_TRACES_SAMPLER_ARG": argument}
    assert sampling_of(environ, share=share, slow_ms=10_000, env=env) == found


@pytest.mark.parametrize(
    ("environ", "text"),
    [
        ({"OTEL_TRACES_SAMPLER": "jaeger_remote"}, "jaeger_remote"),
        ({"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "ten"}, "'ten' is no ratio"),
        ({"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "1.5"}, "'1.5' is no ratio"),
    ],
)
def test_a_sampler_that_there_is_not_is_told(environ: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        sampling_of(environ, share=None, slow_ms=1, env="dev")
