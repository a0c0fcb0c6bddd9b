"""The grammar of every identifier, and the makers of new ones (PROTOCOL, section 2).

`fullmatch` throughout: `$` would let a trailing newline pass into a key.
"""

import os
import re
from collections.abc import Callable

import uuid_utils

RandomBytes = Callable[[int], bytes]

NAME_MAX = 128
TOKEN_MAX = 128
TEXT_MAX = 256
#: what a double, and so Lua and JSON elsewhere, holds to the last digit
MAX_DIGITS = 15
DEFAULT_ENV = "dev"

_ENV = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_TOKEN = re.compile(r"[a-z0-9][a-z0-9_-]*(?:\.[a-z0-9][a-z0-9_-]*)*")
_SCHEMA = re.compile(r"[a-z0-9][a-z0-9_-]*(?:\.[a-z0-9][a-z0-9_-]*)*\.v[0-9]+")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
#: how the mailbox ids of those end who record what is delivered there
_RECORDS = ".r"
_TEMPLATE_INSTANCE = re.compile(r"[._-]?\{instance\}")

_ENV_MATCH, _NAME_MATCH, _UUID_MATCH = _ENV.fullmatch, _NAME.fullmatch, _UUID.fullmatch
_TOKEN_MATCH, _SCHEMA_MATCH = _TOKEN.fullmatch, _SCHEMA.fullmatch


def is_env(text: str) -> bool:
    """Whether this names an environment: lower case, no dot (a dot would open another hash tag)."""
    return _ENV_MATCH(text) is not None


def is_name(text: str) -> bool:
    """Whether this is an agent_id, instance_id, node_id, group, mailbox or zone."""
    return _NAME_MATCH(text) is not None


def is_token(text: str) -> bool:
    """Whether this is a capability or a type: dotted lower-case tokens, at most 128 characters."""
    return len(text) <= TOKEN_MAX and _TOKEN_MATCH(text) is not None


def is_schema(text: str) -> bool:
    """Whether this is a schema's name: a token that ends in `.v<N>`."""
    return len(text) <= TOKEN_MAX and _SCHEMA_MATCH(text) is not None


def is_uuid(text: str) -> bool:
    """Whether this is a canonical lower-case UUID of any version."""
    return _UUID_MATCH(text) is not None


def is_key(text: str) -> bool:
    """Whether this can be a caller's own id (key, task_id): any text of 1 to 256 characters."""
    return 0 < len(text) <= TEXT_MAX


def is_printable(text: str) -> bool:
    """Whether this can be a correlation_id or order_key: 1 to 256 printable characters."""
    return 0 < len(text) <= TEXT_MAX and text.isprintable()


def new_msg_id() -> str:
    """A new message id: UUID version 7, so that ids made later sort later."""
    return str(uuid_utils.uuid7())


def new_mailbox_id(agent_id: str | None = None, *, random: RandomBytes = os.urandom) -> str:
    """A new mailbox id with 96 random bits: who cannot guess it cannot read it. Its owner records what is delivered there."""
    return f"{(agent_id or 'mail')[: NAME_MAX - 27]}.{random(12).hex()}{_RECORDS}"


def records_deliveries(mailbox: str) -> bool:
    """Whether the owner of a mailbox writes a hop record for what it finds there, as its id says; else whoever ends a leg does."""
    return mailbox.endswith(_RECORDS)


def new_instance_id(node_id: str, started_at_ms: int, *, random: RandomBytes = os.urandom) -> str:
    """A new instance id: node, moment of start, randomness. No two starts share one, even on one node in one ms."""
    return f"{node_id[: NAME_MAX - 30]}-{started_at_ms:x}-{random(6).hex()}"


def stable_name(template: str) -> str:
    """An agent_id template without `{instance}` and the separator left hanging: `refund-{instance}` -> `refund`."""
    return _TEMPLATE_INSTANCE.sub("", template).strip("._-")


def stream_id(text: str | bytes) -> tuple[int, int]:
    """The ms and the number of a stream entry's id; as text they do not sort. `5` is `5-0`.

    Raises:
        ValueError: It is no id.
    """
    ms, dash, number = (text.decode("ascii", "replace") if isinstance(text, bytes) else text).partition("-")
    if not (_is_digits(ms) and (_is_digits(number) or not dash)):
        raise ValueError(f"not a stream id: {text!r}")
    return int(ms), int(number or 0)


def _is_digits(text: str) -> bool:
    return 0 < len(text) <= 20 and text.isascii() and text.isdigit()  # 20: what 64 bits have at most


def count_of(text: str | bytes) -> int | None:
    """The whole number from 0 that stands in a field of Redis, where anybody may write; None for what is none, or over 15 digits."""
    number = text.decode("ascii", "replace") if isinstance(text, bytes) else text
    return int(number) if len(number) <= MAX_DIGITS and number.isascii() and number.isdigit() else None
