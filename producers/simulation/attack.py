"""What attackers send: well-formed reports that support as many of their targets as a report can.

It is the maximal-gain attack of Cao, Jia and Gong 2021. Forged sets of bits have as many ones as an
honest report on average, so that none is implausible by itself.
"""

from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from oracles.mechanisms.entropy import Seeded
from oracles.mechanisms.grr import Grr
from oracles.mechanisms.hashing import Hashing
from oracles.mechanisms.ss import Ss
from oracles.multi import Smp
from oracles.multi.attributes import Multi
from oracles.pure import Ints, Oracle, Reports

Targets = Sequence[Ints]
"""The targeted values of each attribute, or of the one."""


def forge(oracle: Oracle | Multi, targets: Targets, values: Ints, rng: np.random.Generator) -> Reports:
    """A report of maximal gain from each attacker; `values` is what attributes without targets are answered with."""
    if isinstance(oracle, Oracle):
        return maximal(oracle, targets[0], len(values), rng)
    aimed = [j for j, values in enumerate(targets) if len(values)]
    if isinstance(oracle, Smp):
        return _disclosed(oracle, targets, rng.choice(aimed, len(values)), rng)
    reports = oracle.perturb(values, rng)
    ends = list(accumulate(encoder.width for encoder in oracle.encoders))
    for j in aimed:
        encoder = oracle.encoders[j]
        reports[:, ends[j] - encoder.width : ends[j]] = maximal(encoder, targets[j], len(values), rng)
    return reports


def maximal(oracle: Oracle, targets: Ints, count: int, rng: np.random.Generator) -> Reports:
    """`count` reports that support all targets, or as many as one can."""
    if isinstance(oracle, Grr):
        return oracle.written(rng.choice(targets, count))
    if isinstance(oracle, Hashing):
        return _hashes(oracle, targets, count, rng)
    return _sets(oracle, targets, count, rng)


def _disclosed(oracle: Smp, targets: Targets, answered: Ints, rng: np.random.Generator) -> Reports:
    reports = np.zeros((len(answered), oracle.width), np.uint8)
    reports[:, :2] = answered.astype("<u2").view(np.uint8).reshape(-1, 2)
    for j in np.unique(answered):
        rows = np.flatnonzero(answered == j)
        encoder = oracle.encoders[j]
        reports[rows, 2 : 2 + encoder.width] = maximal(encoder, targets[j], len(rows), rng)
    return reports


def _sets(oracle: Oracle, targets: Ints, count: int, rng: np.random.Generator) -> Reports:
    """Bits of targets and, to the honest number of ones, of random other values."""
    draw, d = Seeded(rng), oracle.size
    ones = oracle.chosen if isinstance(oracle, Ss) else max(1, round(oracle.p + (d - 1) * oracle.q))
    held = min(len(targets), ones)
    others = np.setdiff1d(np.arange(d), targets)
    bits = np.zeros((count, d), np.bool_)
    bits[:, targets] = draw.subsets(count, len(targets), held)
    bits[:, others] = draw.subsets(count, len(others), ones - held)
    return np.packbits(bits, axis=1, bitorder="little")


def _hashes(oracle: Hashing, targets: Ints, count: int, rng: np.random.Generator) -> Reports:
    """Random rows under which all targets have one hash, and that hash.

    Such rows are those whose parity with the difference of any two targets is even: a linear space.
    """
    codes = targets + oracle.offset
    basis = _even(codes[1:] ^ codes[0], oracle.bits)
    rows = [np.bitwise_xor.reduce(rng.integers(0, 2, (count, len(basis))) * basis, axis=1) for _ in range(oracle.rows)]
    bucket = np.zeros(count, np.int64)
    for j, row in enumerate(rows):
        bucket |= (np.bitwise_count(row & codes[0]).astype(np.int64) & 1) << j
    return oracle._pack(bucket, rows)  # noqa: SLF001 - the report's format is the oracle's alone


def _even(differences: Ints, bits: int) -> Ints:
    """A basis of all words of `bits` bits whose parity with each of `differences` is even."""
    reduced: dict[int, int] = {}
    for difference in map(int, differences):
        rest = difference
        for pivot, word in reduced.items():
            rest ^= word if rest >> pivot & 1 else 0
        if rest:
            new = rest.bit_length() - 1
            reduced = {pivot: word ^ (rest if word >> new & 1 else 0) for pivot, word in reduced.items()}
            reduced[new] = rest
    free = [bit for bit in range(bits) if bit not in reduced]
    basis = [sum(1 << pivot for pivot, word in reduced.items() if word >> bit & 1) | 1 << bit for bit in free]
    return np.array(basis, np.int64)
