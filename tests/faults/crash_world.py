"""A router, agents and clients as processes on one stage with one clock, and what must hold whatever happened to one of them."""

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from reach import Agent, Reach, Receipt
from reach.backend.port import Backend
from reach.backend.steps import MailEntry, Record
from reach.clock import Clock
from reach.envelope.ledger import LegState
from reach.errors import BackendUnavailable
from reach.sdk.client import sender_ids
from reach.sdk.handle import Handle
from reach.sdk.receipts import Receipts
from reach.sdk.routers import router_services
from reach.sdk.runtime import AgentRun
from reach.service import Supervisor, until_open
from reach.tracing.hops import HopRecorder
from reach.tracing.time_base import time_base
from tests import hygiene
from tests.contract.places import ENV, KEYS
from tests.faults.handlers import MakeHandler, make_handler
from tests.faults.history import History
from tests.faults.process import WRONG_BY_MS, Fault, Killed, Process, Steps, own_tasks
from tests.faults.stages import MemoryStage, Stage

#: what the protocol leaves a caller beside its own total
SLACK_MS = 250
#: a run of `due` that comes after a pause gives everybody so long
GRACE_MS = 16_000
QUIET_WITHIN_MS = 120_000


@dataclass
class Call:
    """A question that a client has asked, and how it came out."""

    process: Process
    task: "asyncio.Task[Any]"
    began_ms: int
    total_ms: int
    ended_ms: int | None = None

    @property
    def over(self) -> bool:
        """Answered, or nobody is left who waits."""
        return self.task.done()

    @property
    def codes(self) -> list[str]:
        """The codes that the caller got; none where it died."""
        if self.process.dead or self.task.cancelled() or isinstance(self.task.exception(), Killed):
            return []
        receipts: Receipt[Any] | Receipts[Any] = self.task.result()
        return [one.code for one in (receipts if isinstance(receipts, Receipts) else [receipts])]


class ProcessPlace:
    """Where a process finds its backend: on the stage, with its fault around every step."""

    threads = False
    env = ENV

    def __init__(self, world: "CrashWorld", process: Process) -> None:
        self._world, self._process = world, process
        self.clock: Clock = process.clock
        self.rng = random.Random(7)

    def backend(self) -> Backend:
        return self._world.backend_for(self._process)

    async def enter(self) -> None: ...
    async def leave(self) -> None: ...


@dataclass
class CrashWorld:
    """One run. `target` is the process whose step meets `fault`; without one the run only records the steps.

    Attributes:
        heirs: What is started at once when a process of that name has died.
        calls: Every question that was asked.
        told: The codes that callers got, once a run is over.
        skews: How far the wall clock of the process of that name is ahead of the store's, in ms; hours, where it does not say.
    """

    target: str = ""
    fault: Fault | None = None
    stage: Stage = field(default_factory=MemoryStage)
    history: History = field(default_factory=History)
    processes: dict[str, Process] = field(default_factory=dict)
    heirs: dict[str, Callable[[], Awaitable[object]]] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    told: set[str] = field(default_factory=set)
    clients: dict[str, Reach] = field(default_factory=dict)
    agents: dict[str, AgentRun] = field(default_factory=dict)
    declared: dict[str, Agent] = field(default_factory=dict)
    supervisors: dict[str, Supervisor] = field(default_factory=dict)
    skews: dict[str, int] = field(default_factory=dict)
    handle: Handle = field(init=False)

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._factory = loop.get_task_factory()
        loop.set_task_factory(own_tasks)
        self._generations: dict[str, int] = {}
        self.all: list[Process] = []
        self._buried: list[Process] = []
        self.clock, self.place, self._eye = self.stage.clock, self.stage.place, self.stage.eye
        await self.stage.open()
        for _ in range(GRACE_MS // 2_000 + 1):  # as if a router had been there all the time
            await self._eye.due(0)
            await self.stage.pass_time(2_000)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self.all:
            process.die()
        await asyncio.gather(
            *[task for one in (*self.all, *self._buried) for task in one.tasks], return_exceptions=True
        )
        asyncio.get_running_loop().set_task_factory(self._factory)
        await self.stage.close()

    # ------------------------------------------------------------ processes

    def arm(self, *names: str) -> None:
        """From now on the steps of these processes (of all) are counted, and the fault is met at its step."""
        for name in names or tuple(self.processes):
            self.processes[name].arm()

    def disarm(self) -> None:
        """Nothing is counted any more."""
        for process in self.all:
            process.armed = False

    def process(self, name: str, *, armed: bool = False) -> Process:
        """A new process; the first one of the target's name gets the fault."""
        first = all(one.name != name for one in self.all)
        fault = self.fault if name == self.target and first else None
        wrong_by_ms = self.skews.get(name, WRONG_BY_MS)
        made = Process(name, self.history.see, self.clock, fault, armed, wrong_by_ms)
        self.processes[name] = made
        self.all.append(made)
        self._generations[name] = self._generations.get(name, 0) + 1
        return made

    def backend_for(self, process: Process) -> Backend:
        return Steps(self.stage.backend(), process).backend

    async def router(self, name: str = "router", *, worker: str = "", armed: bool = False) -> Process:
        """Start a router: everything that `reach-worker --roles router` runs."""
        process = self.process(name, armed=armed)
        self.heirs.setdefault(name, lambda: self.router(name))
        process.spawn(self._router(process, worker or f"{name}-{self._generations[name]}"))
        await self.settle()
        return process

    async def _router(self, process: Process, worker: str) -> None:
        backend = self.backend_for(process)
        told = {"worker": worker}
        await until_open(backend.open, clock=process.clock, rng=random.Random(7), told=told)
        hops = HopRecorder(backend.record, time_base(process.clock), worker=worker)
        services = router_services(
            backend, hops, range(backend.partitions), worker, clock=process.clock, rng=random.Random(7)
        )
        supervisor = Supervisor(services, clock=process.clock, rng=random.Random(7))
        self.supervisors[process.name] = supervisor
        supervisor.start()

    async def agent(
        self, name: str, *, armed: bool = False, make: MakeHandler = make_handler, **declared: Any
    ) -> Process:
        """Start an instance of an agent, with more that it declares; where it dies, another instance comes at once."""
        process = self.process(name, armed=armed)
        self.heirs.setdefault(name, lambda: self.agent(name, make=make, **declared))
        agent = self.declared[name] = Agent(name, concurrency=4, **declared)
        agent.capability("work")(make(process, self.history))
        run = self.agents[name] = agent.new_run(ProcessPlace(self, process))
        starting = process.spawn(run.start())
        if not armed:
            await self.until(starting.done, f"the registration of {name}")
        return process

    async def client(self, name: str = "client", *, armed: bool = False) -> Process:
        """Start a client."""
        process = self.process(name, armed=armed)
        agent_id, own_name = sender_ids(name)
        reach = self.clients[name] = Reach(ProcessPlace(self, process), agent_id=agent_id, name=own_name)
        self._connecting = process.spawn(reach.start())
        await self.until(self._connecting.done, f"the connection of {name}")
        return process

    def connected(self) -> bool:
        """Whether the newest client has got through; it raises what it heard instead, but for a lost reply."""
        error = self._connecting.exception()
        if error is not None and not isinstance(error, BackendUnavailable):
            raise error
        return error is None

    def do(self, name: str, run: Coroutine[Any, Any, Any], total_ms: int = 30_000) -> Call:
        """Have a client do something."""
        process = self.processes[name]
        call = Call(process, process.spawn(run), self.clock.monotonic_ms(), total_ms)
        call.task.add_done_callback(lambda _: setattr(call, "ended_ms", self.clock.monotonic_ms()))
        self.calls.append(call)
        return call

    def ask(self, body: object, target: str = "capability:work", *, by: str = "client", **options: Any) -> Call:
        """Have a client ask."""
        total_ms = round(options.get("timeout", 30) * 1000)
        return self.do(by, self.clients[by].request(target, body, **options), total_ms)

    @property
    def mailbox(self) -> str:
        """The client's."""
        return self.clients["client"].mailbox_id

    async def allow(self, name: str, most: int) -> None:
        """Set a number in `meta`."""
        await self._eye.set_meta("meta", name, str(most).encode())

    async def choose(self, pattern: str, strategy: str) -> None:
        """Give a pattern its policy."""
        await self._eye.set_meta("routes", pattern, json.dumps({"strategy": strategy}).encode())

    async def knows(self, agent_id: str) -> bool:
        """Whether an agent is registered."""
        return await self.registered(agent_id) is not None

    async def registered(self, agent_id: str) -> bytes | None:
        """What is stored of it."""
        return (await self._eye.registration(agent_id))[0]

    def forget(self, process: Process) -> None:
        """It is dead, and was not the one that the fault is meant for: the next of its name is."""
        self.all.remove(process)
        self._buried.append(process)
        process.steps.clear()

    # ------------------------------------------------------------ time

    async def settle(self) -> None:
        """Let everything happen that needs no time."""
        await self.stage.settle()

    async def until(self, check: Callable[[], object], what: str, within_ms: int = QUIET_WITHIN_MS) -> None:
        """Let time pass until it is so; whoever dies meanwhile is replaced."""
        end_ms = self.clock.monotonic_ms() + within_ms
        while True:
            await self.settle()
            await self._replace()
            answer = check()
            if asyncio.iscoroutine(answer):
                answer = await answer
            if answer:
                return
            at_ms = self.clock.next_at_ms
            if at_ms is None or at_ms > end_ms:
                raise AssertionError(f"not within {within_ms} ms: {what}")
            await self.stage.pass_time(max(at_ms - self.clock.monotonic_ms(), 0))

    async def advance(self, ms: int) -> None:
        """Let so much time pass."""
        end_ms = self.clock.monotonic_ms() + ms
        self.clock.call_later(ms, lambda: None)
        await self.until(lambda: self.clock.monotonic_ms() >= end_ms, "time", ms + 1)

    async def _replace(self) -> None:
        for name, process in list(self.processes.items()):
            heir = self.heirs.get(name)
            if (process.dead or process.frozen) and heir is not None:
                await heir()
                await self.settle()

    # ------------------------------------------------------------ what must hold

    async def finish(self) -> None:
        """Wait until all is quiet, and hold what happened against the promises."""
        self.disarm()
        await self.until(lambda: not any(one.frozen for one in self.all), "the end of every pause")
        await self.until(lambda: all(call.over for call in self.calls), "an answer for every caller")
        await self.until(self.quiet, "the end of every message")
        await self._read_all_mail()
        broken = self.history.broken
        for call in self.calls:
            took_ms = (call.ended_ms or 0) - call.began_ms
            if call.codes and not call.process.froze and took_ms > call.total_ms + SLACK_MS:
                broken.append(f"a caller was answered after {took_ms} ms of {call.total_ms}")
        for msg_id, mailboxes in self.history.accepted.items():
            broken += await self._message_faults(msg_id, mailboxes)
        broken += [f"{count} receipts for {slot}" for slot, count in self.history.slots().items() if count > 1]
        broken += await self._key_faults()
        broken += [
            f"{name} still waits for {reach.outstanding}"
            for name, reach in self.clients.items()
            if not self.processes[name].dead and reach.outstanding
        ]
        assert not broken, "\n".join(broken)

    async def _message_faults(self, msg_id: str, mailboxes: set[str]) -> list[str]:
        record = await self._eye.inspect(0, msg_id)
        if record is None:
            return [f"{msg_id} was accepted, and nothing is known of it"]
        head = record.head
        faults = [f"{msg_id} leg {n} is {leg.state}" for n, leg in record.legs.items() if not leg.finished_at_ms]
        legs = [n for n, leg in record.legs.items() if leg.state is not LegState.OBSERVED]
        if head.open or len(record.receipts) != len(legs):
            faults.append(f"{msg_id}: {head.open} open, {len(record.receipts)} receipts, {len(legs)} legs")
        for mailbox in mailboxes:
            if await self.place.type_of(KEYS.mail(0, mailbox)) == "stream":
                faults += [
                    f"{msg_id} leg {leg} has no receipt in {mailbox}"
                    for leg in legs
                    if not self.history.answered(mailbox, msg_id, leg, head.round)
                ]
        return faults

    async def quiet(self) -> bool:
        """Whether every message has ended, and nothing lies or is pending anywhere."""
        for msg_id in self.history.accepted:
            record = await self._eye.inspect(0, msg_id)
            if record is None or record.head.open:
                return False
        return not await self._left()

    async def _left(self) -> list[str]:
        """What lies at a door, in an inbox or in a list, or is pending."""
        left = [f"due: {msg_id}" for msg_id in await self.place.due()]
        for key in await self.place.keys():
            if "}:env:" in key:
                left.append(key)
            group = _group_of(key)
            if group:
                left += [f"{key} {entry_id}" for entry_id, _ in await self.place.entries(key)]
                left += [f"{key} {row.id} of {row.consumer}" for row in await self.place.pending(key, group)]
        return left

    async def _key_faults(self) -> list[str]:
        faults = []
        for key in await self.place.keys():
            fault = hygiene.fault_of(key, await self.place.type_of(key), await self.place.ttl_ms(key))
            faults += [fault] if fault is not None else []
        return faults

    async def _read_all_mail(self) -> None:
        for key in await self.place.keys():
            _, found, mailbox = key.partition("}:mail:")
            if found:
                entries = [(i, fields[b"r"]) for i, fields in await self.place.entries(key) if b"r" in fields]
                self.history.read_mail(mailbox, [MailEntry(0, i, "receipt", data) for i, data in entries])

    async def look(self, msg_id: str) -> Record | None:
        """Its record."""
        return await self._eye.inspect(0, msg_id)

    async def dead_letters(self) -> int:
        """How many there are."""
        return len(await self._eye.dead_letters(0))


def _group_of(key: str) -> str:
    if ":inbox:" in key:
        return "agent"
    if key in KEYS.work(0):
        return "routers"
    return "registrars" if key == KEYS.control() else ""
