"""An agent: handlers, what is declared of them, and the process that runs them."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Self, TypeVar, Unpack

from reach import ids, settings
from reach.envelope.problems import sentence_of
from reach.envelope.registration import Capability, Registration, problems_of
from reach.errors import ConfigError
from reach.sdk import changing
from reach.sdk.blocking import run_until_told
from reach.sdk.client import sender_ids
from reach.sdk.declaration import registration_of
from reach.sdk.declared import (
    check_function,
    check_many,
    check_named,
    check_number,
    check_text,
    check_texts,
    check_tokens,
    check_whole,
    declared_rate,
)
from reach.sdk.durations import Duration, maybe_ms, to_ms
from reach.sdk.embedded import place_of
from reach.sdk.handlers import Function, Handlers, read_handler
from reach.sdk.observed import Observations, Observed
from reach.sdk.offered import Offered, check_offered, handler_of
from reach.sdk.places import Place
from reach.sdk.readiness import ReadyCheck
from reach.sdk.runtime import AgentRun
from reach.sdk.serving import serve
from reach.sdk.validating import need_validator

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R", bound=Callable[[], Any])

GRACE_S = 10.0
#: How long `run` waits for other instances of its agent that declare something else, as in a deployment.
CONFLICT_WAIT_MS = 600_000


class Agent:
    """Declares what it can do, and does it.

    Args:
        agent_id: Its name, the unit of choice. `{instance}` in it makes every process an agent of its own (`refund-{instance}`), so that
            replicas can be chosen between; without it, all processes compete for one inbox.
        capabilities: Capabilities that are declared without a handler of their own (messages go by type).
        groups: The groups that it belongs to.
        concurrency: How many messages it handles at once.
        description: For capabilities that have none.
        zone: Where it stands.
        max_process: How long a run may take between two signs of life, seconds or timedelta. One that takes longer is cancelled
            (`timeout.processing`, retried); where it is more than 15 s, it raises the default timeouts of callers.
        weight: Its share where agents are drawn by weight.
        tier: For the strategy `tiered`, and for senders that need one.
        cost: Of one message, in the unit of your choice; what a run costs that ends well and says nothing of it (docs/loops.md).
        rate_limit: How many messages it takes in a minute, over all its processes: a number, or `{"messages": ..., "tokens": ...}` with one
            of them or both, where a message costs the `needs["context_tokens"]` that its sender gives. So many at once, after a quiet
            minute; then they come evenly. What is over it goes to another agent, waits, or ends `overloaded`.
        endpoint: Where else it can be reached, for people.
        token: Where the env demands one.
        validate: Whether bodies are judged by the JSON Schema that their handler names, before it is called: what does not fit ends
            `payload.invalid` with every place; and what it returns by its `output_schema`: `handler.unfit`. Needs the extra `schemas`.

    Raises:
        ConfigError: All that cannot be used, at once.
        TypeError: A value of another type, such as one str for `groups`.
    """

    def __init__(
        self,
        agent_id: str,
        *,
        capabilities: Iterable[str | Capability] = (),
        groups: Sequence[str] = (),
        concurrency: int = 8,
        description: str = "",
        zone: str | None = None,
        max_process: Duration | None = None,
        weight: float = 1,
        tier: str | int | None = None,
        cost: float | None = None,
        rate_limit: float | Mapping[str, float] | None = None,
        endpoint: str | None = None,
        token: str | None = None,
        validate: bool = False,
    ) -> None:
        check_text("agent_id", agent_id)
        check_texts("groups", groups)
        check_many("capabilities", capabilities)
        check_whole("concurrency", concurrency)
        check_number("weight", weight)
        check_number("cost", cost, optional=True)
        for field, text in (("zone", zone), ("endpoint", endpoint), ("token", token)):
            check_text(field, text, optional=True)
        self.template = agent_id
        self.description = description
        if validate:
            need_validator()
        self._handlers = Handlers(validates=validate)
        self._ready: ReadyCheck | None = None
        self._runs: list[AgentRun] = []
        self._observations = Observations()
        example, self._name = sender_ids(agent_id)
        self._declared = Registration(
            agent_id=example or agent_id,
            instance_id="unborn",
            groups=tuple(groups),
            capabilities=tuple(Capability(name=c) if isinstance(c, str) else c for c in capabilities),
            concurrency=concurrency,
            zone=zone,
            max_process_ms=maybe_ms(max_process, "max_process"),
            weight=weight,
            tier=tier,
            cost=cost,
            rate_limit=declared_rate(rate_limit),
            endpoint=endpoint,
            token=token,
        )
        problems = problems_of(self._declared, env=self._declared.env)
        if problems:
            raise ConfigError(
                f"agent {agent_id!r}: {sentence_of(problems)}", details={"problems": [p.field for p in problems]}
            )

    @property
    def observed(self) -> tuple[Observed, ...]:
        """Messages to all (`process_order`) in whose order this agent has no part, the oldest first: shown, and answered by nobody.

        The newest 1,000 are kept, and 16 MiB of them, in this process alone. One that was on its way as the process or its connection died
        is not shown again.
        """
        return self._observations()

    # ------------------------------------------------------------ handlers

    def capability(self, name: str, **offered: Unpack[Offered]) -> Callable[[F], F]:
        """Decorate the handler of a capability: `async def refund(body: RefundRequest, ctx: Context) -> RefundResult`.

        The body is read as its annotation says: Struct, dataclass, TypedDict, pydantic model, dict, anything that JSON is. A plain `def`
        runs in a thread. The handler may raise Retry or Reject, and return a Result; any other exception is `handler.error`, retried.

        Args:
            name: The capability.
            offered: schema, type, description, examples, max_process, output_schema, cost: see `Offered`.

        Raises:
            TypeError: The function cannot be a handler.
            ValueError: A name breaks the grammar, or there is a handler for the same.
        """
        check_named("agent.capability", name)
        check_offered(offered)

        def add(function: F) -> F:
            self._handlers.add(handler_of(name, function, offered))
            return function

        return add

    def on(self, type: str) -> Callable[[F], F]:
        """Decorate the handler of a message type, such as an event: same forms, same errors as `capability`."""
        check_named("agent.on", type)

        def add(function: F) -> F:
            self._handlers.add(read_handler(function, type=type))
            return function

        return add

    def ready(self, function: R) -> R:
        """Decorate the check `async () -> bool | str`: True, or why not. While it is not ready it gets no work; nor before the first True.

        Asked every 5 s, every second while it is not ready. A plain `def` runs in a thread. One that raises is not ready, with what it
        raised; one that does not answer within 10 s is not, either. The reason stands in `reach agents` and in what routers explain.
        """
        check_function("agent.ready", function)
        if self._ready is not None:
            raise ValueError(f"agent {self.template!r} has a ready check already")
        self._ready = function
        return function

    async def add_capability(self, name: str, function: Function, **offered: Unpack[Offered]) -> bool:
        """`capability` for an agent that runs.

        True: it is offered, and every router knows it. False: other instances of this agent_id are alive and cannot do it; it is
        offered as soon as they can, too, or are gone (they share one inbox, so nobody is sent what one of them cannot do).

        Raises:
            RegistrationRefused: The env does not let this agent offer it.
            TypeError, ValueError: As `capability`.
        """
        handler = handler_of(name, function, offered)
        return await changing.add(self._handlers, handler, self._runs, self._registration)

    async def remove_capability(self, name: str, *, schema: str | None = None) -> None:
        """Offer it no more, with this schema or with any: no router sends it from then on. What has come already is still handled.

        It is withdrawn for all instances of this agent_id: withdraw it from each of them.

        Raises:
            ValueError: There is no handler for it.
            RegistrationRefused: The registrar said no; it is still offered.
        """
        await changing.remove(self._handlers, name, schema, self._runs, self._registration)

    def report(self, *, context_left: int | None = None, busy: bool | None = None) -> None:
        """Say how this agent is, for routing: tokens left in its context, busy or not. None leaves it as it was.

        Raises:
            TypeError: `context_left` is no int, or `busy` no bool.
            ValueError: It is below 0, or 2**63 or more.
        """
        check_tokens(context_left)
        if not isinstance(busy, bool | None):
            raise TypeError(f"busy is {busy!r}: True or False is wanted, or None")
        for run in self._runs:
            if context_left is not None:
                run.condition.context_left = context_left
            if busy is not None:
                run.condition.busy = busy
            run.changed()

    # ------------------------------------------------------------ running

    @property
    def has_handlers(self) -> bool:
        """Whether it can do anything."""
        return any(True for _ in self._handlers)

    @property
    def instances(self) -> tuple[AgentRun, ...]:
        """Those that run in this process now."""
        return tuple(self._runs)

    def run(
        self,
        url: str | None = None,
        env: str | None = None,
        *,
        grace: Duration = GRACE_S,
        metrics_port: int | None = None,
    ) -> None:
        """Run in this process until SIGTERM or SIGINT, on uvloop. Blocks. Arguments as `serve`.

        Other instances of its agent_id that declare something else are waited for, up to 10 min: until they leave, drain or fall silent,
        as when one version replaces another (docs/registration.md).

        Raises:
            RuntimeError: An event loop runs here already.
            SystemExit: What `serve` raises, as one line.
        """
        grace_ms = to_ms(grace, "grace", least=0)
        run_until_told(
            self.template,
            lambda: serve(self, url, env, grace_ms=grace_ms, wait_ms=CONFLICT_WAIT_MS, metrics_port=metrics_port),
        )

    async def serve(
        self,
        url: str | None = None,
        env: str | None = None,
        *,
        grace: Duration = GRACE_S,
        metrics_port: int | None = None,
    ) -> None:
        """Run until cancelled, or until SIGTERM or SIGINT (where this is the main thread).

        Then it drains: it takes nothing more, what runs may end for `grace`, the rest is handed back and goes on elsewhere at once.

        Args:
            url: The server; REACH_REDIS_URL, else redis://localhost:6379.
            env: The environment; REACH_ENV, else dev.
            grace: Seconds or timedelta.
            metrics_port: Where /metrics listens (docs/metrics.md); REACH_METRICS_PORT, else nowhere.

        Raises:
            RegistrationRefused: The registrar said no; `details["problems"]`.
            ConfigError: url or env cannot be used, or there is no handler.
            BackendError: Redis refuses the credentials. A Redis that cannot be reached is waited for.
        """
        await serve(self, url, env, grace_ms=to_ms(grace, "grace", least=0), metrics_port=metrics_port)

    @asynccontextmanager
    async def running(
        self, url: str | None = None, env: str | None = None, *, grace: Duration = GRACE_S
    ) -> AsyncIterator[Self]:
        """`async with agent.running(): ...`: registered and taking inside, drained at the end. Arguments and errors as `serve`."""
        async with self.running_at(place_of(url, env), grace=grace):
            yield self

    @asynccontextmanager
    async def running_at(self, place: Place, *, grace: Duration = GRACE_S) -> AsyncIterator[AgentRun]:
        """`running`, at a place that somebody else made."""
        run = self.new_run(place)
        await run.start()
        try:
            yield run
        finally:
            await run.stop(to_ms(grace, "grace", least=0))

    # ------------------------------------------------------------ how

    def new_run(self, place: Place) -> AgentRun:
        """One instance at a place, not started yet."""
        agent_id, name = sender_ids(self.template)
        node_id = settings.of_this_process().node_id
        registration = Registration(
            agent_id=agent_id or self.template,
            instance_id=ids.new_instance_id(node_id, place.clock.wall_ms()),
            node_id=node_id,
            env=place.env,
        )
        return AgentRun(
            place,
            self._registration(registration),
            self._handlers,
            name=name,
            ready=self._ready,
            peers=self._runs,
            observations=self._observations,
        )

    def _registration(self, own: Registration) -> Registration:
        return registration_of(own, self._declared, self._handlers.offered, self.description)
