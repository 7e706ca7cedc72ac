"""Addresses of clients, also behind proxies. The gateway compares them and never stores them on disk."""

from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from oracles.errors import ParameterError

Networks = tuple[IPv4Network | IPv6Network, ...]
_PREFIXES = (32, 48, 56, 64)
"""Lengths of the prefixes of IPv6 that make the path of an address."""
_PATHS = 16_384
"""Paths in memory, because most callers come again."""


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


@lru_cache(_PATHS)
def network_path(address: str) -> tuple[str, ...]:
    """Return the networks of an address, the widest first. The last one is an IPv4 address or an IPv6 /64.

    >>> network_path("192.0.2.7")
    ('192.0.2.0/24', '192.0.2.7')
    >>> network_path("2001:db8:1:203::4")
    ('2001:db8::/32', '2001:db8:1::/48', '2001:db8:1:200::/56', '2001:db8:1:203::/64')
    """
    number = _address(address)
    if isinstance(number, IPv6Address):
        return tuple(str(IPv6Network((int(number), length), strict=False)) for length in _PREFIXES)
    if number is None:
        return (address,)
    return str(IPv4Network((int(number), 24), strict=False)), str(number)


def contains(proxies: Networks, peer: str) -> bool:
    """Whether a peer is in one of the networks."""
    if not proxies:
        return False
    address = _address(peer)
    return address is not None and any(address in network for network in proxies)


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
