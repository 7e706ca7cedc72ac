"""Addresses of clients, also behind proxies. The gateway compares them and never stores them on disk."""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from oracles.errors import ParameterError

Networks = tuple[IPv4Network | IPv6Network, ...]
_PREFIXES = ((64, 1), (56, 4), (48, 16))
"""Lengths of prefixes of IPv6, and how many addresses' share each has."""


def networks(text: str) -> Networks:
    """Parse the networks of trusted proxies, as CIDR,..."""
    try:
        return tuple(ip_network(part.strip()) for part in text.split(",") if part.strip())
    except ValueError as error:
        raise ParameterError(f"networks must be CIDR,... such as 10.0.0.0/8,fd00::/8: {error}") from None


def client(peer: str, headers: Sequence[str], proxies: Networks) -> str:
    """Return the address that a request with these X-Forwarded-For headers counts for.

    This is the peer's address. Behind trusted proxies it is the last address in X-Forwarded-For that is not a trusted
    proxy. Clients can forge all addresses before it. An IPv6 address counts as its /64 network, because a
    household has one.
    """
    if not proxies and ":" not in peer:
        return peer  # nearly all are like this, and parsing is slow
    address = _address(peer)
    hops = [hop for line in headers for hop in line.split(",")]
    while address is not None and hops and any(address in network for network in proxies):
        hop = _address(hops.pop())
        if hop is None:
            break
        address = hop
    if isinstance(address, IPv6Address):
        return str(IPv6Address(int(address) >> 64 << 64))
    return peer if address is None else str(address)


def shares(peer: str, each: int, exempt: Networks = ()) -> dict[str, int]:
    """Return the networks that a peer counts in, the narrowest first, with the limit of each.

    An IPv4 address counts alone, an IPv6 address as its /64 network. A /56 has four times the limit of an address, and
    a /48 sixteen times, because one customer of a provider may have so many /64 networks. Peers in `exempt` have none.

    >>> shares("2001:db8:1:203::4", 64)
    {'2001:db8:1:203::/64': 64, '2001:db8:1:200::/56': 256, '2001:db8:1::/48': 1024}
    """
    if not exempt and ":" not in peer:
        return {peer: each}
    address = _address(peer)
    if address is not None and any(address in network for network in exempt):
        return {}
    if isinstance(address, IPv6Address):
        return {str(IPv6Network((int(address), length), strict=False)): times * each for length, times in _PREFIXES}
    return {str(address or peer): each}


def _address(text: str) -> IPv4Address | IPv6Address | None:
    """Parse an address with or without a port. Return None if it is invalid."""
    text = text.strip().strip('"')
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text)
    except ValueError:
        return None

    # A socket for both families shows IPv4 as ::ffff:1.2.3.4. All such clients would share one /64 network.
    return (isinstance(address, IPv6Address) and address.ipv4_mapped) or address
