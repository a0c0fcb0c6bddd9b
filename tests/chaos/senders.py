"""The load: messages of every kind, each sent, repeated, cancelled or waited for as its kind says, and everything that came of it."""

import asyncio
import contextlib
import datetime as dt
import itertools
import json
import random
import time
import uuid
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, TypeVar, cast

from reach import Reach, Receipt
from reach.backend import open_backend
from reach.backend.port import Backend
from reach.backend.steps import Record
from reach.envelope.rules import business_msg_id
from reach.errors import BackendUnavailable
from reach.sdk.places import RedisPlace
from tests.chaos.cast import SENDER, named
from tests.chaos.histories import Call, Mail, Message, Tap
from tests.chaos.raw_sender import RawSender
from tests.chaos.worker_agent import ENV

T = TypeVar("T")

WHO = "chaos-client"
TARGET = "capability:work"
TOTAL_S = 60.0
LATE_S = 2.0
LOOK_S = 0.05
WORK_MS = (10, 150)
LATER_S = (0.1, 1.5)
#: an agent that nobody waits for has no deadline but the ledger's, which is kept at the next second
RAW_WAIT_S = TOTAL_S + 5.0
MOST_ROUNDS = 6
#: how an agent's death reads in the ledger: its lease, or its processing time, whichever ended first
LOST = ("agent.lost", "timeout.processing")

#: what is sent, and how often of 1,000
KINDS = {
    "plain": 510,  # one request
    "all": 80,  # one to everybody
    "twice": 90,  # by two clients and by a raw XADD at the same time, and again by each after the end
    "raw": 70,  # by raw XADD twice at once, and again after the end
    "silent": 40,  # by raw XADD three times, and nobody waits
    "cancel": 100,  # cancelled at some moment
    "again": 15,  # fails at first, and is asked for again with the same key, which is its next round
    "later": 90,  # to be handed over at a moment to come: by `delay`, by `not_before`, or by raw XADD twice at once
    "late": 5,  # the handler takes longer than the caller waits
}


class Senders:
    """Two clients of one name and a raw sender; `messages` has what became of everything."""

    def __init__(self, first: Reach, second: Reach, raw: RawSender, ledger: Backend, rng: random.Random) -> None:
        self.messages: list[Message] = []
        self._clients = (first, second)
        self._raw, self._ledger, self._rng = raw, ledger, rng
        self._kinds = tuple(KINDS)
        self._stalls: deque[tuple[float, int]] = deque(maxlen=round(60 / LOOK_S))
        self.longest_stall_ms = 0
        self._looked_at = time.monotonic()

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, url: str, mail: Mail, rng: random.Random) -> AsyncIterator["Senders"]:
        """Connect everything."""
        address = named(url, SENDER)
        async with contextlib.AsyncExitStack() as stack:
            clients = []
            for _ in range(2):
                backend = open_backend(address, env=ENV)
                stack.push_async_callback(backend.close)
                await _patiently(backend.open)
                tap = cast("Backend", Tap(backend, mail))
                client = Reach(RedisPlace(address, ENV), agent_id=WHO, backend=tap)
                stack.push_async_callback(client.close)
                await _patiently(client.start)
                clients.append(client)
            ledger = open_backend(address, env=ENV)
            stack.push_async_callback(ledger.close)
            await _patiently(ledger.open)
            raw = await stack.enter_async_context(RawSender.open(address, mail))
            yield cls(clients[0], clients[1], raw, ledger, rng)

    async def run(self, inflight: int, more: Callable[[int], bool]) -> None:
        """Keep so many messages in flight for as long as `more(n)` says so; return when all have ended."""
        numbers = itertools.takewhile(more, itertools.count())

        async def worker() -> None:
            for n in numbers:
                kind = self._rng.choices(self._kinds, tuple(KINDS.values()))[0]
                scope = "all" if kind == "all" or (kind != "plain" and self._rng.random() < 0.15) else "one"
                message = Message(n, kind, scope)
                self.messages.append(message)
                await getattr(self, f"_send_{kind}")(message, {"n": n, "ms": self._rng.randint(*WORK_MS)})
                await self._look_up(message)

        watching = asyncio.create_task(self._watch_the_loop())
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(inflight):
                    group.create_task(worker())
        finally:
            watching.cancel()

    async def _watch_the_loop(self) -> None:
        while True:
            self._looked_at = time.monotonic()
            await asyncio.sleep(LOOK_S)
            stall_ms = self._stall_ms(time.monotonic())
            self.longest_stall_ms = max(self.longest_stall_ms, stall_ms)
            self._stalls.append((self._looked_at, stall_ms))

    def _stall_ms(self, now: float) -> int:
        return max(round((now - self._looked_at - LOOK_S) * 1000), 0)

    def _call(self, who: str, asked_at_ms: int, begun: float, total_s: float, receipts: Sequence[Receipt[Any]]) -> Call:
        now = time.monotonic()
        over_s = now - begun - total_s
        stall_ms = 0
        if over_s > 0:  # the one that has just ended may not have been noted yet
            noted = sum(ms for at, ms in self._stalls if now - at < over_s + 2 * LOOK_S + ms / 1000)
            stall_ms = noted + self._stall_ms(now)
        return Call(who, asked_at_ms, now - begun, total_s, tuple(receipts), stall_ms)

    # ------------------------------------------------------------ the kinds

    async def _send_plain(self, message: Message, body: Any) -> None:
        await self._request(message, body)

    _send_all = _send_plain

    async def _send_twice(self, message: Message, body: Any) -> None:
        key = f"twice {message.n} {uuid.uuid4()}"
        message.msg_id = business_msg_id(ENV, WHO, key)
        both = [self._request(message, body, client=client, key=key) for client in self._clients]
        await asyncio.gather(*both, self._raw_call(message, body))
        for client in self._clients:
            await self._request(message, body, client=client, key=key)
        await self._raw_call(message, body)

    async def _send_raw(self, message: Message, body: Any) -> None:
        message.msg_id = str(uuid.uuid4())
        await asyncio.gather(self._raw_call(message, body), self._raw_call(message, body))
        await self._raw_call(message, body)

    async def _send_silent(self, message: Message, body: Any) -> None:
        message.msg_id = str(uuid.uuid4())
        for _ in range(3):
            await self._raw.send(message.msg_id, WHO, message.scope, body, TOTAL_S, reply=False)

    async def _send_cancel(self, message: Message, body: Any) -> None:
        client = self._rng.choice(self._clients)
        asked_at_ms, begun = _now_ms(), time.monotonic()
        delay_s = self._rng.uniform(*LATER_S) if self._rng.random() < 0.3 else 0.0
        later: dict[str, Any] = {"delay": delay_s} if delay_s else {}
        message.not_before_ms = round(delay_s and asked_at_ms + delay_s * 1000)
        scope = cast("Any", message.scope)
        handle = await client.send(TARGET, body, scope=scope, schema="work.v1", timeout=TOTAL_S, ttl=TOTAL_S, **later)
        message.msg_id = handle.msg_id
        await asyncio.sleep(self._rng.choice((0.0, self._rng.uniform(0, 0.05), self._rng.uniform(0, 0.4))))
        if await _patiently(handle.cancel):
            message.cancelled_at_ms = _now_ms()
        receipts = tuple(await handle.receipts())
        message.calls.append(self._call(client.mailbox_id, asked_at_ms, begun, delay_s + TOTAL_S, receipts))

    async def _send_later(self, message: Message, body: Any) -> None:
        delay_s = self._rng.uniform(*LATER_S)
        message.not_before_ms = _now_ms() + round(delay_s * 1000)
        match self._rng.randrange(3):
            case 0:
                await self._request(message, body, wait_s=delay_s, delay=delay_s)
            case 1:
                moment = dt.datetime.fromtimestamp(message.not_before_ms / 1000, dt.UTC)
                await self._request(message, body, wait_s=delay_s, not_before=moment)
            case _:
                message.msg_id = str(uuid.uuid4())
                both = [self._raw_call(message, body, wait_s=delay_s) for _ in range(2)]
                await asyncio.gather(*both)

    async def _send_again(self, message: Message, body: Any) -> None:
        key = f"again {message.n} {uuid.uuid4()}"
        for _ in range(MOST_ROUNDS):
            await self._request(message, {**body, "fails": True}, key=key, max_attempts=1)
            if all(receipt.ok for receipt in message.calls[-1].receipts):
                return

    async def _send_late(self, message: Message, body: Any) -> None:
        await self._request(message, {**body, "ms": 20_000}, timeout=LATE_S)

    # ------------------------------------------------------------ one call

    async def _request(
        self,
        message: Message,
        body: Any,
        *,
        client: Reach | None = None,
        timeout: float = TOTAL_S,
        wait_s: float = 0.0,
        **options: Any,
    ) -> None:
        client = client or self._rng.choice(self._clients)
        asked_at_ms, begun = _now_ms(), time.monotonic()
        got: Any = await client.request(
            TARGET, body, scope=cast("Any", message.scope), schema="work.v1", timeout=timeout, ttl=TOTAL_S, **options
        )
        receipts: Sequence[Receipt[Any]] = (got,) if isinstance(got, Receipt) else tuple(got)
        message.calls.append(self._call(client.mailbox_id, asked_at_ms, begun, wait_s + timeout, receipts))
        message.msg_id = receipts[0].msg_id

    async def _raw_call(self, message: Message, body: Any, wait_s: float = 0.0) -> None:
        raw = self._raw
        known = raw.count(message.msg_id)
        asked_at_ms, begun = _now_ms(), time.monotonic()
        await raw.send(message.msg_id, WHO, message.scope, body, TOTAL_S, not_before_ms=message.not_before_ms)
        receipts = await raw.receipts(message.msg_id, known, wait_s + RAW_WAIT_S)
        message.calls.append(self._call(raw.mailbox, asked_at_ms, begun, wait_s + RAW_WAIT_S, receipts))

    async def _look_up(self, message: Message) -> None:
        """What the record says of those who died over it, while it is there."""
        if all(receipt.attempts < 2 for receipt in message.receipts):
            return
        record: Record | None = await _patiently(lambda: self._ledger.inspect(0, message.msg_id))
        for number, leg in (record.legs if record else {}).items():
            history = [json.loads(line) for line in leg.history]
            message.losses[number] = [one for one in history if one["code"] in LOST]


async def _patiently(ask: Callable[[], Awaitable[T]]) -> T:
    """Ask until Redis has answered: the connection may be cut at any time, and every such question may be asked again."""
    while True:
        try:
            return await ask()
        except BackendUnavailable:
            await asyncio.sleep(0.02)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
