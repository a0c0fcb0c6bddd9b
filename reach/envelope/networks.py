"""Which addresses may register: the setting `networks` of an env. Pure.

A list of networks with commas between them, `10.0.0.0/8,::1/128`; a single address is a network of one. The word `unix` stands for
connections through a Unix socket, which have no address: they come from the machine of the server itself.
"""

import ipaddress
from collections.abc import Sequence

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
#: How a backend names the other end of a Unix socket.
UNIX = "unix"
MAX_NETWORKS = 1_000


class Networks:
    """What was set; it admits an address or not."""

    def __init__(self, networks: Sequence[Network], *, unix: bool) -> None:
        self._networks, self._unix = tuple(networks), unix

    def admits(self, address: str) -> bool:
        """Whether an address as Redis sees it lies in one of them; what is no address lies in none.

        An IPv4 address that is written as IPv6 (`::ffff:10.0.0.1`) is the IPv4 address.
        """
        if address == UNIX:
            return self._unix
        try:
            found = ipaddress.ip_address(
                address.partition("%")[0]
            )  # an interface (fe80::1%eth0) is the server's own matter
        except ValueError:
            return False
        if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
            found = found.ipv4_mapped
        return any(found.version == network.version and found in network for network in self._networks)


def read_networks(text: str) -> Networks:
    """The networks that a text names.

    Raises:
        ValueError: It names none, or something that is none; all of that at once.
    """
    wrong: list[str] = []
    networks: list[Network] = []
    words = [word.strip() for word in text.split(",")]
    for word in words:
        try:
            if word != UNIX:
                networks.append(_network(word))
        except ValueError as error:
            wrong.append(str(error)[:200])
    if len(words) > MAX_NETWORKS:
        wrong = [f"{len(words)} networks, at most {MAX_NETWORKS}"]
    if wrong:
        raise ValueError("; ".join(wrong[:20]))
    return Networks(networks, unix=UNIX in words)


def problem_of(text: str) -> str | None:
    """What is wrong with the text of the setting; None: nothing."""
    try:
        read_networks(text)
    except ValueError as error:
        return str(error)
    return None


def _network(word: str) -> Network:
    if not word:
        raise ValueError("an empty network between two commas, or none at all")
    network = ipaddress.ip_network(word)  # 10.0.0.1/8 has bits behind the mask: which of both is meant?
    if isinstance(network, ipaddress.IPv6Network) and network.network_address.ipv4_mapped is not None:
        return ipaddress.IPv4Network((network.network_address.ipv4_mapped, network.prefixlen - 96))
    return network
