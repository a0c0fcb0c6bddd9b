"""A few pages over plain HTTP, for probes and scrapers: GET and HEAD, one request a connection, no dependency."""

import asyncio
from collections.abc import Callable, Mapping
from typing import NamedTuple

MAX_REQUEST_BYTES = 8_192
REQUEST_TIMEOUT_S = 5.0


class Page(NamedTuple):
    """An answer."""

    status: str
    content_type: str
    content: bytes


Answerer = Callable[[bytes], Page]
"""Answers a request, of which it sees the head. It must not wait."""


def header(head: bytes, name: str) -> str:
    """The value of a header, "" where there is none."""
    for line in head.split(b"\r\n")[1:]:
        field, colon, value = line.decode("latin-1").partition(":")
        if colon and field.strip().lower() == name:
            return value.strip()
    return ""


class PageServer:
    """Serves pages by path, which may still be added while it runs."""

    def __init__(self, pages: Mapping[str, Answerer], host: str, port: int) -> None:
        self._pages = pages
        self._host, self._port = host, port
        self._server: asyncio.Server | None = None

    async def start(self) -> int:
        """Listen; the port. Raises OSError where it cannot."""
        self._server = await asyncio.start_server(self._serve, self._host, self._port, limit=MAX_REQUEST_BYTES)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def stop(self) -> None:
        """Listen no more. Twice is once."""
        if self._server is not None:
            self._server.close()
            self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(self.answer(head))
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a probe that went away, or something that does not speak HTTP: nobody to tell
        finally:
            writer.close()

    def answer(self, head: bytes) -> bytes:
        """The response to a request's head."""
        method, _, rest = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        page = self._pages.get(path)
        if method not in {"GET", "HEAD"}:
            found = _json("405 Method Not Allowed", "only GET and HEAD")
        elif page is None:
            there = [*sorted(self._pages)]
            found = _json("404 Not Found", f"there are {', '.join(there[:-1])} and {there[-1]}" if there else "nothing")
        else:
            found = page(head)
        lines = (
            f"HTTP/1.1 {found.status}\r\nContent-Type: {found.content_type}\r\nContent-Length: {len(found.content)}\r\n"
            "Cache-Control: no-store\r\nConnection: close\r\n\r\n"
        )
        return lines.encode() + (b"" if method == "HEAD" else found.content)


def _json(status: str, text: str) -> Page:
    return Page(status, "application/json", b'{"status":"' + text.encode() + b'"}\n')
