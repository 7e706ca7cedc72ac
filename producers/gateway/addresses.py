"""Addresses of clients, seen through proxies: never written, only compared."""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from oracles.errors import ParameterError

Networks = tuple[IPv4Network | IPv6Network, ...]


def networks(text: str) -> Networks:
    """CIDR,... of the proxies that are trusted."""
    try:
        return tuple(ip_network(part.strip()) for part in text.split(",") if part.strip())
    except ValueError as error:
        raise ParameterError(f"networks are CIDR,... such as 10.0.0.0/8,fd00::/8: {error}") from None


def client(peer: str, forwarded: Sequence[str], trusted: Networks) -> str:
    """Whom a request counts for: the peer or, behind trusted proxies, the last address that is none of theirs.

    Of X-Forwarded-For only what a trusted proxy appended is believed: the rest is whatever a client
    wrote. Of IPv6 the network of 64 bits counts, which is what one household has.
    """
    if not trusted and ":" not in peer:
        return peer  # as nearly all are, and parsing takes long
    address = _address(peer)
    hops = [hop for line in forwarded for hop in line.split(",")]
    while address is not None and hops and any(address in network for network in trusted):
        hop = _address(hops.pop())
        if hop is None:
            break
        address = hop
    if isinstance(address, IPv6Address):
        return str(IPv6Address(int(address) >> 64 << 64))
    return peer if address is None else str(address)


def _address(text: str) -> IPv4Address | IPv6Address | None:
    """An address, which may have a port; None where it is none."""
    text = text.strip().strip('"')
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return (isinstance(address, IPv6Address) and address.ipv4_mapped) or address
