"""Signed lists for tests, and the keys of three people."""

from dataclasses import replace

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from hubbub.asked.asked_list import AskedList
from hubbub.asked.next_list import draft
from hubbub.asked.signatures import public_hex, sign
from oracles.query import Query
from tests.queries import make_query

PEOPLE = tuple(Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32) for number in range(1, 4))
"""The private keys of three people."""
KEYS = tuple(map(public_hex, PEOPLE))
APPLICATION = "Example Notes"
NOW = 1_800_000_000
DAY = 86_400


def ask(name: str = "saves", **keys) -> Query:
    """Return a query with all texts that a list needs."""
    from datetime import UTC, datetime

    texts = {
        "about": "How often a person saved a document",
        "purpose": "Decide whether saving needs a button",
        "contact": "privacy@example.org",
        "until": datetime.fromtimestamp(NOW + 90 * DAY, UTC),
    }
    return make_query(name=name, **{"domain": ["never", "once", "often"], **texts, **keys})


def make_list(*queries: Query, previous: AskedList | None = None, people=PEOPLE[:2], **changes) -> AskedList:
    """Return a list that these people signed."""
    time_s = NOW if previous is None else previous.made + DAY
    signed_list = draft(
        queries, APPLICATION, previous, time_s=time_s, expires=NOW + 30 * DAY, to_drop=changes.pop("to_drop", ())
    )
    signed_list = replace(signed_list, **changes)
    for person in people:
        signed_list = sign(signed_list, person)
    return signed_list
