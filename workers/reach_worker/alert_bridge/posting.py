"""A POST of JSON over HTTP or HTTPS, through the proxy of the environment, in a thread: bounded in time and in what is read."""

import asyncio
import http.client
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable
from typing import IO, Any

from reach_worker.alert_bridge.chats.port import Outgoing, Reply

Post = Callable[[Outgoing], Awaitable[Reply]]

TIMEOUT_S = 5.0
MAX_ANSWER_BYTES = 65_536
MAX_RETRY_AFTER_S = 600


class NotPosted(Exception):
    """Nothing came back. Its text never has the address, which is a secret."""


async def post(outgoing: Outgoing) -> Reply:
    """Send it and read the answer, whatever its status.

    Raises:
        NotPosted: Nobody answered: not reachable, too slow, no HTTP.
    """
    return await asyncio.to_thread(_post, outgoing)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would turn the POST into a GET, and take the key elsewhere."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _post(outgoing: Outgoing) -> Reply:
    request = urllib.request.Request(  # noqa: S310 - the scheme was checked where the target was read
        outgoing.url, data=outgoing.body, headers={"Content-Type": "application/json"}, method="POST"
    )
    try:
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=TIMEOUT_S) as answer:
            return _reply(answer.status, answer, answer.headers.get("Retry-After"))
    except urllib.error.HTTPError as error:
        with error:
            return _reply(error.code, error, error.headers.get("Retry-After"))
    except urllib.error.URLError as error:
        raise NotPosted(_named(error.reason)) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise NotPosted(_named(error)) from None


def _reply(status: int, answer: IO[bytes], retry_after: str | None) -> Reply:
    seconds = int(retry_after) if retry_after is not None and retry_after.isascii() and retry_after.isdigit() else 0
    return Reply(status, answer.read(MAX_ANSWER_BYTES), min(seconds, MAX_RETRY_AFTER_S) * 1000)


def _named(error: object) -> str:
    """The kind of an error, and what the system says of it; the text of others may have the address in it."""
    if isinstance(error, OSError) and error.strerror:
        return f"{type(error).__name__}: {error.strerror}"
    return type(error).__name__
