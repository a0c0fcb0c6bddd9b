"""What tells one policy from another in hop records. Pure."""

import hashlib
from typing import Final

from reach.envelope.records import decode_policy
from reach.errors import RecordError

#: Nothing that can be read is stored: the default holds.
NO_POLICY: Final = "none"


def policy_digest(data: bytes) -> str:
    """16 hex digits of its bytes; NO_POLICY where routers cannot read it, and go by the default."""
    try:
        decode_policy(data)
    except RecordError:
        return NO_POLICY
    return hashlib.sha256(data).hexdigest()[:16]
