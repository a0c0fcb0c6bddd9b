"""Who may register at all: from inside the networks of the env, and with a token that allows what is declared."""

from collections.abc import Awaitable, Callable, Sequence

from reach.envelope import token
from reach.envelope.networks import read_networks
from reach.envelope.registration import Registration
from reach.errors import RegistrationRefused


class Admission:
    """The gate of one registrar. `keys`: those that tokens may be signed with; several while one replaces another."""

    def __init__(
        self,
        env: str,
        keys: Sequence[str],
        demanded: Callable[[], Awaitable[bool]],
        networks: Callable[[], Awaitable[str | None]] | None = None,
    ) -> None:
        """`demanded`: whether the env wants a token (`require_token` in its meta).

        `networks`: from where agents may come, as the env says it; None: from anywhere.
        """
        self._env, self._keys, self._demanded = env, tuple(keys), demanded
        self._networks = networks

    async def check_place(self, where: Callable[[], Awaitable[Sequence[str] | None]]) -> None:
        """Whether it comes from inside. `where`: the addresses of those who vouch for it; asked only where the env has networks.

        Raises:
            RegistrationRefused: `registration.bad_address`.
        """
        text = await self._networks() if self._networks is not None else None
        if text is None:
            return
        try:
            networks = read_networks(text)
        except ValueError as error:
            raise _outside(
                f"the setting networks of env {self._env} cannot be read, so nobody may come in: {error}", ()
            ) from None
        found = await where()
        if found is None:
            return  # a backend without connections
        if not found:
            text = (
                "no connection vouches for this entry: who adds it says CLIENT SETNAME before, see docs/registration.md"
            )
            raise _outside(text, ())
        if not any(networks.admits(address) for address in found):
            raise _outside(
                f"Redis sees it come from {', '.join(found[:5])}, outside the networks of env {self._env}", found
            )

    async def check(self, wanted: Registration, now_ms: Callable[[], Awaitable[int]]) -> None:
        """Let it in, or not.

        Raises:
            RegistrationRefused: `registration.missing_token`, `registration.bad_token`.
            BackendError: It cannot be asked what the env wants.
        """
        claims = await self._claims(wanted.token)
        if claims is not None:
            token.check(claims, wanted, env=self._env, now_ms=await now_ms())

    async def check_agent(self, agent_id: str, shown: str | None, now_ms: Callable[[], Awaitable[int]]) -> None:
        """Whether who shows this may speak for an agent that is in already. Raises as `check`."""
        claims = await self._claims(shown)
        if claims is not None:
            token.check_agent(claims, agent_id, env=self._env, now_ms=await now_ms())

    async def _claims(self, shown: str | None) -> token.Claims | None:
        """What it claims by a key of the env; None: nobody looks at tokens here."""
        demanded = await self._demanded()
        if shown is None:
            if demanded:
                raise RegistrationRefused(f"env {self._env} demands a token", code="registration.missing_token")
            return None
        if self._keys:
            return token.read(shown, self._keys)
        if demanded:
            text = "the worker that registers has no key to judge tokens by: set REACH_TOKEN_KEYS"
            raise RegistrationRefused(text, code="registration.bad_token")
        return None


def _outside(text: str, found: Sequence[str]) -> RegistrationRefused:
    return RegistrationRefused(text, code="registration.bad_address", details={"addresses": list(found[:5])})


async def _never() -> bool:
    return False


OPEN = Admission("", (), _never)
"""Lets everybody in."""
