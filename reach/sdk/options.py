"""What a send may say, and the envelope that it becomes. Pure."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict

import msgspec

from reach.envelope.message import Budget, Envelope, Payload, Scope, Source, Target, Timeouts, Traces
from reach.sdk.bodies import encode_body
from reach.sdk.budgets import budget_of
from reach.sdk.declared import needs_of
from reach.sdk.durations import MAX_MS, Duration, Moment, maybe_ms, moment_ms, to_ms

OnInput = Callable[[Any], Any]
"""Answers a question."""


class Options(TypedDict, total=False):
    """What `request`, `ask` and `send` take by name, besides target and body.

    type: the message type, "request" by default. schema: the name of the body's schema. timeout: the caller's patience, 30 s by default.
    Where it is not given, an agent's max_process raises it, and a duplicate waits as long as the message that it repeats; where it is,
    the caller hears at timeout + 0.25 s, and `details["goes_on"]` says that the message does not end with it. ttl: how long the first
    hand-over may take, 30 s. key: the caller's own id of this piece of work: the same key is the same message, and a repeat runs
    nothing, unless it had ended retryable: then it runs anew, as the next round of the same message. correlation_id: the conversation.
    order_key: 1 to 256 printable characters: messages of one order_key and target are handled one at a time, in the order in which they are
    routed; it is part of what a message is, beside `key`. With scope "all" nothing is ordered.
    process_order: with scope "all", stages one after the other: a list of lists of targets. Who gets the message is `target`'s to say; each
    agent is in the first stage that names it, and begins when all before have ended well. Where one has not, those behind it end
    `stage.failed`; who is in no stage is only shown the message (`agent.observed`).
    priority: 1 to 10, 5. max_attempts: 1 to 10, 6: one run, and so many less one retries. headers: text to text, carried untouched.
    min_confidence: 0 to 1: an answer that is less sure is kept, and one other agent is asked; the better of the two ends it, with
    `receipt.partial` where even that is less sure. needs: `{"context_tokens": ..., "tier": ...}`: what its agent must have left in its
    context, which is also what it costs of a rate limit in tokens. delay: it is handed over no earlier than so long after now, by the
    clock of Redis, at most seven days; or not_before: no earlier than that moment, an aware datetime or Unix seconds. Every timeout
    counts from then; until then it can be cancelled as any other. With scope "all" it goes to those who fit when it is sent.
    budget: what the whole conversation may spend, a `Budget` or a mapping of hops, cost and tokens: what comes after it is spent ends as
    `budget.exceeded`. Handlers pass it on with whatever they send, and can only make it smaller.

    validate: whether the body is judged by the JSON Schema that is stored as `schema`, before it is sent (docs/schemas.md; needs the extra
    `schemas`): what does not fit is `payload.invalid` with every place; where none is stored, `schema.unknown`. By default as the client
    was opened.

    on_input: answers what a handler asks: called with each prompt, a coroutine function, or a plain one in a thread; what it returns is the
    answer. What it raises comes out of `request` and `ask`, which cancels what has no `key`; elsewhere it is logged, and the question stays
    open. A question stops `timeout` until it is answered; but a `request`, `ask` or `gather` with a `timeout` and nobody to answer hears at
    that, with `details["state"]` "parked".
    """

    type: str
    schema: str | None
    timeout: Duration | None
    ttl: Duration | None
    key: str | None
    correlation_id: str | None
    order_key: str | None
    process_order: Sequence[Sequence[str]] | None
    priority: int
    max_attempts: int
    headers: Mapping[str, str] | None
    min_confidence: float | None
    needs: Mapping[str, object] | None
    delay: Duration | None
    not_before: Moment | None
    budget: Budget | Mapping[str, float] | None
    on_input: OnInput | None
    validate: bool


class Parent(msgspec.Struct, frozen=True, kw_only=True):
    """The message in whose handler something is sent: what its children take over."""

    msg_id: str
    correlation_id: str
    previous_hops: tuple[str, ...]  # with the handler's own agent
    traceparent: str | None
    tracestate: str | None
    remaining_ms: int  # a child must not outlive the one who asks
    budget: Budget | None = None


def is_later(options: Options) -> bool:
    """Whether it is to be handed over at a moment of its own."""
    return options.get("delay") is not None or options.get("not_before") is not None


def not_before_ms(options: Options, now_ms: int) -> int:
    """The moment, by the clock of Redis, which shows `now_ms`.

    Raises:
        ValueError: No duration, or no moment, or one that is more than seven days ahead.
    """
    delay, moment = options.get("delay"), options.get("not_before")
    if moment is not None:
        at_ms = moment_ms(moment, "not_before")
        if at_ms > now_ms + MAX_MS:
            raise ValueError(f"not_before is too far ahead: at most {MAX_MS} ms from now, which is seven days")
        return at_ms
    return now_ms + (maybe_ms(delay, "delay", least=0) or 0)


def total_ms_of(options: Options, parent: Parent | None, default_ms: int) -> int | None:
    """The total that is written into the envelope; None: not said, so that an agent's own limit may raise it.

    Raises:
        ValueError: The timeout is no duration.
    """
    asked_ms = maybe_ms(options.get("timeout"), "timeout")
    if parent is None or is_later(options):  # what is to happen later is meant to outlive the one who asks
        return asked_ms
    left_ms = max(parent.remaining_ms, 1)
    if asked_ms is None:
        return left_ms if left_ms < default_ms else None
    return min(asked_ms, left_ms)


def compose(
    *,
    msg_id: str,
    source: Source,
    pattern: str,
    scope: Scope,
    body: object,
    options: Options,
    reply_to: str,
    now_ms: int,
    total_ms: int | None,
    round: int = 1,
    not_before: int | None = None,
    traceparent: str | None = None,
    tracestate: str | None = None,
    headers: Mapping[str, str] | None = None,
    parent: Parent | None = None,
    stages: tuple[tuple[str, ...], ...] | None = None,
) -> Envelope:
    """The envelope of one send. `traceparent`, `tracestate`: of the sending span; absent: of the parent. `stages`: as patterns.

    Raises:
        BodyError: The body cannot be written as JSON.
        ValueError: A duration that is none.
        TypeError: An option of the wrong type.
    """
    schema = options.get("schema")
    envelope = Envelope(
        msg_id=msg_id,
        type=options.get("type", "request"),
        timestamp=now_ms,
        task_id=options.get("key"),
        round=round,
        source=source,
        target=Target(pattern=pattern, scope=scope),
        correlation_id=options.get("correlation_id"),
        order_key=options.get("order_key"),
        process_order=stages,
        priority=options.get("priority", 5),
        payload=Payload(schema=schema) if body is None else Payload(schema=schema, body=encode_body(body)),
        reply_to=reply_to,
        traces=Traces(traceparent=traceparent, tracestate=tracestate),
        timeouts=Timeouts(total_ms=total_ms),
        max_attempts=options.get("max_attempts", 6),
        min_confidence=options.get("min_confidence"),
        needs=needs_of(options.get("needs")),
        not_before=not_before,
        budget=budget_of(options.get("budget"), parent.budget if parent is not None else None),
        headers=dict(headers if headers is not None else options.get("headers") or {}),
    )
    ttl = options.get("ttl")
    if ttl is not None:
        envelope = msgspec.structs.replace(envelope, ttl_ms=to_ms(ttl, "ttl", least=0))
    if parent is None:
        return envelope
    return msgspec.structs.replace(
        envelope,
        correlation_id=envelope.correlation_id or parent.correlation_id,
        in_reply_to=parent.msg_id,
        traces=Traces(
            previous_hops=parent.previous_hops,
            traceparent=traceparent or parent.traceparent,
            tracestate=tracestate if traceparent else parent.tracestate,
        ),
    )
