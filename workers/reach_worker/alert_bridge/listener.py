"""Where Alertmanager posts: `/hooks/alertmanager` for every chat, `/hooks/alertmanager/<name>` for one of them."""

import asyncio
import hmac
from collections.abc import Callable, Mapping
from http import HTTPStatus

import orjson

from reach.log import PacedLog, event_log
from reach_worker.alert_bridge.notification import Notification, NotReadable, read

log = event_log("reach_worker.alert_bridge")

PATH = "/hooks/alertmanager"
MAX_HEAD_BYTES = 16_384
MAX_BODY_BYTES = 4 << 20
REQUEST_TIMEOUT_S = 10.0

#: Takes a notification for all chats (""), or one: False where there is no room. Raises KeyError for a name that there is not.
Take = Callable[[str, Notification], bool]


class Listener:
    """A small HTTP server: one request a connection. `token` "": whoever reaches the port may tell alerts."""

    def __init__(
        self, take: Take, status: Callable[[], Mapping[str, object]], host: str, port: int, token: str
    ) -> None:
        self._take, self._status = take, status
        self._host, self._port = host, port
        self._token = token
        self._server: asyncio.Server | None = None
        self._log = PacedLog(log)

    async def start(self) -> int:
        """Listen; the port. Raises OSError where it cannot."""
        self._server = await asyncio.start_server(self._serve, self._host, self._port, limit=MAX_HEAD_BYTES)
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
                status, body = await self._request(reader)
                writer.write(_response(status, body))
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # who went away, or does not speak HTTP: nobody to tell; Alertmanager tells it again
        finally:
            writer.close()

    async def _request(self, reader: asyncio.StreamReader) -> tuple[HTTPStatus, Mapping[str, object]]:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.split("\r\n")
        method, _, rest = first.partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        if path != PATH and not path.startswith(PATH + "/"):
            return HTTPStatus.NOT_FOUND, {"error": f"there is POST {PATH}"}
        if self._token and not hmac.compare_digest(
            headers.get("authorization", "").encode(), f"Bearer {self._token}".encode()
        ):
            return HTTPStatus.UNAUTHORIZED, {"error": "the bearer token is missing or another one"}
        if method == "GET":
            return HTTPStatus.OK, self._status()
        if method != "POST":
            return HTTPStatus.METHOD_NOT_ALLOWED, {"error": "POST a notification, or GET how the bridge does"}
        length = headers.get("content-length", "")
        if not (length.isascii() and length.isdigit()):
            return HTTPStatus.LENGTH_REQUIRED, {"error": "no content-length"}
        if len(length) > 9 or int(length) > MAX_BODY_BYTES:
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE, {"error": f"more than {MAX_BODY_BYTES} bytes: set max_alerts"}
        return self._taken(path.removeprefix(PATH).strip("/"), await reader.readexactly(int(length)))

    def _taken(self, name: str, body: bytes) -> tuple[HTTPStatus, Mapping[str, object]]:
        try:
            notification = read(body)
            taken = self._take(name, notification)
        except NotReadable as error:
            self._log.warning("alert not readable", of=str(error), why=str(error))
            return HTTPStatus.BAD_REQUEST, {"error": str(error)}
        except KeyError:
            self._log.warning("alert for nobody", of=name, chat=name)
            return HTTPStatus.NOT_FOUND, {"error": "there is no chat of this name", **self._status()}
        if not taken:  # Alertmanager tries again what was answered with 5xx
            return HTTPStatus.SERVICE_UNAVAILABLE, {"error": "too much waits already"}
        return HTTPStatus.OK, {"alerts": len(notification.alerts)}


def _response(status: HTTPStatus, body: Mapping[str, object]) -> bytes:
    content = orjson.dumps(body) + b"\n"
    lines = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n"
        "Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return lines.encode() + content
