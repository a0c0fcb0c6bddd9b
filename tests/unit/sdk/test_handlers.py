"""How handlers are read, which one a message goes to, and how they are called."""

import asyncio
import functools
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import msgspec
import pytest

from reach import Context
from reach.envelope.message import Envelope, Payload, Source, Target
from reach.sdk.handlers import Handlers, read_handler
from reach.sdk.threads import in_thread


class Order(msgspec.Struct):
    order_id: str


def envelope(pattern: str, *, type: str = "request", schema: str | None = None) -> Envelope:
    return Envelope(
        msg_id="0" * 8,
        type=type,
        timestamp=0,
        source=Source(agent_id="a"),
        target=Target(pattern=pattern),
        payload=Payload(schema=schema),
    )


async def nothing() -> None: ...
async def anything(body: object) -> None: ...
async def what_ever(body: Any) -> None: ...
async def unsaid(body) -> None: ...  # type: ignore[no-untyped-def]
async def only_body(order: Order) -> None: ...
async def only_context(ctx: Context) -> None: ...
async def named_context(ctx) -> None: ...  # type: ignore[no-untyped-def]
async def both(order: Order, ctx: Context) -> None: ...
async def turned(ctx: Context, order: Order) -> None: ...
async def more(order: Order, ctx: Context, extra: int = 1, *rest: int, flag: bool = False, **options: int) -> None: ...
def plain(order: Order) -> None: ...


class WithCall:
    async def __call__(self, order: Order) -> None: ...


@pytest.mark.parametrize("function", [anything, what_ever, unsaid])
@pytest.mark.parametrize(("data", "body"), [(b'{"a":1}', {"a": 1}), (b"[1]", [1]), (b"2.5", 2.5), (b"null", None)])
def test_a_handler_that_takes_anything(function: Callable[..., Any], data: bytes, body: object) -> None:
    made = msgspec.structs.replace(envelope("agent_id:a"), payload=Payload(body=msgspec.Raw(data)))
    assert read_handler(function, type="request").read(made) == body


@pytest.mark.parametrize(
    ("function", "takes", "kind", "threaded"),
    [
        (nothing, (), Any, False),
        (only_body, ("body",), Order, False),
        (only_context, ("context",), Any, False),
        (named_context, ("context",), Any, False),
        (both, ("body", "context"), Order, False),
        (turned, ("context", "body"), Order, False),
        (more, ("body", "context"), Order, False),
        (plain, ("body",), Order, True),
        (WithCall(), ("body",), Order, False),
        (functools.partial(both), ("body", "context"), Any, False),
    ],
)
def test_a_signature_is_read(
    function: Callable[..., Any], takes: tuple[str, ...], kind: object, threaded: bool
) -> None:
    handler = read_handler(function, type="request")
    assert (handler.takes, handler.body_kind, handler.threaded) == (takes, kind, threaded)


async def three(a: int, b: int, ctx: Context) -> None: ...
async def needed(a: int, *, b: int) -> None: ...
async def unreadable(a: threading.Thread | Order | WithCall) -> None: ...
async def unknown(a: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821
async def streamed(a: int) -> AsyncIterator[int]:
    yield a


def generated(a: int) -> Iterator[int]:
    yield a


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (three, "one too many"),
        (needed, "one too many"),
        (unreadable, "cannot be read as"),
        (unknown, "annotations cannot be read"),
        (streamed, "streamed results are not supported yet"),
        (generated, "streamed results are not supported yet"),
    ],
)
def test_a_function_that_cannot_be_a_handler_is_told_at_once(function: Callable[..., Any], says: str) -> None:
    with pytest.raises(TypeError, match=says):
        read_handler(function, type="request")


@pytest.mark.parametrize(
    "names", [{"type": "Request"}, {"capability": "a b"}, {"schema": "refund"}, {"schema": "refund.V1"}, {"type": ""}]
)
def test_names_that_break_the_grammar_are_told_at_once(names: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(names))):
        read_handler(nothing, **{"type": "request", **names})


def test_the_description_is_the_docstring_where_none_is_given() -> None:
    async def documented() -> None:
        """Pays it back.

        And more.
        """

    assert read_handler(documented, type="request").description == "Pays it back."
    assert read_handler(documented, type="request", description="x").description == "x"


def table(*marks: tuple[str | None, str | None, str]) -> Handlers:
    handlers = Handlers()
    for capability, schema, type_ in marks:
        handlers.add(read_handler(nothing, type=type_, capability=capability, schema=schema))
    return handlers


ALL = (
    ("refund", "refund.v1", "request"),
    ("refund", "refund.v2", "request"),
    ("refund", None, "request"),
    ("ship", None, "request"),
    ("ship.fast", None, "request"),
    (None, None, "request"),
    (None, None, "market.news"),
)


@pytest.mark.parametrize(
    ("pattern", "type_", "schema", "found"),
    [
        ("capability:refund", "request", "refund.v1", ("refund", "refund.v1", "request")),
        ("capability:refund", "request", "refund.v2", ("refund", "refund.v2", "request")),
        ("capability:refund", "request", "refund.v3", ("refund", None, "request")),
        ("capability:refund", "request", None, ("refund", None, "request")),
        ("capability:ship", "request", "refund.v1", ("ship", None, "request")),
        ("capability:ship+refund", "request", None, ("ship", None, "request")),
        ("capability:ship+refund", "request", "refund.v2", ("refund", "refund.v2", "request")),
        ("capability:ship.*", "request", None, ("ship.fast", None, "request")),
        ("capability:other", "request", None, (None, None, "request")),
        ("agent_id:x", "request", "refund.v1", ("refund", "refund.v1", "request")),
        ("agent_id:x", "request", None, (None, None, "request")),
        ("group:g", "market.news", None, (None, None, "market.news")),
        ("capability:refund", "market.news", None, (None, None, "market.news")),
        ("capability:refund", "other", None, None),
    ],
)
def test_capability_and_schema_come_before_capability_and_that_before_type(
    pattern: str, type_: str, schema: str | None, found: tuple[str | None, str | None, str] | None
) -> None:
    handler = table(*ALL).find(envelope(pattern, type=type_, schema=schema))
    assert (handler and (handler.capability, handler.schema, handler.type)) == found


def test_one_capability_is_meant_when_its_agent_is_named() -> None:
    assert table(("refund", None, "request")).find(envelope("agent_id:x")) is not None


def test_of_two_capabilities_none_is_guessed() -> None:
    assert table(("refund", None, "request"), ("ship", None, "request")).find(envelope("agent_id:x")) is None


def test_the_capability_of_the_agents_own_name_is_meant_when_the_agent_is_named() -> None:
    handlers = table(
        ("invoice", None, "request"), ("invoice.status", None, "request"), ("invoice", "invoice.v1", "request")
    )
    found = handlers.find(envelope("agent_id:invoice"))
    assert (found and (found.capability, found.schema)) == ("invoice", None)
    assert handlers.find(envelope("agent_id:x")) is None


def test_which_handlers_there_are_is_said() -> None:
    handlers = table(("invoice", None, "request"), ("invoice.status", None, "request"))
    says = "it has 2 handlers for this: name one: capability:invoice, capability:invoice.status"
    assert says in handlers.missing(envelope("group:x"))
    assert "no handler for type other" in handlers.missing(envelope("agent_id:x", type="other"))
    assert "no handler" in handlers.missing(envelope("capability:x"))


def test_another_schema_is_not_pressed_into_a_handler() -> None:
    handlers = table(("refund", "refund.v1", "request"))
    assert handlers.find(envelope("capability:refund", schema="refund.v2")) is None
    assert handlers.find(envelope("capability:refund")) is not None
    assert handlers.supported() == [{"capability": "refund", "schema": "refund.v1", "type": "request"}]


def test_two_handlers_for_the_same_are_refused() -> None:
    with pytest.raises(ValueError, match="two handlers"):
        table(("refund", None, "request"), ("refund", None, "request"))


async def test_a_thread_gives_back_whatever_comes_out_of_it() -> None:
    held: list[asyncio.Future[Any]] = []
    assert await in_thread(lambda: threading.current_thread().name, held.append) == "reach-handler"
    for error in (ValueError("x"), StopIteration(), SystemExit(1), KeyboardInterrupt()):

        def fail(error: BaseException = error) -> None:
            raise error

        with pytest.raises((type(error), RuntimeError)) as caught:
            await in_thread(fail, held.append)
        assert caught.value is error or caught.value.__cause__ is error
    assert all(future.done() for future in held)


async def test_a_thread_whose_wait_was_cancelled_is_held_until_it_ends() -> None:
    go = threading.Event()
    held: list[asyncio.Future[Any]] = []
    task = asyncio.create_task(in_thread(go.wait, held.append))
    while not held:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not held[0].done()
    go.set()
    await held[0]
