"""`reach token`: registration tokens, for envs that demand them."""

import os
import re
from pathlib import Path

import click

from reach import ids
from reach.cli import edge
from reach.clock import SystemClock
from reach.envelope.token import Claims, issue, unverified
from reach.errors import ConfigError

_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


@click.group()
def token() -> None:
    """Issue registration tokens, and read them."""


@token.command("issue")
@click.option(
    "--env",
    metavar="ENV",
    envvar="REACH_ENV",
    default=ids.DEFAULT_ENV,
    show_default=True,
    help="The only env in which it counts.",
)
@click.option("--agent-id", required=True, help="The agent; `refund-*` is every agent whose id begins so, `*` any.")
@click.option(
    "--capability",
    "capabilities",
    multiple=True,
    help="What it may offer, `a.*` below a; again for more. Without any: anything.",
)
@click.option(
    "--group", "groups", multiple=True, help="Which groups it may be in, `*` any; again for more. Without any: none."
)
@click.option("--expires", default="90d", show_default=True, help="How long it counts: 30m, 12h, 90d; `never`.")
@click.option(
    "--key-file",
    type=click.Path(dir_okay=False),
    help="A file with the key; without it the first key of REACH_TOKEN_KEYS.",
)
def issue_(
    env: str, agent_id: str, capabilities: tuple[str, ...], groups: tuple[str, ...], expires: str, key_file: str | None
) -> int:
    """Print a token. The workers of the env need the same key in REACH_TOKEN_KEYS; it demands tokens with `require_token` in its meta."""
    age_ms = _age_ms(expires)
    claims = Claims(
        env=env,
        agent_id=agent_id,
        capabilities=capabilities or ("*",),
        groups=groups,
        expires_at_ms=SystemClock().wall_ms() + age_ms if age_ms else 0,
    )
    edge.data(issue(_key(key_file), claims))
    return edge.OK


@token.command()
@click.argument("text", metavar="TOKEN")
def show(text: str) -> int:
    """Print what a token claims. Whether a key has signed it is not looked at."""
    claims = unverified(text)
    if claims is None:
        edge.say("reach: that is no token")
        return edge.FAILED
    told = {"env": claims.env, "agent_id": claims.agent_id, "capabilities": claims.capabilities}
    edge.data(edge.as_json({**told, "groups": claims.groups, "expires_at_ms": claims.expires_at_ms or None}))
    return edge.OK


def _age_ms(text: str) -> int:
    if text == "never":
        return 0
    found = re.fullmatch(r"([1-9]\d{0,8})([smhd])", text)
    if found is None:
        raise click.UsageError(f"--expires: {text!r} is no age: say 30m, 12h, 90d or never")
    return int(found[1]) * _UNITS_MS[found[2]]


def _key(key_file: str | None) -> str:
    if key_file is not None:
        try:
            return Path(key_file).read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"the key in {key_file} cannot be read: {error}") from None
    key = os.environ.get("REACH_TOKEN_KEYS", "").partition(",")[0].strip()
    if not key:
        raise ConfigError(
            "no key: say --key-file, or set REACH_TOKEN_KEYS (32 characters or more, such as `openssl rand -hex 32`)"
        )
    return key
