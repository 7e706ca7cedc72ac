"""Gateways that take reports, with the requests of attackers and of honest clients.

The ids of a pane and the memory of a name are scarce too. To fill them an attacker needs valid reports, or a token.
"""

import secrets
import time
from types import SimpleNamespace

import numpy as np

from oracles.frame import encode
from producers.gateway import bodies
from producers.gateway.access.tokens import Account, Tokens, short_lived
from tests.queries import make_query
from tests.unit.test_ports_hostile import gateway

HEAD = b"POST /v1/reports HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/vnd.hubbub.frames\r\n"
CLOSE = b"Connection: close\r\n"
GROUPS = 150
"""Groups of the query. A keyed request may take an id in each."""
QUERY = make_query(
    domain=["a", "b"],
    oracle="grr",
    groups={"site": [f"site-{number}" for number in range(GROUPS)]},
    max_ids=320_000,  # few, so that attackers fill a pane at once
)
MEMORY = 32 << 20
"""Bytes of all bodies of the gateway with tokens. A name has 4 MiB of them, so few connections fill it."""
BODY = 60_000
"""Bytes of a body of which the last one never comes."""
_KEY = bytes(32)
_ACCOUNT = Account("app", keys=(_KEY,))


def with_ids(shares, host):
    return gateway(shares, host=host, queries={"q": QUERY})


def with_tokens(shares, host):
    bodies.MEMORY = MEMORY
    tokens = SimpleNamespace(value=Tokens({"app": _ACCOUNT}))
    return gateway(shares, host=host, queries={"q": QUERY}, tokens=tokens)


def keyed_request():
    """Return a request that takes an id of the present pane in each group."""
    body = b"".join(map(_frame, range(GROUPS)))
    return HEAD + _key() + _content(body)


def keyed_report():
    """Return an honest request with one report and a key."""
    return HEAD + CLOSE + _key() + _content(_frame(0))


def report():
    """Return an honest request with one report and a token of its own."""
    return HEAD + CLOSE + _authorization(_token()) + _content(_frame(0))


def unfinished_request():
    """Return a request with one of a few tokens. The last byte of its body is missing."""
    return HEAD + _authorization(secrets.choice(_STRANGERS)) + _content(bytes(BODY))[:-1]


def _frame(group):
    pane = int(time.time()) // 10 * 10
    return encode(QUERY.digest, pane, np.zeros((1, 1), np.uint8), group=group)


def _key():
    return b"Idempotency-Key: %s\r\n" % secrets.token_hex(16).encode()


def _content(body):
    return b"Content-Length: %d\r\n\r\n" % len(body) + body


def _authorization(token):
    return b"Authorization: Bearer %s\r\n" % token.encode()


def _token():
    return short_lived("app", _KEY, int(time.time()) + 3_600)


_STRANGERS = [_token() for _ in range(16)]
"""Each has 1/8 of the memory of the name, so these have all of it."""
