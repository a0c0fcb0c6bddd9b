"""The client: what a program that sends opens."""

import os
import socket
from collections.abc import Awaitable, Callable, Generator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar, Unpack

from reach import ids
from reach.backend.port import Backend
from reach.delivery.dead_letters import DeadLetters
from reach.envelope.message import Scope, Source
from reach.envelope.receipt import Notice
from reach.envelope.rules import sender_of
from reach.errors import ConfigError
from reach.events.asking import Events
from reach.log import event_log
from reach.registry.accepting import Accepts, accepted_by
from reach.registry.call_rules import Rules
from reach.registry.capacity import Capacity, read_capacity
from reach.registry.routes import Routes
from reach.registry.schemas import Schemas
from reach.routing.explain import Explanation
from reach.sdk.conversation import Conversation, read_conversation
from reach.sdk.declared import check_text
from reach.sdk.embedded import MemoryPlace, shared_place
from reach.sdk.exchange import Exchange
from reach.sdk.metrics_page import caller_page
from reach.sdk.options import Options
from reach.sdk.places import Place, RedisPlace
from reach.sdk.receipt_hook import OnReceipt, ReceiptHook
from reach.sdk.sending import Origin, Sending
from reach.sdk.validating import need_validator
from reach.service import Vitals
from reach.settings import DEFAULT_URL, default_node_id
from reach.tracing.hops import HopRecorder

log = event_log("reach.client")

C = TypeVar("C", bound="Closing")


class Closing(Protocol):
    """Something that is closed at the end."""

    async def close(self) -> None: ...


class Opening(Generic[C]):
    """Await it, or use it as an async context manager, which also closes what it opened."""

    def __init__(self, open_it: Callable[[], Awaitable[C]]) -> None:
        self._open = open_it
        self._opened: C | None = None

    def __await__(self) -> Generator[object, None, C]:
        """Open; the caller closes."""
        return self._open().__await__()

    async def __aenter__(self) -> C:
        self._opened = await self._open()
        return self._opened

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._opened is not None:
            await self._opened.close()


class Embeddable(Protocol):
    """An agent, as far as a client must know one: it can run at a place."""

    def running_at(self, place: Place) -> AbstractAsyncContextManager[object]: ...


class Reach(Sending):
    """A client of one env. Safe for many tasks of one event loop; close it, or use it with `async with`.

    Attributes:
        env: The environment.
        agent_id: Who sends; made up where none was given.
    """

    def __init__(
        self,
        place: Place,
        *,
        agent_id: str | None = None,
        name: str | None = None,
        node_id: str | None = None,
        zone: str | None = None,
        backend: Backend | None = None,
        on_control: Callable[[Notice], None] = lambda _: None,
        on_made: Callable[[], None] = lambda: None,
        validate: bool = False,
        on_receipt: OnReceipt | None = None,
    ) -> None:
        """Use `Reach.connect` or `Reach.embedded`. With `backend`, it is somebody else's and stays open."""
        self._place = place
        self._own = backend is None
        self.backend = backend if backend is not None else place.backend()
        self.env = place.env
        self.agent_id = agent_id or f"client-{os.urandom(6).hex()}"
        self._exchange = Exchange(
            self.backend,
            ids.new_mailbox_id(self.agent_id),
            clock=place.clock,
            rng=place.rng,
            node=node_id or "",
            on_control=on_control,
            on_made=on_made,
        )
        self._exchange.receipt_hook = (
            ReceiptHook(on_receipt, self._exchange.recorder) if on_receipt is not None else None
        )
        source = Source(agent_id=self.agent_id, name=name, node_id=node_id, zone=zone)
        self._origin = Origin(self._exchange, source, env=place.env, keyed=agent_id is not None, validates=validate)
        self._stack = AsyncExitStack()

    @classmethod
    def connect(
        cls,
        url: str = DEFAULT_URL,
        env: str = ids.DEFAULT_ENV,
        agent_id: str | None = None,
        *,
        validate: bool = False,
        on_receipt: OnReceipt | None = None,
        metrics_port: int | None = None,
    ) -> "Opening[Reach]":
        """Connect: `reach = await Reach.connect(...)`, or `async with Reach.connect(...) as reach:`.

        Args:
            url: `redis://`, `rediss://`, `unix://`; `memory://` for everything in this process.
            env: The environment; nothing of another one is seen.
            agent_id: Who sends; `key=` needs one. `{instance}` in it is replaced by something that no other process has.
            validate: Whether bodies are judged by their JSON Schemas before they are sent, where a call does not say (`validate=`).
            on_receipt: Hears of every receipt of this client's messages, one after the other, also of those that nobody waits for and of
                timeouts that are made here: a function (it runs in a thread) or a coroutine function. What it raises is logged.
            metrics_port: Where /metrics of this program listens (docs/metrics.md); None: nowhere.

        Raises:
            ConfigError: The URL, the env or the agent_id cannot be used, or the port cannot be had.
            BackendUnavailable: Redis cannot be reached.
        """
        check_text("url", url)
        check_text("env", env)
        check_text("agent_id", agent_id, optional=True)
        if url.startswith("memory:"):
            return Opening(
                lambda: cls._connected(shared_place(url, env), agent_id, (), validate, on_receipt, metrics_port)
            )
        place = RedisPlace(url, env)
        return Opening(lambda: cls._connected(place, agent_id, (), validate, on_receipt, metrics_port))

    @classmethod
    def embedded(
        cls,
        *agents: Embeddable,
        env: str = ids.DEFAULT_ENV,
        agent_id: str | None = None,
        validate: bool = False,
        on_receipt: OnReceipt | None = None,
    ) -> "Opening[Reach]":
        """A router, these agents and a client in this process, on nothing but memory: neither shared nor durable.

        Use it as `connect`; closing it stops the agents as well.

        Raises:
            ConfigError: The env or the agent_id cannot be used.
            RegistrationRefused: An agent's declaration was refused.
        """
        for agent in agents:
            if isinstance(agent, type) or not hasattr(agent, "running_at"):
                raise TypeError(f'embedded is given {agent!r}: agents are wanted, such as Agent("refunds")')
        check_text("env", env)
        check_text("agent_id", agent_id, optional=True)
        place = MemoryPlace(env)
        return Opening(lambda: cls._connected(place, agent_id, agents, validate, on_receipt))

    @classmethod
    async def _connected(
        cls,
        place: Place,
        template: str | None,
        agents: tuple[Embeddable, ...],
        validate: bool,
        on_receipt: OnReceipt | None,
        metrics_port: int | None = None,
    ) -> "Reach":
        if validate:
            need_validator()
        agent_id, name = sender_ids(template)
        async with AsyncExitStack() as stack:
            await place.enter()
            stack.push_async_callback(place.leave)
            for agent in agents:
                await stack.enter_async_context(agent.running_at(place))
            node_id = default_node_id(socket.gethostname())
            reach = cls(place, agent_id=agent_id, name=name, node_id=node_id, validate=validate, on_receipt=on_receipt)
            await reach.start()
            try:
                await stack.enter_async_context(caller_page(reach, place, metrics_port))
            except ConfigError:
                await reach.close()
                raise
            reach._stack = stack.pop_all()
        return reach

    async def start(self) -> None:
        """Open the backend and the mailbox. `connect` has done it.

        Raises:
            BackendUnavailable: Redis cannot be reached.
        """
        try:
            if self._own:
                await self.backend.open()
            await self._exchange.start()
        except BaseException:
            if self._own:
                await self.backend.close()
            raise

    def forsake(self) -> None:
        """From now on what is waited for is left alone, also by `close`, as by a process that was killed."""
        self._exchange.giving_up.forsake()

    async def close(self) -> None:
        """Stop reading, end what is still waited for, disconnect, within about a second where Redis answers. Twice is once.

        What `request`, `ask` and `gather` still wait for is cancelled, unless it has a `key`; what was sent by `send` goes on.
        """
        try:
            await self._exchange.close()
        finally:  # also where that was cut off: no connection stays
            if self._own:
                await self.backend.close()
            await self._stack.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    @property
    def origin(self) -> Origin:
        """Who sends, for what sends in its name."""
        return self._origin

    @property
    def vitals(self) -> dict[str, Vitals]:
        """How the services of this client do, by name."""
        return self._exchange.vitals

    @property
    def recorder(self) -> HopRecorder:
        """Where hop records go."""
        return self._exchange.recorder

    @property
    def mailbox_id(self) -> str:
        """Where receipts and notices arrive."""
        return self._exchange.mailbox.id

    async def keep_mailbox(self) -> None:
        """Make the mailbox anew where it is missing, or renew it.

        Raises:
            BackendError: It could not be done.
        """
        await self._exchange.mailbox.make()

    async def answer(self, msg_id: str, value: object, *, leg: int | None = None) -> None:
        """Answer what the handler of a message asks, which this client, or an earlier one with the same agent_id, has sent.

        Args:
            msg_id: The message's.
            value: Anything that JSON can say, at most 64 KiB.
            leg: With scope all: whose question; None: the only one that is open.

        Raises:
            AnswerRefused: Nothing is asked, several legs ask, it has been answered already, somebody else has sent the message, or there
                is no such message (`answer.not_asked`, `.which_leg`, `.stale`, `.denied`, `.unknown`).
            BodyError: The value cannot be written as JSON, or is too large.
            BackendError: Redis cannot be asked: it may have been answered, or the client is closed.
        """
        self._exchange.check_open()
        await self._exchange.answering.answer_by_id(msg_id, sender_of(self._origin.source), value, leg)

    async def explain(
        self,
        target: str,
        body: object = None,
        *,
        scope: Scope = "one",
        draws: int = 1,
        partition: int | None = None,
        **options: Unpack[Options],
    ) -> Explanation:
        """Where this message would go if it were sent now, who else fits, and which filter refuses the others and why. Nothing is sent.

        What only the sending itself shows is not seen: a full inbox, a rate limit that is used up, a budget that is spent.

        Args:
            target: As `request`, also a bare name.
            body: As `request`.
            scope: "one" of the agents that fit, or "all" of them.
            draws: How often to draw, at most 100,000: the candidates' shares are of so many.
            partition: In which the message would lie; None: its order_key says, else 0.
            options: As `request`.

        Raises:
            EnvelopeError: It breaks a rule.
            ValueError, TypeError: An option's value is none.
            BackendError: The registry cannot be read.
        """
        envelope = self.draft(target, body, scope, options)
        return await self.routes.explain(envelope, draws=draws, partition=partition)

    async def accepts(self, target: str) -> Accepts:
        """Who answers a target now, and what they take: types, schemas with their JSON Schemas, how long they may work, what they cost.

        Reads the whole registry: ask before sending for the first time, not before each message.

        Raises:
            EnvelopeError: No such target can be.
            BackendError: The registry cannot be read.
        """
        return await accepted_by(self.backend, await self._origin.names.pattern_of(target))

    @property
    def schemas(self) -> Schemas:
        """The JSON Schemas of this env: list, get, check, set, remove, and the rules of their families."""
        return Schemas(self.backend)

    @property
    def dead_letters(self) -> DeadLetters:
        """What reach has given up in this env: list, find, requeue, purge."""
        return DeadLetters(self.backend)

    @property
    def events(self) -> Events:
        """The hop records of this env: find, trace. `with_store("sqlite:<folder>")` also asks what an archiver has kept."""
        return Events(self.backend)

    @property
    def routes(self) -> Routes:
        """The policies of this env: list, set, remove, and explain where an envelope would go."""
        return Routes(self.backend, self._place.rng)

    async def capacity(self) -> list[Capacity]:
        """How many instances each capability wants, over all routers; those that nothing is asked of are not told.

        Raises:
            BackendError: It cannot be read.
        """
        return (await read_capacity(self.backend))[0]

    async def conversation(self, correlation_id: str) -> Conversation | None:
        """What a conversation has used so far: cost, tokens, hops, messages (docs/loops.md). None: nothing is counted within the last hour.

        Raises:
            BackendError: It cannot be read.
        """
        return await read_conversation(self.backend, correlation_id)

    @property
    def rules(self) -> Rules:
        """Who may call whom in this env: list, set, remove, and test what a source may call."""
        return Rules(self.backend)

    @property
    def outstanding(self) -> int:
        """How many messages this client waits for."""
        return len(self._exchange)


def sender_ids(template: str | None) -> tuple[str | None, str | None]:
    """agent_id and stable name of a template: `refund-{instance}` -> (`refund-3f9c01ab22d4`, `refund`).

    Raises:
        ConfigError: Not the grammar of an agent_id.
    """
    if template is None:
        return None, None
    agent_id = template.replace("{instance}", os.urandom(6).hex())
    if not ids.is_name(agent_id):
        text = f"{template!r} is no agent_id: letters, digits, '.', '_', '-', at most 128, the first a letter or digit"
        raise ConfigError(text, details={"field": "agent_id"})
    name = ids.stable_name(template)
    return agent_id, name if name != agent_id and ids.is_name(name) else None
