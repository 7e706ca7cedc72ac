"""The sizes of the largest records that the topics must accept for the queries of a file.

Kafka services limit `max.message.bytes` far more than Kafka itself does, and `hubbub topics` asks for
no more than the queries need. After a query is added, run `hubbub topics` again.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from aggregator.records.maps_record import largest_maps
from aggregator.records.size import ENVELOPE, RECORD
from hubbub.definitions.catalog import Definitions, changes
from hubbub.kafka.settings import LARGEST
from oracles.query import File, Query
from oracles.query.domain import Domain
from oracles.query.footprint import INTEGER, tally_size

LEAST = 1 << 20
"""The least size in bytes. Kafka's default is a little more, so no service has a lower limit."""
NUMBER = 22
"""The bytes of a number in JSON, with its comma."""
HITTER = 170
"""The bytes of a heavy hitter in JSON, without its name."""
SET = 250
"""The bytes of a set in JSON, without its name."""


@dataclass(frozen=True)
class Sizes:
    """The bytes of the largest record of each kind of topic."""

    tallies: int = LARGEST
    """The largest tally, snapshot or block. A larger state is split into parts of less than `LEAST` bytes."""
    definitions: int = LARGEST
    estimates: int = LARGEST
    maps: int = LARGEST
    truth: int = LARGEST


def sizes(queries: Collection[Query]) -> Sizes:
    """Return the sizes that these queries need."""
    writes = changes(File({query.name: query for query in queries}), Definitions(), (), "0" * 16).writes
    return Sizes(
        tallies=_most(INTEGER * tally_size(query) for query in queries),
        definitions=_most([sum(len(key) + len(value) + 1000 for key, value in writes)]),
        estimates=min(RECORD, _most(_estimate_bytes(query) for query in queries)),
        maps=_most(largest_maps(query) for query in queries),
        truth=_most(NUMBER * sum(domain.size for domain in query.domains) for query in queries),
    )


def _most(lengths: Iterable[int]) -> int:
    return min(LARGEST, max(LEAST, ENVELOPE + max(lengths, default=0)))


def _estimate_bytes(query: Query) -> int:
    """Return the bytes of the largest record of one attribute."""
    return max(_record_bytes(query, domain) for domain in query.domains)


def _record_bytes(query: Query, domain: Domain) -> int:
    values = domain.size  # every value may be proved
    methods = 1 + len(query.methods)
    columns = 3 + methods  # stderr, low and high, and a share of each method
    if query.weights:
        columns *= 2
    numbers = NUMBER * columns + domain.name_bytes
    hitters = methods * values * (HITTER + domain.name_bytes)
    sets = list(query.sets)
    if not sets:
        for attribute in query.attributes:
            sets += attribute.sets
    return values * numbers + hitters + sum(SET + NUMBER * methods + len(name) for name, _ in sets)
