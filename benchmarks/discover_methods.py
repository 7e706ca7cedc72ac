"""Other ways to find unknown strings, for crowds of `discover_crowd`: PEM and SFP.

Both get the same clients, epsilon and reports. They hash prefixes with a hash of each client's own (olh), so that other
strings add noise and no collisions. Their counts are drawn like those of reports.
"""

import numpy as np

from benchmarks.discover_crowd import Crowd
from oracles.discover.cell_hash import LEVEL_SLOTS, MAP_SLOTS, MAPS
from oracles.kernels.tails import binomial_tail
from oracles.mechanisms import fitted
from oracles.mechanisms.protocol import Oracle
from oracles.types import Floats, Ints

PEM_KEPT, LISTED = 64, 32
HASHES = 256
"""Values of SFP's hash of the whole string, which joins its fragments."""
FRAGMENT_ERROR = 0.5
"""Expected number of false fragments of a position."""
MOST_JOINED = 4_096
"""Most partial strings that SFP keeps for one hash."""
FAMILY_ERROR = 0.05


def pem(crowd: Crowd, n: int, epsilon: float, rng: np.random.Generator) -> list[str]:
    """Return 32 strings by PEM (Wang, Li and Jha 2018): groups of clients report prefixes, and the best 64 go on.

    It tests nothing, so it always lists 32.
    """
    strings, cell = crowd.strings, fitted("auto", epsilon, 1 << 16, None)
    groups = _split(crowd.people(n, rng), rng.multinomial(n, [1 / strings.levels] * strings.levels).tolist(), rng)
    rows: Ints = np.zeros((1, 0), np.int64)
    scores: Floats = np.zeros(1)
    for level, holders in enumerate(groups):
        rows = _children(crowd, level, rows)
        cell_holders = _holders(crowd, rows, holders, level + 1)
        scores = _counts(cell, cell_holders, int(holders.sum()), rng)
        best = np.argsort(-scores, kind="stable")[: PEM_KEPT if level < strings.levels - 1 else LISTED]
        rows, scores = rows[best], scores[best]
    return [strings.text(row) for row in rows]


def sfp(crowd: Crowd, n: int, epsilon: float, rng: np.random.Generator) -> list[str]:
    """Return the strings that SFP (Apple 2017) finds: a client reports a fragment with a hash of the whole string.

    Fragments with the same hash are joined. The same part of the clients as of ours proves whole strings.
    """
    strings, cell = crowd.strings, fitted("auto", epsilon, 1 << 16, None)
    levels, slots = LEVEL_SLOTS * strings.levels, MAP_SLOTS * MAPS
    sizes = rng.multinomial(n, [*[LEVEL_SLOTS / (levels + slots)] * strings.levels, slots / (levels + slots)])
    *groups, provers = _split(crowd.people(n, rng), sizes.tolist(), rng)
    hashes = rng.integers(0, HASHES, len(crowd.words))
    fragments = []
    for level, holders in enumerate(groups):
        numbers = strings.valid(level)
        places = np.searchsorted(numbers, crowd.numbers[:, level])
        cell_holders = np.bincount(hashes * len(numbers) + places, holders, HASHES * len(numbers)).astype(np.int64)
        clients = int(holders.sum())
        counts = rng.binomial(cell_holders, cell.p) + rng.binomial(clients - cell_holders, cell.q)
        tail = binomial_tail(counts, clients, cell.q)
        fragments.append((numbers, counts.reshape(HASHES, -1), tail.reshape(HASHES, -1) < FRAGMENT_ERROR / len(tail)))
    rows = np.concatenate([_joined(fragments, number) for number in range(HASHES)])
    if not len(rows):
        return []
    clients = int(provers.sum())
    cell_holders = _holders(crowd, rows, provers, strings.levels)
    counts = rng.binomial(cell_holders, cell.p) + rng.binomial(clients - cell_holders, cell.q)
    proofs = binomial_tail(counts, clients, cell.q) <= FAMILY_ERROR / len(rows)
    order = np.argsort(-counts[proofs], kind="stable")
    return [strings.text(row) for row in rows[proofs][order]]


def _joined(fragments: list[tuple[Ints, Ints, np.ndarray]], number: int) -> Ints:
    """Return the strings of fragments with one hash, those with the largest counts."""
    rows, scores = np.zeros((1, 0), np.int64), np.zeros(1)
    for numbers, counts, significant in fragments:
        places = np.flatnonzero(significant[number])
        prefix, place = np.divmod(np.arange(len(rows) * len(places)), max(len(places), 1))
        scores = scores[prefix] + counts[number][places[place]]
        best = np.argsort(-scores, kind="stable")[:MOST_JOINED]
        rows, scores = np.column_stack([rows[prefix], numbers[places[place]]])[best], scores[best]
    return rows


def _split(people: Ints, sizes: list[int], rng: np.random.Generator) -> list[Ints]:
    """Split people by their words into groups of these sizes, as chance would."""
    result = []
    remaining = people.copy()
    total = sum(sizes)
    # A binomial draw of those that remain, group after group, is a multinomial draw.
    for size in sizes:
        group = rng.binomial(remaining, size / max(total, 1))
        result.append(group)
        remaining -= group
        total -= size
    return result


def _children(crowd: Crowd, level: int, rows: Ints) -> Ints:
    """Return all extensions of prefixes by one chunk. A prefix that has ended has one."""
    numbers = crowd.strings.valid(level)
    is_over = rows[:, -1] % (crowd.strings.coding.size + 1) == 0 if level else np.zeros(1, np.bool_)
    longer = rows[~is_over]
    children = np.column_stack([np.repeat(longer, len(numbers), axis=0), np.tile(numbers, len(longer))])
    return np.concatenate([children, np.column_stack([rows[is_over], np.zeros(int(is_over.sum()), np.int64)])])


def _holders(crowd: Crowd, rows: Ints, holders: Ints, length: int) -> Ints:
    """Return how many clients have each of these prefixes."""
    keys = _keys(crowd, crowd.numbers[:, :length], length)
    wanted = _keys(crowd, rows, length)
    order = np.argsort(wanted, kind="stable")
    places = np.minimum(np.searchsorted(wanted[order], keys), len(wanted) - 1)
    match = wanted[order][places] == keys
    totals = np.bincount(order[places[match]], holders[match], len(wanted))
    return totals.astype(np.int64)


def _keys(crowd: Crowd, rows: Ints, length: int) -> Ints:
    """Return a 64-bit key of each row, the same for equal rows. Two different ones share it with chance 2**-64."""
    factors = np.random.default_rng(77).integers(1, 1 << 62, crowd.strings.levels, np.uint64)[:length] * 2 + 1
    # Odd factors lose no bit of a product modulo 2**64.
    keys = np.zeros(len(rows), np.uint64)
    for chunk, factor in enumerate(factors):
        keys = (keys ^ rows[:, chunk].astype(np.uint64) + np.uint64(1)) * factor
        keys ^= keys >> np.uint64(29)
    return keys.astype(np.int64)


def _counts(cell: Oracle, cell_holders: Ints, clients: int, rng: np.random.Generator) -> Floats:
    return (rng.binomial(cell_holders, cell.p) + rng.binomial(clients - cell_holders, cell.q)).astype(np.float64)
