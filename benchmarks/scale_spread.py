"""Queries on a partition, load of workers, and queries that one part of an installation holds, by `spread`.

The digests are random, and the bytes of the queries fall like Zipf's law. No clock is read, so all runs are alike.
"""

import math

import numpy as np

from aggregator.counting.assignment import Claim, assign
from aggregator.tallies.keys import home
from benchmarks.harness import show, table_of
from oracles.frame import slots
from oracles.types import Floats

PARTITIONS = 1_000
QUERIES = 3_000
WORKERS = 100
LEAST_SPREAD = 8
PART = 8
"""A slot gets at most this part, one in eight, of an average partition's bytes from one query."""


def advised_spread(share: float) -> int:
    """Return the spread with which no slot gets more than an eighth of an average partition from the query."""
    return min(PARTITIONS, max(LEAST_SPREAD, math.ceil(PART * PARTITIONS * share)))


def spread() -> None:
    """Print the figures with `spread` as advised, with 8 for all queries, and with all partitions."""
    rng = np.random.default_rng(51)
    digests = [rng.bytes(8) for _ in range(QUERIES)]
    shares = 1.0 / np.arange(1, QUERIES + 1)
    shares /= shares.sum()
    owners = assign({f"worker-{number:03}": Claim() for number in range(WORKERS)}, PARTITIONS)

    advised = [advised_spread(share) for share in shares.tolist()]
    rows = [_row("as advised", digests, shares, advised, owners)]
    rows.append(_row("8", digests, shares, [LEAST_SPREAD] * QUERIES, owners))
    rows.append(_row("all", digests, shares, [PARTITIONS] * QUERIES, owners))
    heads = (
        "spread",
        "queries on a partition",
        "largest load of a worker / mean",
        "queries with a slot on a partition",
        "on a slot beside those of a home",
        "on a worker",
    )
    show(table_of(heads, rows))


def _row(
    name: str, digests: list[bytes], shares: Floats, spreads: list[int], owners: dict[str, list[int]]
) -> tuple[str, ...]:
    holds = np.zeros((len(digests), PARTITIONS), np.bool_)
    loads = np.zeros(PARTITIONS)
    for query, (digest, count) in enumerate(zip(digests, spreads, strict=True)):
        own = list(slots(digest, count, PARTITIONS))
        holds[query, own] = True
        loads[own] += shares[query] / count

    worker_loads = np.array([loads[own].sum() for own in owners.values()])
    on_partition = holds.mean(axis=0)
    by_worker = [holds[:, own].any(axis=1).mean() for own in owners.values()]
    # A home without a leader takes no snapshot, so the clocks of all slots of its queries stand still.
    by_home = []
    homes = np.array([home(digest, PARTITIONS) for digest in digests])
    for partition in range(PARTITIONS):
        still = holds[homes == partition].any(axis=0)
        by_home.append(holds[:, still].any(axis=1).mean())
    return (
        name,
        f"{holds.sum(axis=0).mean():.1f}",
        f"{worker_loads.max() / worker_loads.mean():.2f}",
        f"{on_partition.mean():.1%}, at most {on_partition.max():.1%}",
        f"{np.mean(by_home):.1%}, at most {max(by_home):.1%}",
        f"{np.mean(by_worker):.1%}, at most {max(by_worker):.1%}",
    )
