"""Draws of estimates of a known population, from the exact law of the support counts instead of from reports.

If m of n clients have a value, its support is Bin(m, p) + Bin(n - m, q), for every oracle. This module draws it
separately for each value. With sue and oue this is also the joint law of all values, because their bits are
independent. With blh, olh and hr it is the joint law of any two values. So means and variances of squared errors and of
sums are right there too. If a report contains exactly one value (grr), the module draws all values together. With ss
and rsfd's oue_r the supports of two values depend slightly on each other. Then single values are right, and sets need
reports.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from oracles import Estimate, Oracle
from oracles.estimate.pure import Pure
from oracles.multi.attributes import Multi
from oracles.types import Ints

JOINT = ("grr", "sue", "oue")
"""Oracles with the right joint law of all values."""


def support(view: Pure, counts: Ints, rng: np.random.Generator) -> Ints:
    """Return the support of each value, from the number of clients with each value."""
    p, q = view.exact
    n = int(counts.sum())
    if p + (view.size - 1) * q == 1:  # a report is the own value with p - q, else a uniform one
        honest = rng.binomial(counts, view.gap)
        return honest + rng.multinomial(n - int(honest.sum()), np.full(view.size, 1.0 / view.size))
    return rng.binomial(counts, view.p) + rng.binomial(n - counts, view.q)


def estimate(view: Pure, counts: Ints, rng: np.random.Generator) -> Estimate:
    """Return unbiased shares with the law of the reports of these clients."""
    n = int(counts.sum())
    return Estimate(view.shares(support(view, counts, rng), n), n, view)


def windows(o: Oracle, counts: Ints, rounds: int, rng: np.random.Generator) -> Iterator[Estimate]:
    """Yield estimates with the joint law of all values, from real reports if the shortcut lacks that law."""
    values = np.repeat(np.arange(o.size), counts)
    for _ in range(rounds):
        if o.name in JOINT:
            yield estimate(o, counts, rng)
            continue
        state = o.zeros()
        o.add(state, o.perturb(values, rng))
        yield o.estimate(state, len(values))


def estimates(multi: Multi, counts: Sequence[Ints], rng: np.random.Generator) -> list[Estimate]:
    """Return an estimate for each attribute, right for each one alone. smp draws the clients that answer it."""
    if multi.solution != "smp":
        return [estimate(view, own, rng) for view, own in zip(multi.attributes, counts, strict=True)]
    results = []
    for view, own in zip(multi.attributes, counts, strict=True):
        answering = rng.binomial(own, 1.0 / len(counts))
        n = int(answering.sum())
        results.append(Estimate(view.shares(support(view, answering, rng), n), n, view, n, int(own.sum())))
    return results
