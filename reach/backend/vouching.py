"""Who stands behind an entry of `control`: the connections that carry its name. So a registrar learns an address that nobody can claim.

Redis does not keep who has added an entry. Whoever adds one first gives its own connection a name that is made from the bytes of that
entry (CLIENT SETNAME); a registrar asks Redis (CLIENT LIST) where the connections of this name come from. A connection vouches for these
bytes alone: one that is inside of a network lends its address to no registration but its own.
"""

import hashlib
import re
from collections.abc import Collection, Iterable

from reach.envelope.networks import UNIX

PREFIX = "reach:"
_LINE = re.compile(r"^id=\d+ addr=(.*?) laddr=.*? name=(\S*) .*? flags=(\w+) ")


def name_of(entry: bytes) -> str:
    """The name that a connection must carry to vouch for this entry."""
    return PREFIX + hashlib.sha256(entry).hexdigest()


def peers_in(client_list: str, names: Collection[str]) -> dict[str, list[str]]:
    """Name -> the addresses of its connections, out of what CLIENT LIST says."""
    found: dict[str, list[str]] = {}
    for address, name in _connections(client_list.splitlines()):
        if name in names:
            found.setdefault(name, []).append(address)
    return found


def _connections(lines: Iterable[str]) -> Iterable[tuple[str, str]]:
    for line in lines:
        match = _LINE.match(line)
        if match is not None:
            # A Unix socket has a path for an address, which engines write differently: the flag says it.
            yield UNIX if "U" in match[3] else match[1].rpartition(":")[0].strip("[]"), match[2]
