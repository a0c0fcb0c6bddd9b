"""One HTTP connection to Elasticsearch or OpenSearch, used from threads, one request at a time."""

import asyncio
import base64
import http.client
import ssl
import threading
from collections.abc import Mapping
from typing import Any

import msgspec

from reach.errors import ConfigError
from reach.events.store import StoreUnavailable
from reach.settings import secret_of

TIMEOUT_S = 20.0
MAX_ANSWER_BYTES = 64 << 20


class Answer(msgspec.Struct, frozen=True):
    """What came back. `told`: its JSON object, {} where it is none."""

    status: int
    told: dict[str, Any]
    retry_after_s: float = 0.0

    @property
    def error_type(self) -> str:
        """As the server names it; "" where nothing went wrong."""
        error = self.told.get("error")
        return str(error.get("type", "")) if isinstance(error, dict) else ""

    @property
    def reason(self) -> str:
        """What went wrong, for people."""
        error = self.told.get("error")
        return str(error.get("reason", "") if isinstance(error, dict) else error or "")[:300]


class Connection:
    """Opened with the first request, and again after it was lost. The credentials are in no error and no log."""

    def __init__(self, scheme: str, host: str, port: int, environ: Mapping[str, str]) -> None:
        """Raises ConfigError for a key that no header may have."""
        self._scheme, self._host, self._port = scheme, host, port
        self._headers = {"Accept": "application/json", "Connection": "keep-alive", **_authorization(environ)}
        self._open: http.client.HTTPConnection | None = None
        self._alone = threading.Lock()

    async def ask(self, method: str, path: str, body: bytes | None = None, kind: str = "application/json") -> Answer:
        """One request and its answer, whatever its status.

        Raises:
            StoreUnavailable: None came. It may have been done all the same.
        """
        return await asyncio.to_thread(self._ask, method, path, body, kind)

    async def close(self) -> None:
        """Twice is once."""
        await asyncio.to_thread(self._shut)

    def _shut(self) -> None:
        with self._alone:
            self._drop()

    def _ask(self, method: str, path: str, body: bytes | None, kind: str) -> Answer:
        headers = {**self._headers, **({"Content-Type": kind} if body is not None else {})}
        with self._alone:
            for fresh in (self._open is None, True):
                try:
                    return self._attempt(method, path, body, headers)
                except (OSError, http.client.HTTPException) as error:
                    self._drop()
                    # One that was kept open may have been closed at the other end meanwhile: that says nothing about the server.
                    if fresh or isinstance(error, TimeoutError):
                        text = f"event store {self._host}:{self._port}: {type(error).__name__}: {error}"
                        raise StoreUnavailable(text) from error
        raise AssertionError("unreachable")

    def _attempt(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        if self._open is None:
            if self._scheme == "https":
                context = ssl.create_default_context()
                self._open = http.client.HTTPSConnection(self._host, self._port, timeout=TIMEOUT_S, context=context)
            else:
                self._open = http.client.HTTPConnection(self._host, self._port, timeout=TIMEOUT_S)
        self._open.request(method, path, body, dict(headers))
        response = self._open.getresponse()
        data = response.read(MAX_ANSWER_BYTES + 1)
        if len(data) > MAX_ANSWER_BYTES:
            raise http.client.HTTPException("an answer of more than 64 MiB")
        return Answer(response.status, _object(data), _seconds(response.headers.get("Retry-After", "")))

    def _drop(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None


def _authorization(environ: Mapping[str, str]) -> dict[str, str]:
    try:
        key = secret_of(environ.get("ELASTIC_API_KEY", ""))
    except ValueError as error:
        raise ConfigError(f"ELASTIC_API_KEY {error}") from None
    user = environ.get("ELASTIC_USERNAME")
    if key:
        return {"Authorization": f"ApiKey {key}"}
    if user:
        pair = f"{user}:{environ.get('ELASTIC_PASSWORD', '')}".encode()
        return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}
    return {}


def _object(data: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {"error": data[:200].decode("utf-8", "replace")}  # a proxy in front of it, perhaps


def _seconds(text: str) -> float:
    return float(text) if text.isascii() and text.isdigit() else 0.0
