"""Who may register at all: where the env demands a token, or one is shown, it must allow what is declared."""

from collections.abc import Awaitable, Callable, Sequence

from reach.envelope import token
from reach.envelope.registration import Registration
from reach.errors import RegistrationRefused


class Admission:
    """The gate of one registrar. `keys`: those that tokens may be signed with; several while one replaces another."""

    def __init__(self, env: str, keys: Sequence[str], demanded: Callable[[], Awaitable[bool]]) -> None:
        """`demanded`: whether the env wants a token (`require_token` in its meta)."""
        self._env, self._keys, self._demanded = env, tuple(keys), demanded

    async def check(self, wanted: Registration, now_ms: Callable[[], Awaitable[int]]) -> None:
        """Let it in, or not.

        Raises:
            RegistrationRefused: `registration.missing_token`, `registration.bad_token`.
            BackendError: It cannot be asked what the env wants.
        """
        demanded = await self._demanded()
        if wanted.token is None:
            if demanded:
                raise RegistrationRefused(f"env {self._env} demands a token", code="registration.missing_token")
            return
        if self._keys:
            claims = token.read(wanted.token, self._keys)
            token.check(claims, wanted, env=self._env, now_ms=await now_ms())
        elif demanded:
            text = "the worker that registers has no key to judge tokens by: set REACH_TOKEN_KEYS"
            raise RegistrationRefused(text, code="registration.bad_token")


async def _never() -> bool:
    return False


OPEN = Admission("", (), _never)
"""Lets everybody in."""
