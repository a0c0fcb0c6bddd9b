"""What CLIENT LIST says of who stands behind an entry."""

import hashlib

from reach.backend.vouching import name_of, peers_in

NAME = "reach:" + "a" * 64
LINES = f"""id=7 addr=127.0.0.1:40112 laddr=127.0.0.1:6379 fd=8 name={NAME} age=0 idle=0 flags=N db=0 cmd=xadd user=default
id=8 addr=[2001:db8::1]:40113 laddr=[::1]:6379 fd=9 name={NAME} age=0 idle=0 flags=N db=0 cmd=xadd user=default
id=9 addr=/run/my redis.sock:0 laddr=/run/my redis.sock:0 fd=10 name={NAME} age=0 idle=0 flags=U db=0 cmd=xadd user=default
id=10 addr=10.0.0.1:1 laddr=127.0.0.1:6379 fd=11 name= age=0 idle=0 flags=N db=0 cmd=ping user=default
id=11 addr=10.0.0.2:1 laddr=127.0.0.1:6379 fd=11 name=other age=0 idle=0 flags=N db=0 cmd=ping user=default
junk
"""


def test_every_connection_of_a_name_is_found_with_its_address() -> None:
    assert peers_in(LINES, {NAME, "reach:none"}) == {NAME: ["127.0.0.1", "2001:db8::1", "unix"]}
    assert peers_in(LINES, set()) == {}


def test_a_name_is_made_from_the_bytes_of_the_entry() -> None:
    assert name_of(b"{}") == "reach:" + hashlib.sha256(b"{}").hexdigest()
    assert name_of(b"{}") != name_of(b"{ }")
