"""One port in a process of its own, so that attackers and honest clients share no event loop with it.

python -m tests.hostile.port gateway 1000     prints the port number, and serves until its standard input ends
"""

import asyncio
import ssl
import sys

import trustme

from hubbub.http.port_shares import PortShares
from oracles.errors import ParameterError
from tests.hostile import reports
from tests.hostile.namespace import is_in_namespace
from tests.unit.test_ports_hostile import PORTS, gateway

ATTEMPTS = 50
"""Numbers that a port tries. A connection of an earlier attacker may still have one."""


def with_tls(shares, host):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    return gateway(shares, context, host)


MORE_PORTS = {
    "gateway with TLS": with_tls,
    "gateway with ids": reports.with_ids,
    "gateway with tokens": reports.with_tokens,
}


async def serve(name, places):
    port = (PORTS | MORE_PORTS)[name]
    # A namespace has the loopback device alone, so there a port may listen on all addresses of both families.
    host = "" if is_in_namespace() else "127.0.0.1"
    for _ in range(ATTEMPTS):
        try:
            async with port(PortShares(places), host=host) as (_, number):
                sys.stdout.write(f"{number}\n")
                sys.stdout.flush()
                await asyncio.to_thread(sys.stdin.read)
                return
        except ParameterError:  # the number is free with IPv4 alone
            continue


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], int(sys.argv[2])))
