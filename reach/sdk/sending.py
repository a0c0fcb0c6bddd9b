"""request, ask, send and gather: the same for a client and inside a handler."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, TypeVar, Unpack, overload

from reach.envelope.message import Envelope, Scope, Source
from reach.envelope.rules import DEFAULT_TOTAL_MS, business_msg_id, check_fields, sender_of
from reach.errors import BackendUnavailable, ConfigError, EnvelopeError
from reach.ids import is_printable, new_msg_id
from reach.sdk.declared import check_options, check_scope, check_text
from reach.sdk.exchange import Exchange
from reach.sdk.gathering import Group, check_wanted, targets_of
from reach.sdk.handle import Handle, receipts_of
from reach.sdk.names import Names, stages_of
from reach.sdk.options import Options, Parent, compose, is_later, not_before_ms, total_ms_of
from reach.sdk.pending import Pending
from reach.sdk.receipts import Receipt, Receipts
from reach.sdk.telemetry import producing
from reach.sdk.validating import BodyCheck

T = TypeVar("T")

_OPTIONS = frozenset(Options.__annotations__)


class Origin:
    """Who sends: what every message of one client has in common."""

    __slots__ = ("check", "env", "exchange", "keyed", "names", "source", "validates")

    def __init__(self, exchange: Exchange, source: Source, *, env: str, keyed: bool, validates: bool = False) -> None:
        """`keyed`: the sender has a name of its own, so that a key means the same after a restart. `validates`: bodies by their schemas."""
        self.check = BodyCheck.of(exchange.backend, exchange.clock)
        self.validates = validates
        self.exchange = exchange
        self.names = Names(exchange.backend, exchange.clock)
        self.source = source
        self.env = env
        self.keyed = keyed


class Sending:
    """Sends messages and waits for receipts."""

    _origin: Origin

    def _parent(self) -> Parent | None:
        """The message in whose handler this sends; None outside."""
        return None

    @overload
    async def request(
        self, target: str, body: object = None, *, scope: Literal["one"] = "one", **options: Unpack[Options]
    ) -> Receipt[Any]: ...
    @overload
    async def request(
        self,
        target: str,
        body: object = None,
        *,
        returns: type[T],
        scope: Literal["one"] = "one",
        **options: Unpack[Options],
    ) -> Receipt[T]: ...
    @overload
    async def request(
        self, target: str, body: object = None, *, scope: Literal["all"], **options: Unpack[Options]
    ) -> Receipts[Any]: ...
    @overload
    async def request(
        self, target: str, body: object = None, *, returns: type[T], scope: Literal["all"], **options: Unpack[Options]
    ) -> Receipts[T]: ...
    async def request(
        self, target: str, body: object = None, *, returns: Any = Any, scope: Scope = "one", **options: Unpack[Options]
    ) -> Receipt[Any] | Receipts[Any]:
        """Send and wait for the end, which comes by `timeout` + 250 ms whatever Redis does. Never raises for a result.

        A caller that gives up (its task is cancelled, its `timeout` is over, its client closed) cancels what it has started, without being
        held up by it; inside a handler also one whose run is over. With a `key` the message goes on: others may wait for that piece of
        business, or ask for it again. `send` and `handle.cancel()` say what else is wanted.

        Args:
            target: A pattern (`capability:refund`, `agent_id:x`, `group:g`), or a bare name: an agent's, else a capability.
            body: Anything that JSON can say: Struct, dataclass, TypedDict, pydantic model, dict; a msgspec.Raw goes as it is.
            returns: What the output is read as.
            scope: "one" of the agents that fit, or "all" of them: then a receipt per leg.
            options: type, schema, timeout, ttl, key, correlation_id, order_key, priority, max_attempts,
                headers, min_confidence, needs, delay, not_before, budget, on_input, process_order, validate: see
                `Options`.

        Returns:
            The receipt: also for what was refused, timed out, or could not be sent.

        Raises:
            ValueError, TypeError: An option's value is none, such as a negative timeout.
            ConfigError: A key without an agent_id.
            BackendError: Redis refuses the command (credentials, ACL); an unreachable Redis is a receipt.
            BackendUnavailable: The client was closed before (`backend.closed`).
        """
        pending = self._open(target, scope, options, owned=True)
        pending.raises = True
        try:
            await self._deliver_or_refuse(pending, target, body, scope, options)
            await pending.wait(self._origin.exchange.clock)
        except asyncio.CancelledError:
            self._origin.exchange.leave(pending)
            raise
        finally:
            self._origin.exchange.drop(pending)
        if pending.problem is not None:
            raise pending.problem
        receipts = receipts_of(pending, returns)
        return receipts if scope == "all" else receipts[0]

    @overload
    async def ask(self, target: str, body: object = None, **options: Unpack[Options]) -> Any: ...
    @overload
    async def ask(self, target: str, body: object = None, *, returns: type[T], **options: Unpack[Options]) -> T: ...
    async def ask(self, target: str, body: object = None, *, returns: Any = Any, **options: Unpack[Options]) -> Any:
        """`request`, and the output itself.

        Raises:
            ReachError: The receipt was no success: NoRoute, Overloaded, Timeout, Rejected, HandlerFailed ...
        """
        if "scope" in options:
            raise TypeError("ask gives one output and takes no scope: request(..., scope=...) gives the receipts")
        receipt: Receipt[Any] = await self.request(target, body, returns=returns, **options)
        return receipt.raise_for_status().output

    async def send(
        self, target: str, body: object = None, *, scope: Scope = "one", **options: Unpack[Options]
    ) -> Handle:
        """Send and go on. When this returns, Redis has acknowledged the message: it will end in a receipt per leg.

        With an order_key it returns when a router has given it its place in the line, or it has ended, at the latest by `timeout` + 250 ms:
        sends that were awaited one after the other are handled in that order.

        Nothing but `handle.cancel()` ends it before its time: a handle that nobody holds, a client that is closed and a handler whose run
        is over leave it alone. Arguments as `request`. Cancelled: the message may have been sent or not; the same `key` finds out.

        Raises:
            EnvelopeError: It breaks a rule; nothing was sent.
            Overloaded: Redis is full, or no router takes what lies at the door (`max_ingress`); nothing was sent.
            BackendUnavailable: Redis could not be reached within `timeout`; it may have been sent.
            ValueError, ConfigError, BackendError: As `request`.
        """
        exchange = self._origin.exchange
        pending = self._open(target, scope, options)
        try:
            await self._deliver(pending, target, body, scope, options)
        except BaseException:
            exchange.drop(pending)
            raise
        pending.done.add_done_callback(lambda _: exchange.drop(pending))
        if pending.done.done() and not pending.accepted:
            exchange.drop(pending)
            receipt = receipts_of(pending, Any)[0]
            if receipt.code == "overloaded":
                receipt.raise_for_status()
            raise BackendUnavailable(receipt.error_message or "", details={"msg_id": pending.msg_id})
        if options.get("order_key") is not None:
            await pending.placed()
        left_ms = pending.deadline_at_ms - exchange.clock.monotonic_ms()
        return Handle(exchange, pending, max(left_ms, 1))

    @overload
    def gather(
        self,
        target: str | Sequence[str],
        body: object = None,
        *,
        want: Literal["all"] = "all",
        until: Literal["settled"] = "settled",
        best_by: None = None,
        **options: Unpack[Options],
    ) -> Group[Any]: ...
    @overload
    def gather(
        self,
        target: str | Sequence[str],
        body: object = None,
        *,
        returns: type[T],
        want: Literal["all"] = "all",
        until: Literal["settled"] = "settled",
        best_by: None = None,
        **options: Unpack[Options],
    ) -> Group[T]: ...
    def gather(
        self,
        target: str | Sequence[str],
        body: object = None,
        *,
        returns: Any = Any,
        want: Literal["all"] = "all",
        until: Literal["settled"] = "settled",
        best_by: None = None,
        **options: Unpack[Options],
    ) -> Group[Any]:
        """Ask several at once: `receipts = await reach.gather(...)`, or `async for receipt in reach.gather(...)`. No result raises.

        Args:
            target: One pattern: everybody who fits it, as one message with a leg for each. A list: one message for each target, at most
                1,000; with `key`, each has the key `<key>/<target>`, so that a target that is named twice is asked once.
            body: The same for all.
            returns: What each output is read as.
            want: "all" receipts; there is no other choice.
            until: Every leg has "settled"; there is no other choice.
            best_by: Must be None.
            options: As `request`.

        Returns:
            The group, whose messages are being sent; giving it up cancels them (`Group` says when). It ends by `timeout` + 250 ms
            whatever Redis does.

        Raises:
            ValueError: An option's value is none, no target or too many, or something that gather cannot do.
            ConfigError: A key without an agent_id.
        """
        check_wanted(want, until, best_by)
        one = isinstance(target, str)
        sends = [(name, options if one else _options_for(name, options)) for name in targets_of(target)]
        scope: Scope = "all" if one else "one"
        pendings = [self._open(name, scope, own, owned=True) for name, own in sends]
        group: Group[Any] = Group(self._origin.exchange, pendings, returns)
        for n, (name, own) in enumerate(sends):
            delivery = partial(self._deliver_or_refuse, pendings[n], name, body, scope, own)
            self._origin.exchange.own(group.deliver(n, delivery), f"gather {pendings[n].msg_id}")
        return group

    def draft(self, target: str, body: object, scope: Scope, options: Options) -> Envelope:
        """The envelope that this would send now, with its target as it stands; nothing is sent.

        Raises:
            TypeError, ValueError: An option's value is none.
            BodyError: The body cannot be written as JSON.
        """
        _check(target, scope, options)
        origin, parent = self._origin, self._parent()
        return compose(
            msg_id=new_msg_id(),
            source=origin.source,
            pattern=target,
            scope=scope,
            body=body,
            options=options,
            reply_to=origin.exchange.mailbox.id,
            now_ms=origin.exchange.clock.wall_ms(),
            total_ms=total_ms_of(options, parent, DEFAULT_TOTAL_MS),
            stages=_stages(options),
            parent=parent,
        )

    # ------------------------------------------------------------ how

    def _open(self, target: str, scope: Scope, options: Options, *, owned: bool = False) -> Pending:
        """`owned`: whoever gives it up cancels it, where it has no key by which others know it."""
        _check(target, scope, options)
        origin = self._origin
        key = options.get("key")
        if key is None:
            msg_id = new_msg_id()
        elif origin.keyed:
            msg_id = business_msg_id(origin.env, sender_of(origin.source), key)
        else:
            raise ConfigError("key= needs a sender with a name: Reach.connect(..., agent_id=...)")
        total_ms = total_ms_of(options, self._parent(), DEFAULT_TOTAL_MS)
        order_key = options.get("order_key")
        pending = origin.exchange.open(
            msg_id,
            sender=sender_of(origin.source),
            broadcast=scope == "all",
            total_ms=DEFAULT_TOTAL_MS if total_ms is None else total_ms,
            fixed=total_ms is not None,
            # One that breaks a rule is in no partition: it is refused before it is sent.
            order_key=order_key if order_key is not None and is_printable(order_key) else None,
        )
        pending.on_input = options.get("on_input")
        pending.answers = pending.on_input is not None
        pending.owned = owned and key is None
        self._opened(pending)
        return pending

    def _opened(self, pending: Pending) -> None:
        """It is waited for from now on."""

    async def _deliver_or_refuse(
        self, pending: Pending, target: str, body: object, scope: Scope, options: Options
    ) -> None:
        """What breaks a rule ends the message here."""
        try:
            await self._deliver(pending, target, body, scope, options)
        except EnvelopeError as error:
            self._origin.exchange.refuse(pending, error)

    async def _deliver(self, pending: Pending, target: str, body: object, scope: Scope, options: Options) -> None:
        origin, parent = self._origin, self._parent()
        total_ms = total_ms_of(options, parent, DEFAULT_TOTAL_MS)
        envelope: Envelope | None = None
        later_ms: int | None = None
        validates = options.get("validate", origin.validates)

        async def make(left_ms: int) -> Envelope:
            nonlocal envelope, later_ms, validates
            if later_ms is None and is_later(options):
                now_ms = await origin.exchange.backend.now_ms()
                later_ms = not_before_ms(options, now_ms)
                origin.exchange.postpone(pending, later_ms - now_ms)
            # Sent again later, it must not outlive the caller who set a timeout; what it is and says stays the same.
            if envelope is None and options.get("key") is not None:
                await origin.exchange.choose_round(pending)
            own_ms = None if total_ms is None else min(total_ms, left_ms) if envelope is not None else total_ms
            envelope = compose(
                msg_id=pending.msg_id,
                source=origin.source,
                pattern=await origin.names.pattern_of(target) if envelope is None else envelope.target.pattern,
                stages=await stages_of(options, origin.names) if envelope is None else envelope.process_order,
                scope=scope,
                body=body,
                options=options,
                headers=carried.beside(options.get("headers")),
                reply_to=origin.exchange.mailbox.id,
                now_ms=origin.exchange.clock.wall_ms(),
                total_ms=own_ms,
                round=pending.round,
                not_before=later_ms,
                traceparent=carried.traceparent,
                tracestate=carried.tracestate,
                parent=parent,
            )
            check_fields(envelope)
            if validates and envelope.payload.schema is not None:
                await origin.check.check(envelope.payload.schema, envelope.payload.body_bytes)
                validates = False  # sent again it says the same
            return envelope

        conversation = options.get("correlation_id") or (
            parent.correlation_id if parent is not None else pending.msg_id
        )
        with producing(pending.msg_id, target, conversation, parent) as carried:
            await origin.exchange.deliver(pending, make)


def _stages(options: Options) -> tuple[tuple[str, ...], ...] | None:
    """The stages as they were said, bare names among them."""
    order = options.get("process_order")
    return None if order is None else tuple(map(tuple, order))


def _check(target: str, scope: Scope, options: Options) -> None:
    unknown = options.keys() - _OPTIONS
    if unknown:
        raise TypeError(f"unknown option {', '.join(sorted(unknown))}; there is: {', '.join(sorted(_OPTIONS))}")
    check_text("target", target)
    check_scope(scope)
    check_options(options)


def _options_for(target: str, options: Options) -> Options:
    """One key would be one message: each target has its own."""
    key = options.get("key")
    return options if key is None else {**options, "key": f"{key}/{target}"}
