"""What an admin hands over as Python, as the JSON that is stored."""

from collections.abc import Mapping
from typing import Any

import msgspec

from reach.errors import ConfigError


def as_json(told: Mapping[str, Any]) -> bytes:
    """The same as JSON.

    Raises:
        ConfigError: It is no mapping, or something in it has no JSON.
    """
    if not isinstance(told, Mapping):
        raise ConfigError(f"neither JSON as bytes nor a mapping, but {type(told).__name__}")
    try:
        return msgspec.json.encode(dict(told))
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(f"this cannot be written as JSON: {error}") from error
