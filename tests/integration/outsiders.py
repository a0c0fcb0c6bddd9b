"""Somebody without an SDK at a socket of its own, from an address that the test chooses: what a stranger can do by hand."""

import asyncio
import json
import uuid
from types import TracebackType
from typing import Any, Self

from redis.asyncio.connection import Connection, UnixDomainSocketConnection

from reach.backend.vouching import name_of


class _From(Connection):
    """A connection from one of the addresses of this machine."""

    def __init__(self, *, source: str, **options: Any) -> None:
        super().__init__(**options)
        self._source = source

    async def _connect(self) -> None:
        self._reader, self._writer = await asyncio.open_connection(self.host, self.port, local_addr=(self._source, 0))


class Outsider:
    """`async with Outsider(port=..., source="127.0.0.2") as one: await one.ask({...})`."""

    def __init__(
        self, *, port: int = 0, host: str = "127.0.0.1", source: str = "127.0.0.1", path: str = "", env: str = "dev"
    ) -> None:
        """`path`: of a Unix socket, instead of host and port."""
        self._box = f"outsider.{uuid.uuid4().hex}"
        self._env = env
        self._wire: Connection | UnixDomainSocketConnection
        if path:
            self._wire = UnixDomainSocketConnection(path=path, protocol=2)
        else:
            self._wire = _From(host=host, port=port, source=source, protocol=2)

    async def __aenter__(self) -> Self:
        await self._wire.connect()  # type: ignore[no-untyped-call]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._wire.disconnect()

    async def __call__(self, *command: str | bytes | int) -> Any:
        """Run one command; what Redis refuses is raised."""
        await self._wire.send_command(*command)
        return await self._wire.read_response()

    async def ask(self, fields: dict[str, Any], *, vouch: bool = True) -> dict[str, Any]:
        """Put an entry into `control`, and give the answer. `vouch`: with the name of the connection that goes with it."""
        return await self.put(self.entry(fields), vouch=vouch)

    def entry(self, fields: dict[str, Any]) -> bytes:
        """An entry of control, as bytes, that is answered to this one."""
        return json.dumps({"reply_to": self._box, **fields}).encode()

    async def put(self, entry: bytes, *, vouch: bool = True) -> dict[str, Any]:
        """As `ask`, with the bytes of the entry."""
        mail = f"reach:{{{self._env}.0}}:mail:{self._box}"
        hello = await self("XADD", mail, "MAXLEN", "~", 1000, "*", "hello", 1)
        await self("PEXPIRE", mail, 60_000)
        if vouch:
            await self("CLIENT", "SETNAME", name_of(entry))
        await self("XADD", f"reach:{{{self._env}}}:control", "*", "c", entry)
        found = await self("XREAD", "BLOCK", 10_000, "STREAMS", mail, hello)
        assert found, "no answer within 10 s"
        answer: dict[str, Any] = json.loads(dict(zip(*[iter(found[0][1][0][1])] * 2, strict=True))[b"n"])
        return answer

    async def registered(self) -> set[str]:
        """Who stands in the table of the env."""
        flat = await self("HGETALL", f"reach:{{{self._env}}}:agents")
        found = dict(zip(flat[::2], flat[1::2], strict=True))
        return {name.decode() for name, data in found.items() if not data.startswith(b'{"gone_at"')}
