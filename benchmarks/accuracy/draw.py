"""Estimates of a known population, drawn from the exact law of their support counts instead of from reports.

Support of a value that m of n clients hold is Bin(m, p) + Bin(n - m, q), for every oracle. Drawn apart for each
value it is also right for all values together with sue and oue, whose bits are independent, and for any two
values with blh, olh and hr, so that means and variances of squared errors and of sums are right there too. Where a
report holds exactly one value (grr) all values are drawn together. With ss and rsfd's oue_r the supports of two
values depend on each other a little: single values are right, sets need reports.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from oracles import Estimate, Oracle
from oracles.multi.attributes import Multi
from oracles.pure import Pure
from oracles.types import Ints

JOINT = ("grr", "sue", "oue")
"""Oracles whose values are all drawn together rightly."""


def support(view: Pure, counts: Ints, rng: np.random.Generator) -> Ints:
    """How often each value is supported, where so many clients hold each."""
    p, q = view.exact
    n = int(counts.sum())
    if p + (view.size - 1) * q == 1:  # a report is the own value with p - q, else any one
        said = rng.binomial(counts, view.gap)
        return said + rng.multinomial(n - int(said.sum()), np.full(view.size, 1.0 / view.size))
    return rng.binomial(counts, view.p) + rng.binomial(n - counts, view.q)


def estimate(view: Pure, counts: Ints, rng: np.random.Generator) -> Estimate:
    """Unbiased shares as the reports of these clients give them."""
    n = int(counts.sum())
    return Estimate(view.shares(support(view, counts, rng), n), n, view)


def windows(o: Oracle, counts: Ints, rounds: int, rng: np.random.Generator) -> Iterator[Estimate]:
    """Estimates with the joint law of all values: of real reports where the shortcut has not got it."""
    values = np.repeat(np.arange(o.size), counts)
    for _ in range(rounds):
        if o.name in JOINT:
            yield estimate(o, counts, rng)
            continue
        state = o.zeros()
        o.add(state, o.perturb(values, rng))
        yield o.estimate(state, len(values))


def estimates(multi: Multi, counts: Sequence[Ints], rng: np.random.Generator) -> list[Estimate]:
    """The same for each attribute; each is right by itself, with smp's choice of who answers it."""
    if multi.solution != "smp":
        return [estimate(view, own, rng) for view, own in zip(multi.attributes, counts, strict=True)]
    found = []
    for view, own in zip(multi.attributes, counts, strict=True):
        answering = rng.binomial(own, 1.0 / len(counts))
        n = int(answering.sum())
        found.append(Estimate(view.shares(support(view, answering, rng), n), n, view, n, int(own.sum())))
    return found
