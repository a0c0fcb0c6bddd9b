"""One backend that is several: each step is done by the memory backend and by every real server, by one clock, and must look the same.

What is compared after each step: the answer, or the error; and everything that is stored, down to ids, moments and lifetimes.
"""

import asyncio
import inspect
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Literal, Self, cast

import msgspec

from reach.backend.depth_port import Depths
from reach.backend.memory_backend import MemoryBackend, Store
from reach.backend.port import Backend
from reach.backend.steps import CancelResult, DueReport, Guard, Over, RegisterResult, RouteResult, TakeResult
from reach.errors import ReachError
from tests.contract.memory_place import MemoryPlace
from tests.contract.places import ENV, KEYS
from tests.manual_clock import ManualClock
from tests.property import keyspace
from tests.property.keyspace import Keyspace
from tests.still_server import StillPlace

How = Literal["lost", "doubled", "crash"]
#: lost: a step is done, its answer is lost, and it is done again · doubled: done twice, the first answer counts · crash: it is done, and
#: its caller is dead


#: their answer is how many consumers were there, and the servers themselves do not agree on when one is
_COUNTS_CONSUMERS = frozenset({"sweep"})


class Crash(Exception):
    """The caller of the step is dead: what it would have done next is never done."""


class Differ(AssertionError):
    """Two backends are not in the same state, or have not given the same answer."""


class _StillMemory(MemoryPlace):
    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self.store = self._store = Store(clock)


class Trio:
    """The memory backend and real servers in lockstep.

    Attributes:
        backend: What steps are done with.
        steps: How often each step of the port was done.
        faults: How often each fault was met.
        answers: How often each kind of answer was given, of steps that have kinds.
    """

    def __init__(self, servers: Mapping[str, StillPlace], clock: ManualClock) -> None:
        self.clock = clock
        self.steps: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.answers: Counter[str] = Counter()
        self._memory = _StillMemory(clock)
        self._servers = dict(servers)
        self._backends: dict[str, Backend] = {}
        self._fault: tuple[int, How] | None = None
        self._words = ""

    @classmethod
    async def start(cls, urls: Mapping[str, str]) -> Self:
        """Empty places. `urls`: engine -> its address."""
        clock = ManualClock()
        trio = cls({kind: StillPlace(kind, url, clock.wall_ms()) for kind, url in urls.items()}, clock)
        for place in trio._servers.values():
            await place.start()
        memory = MemoryBackend(env=ENV, store=trio._memory.store)
        await memory.open()
        trio._backends = {"memory": memory} | {kind: await place.connect() for kind, place in trio._servers.items()}
        return trio

    async def close(self) -> None:
        await self._backends["memory"].close()
        for place in self._servers.values():
            await place.forget_all()
            await place.close()

    @property
    def backend(self) -> Backend:
        """Itself, as what it stands for."""
        return cast("Backend", self)

    def plan_fault(self, fault: tuple[int, How] | None) -> None:
        """The next step but `n` that is done meets this fault."""
        self._fault = fault

    async def pass_time(self, ms: int) -> None:
        """Let so much time pass; a negative number is a step back of the clock."""
        self.clock.advance(ms)
        self._memory.store.expire()
        for place in self._servers.values():
            await place.move_to(self.clock.wall_ms())
        await self._same(f"{ms} ms pass")

    async def by_hand(self, what: str, *args: Any) -> Any:
        """Something that is done behind the back of the backends: a method of their places."""
        answers = {"memory": await getattr(self._memory, what)(*args)}
        for kind, place in self._servers.items():
            answers[kind] = await getattr(place, what)(*args)
        self._same_answers(f"by hand {what}{args}", answers)
        await self._same(f"by hand {what}{args}")
        return answers["memory"]

    async def spoil(self, key: str) -> None:
        """Put a value there that cannot be meant: a string, or where a string belongs a hash."""
        string_belongs = "}:lock:" in key or "}:env:" in key
        await self._memory.delete(key)
        for server in self._servers.values():
            await server.delete(key)
        if string_belongs:
            self._memory.store.make_hash(key)["not"] = b"what it should be"
        else:
            self._memory.store.put(key, b"not what it should be")
        for place in self._servers.values():
            command = (
                ("HSET", key, "not", "what it should be") if string_belongs else ("SET", key, "not what it should be")
            )
            await place.raw.execute_command(*command)
        await self._same(f"spoil {key}")

    def __getattr__(self, name: str) -> Any:
        """A step of the port, by all of them."""
        if not inspect.iscoroutinefunction(getattr(Backend, name, None)):
            raise AttributeError(name)

        async def step(*args: Any, **kwargs: Any) -> Any:
            fault, self._fault = self._fault, None
            if fault is not None and fault[0] > 0:
                self._fault = (fault[0] - 1, fault[1])
                fault = None
            words = f"{name}({', '.join([*map(_short, args), *(f'{k}={v!r}' for k, v in kwargs.items())])})"
            answer = await self._do(name, words, args, kwargs)
            if fault is None:
                return _checked(answer)
            self.faults[fault[1]] += 1
            if fault[1] == "crash":
                raise Crash
            second = await self._do(name, f"again {words}", args, kwargs)
            return _checked(second if fault[1] == "lost" else answer)

        return step

    async def _do(self, name: str, words: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
        self.steps[name] += 1
        outcomes = [_outcome(backend, name, args, kwargs) for backend in self._backends.values()]
        answers = dict(zip(self._backends, await asyncio.gather(*outcomes), strict=True))
        if name == "depths":  # who was seen of late is told by the server's own clock, which the test does not move
            answers = {kind: _without_the_seen(answer) for kind, answer in answers.items()}
        if name not in _COUNTS_CONSUMERS:
            self._same_answers(words, answers)
        await self._same(words)
        self.answers.update(f"{name} {kind}" for kind in _kinds(answers["memory"]))
        return answers["memory"]

    def _same_answers(self, words: str, answers: Mapping[str, object]) -> None:
        for kind in self._servers:
            own, other = _told(answers["memory"]), _told(answers[kind])
            if own != other:
                found = "\n".join(differences("", own, other))
                raise Differ(f"{words}: memory and {kind} answer differently:\n{found}")

    async def _same(self, words: str) -> None:
        own = keyspace.of_memory(self._memory.store)
        for kind, place in self._servers.items():
            other = await self._keyspace(place)
            if own != other:
                found = "\n".join(differences("", own, other))
                raise Differ(f"after {words}: memory and {kind} differ:\n{found}")

    async def _keyspace(self, place: StillPlace) -> Keyspace:
        return keyspace.of_server(await place._plain.eval(keyspace.ALL, 0))

    # ---------------------------------------------------------------- what a walk has to know

    async def entries(self, key: str) -> list[tuple[str, dict[bytes, bytes]]]:
        """The entries of a stream; none where there is no stream."""
        return await self._memory.entries(key) if await self.is_stream(key) else []

    async def is_stream(self, key: str) -> bool:
        return await self._memory.type_of(key) == "stream"

    def moment_ms(self) -> int:
        return self.clock.wall_ms()

    def has_group(self, key: str, group: str) -> bool:
        return group in self._memory._stream(key).groups


async def _outcome(backend: Backend, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
    try:
        return await getattr(backend, name)(*args, **kwargs)
    except ReachError as error:
        return error


def _checked(answer: object) -> object:
    if isinstance(answer, ReachError):
        raise answer
    return answer


def _without_the_seen(answer: object) -> object:
    if isinstance(answer, Depths):
        return msgspec.structs.replace(answer, workers=frozenset(), followers=frozenset())
    return answer


def _told(answer: object) -> object:
    """An answer as it is compared: of an error its kind; of a take not its cursors, which say the same of an empty lane in two ways."""
    if isinstance(answer, TakeResult):
        return msgspec.structs.replace(answer, cursors={})
    return type(answer).__name__ if isinstance(answer, ReachError) else answer


def _kinds(answer: object) -> Iterator[str]:
    """What kind of answer it is: what says how far into the rules a walk has come."""
    match answer:
        case RouteResult():
            yield f"{answer.verdict} {answer.known if answer.verdict != 'open' else ''}".strip()
        case CancelResult():
            yield answer.what
        case Guard():
            yield answer.state
        case DueReport():
            yield from (f"{event.what} {event.code}".strip() for event in answer.events)
        case TakeResult():
            yield from ["taken"] * len(answer.taken) + ["expired"] * answer.expired + ["gone"] * answer.gone
        case Over():
            yield answer.what or "counted"
        case RegisterResult():
            yield "ok" if answer.ok else "refused"
        case ReachError():
            yield type(answer).__name__
        case bool() | str():
            yield str(answer) if isinstance(answer, bool) or not answer[:1].isdigit() else "id"
        case list() | set():
            yield from (kind for each in answer for kind in _kinds(each))
        case _:
            pass


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:300]}..."


def differences(path: str, memory: object, real: object) -> Iterator[str]:
    """Where two looks differ, one line for each."""
    if isinstance(memory, msgspec.Struct) and isinstance(real, type(memory)):
        yield from differences(path, msgspec.structs.asdict(memory), msgspec.structs.asdict(real))
    elif isinstance(memory, dict) and isinstance(real, dict):
        for key in sorted(memory.keys() | real.keys(), key=str):
            yield from differences(f"{path}/{key}", memory.get(key), real.get(key))
    elif isinstance(memory, list | tuple) and isinstance(real, list | tuple) and len(memory) == len(real):
        for number, (one, other) in enumerate(zip(memory, real, strict=True)):
            yield from differences(f"{path}/{number}", one, other)
    elif memory != real:
        yield f"{path}: {memory!r} != {real!r}"


__all__ = ["ENV", "KEYS", "Crash", "Differ", "How", "Trio", "differences"]
