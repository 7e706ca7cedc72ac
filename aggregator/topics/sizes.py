"""How large records can become: what each topic must take for the queries of a file, and no more.

Services that run Kafka cap `max.message.bytes` far below what its own brokers take, so nobody is asked for
more than can come. A query that is added later may need more: `hubbub topics` is run again then.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from hubbub.definitions import Definitions, changes
from oracles.query import File, Query
from oracles.query.domain import Domain
from oracles.query.footprint import INTEGER, state_bytes

LARGEST = 64 << 20
"""Bytes asked for where no query file says less, and the most that is ever written or read."""
LEAST = 1 << 20
"""Kafka's own default is a little more, so nobody caps it lower."""
ENVELOPE = 64 << 10
"""Bytes that a batch, a key, and all that stands beside integers and values add."""
NUMBER = 22
"""Bytes of a number in JSON, with its comma."""
HITTER = 170
"""Bytes of a heavy hitter in JSON, without its name."""
SET = 250
"""Bytes of a set, likewise."""
PROVED = 1_000
"""Values that a record can hold beyond `publish` since they are proved: fewer than one by the least share there is."""


@dataclass(frozen=True)
class Sizes:
    """Bytes of the largest record of each kind of topic."""

    tallies: int = LARGEST
    """Tallies, snapshots, and what windows go on from."""
    definitions: int = LARGEST
    estimates: int = LARGEST
    truth: int = LARGEST


def sizes(queries: Collection[Query]) -> Sizes:
    """The sizes that these queries need."""
    writes = changes(File({query.name: query for query in queries}), Definitions(), (), "0" * 16).writes
    return Sizes(
        tallies=_most(_tally_bytes(query) for query in queries),
        definitions=_most([sum(len(key) + len(value) + 1000 for key, value in writes)]),
        estimates=_most(_estimate_bytes(query) for query in queries),
        truth=_most(NUMBER * sum(domain.size for domain in query.domains) for query in queries),
    )


def _most(found: Iterable[int]) -> int:
    return min(LARGEST, max(LEAST, ENVELOPE + max(found, default=0)))


def _tally_bytes(query: Query) -> int:
    """A tally, or the state of a window and of the alerts that it brings."""
    cells, values = query.oracle.state_size, sum(domain.size for domain in query.domains)
    sampled = len(query.attributes) if query.solution == "smp" else 1
    shown = sampled if query.crowd > 1 else 0
    states = [state_bytes(window, cells, values, shown) for window in query.windows]
    alerts = sum(min(domain.size, PROVED) * (_name_bytes(domain) + 4 * NUMBER) for domain in query.domains)
    return max(INTEGER * cells, alerts + max(states))


def _estimate_bytes(query: Query) -> int:
    """A record of one attribute with all the values that it can name."""
    return max(_record_bytes(query, domain) for domain in query.domains)


def _record_bytes(query: Query, domain: Domain) -> int:
    values = domain.size if query.publish is None else min(domain.size, query.publish + PROVED)
    methods = 1 + len(query.methods)
    numbers = NUMBER * (3 + methods) + _name_bytes(domain)  # stderr, low and high, and a share of each method
    hitters = methods * min(domain.size, PROVED) * (HITTER + _name_bytes(domain))
    sets = query.sets or tuple(pair for attribute in query.attributes for pair in attribute.sets)
    return values * numbers + hitters + sum(SET + NUMBER * methods + len(name) for name, _ in sets)


def _name_bytes(domain: Domain) -> int:
    """Bytes of the longest value's name in JSON, where each may become six."""
    longest = max(map(len, domain.values), default=0) if domain.values else len(str(domain.size))
    return 6 * longest + 3 if domain.values else longest + 3
