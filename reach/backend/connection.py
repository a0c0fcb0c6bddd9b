"""Connections to Redis, and the one table that turns what Redis says into `reach.errors`.

Every command runs under a limit of its own, nothing is sent twice, and a command that was cancelled or timed out closes its
connection: a reply that nobody waits for must never reach the next caller. A connection that is silent while the server answers by
another one is left within a second (reach.backend.silence). Blocking reads have connections of their own, so that they never wait
behind, or hold up, anything else.
"""

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Any

from redis import exceptions as redis_errors
from redis.asyncio.connection import Connection, parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from reach.backend.scripts import Script, command
from reach.backend.silence import Silence
from reach.backend.subscription import Subscription
from reach.backend.wires import Pool, wire_kind
from reach.clock import Clock, SystemClock
from reach.errors import BackendDenied, BackendError, BackendFull, BackendUnavailable, ConfigError, ScriptFailed

MAX_BLOCK_MS = 2_000
MAX_COMMANDS = 32  # connections for everything that does not block
MAX_READERS = 1_024  # one per blocking read that waits right now
COMMAND_LIMIT_MS = 10_000  # of a server that answers nobody; one that blocks has its time beside it
CONNECT_LIMIT_S = 2.0  # a SYN that is lost is sent again after one second, and then after two, four: start anew rather
PROBE_LIMIT_S = 0.7

# What Redis answers with its first word. A connection that heard a `fresh` one may lead to the wrong server: it is closed.
_UNAVAILABLE_FRESH = (
    "LOADING",
    "READONLY",
    "MASTERDOWN",
    "CLUSTERDOWN",
    "TRYAGAIN",
    "MOVED",
    "ASK",
    "UNBLOCKED",
    "NOTBUSY",
)
_UNAVAILABLE = ("NOREPLICAS", "NOGOODSLAVE", "MISCONF", "BUSY", "UNKILLABLE", "INPROG")
_DENIED = ("NOAUTH", "NOPERM", "WRONGPASS", "DENIED")
ERRORS: Mapping[str, type[BackendError]] = {
    **dict.fromkeys((*_UNAVAILABLE_FRESH, *_UNAVAILABLE), BackendUnavailable),
    **dict.fromkeys(_DENIED, BackendDenied),
    "OOM": BackendFull,
    "NOGROUP": BackendError,
    "WRONGTYPE": BackendError,
    "CROSSSLOT": BackendError,
}

#: the one refusal that has no word of its own: ERR is all that Redis says before it
_DENIED_IN_SCRIPT = "ACL failure in script"

Reply = Any  # what RESP2 can say: bytes, int, None, and lists of them


def reply_code(error: BaseException) -> str:
    """The first word of an error reply: the part of it that is made for programs. "" for what is not a reply."""
    code = getattr(error, "status_code", None)
    if isinstance(code, str):
        return code
    word = str(error).partition(" ")[0]
    return word if word.isupper() else ""


def _said(error: BaseException) -> str:
    return str(error).removeprefix("ERR ")


def translated(error: BaseException) -> BackendError:
    """The one table: what redis-py raised, as an error of reach. `details["reply"]` has the text of Redis."""
    code = reply_code(error)
    details = {"reply": f"{type(error).__name__}: {error}", "reply_code": code}
    if kind := ERRORS.get(code):
        return kind(f"Redis answered {code}", details=details)
    if isinstance(
        error, redis_errors.AuthenticationError | redis_errors.AuthorizationError | redis_errors.NoPermissionError
    ):
        return BackendDenied("Redis refused the credentials", details=details)
    if isinstance(error, redis_errors.ResponseError) and _said(error).startswith(_DENIED_IN_SCRIPT):
        return BackendDenied("Redis refused a command of a script", details=details)
    if isinstance(error, redis_errors.ResponseError | redis_errors.DataError):
        return ScriptFailed(f"Redis answered: {error}", details=details)
    if isinstance(error, redis_errors.RedisError | OSError | asyncio.IncompleteReadError):
        return BackendUnavailable(f"no connection to Redis: {error}", details=details)
    return BackendError(f"unexpected: {error!r}", details=details)


class Link:
    """The way to one Redis: `call` and `batch` for commands, `run` for steps, `read` for blocking reads."""

    def __init__(
        self,
        url: str,
        *,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        command_limit_ms: int = COMMAND_LIMIT_MS,
    ) -> None:
        self._command_limit_ms = command_limit_ms
        self.clock = clock or SystemClock()
        self.rng = rng or random.Random()  # noqa: S311  spreads retries, protects nothing
        try:
            options: dict[str, Any] = dict(parse_url(url))
        except ValueError as error:
            raise ConfigError(f"not a Redis URL: {error}") from error
        kind = options.pop("connection_class", Connection)
        # The limits are those of `_exchange`: wait_for, which redis-py would use, can swallow a cancellation on Python 3.11.
        options |= {
            "decode_responses": False,
            "encoding": "utf-8",
            "encoding_errors": "strict",
            "protocol": 2,
            "socket_timeout": None,
            "socket_connect_timeout": CONNECT_LIMIT_S,
            "retry": Retry(NoBackoff(), 0),
            "retry_on_error": [],
            "retry_on_timeout": False,
            "driver_info": None,
            "health_check_interval": 0,
        }
        try:
            kind(**options)
        except TypeError as error:  # else each command would raise it
            raise ConfigError(f"an option of the Redis URL is none that reach has: {error}") from error
        self._kind, self._options = wire_kind(kind), options
        self._commands = Pool(self._kind, options, MAX_COMMANDS)
        self._readers = Pool(self._kind, options, MAX_READERS)
        self._silence = Silence(self._answers)
        self._failures = 0
        self._subscriptions: dict[tuple[str, ...], Subscription] = {}

    async def call(self, *args: Any) -> Reply:
        """One command. Raises what `translated` says."""
        (reply,) = await self._exchange(self._commands, [args])
        return _checked(reply)

    async def batch(self, commands: Sequence[Sequence[Any]]) -> list[Reply]:
        """Several commands in one round trip, not atomic. An error reply stands in its place as a BackendError."""
        if not commands:
            return []
        replies = await self._exchange(self._commands, commands)
        return [translated(reply) if isinstance(reply, Exception) else reply for reply in replies]

    async def atomic(self, commands: Sequence[Sequence[Any]]) -> list[Reply]:
        """Several commands of one slot as one transaction. An error reply stands in its place as a BackendError."""
        replies = await self._exchange(self._commands, [["MULTI"], *commands, ["EXEC"]])
        for queued in replies[:-1]:
            _checked(queued)  # what was refused here is the reason; EXEC says only that there was one
        return [translated(reply) if isinstance(reply, Exception) else reply for reply in _checked(replies[-1])]

    async def run(self, step: Script, key: str, *argv: Any) -> Reply:
        """Run a step by its hash; a Redis that does not know it (restart, SCRIPT FLUSH) is told the text and runs that."""
        (reply,) = await self._exchange(self._commands, [command(step, "EVALSHA", key, argv)])
        if isinstance(reply, Exception) and reply_code(reply) == "NOSCRIPT":
            (reply,) = await self._exchange(self._commands, [command(step, "EVAL", key, argv)])
        return _checked(reply)

    async def run_each(self, step: Script, calls: Sequence[tuple[Any, ...]]) -> list[Reply]:
        """Run a step for several keys in one round trip: `calls` are (key, *argv). Errors stand in their places."""
        replies = await self.batch([command(step, "EVALSHA", key, tuple(argv)) for key, *argv in calls])
        for i, reply in enumerate(replies):
            if isinstance(reply, BackendError) and reply.details["reply_code"] == "NOSCRIPT":
                key, *argv = calls[i]
                replies[i] = await self.call(*command(step, "EVAL", key, tuple(argv)))
        return replies

    async def read(self, *args: Any, block_ms: int = 0) -> Reply:
        """One read that may block for `block_ms` (at most 2 s), on a connection that nothing else uses.

        A failure is told only after a short wait, longer after each one, so that a loop around this call is paced by itself.
        """
        try:
            (reply,) = await self._exchange(self._readers, [args], min(block_ms, MAX_BLOCK_MS))
            result = _checked(reply)
        except BackendUnavailable:
            if block_ms > 0:
                self._failures = min(self._failures + 1, 3)
                await self.pause(min(block_ms, 25 * 2**self._failures))
            raise
        self._failures = 0
        return result

    async def hear(self, channels: Sequence[str], block_ms: int) -> list[tuple[str, bytes]]:
        """(channel, data) of what is said on sharded channels; empty after `block_ms`.

        They are heard by one connection of their own, from the first call on. A failure is told at once, and may have cost something.
        """
        known = self._subscriptions.get(tuple(channels))
        if known is None:
            wire = self._kind(**self._options)
            known = Subscription(wire, self._silence, channels, self._command_limit_ms)
            self._subscriptions[tuple(channels)] = known
        try:
            return await known.hear(block_ms)
        except (redis_errors.RedisError, OSError, asyncio.IncompleteReadError) as error:
            raise translated(error) from error

    async def pause(self, ms: int) -> None:
        """Wait between half of `ms` and `ms`: many processes that lost the same Redis must not come back as one."""
        await self.clock.sleep(max(1, int(ms * self.rng.uniform(0.5, 1.0))))

    async def close(self) -> None:
        """Close every connection, also those in use."""
        await self._silence.close()
        await self._commands.close()
        await self._readers.close()
        for subscription in self._subscriptions.values():
            await subscription.close()

    async def _exchange(self, pool: Pool, commands: Sequence[Sequence[Any]], block_ms: int = 0) -> list[Reply]:
        stale = dead = False
        replies: list[Reply] = []
        limit_ms = block_ms + self._command_limit_ms
        try:
            async with asyncio.timeout(limit_ms / 1000) as scope, pool.lease() as wire:
                packed = wire.pack_commands(commands)
                size = sum(map(len, packed))
                with self._silence.over(wire, scope, sent_bytes=size, block_ms=block_ms) as exchange:
                    try:
                        await wire.freshen()
                        await wire.send_packed_command(packed, check_health=False)
                        for _ in commands:
                            try:
                                replies.append(await wire.read_response(disable_decoding=True))
                            except redis_errors.ResponseError as error:
                                replies.append(error)
                                stale = stale or reply_code(error) in _UNAVAILABLE_FRESH
                    finally:
                        dead = exchange.given_up
                if stale:
                    await wire.drop()
        except TimeoutError as error:
            await self._drop_idle()  # they are as old, or as dead
            why = "a connection to Redis is dead" if dead else f"Redis did not answer within {limit_ms} ms"
            raise BackendUnavailable(why) from error
        except (redis_errors.RedisError, OSError, asyncio.IncompleteReadError) as error:
            raise translated(error) from error
        if stale:
            await pool.drop_idle()
        return replies

    async def _answers(self) -> bool:
        """Whether the server answers a question that is asked now, by a new connection. Whatever it says is an answer."""
        wire = self._kind(**self._options)
        try:
            async with asyncio.timeout(PROBE_LIMIT_S):
                await wire.freshen()
                await wire.send_packed_command(wire.pack_command("PING"), check_health=False)
                await wire.read_response()
        except (redis_errors.RedisError, OSError, TimeoutError, asyncio.IncompleteReadError) as error:
            return reply_code(error) != ""
        finally:
            await wire.drop()
        return True

    async def _drop_idle(self) -> None:
        await self._commands.drop_idle()
        await self._readers.drop_idle()


def _checked(reply: Reply) -> Reply:
    if isinstance(reply, Exception):
        raise translated(reply) from reply
    return reply
