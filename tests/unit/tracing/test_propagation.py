"""W3C trace context: the cases of the standard, and names of spans that processes agree on."""

import pytest

from reach.tracing.propagation import (
    TraceContext,
    make_traceparent,
    parse_traceparent,
    parse_tracestate,
    span_id_of,
    trace_of,
)

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
MSG = "a3f2c1e4-9b8d-4f3a-8c2e-1a2b3c4d5e6f"


def test_what_was_sent_is_read_and_written_again() -> None:
    context = parse_traceparent(f"00-{TRACE}-{SPAN}-01", "congo=t61rcWkgMzE, rojo=00f067aa0ba902b7")
    assert context == TraceContext(TRACE, SPAN, 1, "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7")
    assert make_traceparent(context) == f"00-{TRACE}-{SPAN}-01"
    assert context.sampled
    unsampled = parse_traceparent(f"00-{TRACE}-{SPAN}-00")
    assert unsampled is not None
    assert not unsampled.sampled


@pytest.mark.parametrize(
    "text",
    [
        "",
        "junk",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE}-{SPAN}-01\n",
        f" 00-{TRACE}-{SPAN}-01",
    ],
)
def test_a_malformed_traceparent_is_ignored(text: str) -> None:
    assert parse_traceparent(text) is None
    assert trace_of(MSG, text) == TraceContext(MSG.replace("-", ""), "")


def test_a_later_version_may_carry_more() -> None:
    context = parse_traceparent(f"cc-{TRACE}-{SPAN}-01-what-the-future-will-be-like")
    assert context is not None
    assert context.trace_id == TRACE


@pytest.mark.parametrize(
    "text",
    [None, "", "x" * 600, "a=b,a=c", "A=b", "a", "a=b\n", ",".join(f"k{i}=v" for i in range(33)), "a=" + "v" * 257],
)
def test_a_malformed_tracestate_is_dropped(text: str | None) -> None:
    assert parse_tracestate(text) == ""
    context = parse_traceparent(f"00-{TRACE}-{SPAN}-01", text)
    assert context is not None


def test_the_id_of_a_span_depends_on_all_of_its_parts_and_on_nothing_else() -> None:
    first = span_id_of(MSG, 0, "route.sent", 1)
    assert first == span_id_of(MSG, 0, "route.sent", 1)
    others = {span_id_of(MSG, 1, "route.sent", 1), span_id_of(MSG, 0, "route.sent", 2), span_id_of(MSG, 0, "x", 1)}
    assert len(others | {first}) == 4
    assert len(first) == 16


def test_a_message_without_a_trace_gets_one_of_its_own_also_with_a_strange_id() -> None:
    assert trace_of("00000000-0000-0000-0000-000000000000", None).trace_id.strip("0")
    assert len(trace_of("", None).trace_id) == 32
