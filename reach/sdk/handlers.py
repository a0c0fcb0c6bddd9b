"""The handlers of an agent: how their functions are read, which one a message goes to, and how one is called."""

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from reach import ids
from reach.envelope.declared_cost import declared_cost
from reach.envelope.families import number_of
from reach.envelope.message import Envelope
from reach.envelope.registration import Registration
from reach.routing.intents import Intents, said_of
from reach.sdk.bodies import check_readable, decode_body
from reach.sdk.context import Context
from reach.sdk.declared import check_cost, check_function, check_text
from reach.sdk.outcome import Result
from reach.sdk.threads import in_thread, is_async

Function = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Handler:
    """One decorated function. capability None: for every message of `type`."""

    function: Function
    type: str
    capability: str | None
    schema: str | None
    body_kind: Any
    output_kind: Any  # what it says that it returns; Any where it says nothing that could be checked
    takes: tuple[str, ...]  # the parameters, each "body" or "context"
    threaded: bool
    description: str = ""
    examples: tuple[Any, ...] = ()
    max_process_ms: int | None = None
    output_schema: str | None = None
    cost: float | None = None

    def cost_of(self, envelope: Envelope, declared: Registration) -> float | None:
        """What a run costs whose handler says nothing of it: as is declared for the capability, else for the agent."""
        if self.cost is not None:
            return self.cost
        return declared_cost(declared, lambda name: envelope.target.pattern == f"capability:{name}")

    def read(self, envelope: Envelope) -> Any:
        """The body as the function wants it. Raises BodyError."""
        if "body" not in self.takes:
            return None
        return decode_body(envelope.payload.body_bytes, self.body_kind)

    async def call(self, body: Any, context: Context) -> Any:
        """Run the function: in the loop, or a plain function in a thread. Whatever it raises comes out of here."""
        given = {"body": body, "context": context}
        arguments = [given[name] for name in self.takes]
        if not self.threaded:
            return await self.function(*arguments)
        return await in_thread(lambda: self.function(*arguments), context.hold_until)

    def describe(self) -> dict[str, str | None]:
        """A line of `details.supported`."""
        return {"capability": self.capability, "schema": self.schema, "type": self.type}


def read_handler(
    function: Function,
    *,
    type: str,
    capability: str | None = None,
    schema: str | None = None,
    description: str = "",
    examples: Iterable[Any] = (),
    max_process_ms: int | None = None,
    output_schema: str | None = None,
    cost: float | None = None,
) -> Handler:
    """Read a function's signature.

    Raises:
        TypeError: It cannot be a handler, or its annotations cannot be read.
        ValueError: type, capability or schema break the grammar.
    """
    check_function("agent.capability" if capability is not None else "agent.on", function)
    name = getattr(function, "__qualname__", repr(function))
    check_text("schema", schema, optional=True)
    check_text("output_schema", output_schema, optional=True)
    check_cost(cost)
    if not ids.is_token(type):
        raise ValueError(f"{name}: the type {type!r} is not dotted lower-case tokens")
    if capability is not None and not ids.is_token(capability):
        raise ValueError(f"{name}: the capability {capability!r} is not dotted lower-case tokens")
    for one in (schema, output_schema):
        if one is not None and not ids.is_schema(one):
            raise ValueError(f"{name}: the schema {one!r} is not dotted lower-case tokens that end in .v<N>")
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise TypeError(f"{name} is a generator: streamed results are not supported yet; return the whole result")
    hints = _hints(function, name)
    takes, body_kind = _parameters(function, name, hints)
    try:
        check_readable(body_kind)
    except TypeError as error:
        raise TypeError(f"{name}: a body cannot be read as {body_kind!r}: {error}") from None
    return Handler(
        function=function,
        type=type,
        capability=capability,
        schema=schema,
        body_kind=body_kind,
        output_kind=_output_kind(hints),
        takes=takes,
        threaded=not is_async(function),
        description=description or (inspect.getdoc(function) or "").partition("\n")[0],
        examples=tuple(examples),
        max_process_ms=max_process_ms,
        output_schema=output_schema,
        cost=cost,
    )


def _hints(function: Function, name: str) -> dict[str, Any]:
    try:
        return get_type_hints(function) if inspect.isroutine(function) else get_type_hints(type(function).__call__)
    except NameError as error:
        raise TypeError(f"{name}: its annotations cannot be read: {error}; define them at the module's level") from None
    except TypeError:
        return {}  # a partial or another callable object without annotations


def _output_kind(hints: dict[str, Any]) -> Any:
    kind = hints.get("return", Any)
    if get_origin(kind) is Result:
        (kind,) = get_args(kind)
    try:
        check_readable(kind)
    except TypeError:
        return Any
    return Any if kind is type(None) or isinstance(kind, TypeVar) else kind


def _parameters(function: Function, name: str, hints: dict[str, Any]) -> tuple[tuple[str, ...], Any]:
    takes: list[str] = []
    body_kind: Any = Any
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        hint = hints.get(parameter.name, Any)
        role = "context" if hint is Context or (hint is Any and parameter.name in ("ctx", "context")) else "body"
        if parameter.kind is parameter.KEYWORD_ONLY or role in takes:
            if parameter.default is not parameter.empty:
                continue
            raise TypeError(
                f"{name}: a handler takes (body, ctx), (body), (ctx) or nothing; {parameter.name} is one too many"
            )
        takes.append(role)
        if role == "body":
            body_kind = hint
    return tuple(takes), body_kind


class Handlers:
    """The table of an agent's handlers. Precedence: capability and schema, capability, type."""

    def __init__(self, *, validates: bool = False) -> None:
        """`validates`: bodies are judged by their JSON Schemas before they are read."""
        self.validates = validates
        self._all: list[Handler] = []
        self._withdrawn: list[Handler] = []
        self._intents = Intents(self._said_of)

    def __iter__(self) -> Iterator[Handler]:
        return iter(self._all)

    @property
    def offered(self) -> list[Handler]:
        """Those that are declared: all but the withdrawn."""
        return [handler for handler in self._all if handler not in self._withdrawn]

    def withdraw(self, handler: Handler) -> None:
        """Declare it no more; what comes for it all the same, because it was sent before, still finds it."""
        self._withdrawn.append(handler)

    def offer_again(self, handler: Handler) -> None:
        """Take the withdrawal back."""
        self._withdrawn.remove(handler)

    def add(self, handler: Handler) -> None:
        """Add one, in the place of a withdrawn one for the same.

        Raises:
            ValueError: There is one for the same already.
        """
        marks = (handler.capability, handler.schema, handler.type)
        for old in [h for h in self._withdrawn if (h.capability, h.schema, h.type) == marks]:
            self._withdrawn.remove(old)
            self.remove(old)
        if any((h.capability, h.schema, h.type) == marks for h in self._all):
            raise ValueError(f"two handlers for {handler.describe()}")
        self._all.append(handler)
        self._intents.changed(handler.capability or "")

    def remove(self, handler: Handler) -> None:
        """Take one out again."""
        self._all.remove(handler)
        self._intents.changed(handler.capability or "")

    def find(self, envelope: Envelope, readers: Collection[str] = (), pattern: str = "") -> Handler | None:
        """The handler for a message, None if there is none.

        Args:
            envelope: The message.
            readers: The schemas that read the message's own, where nobody names that.
            pattern: By which it has come here, where that is not its own.
        """
        pattern, schema = pattern or envelope.target.pattern, envelope.payload.schema
        fitting = [h for h in self._all if h.type == envelope.type]
        offered = [h for h in fitting if h.capability is not None]
        named = pattern.startswith("capability:")
        if named:
            terms = pattern.removeprefix("capability:").split("+")
            offered = [h for term in terms for h in offered if _covers(term, cast("str", h.capability))]
        if pattern.startswith("intent:"):  # a router has found that it can do this: the nearest of what it can do
            best = self._intents.rank(pattern.removeprefix("intent:"), 1, floor=0.0)
            offered, named = [h for h in offered if best and h.capability == best[0].capability] or offered, bool(best)
        exact = [h for h in offered if schema is not None and h.schema == schema]
        if exact:
            return exact[0]
        reading = [h for h in offered if h.schema in readers]
        if reading:
            return min(reading, key=lambda h: _distance(schema or "", h.schema or ""))
        open_to = [h for h in offered if h.schema is None or schema is None]
        by_type = [h for h in fitting if h.capability is None]
        # Whoever is addressed by name and has several capabilities means the one of the same name, if any: which else cannot be guessed.
        own = [h for h in open_to if pattern == f"agent_id:{h.capability}"]
        if own:
            open_to, named = own, True
        if open_to and (named or (len(open_to) == 1 and not by_type)):
            return min(open_to, key=lambda h: h.schema is not None)
        return by_type[0] if by_type else None

    def _said_of(self, capability: str) -> Iterator[str]:
        for handler in self._all:
            if capability and handler.capability == capability:
                yield from said_of(handler.description, handler.examples)

    def missing(self, envelope: Envelope) -> str:
        """Why there is no handler for a message, and what could be asked instead."""
        pattern, schema = envelope.target.pattern, envelope.payload.schema
        fitting = [h for h in self._all if h.type == envelope.type and h.capability is not None]
        fitting = [h for h in fitting if schema is None or h.schema is None or h.schema == schema]
        names = sorted({f"capability:{h.capability}" for h in fitting})
        if names and not pattern.startswith("capability:"):
            count = f"{len(fitting)} handlers" if len(fitting) > 1 else "1 handler"
            return f"{pattern[:128]} does not say what to do, and it has {count} for this: name one: {', '.join(names)}"
        return f"no handler for type {envelope.type}, schema {schema}, target {pattern[:128]}"

    def supported(self) -> list[dict[str, str | None]]:
        """What `error.unknown_type` says in details.supported."""
        return [handler.describe() for handler in self._all]


def _distance(schema: str, other: str) -> int:
    """How many versions lie between two of one family."""
    return abs(number_of(schema) - number_of(other))


def _covers(term: str, capability: str) -> bool:
    if term.endswith(".*"):
        return capability.startswith(term[:-1])
    return term == capability
