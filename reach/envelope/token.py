"""Registration tokens: who may be which agent in which env, until when; signed with a key that only admins and workers have. Pure.

`reach1.<claims>.<signature>`: the claims as JSON and their HMAC-SHA256, both base64url without padding. Whoever holds a token can read it.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterable, Sequence

import msgspec

from reach import ids
from reach.envelope.registration import Registration
from reach.errors import ConfigError, RegistrationRefused

FORM = "reach1"
#: A shorter key can be guessed.
MIN_KEY_CHARS = 32
ANY = "*"


class Claims(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a token allows.

    Attributes:
        env: The only env in which it counts.
        agent_id: The agent; with a `*` at the end every agent whose id begins so.
        capabilities: What it may offer; `a.*` is anything below a, `*` anything.
        groups: Which groups it may be in; `*` any.
        expires_at_ms: Unix ms by the clock of Redis; 0: never.
    """

    env: str
    agent_id: str
    capabilities: tuple[str, ...] = (ANY,)
    groups: tuple[str, ...] = ()
    expires_at_ms: int = 0


_claims = msgspec.json.Decoder(Claims).decode


def issue(key: str, claims: Claims) -> str:
    """A token.

    Raises:
        ConfigError: The key is too short, or a claim is none; `details["problems"]`.
    """
    problems = list(_problems(claims))
    if len(key) < MIN_KEY_CHARS:
        problems.append(f"the key has {len(key)} characters, at least {MIN_KEY_CHARS}")
    if problems:
        raise ConfigError("; ".join(problems), details={"problems": problems})
    body = f"{FORM}.{_encoded(msgspec.json.encode(claims))}"
    return f"{body}.{_signed(key, body)}"


def read(token: str, keys: Iterable[str]) -> Claims:
    """The claims of a token that one of the keys has signed.

    Raises:
        RegistrationRefused: `registration.bad_token`: none of them has, or it is no token.
    """
    body, _, signature = token.rpartition(".")
    form, _, told = body.partition(".")
    if form != FORM or not told or not signature:
        raise _refused("it is no token of this form")
    # Every key is tried, and each comparison takes the same time: how near a guess was must not show.
    matches = [hmac.compare_digest(_signed(key, body).encode(), signature.encode("utf-8", "replace")) for key in keys]
    if not any(matches):
        raise _refused("no key of this env has signed it")
    try:
        return _claims(_decoded(told))
    except (msgspec.DecodeError, binascii.Error, ValueError):
        raise _refused("its claims cannot be read") from None


def unverified(token: str) -> Claims | None:
    """What a token claims, whoever has signed it; None: it is none. Decides nothing."""
    form, _, rest = token.partition(".")
    try:
        return _claims(_decoded(rest.partition(".")[0])) if form == FORM else None
    except (msgspec.DecodeError, binascii.Error, ValueError):
        return None


def check(claims: Claims, wanted: Registration, *, env: str, now_ms: int) -> None:
    """Whether the claims allow this registration.

    Raises:
        RegistrationRefused: `registration.bad_token`, with what they do not allow.
    """
    check_agent(claims, wanted.agent_id, env=env, now_ms=now_ms)
    for what, allowed, names in (
        ("capabilities", claims.capabilities, {one.name for one in wanted.capabilities}),
        ("groups", claims.groups, set(wanted.groups)),
    ):
        beyond = sorted(name for name in names if not any(_covers(may, name) for may in allowed))[:20]
        if beyond:
            raise _refused(f"it does not allow the {what} {', '.join(beyond)}", **{what: beyond})


def check_agent(claims: Claims, agent_id: str, *, env: str, now_ms: int) -> None:
    """Whether the claims allow to be this agent, here and now.

    Raises:
        RegistrationRefused: `registration.bad_token`, with what they do not allow.
    """
    if claims.env != env:
        raise _refused(f"it is for env {claims.env}, this is {env}")
    if claims.expires_at_ms and now_ms >= claims.expires_at_ms:
        raise _refused(f"it expired {(now_ms - claims.expires_at_ms) // 1000} s ago")
    if not _covers(claims.agent_id, agent_id):
        raise _refused(f"it is for agent {claims.agent_id}, not {agent_id[:128]}")


def _covers(allowed: str, name: str) -> bool:
    return name.startswith(allowed[:-1]) if allowed.endswith(ANY) else name == allowed


def _problems(claims: Claims) -> Sequence[str]:
    found = []
    if not ids.is_env(claims.env):
        found.append(f"env: {claims.env[:64]!r} is none")
    if not claims.agent_id or (claims.agent_id != ANY and not ids.is_name(claims.agent_id.removesuffix(ANY))):
        found.append(f"agent_id: {claims.agent_id[:128]!r} is no agent_id, nor the beginning of one with a * behind it")
    if not claims.capabilities:
        found.append("capabilities: none; * allows any")
    found += [
        f"capabilities: {name[:128]!r} is no capability"
        for name in claims.capabilities
        if name != ANY and not ids.is_token(name.removesuffix(".*"))
    ]
    found += [
        f"groups: {name[:128]!r} is no group, nor the beginning of one with a * behind it"
        for name in claims.groups
        if name != ANY and not ids.is_name(name.removesuffix(ANY))
    ]
    if claims.expires_at_ms < 0:
        found.append("expires_at_ms: below 0")
    return found


def _signed(key: str, body: str) -> str:
    return _encoded(hmac.new(key.encode(), body.encode("utf-8", "replace"), hashlib.sha256).digest())


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _refused(why: str, **details: object) -> RegistrationRefused:
    return RegistrationRefused(
        f"token: {why}",
        code="registration.bad_token",
        details={"problems": [{"field": "token", "message": why}], **details},
    )
