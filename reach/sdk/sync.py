"""The client for programs without an event loop: the same calls, which wait."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Self, TypeVar, Unpack, overload

from reach import ids
from reach.envelope.message import Scope
from reach.registry.accepting import Accepts
from reach.registry.capacity import Capacity
from reach.routing.explain import Explanation
from reach.sdk.client import Embeddable, Reach
from reach.sdk.conversation import Conversation
from reach.sdk.gathering import Group
from reach.sdk.handle import Handle
from reach.sdk.loop_thread import LoopThread
from reach.sdk.options import Options
from reach.sdk.receipt_hook import OnReceipt
from reach.sdk.receipts import Receipt, Receipts
from reach.sdk.sync_admin import SyncDeadLetters, SyncRoutes, SyncRules, SyncSchemas
from reach.sdk.sync_events import SyncEvents
from reach.sdk.sync_handles import SyncGroup, SyncHandle
from reach.settings import DEFAULT_URL

T = TypeVar("T")


class SyncReach:
    """`Reach` for programs without an event loop. Safe for many threads; close it, or use it with `with`.

    It lives in a thread of its own. Ctrl-C ends the call that waits, as its cancellation would. A process that was forked opens its own; in
    a thread whose event loop runs (also in a notebook) it refuses, since it would stop that loop: there `Reach` is at home.
    """

    def __init__(self, open_it: Callable[[], AbstractAsyncContextManager[Reach]]) -> None:
        """Use `SyncReach.connect` or `SyncReach.embedded`."""
        self._thread = LoopThread(open_it, "reach-sync")
        self._reach = self._thread.value

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
    ) -> Self:
        """Connect: `with SyncReach.connect(...) as reach:`, or close it yourself. Arguments as `Reach.connect`.

        Raises:
            ConfigError: The URL, the env or the agent_id cannot be used, the port cannot be had, or an event loop runs in this thread.
            BackendUnavailable: Redis cannot be reached.
        """
        return cls(
            lambda: Reach.connect(
                url, env, agent_id, validate=validate, on_receipt=on_receipt, metrics_port=metrics_port
            )
        )

    @classmethod
    def embedded(
        cls,
        *agents: Embeddable,
        env: str = ids.DEFAULT_ENV,
        agent_id: str | None = None,
        validate: bool = False,
        on_receipt: OnReceipt | None = None,
    ) -> Self:
        """A router, these agents and a client in this process: as `Reach.embedded`.

        Raises:
            ConfigError: The env or the agent_id cannot be used, or an event loop runs in this thread.
            RegistrationRefused: An agent's declaration was refused.
        """
        return cls(
            lambda: Reach.embedded(*agents, env=env, agent_id=agent_id, validate=validate, on_receipt=on_receipt)
        )

    def close(self) -> None:
        """End what is still waited for, disconnect, and end the thread, within 5 s. Twice is once; nothing in the child of a fork."""
        self._thread.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    @property
    def env(self) -> str:
        """The environment."""
        return self._reach.env

    @property
    def agent_id(self) -> str:
        """Who sends; made up where none was given."""
        return self._reach.agent_id

    @property
    def outstanding(self) -> int:
        """How many messages this client waits for."""
        return self._reach.outstanding

    @overload
    def request(
        self, target: str, body: object = None, *, scope: Literal["one"] = "one", **options: Unpack[Options]
    ) -> Receipt[Any]: ...
    @overload
    def request(
        self,
        target: str,
        body: object = None,
        *,
        returns: type[T],
        scope: Literal["one"] = "one",
        **options: Unpack[Options],
    ) -> Receipt[T]: ...
    @overload
    def request(
        self, target: str, body: object = None, *, scope: Literal["all"], **options: Unpack[Options]
    ) -> Receipts[Any]: ...
    @overload
    def request(
        self, target: str, body: object = None, *, returns: type[T], scope: Literal["all"], **options: Unpack[Options]
    ) -> Receipts[T]: ...
    def request(
        self, target: str, body: object = None, *, returns: Any = Any, scope: Scope = "one", **options: Unpack[Options]
    ) -> Receipt[Any] | Receipts[Any]:
        """Send and wait for the end, at most `timeout` + 250 ms. Never raises for a result. Arguments and errors as `Reach.request`."""
        if scope == "all":
            return self._thread.call(lambda: self._reach.request(target, body, returns=returns, scope="all", **options))
        return self._thread.call(lambda: self._reach.request(target, body, returns=returns, **options))

    @overload
    def ask(self, target: str, body: object = None, **options: Unpack[Options]) -> Any: ...
    @overload
    def ask(self, target: str, body: object = None, *, returns: type[T], **options: Unpack[Options]) -> T: ...
    def ask(self, target: str, body: object = None, *, returns: Any = Any, **options: Unpack[Options]) -> Any:
        """`request`, and the output itself.

        Raises:
            ReachError: The receipt was no success: NoRoute, Overloaded, Timeout, Rejected, HandlerFailed ...
        """
        return self._thread.call(lambda: self._reach.ask(target, body, returns=returns, **options))

    def explain(
        self,
        target: str,
        body: object = None,
        *,
        scope: Scope = "one",
        draws: int = 1,
        partition: int | None = None,
        **options: Unpack[Options],
    ) -> Explanation:
        """Where this message would go if it were sent now, and why not elsewhere. Arguments and errors as `Reach.explain`."""
        return self._thread.call(
            lambda: self._reach.explain(target, body, scope=scope, draws=draws, partition=partition, **options)
        )

    @property
    def dead_letters(self) -> SyncDeadLetters:
        """What reach has given up in this env: list, find, requeue, purge."""
        return SyncDeadLetters(self._thread, self._reach.dead_letters)

    @property
    def events(self) -> SyncEvents:
        """The hop records of this env: find, trace, explain. `with_store("sqlite:<folder>")` also asks what an archiver has kept."""
        return SyncEvents(self._thread, self._reach.events)

    @property
    def routes(self) -> SyncRoutes:
        """The policies of this env: list, set, remove, and explain where an envelope would go."""
        return SyncRoutes(self._thread, self._reach.routes)

    @property
    def rules(self) -> SyncRules:
        """Who may call whom in this env: list, set, remove, and test what a source may call."""
        return SyncRules(self._thread, self._reach.rules)

    @property
    def schemas(self) -> SyncSchemas:
        """The JSON Schemas of this env: list, get, check, set, remove, and the rules of their families."""
        return SyncSchemas(self._thread, self._reach.schemas)

    def capacity(self) -> list[Capacity]:
        """How many instances each capability wants. As `Reach.capacity`."""
        return self._thread.call(self._reach.capacity)

    def conversation(self, correlation_id: str) -> Conversation | None:
        """What a conversation has used so far. As `Reach.conversation`."""
        return self._thread.call(lambda: self._reach.conversation(correlation_id))

    def accepts(self, target: str) -> Accepts:
        """Who answers a target now, and what they take. As `Reach.accepts`."""
        return self._thread.call(lambda: self._reach.accepts(target))

    def answer(self, msg_id: str, value: object, *, leg: int | None = None) -> None:
        """Answer what a handler asks of a message that this or an earlier process has sent. Arguments and errors as `Reach.answer`."""
        self._thread.call(lambda: self._reach.answer(msg_id, value, leg=leg))

    def send(self, target: str, body: object = None, *, scope: Scope = "one", **options: Unpack[Options]) -> SyncHandle:
        """Send and go on: when this returns, Redis has acknowledged the message. Arguments and errors as `Reach.send`."""
        handle: Handle = self._thread.call(lambda: self._reach.send(target, body, scope=scope, **options))
        return SyncHandle(self._thread, handle)

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
    ) -> SyncGroup[Any]: ...
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
    ) -> SyncGroup[T]: ...
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
    ) -> SyncGroup[Any]:
        """Ask several at once: `for receipt in reach.gather(...)`, or `reach.gather(...).receipts()`. As `Reach.gather`."""

        async def begin() -> Group[Any]:
            return self._reach.gather(target, body, returns=returns, want=want, until=until, best_by=best_by, **options)

        return SyncGroup(self._thread, self._thread.call(begin))
