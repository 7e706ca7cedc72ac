"""Hashes of finals and alerts of all oracles and methods, from integers that are equal on every machine.

python -m tests.processors PLAIN SLOW prints a hash of each final, then a hash of results of the libm of this
machine. PLAIN is the number of finals by three methods that add and divide. SLOW is the number of finals by all
methods except base. Some of these fit a prior or rehearse, so they sum logarithms.
"""

import math
import sys
from hashlib import sha256
from itertools import chain

import numpy as np

from aggregator.merging.place_counts import answer_counts, fewest
from aggregator.records.span import Span
from aggregator.tallies.snapshot import Snapshot
from oracles.consistency import METHODS
from oracles.query.settings import Window
from tests.queries import make_queries, make_table
from tests.results import window_result

PLAIN = ["norm_sub", "base_pos", "norm"]
SLOW = [name for name in METHODS if name != "base"]
SIZES = {"grr": 5, "olh": 40, "blh": 12, "hr": 30, "oue": 20, "sue": 9, "ss": 16}


def queries(methods):
    """Return a query for each oracle, and a query of several attributes."""
    common_table = make_table(budget=1e9, methods=methods, publish="all")
    tables = {
        name: common_table | {"domain": size, "oracle": name, "sets": {"some": ["0", "2"]}}
        for name, size in SIZES.items()
    }
    tables["smp"] = common_table | {"attributes": {"a": 3, "b": 17}, "solution": "smp", "epsilon": 2.0}
    return make_queries(tables).values()


CLIENTS = 3000


def finals(query, count):
    """Yield the bytes of `count` successive finals."""
    rng = np.random.default_rng(len(query.name) + query.oracle.state_size)
    states = []
    sizes = [domain.size for domain in query.domains]
    window = Window("tumbling", 10, 10)
    for number in range(count):
        n = CLIENTS // (1 + number % 7)
        lists = [np.minimum.reduce(rng.integers(0, size, (1 + number % 4, n))) for size in sizes]
        counts = query.oracle.zeros()
        refusals = query.oracle.add(
            counts, query.oracle.perturb(lists[0] if len(lists) == 1 else np.column_stack(lists), rng)
        )
        span = Span(window, 10 * number, 10 * number + 10)
        total = Snapshot(n - refusals, refusals, 0, 0, counts)
        withheld = ["small" if fewest(size) < query.crowd else None for size in answer_counts(query, total)]
        result = window_result(query, span, total, withheld, states)
        states = result.decision.states
        yield repr((result.window.records, states, result.decision.alerts)).encode()


def main(plain_count, slow_count):
    for methods, count in ((PLAIN, plain_count), (SLOW, slow_count)):
        for query in queries(methods):
            for final in finals(query, count // (len(SIZES) + 1)):
                sys.stdout.write(f"{query.name} {sha256(final).hexdigest()}\n")
    numbers = np.random.default_rng(1).random(10_000).tolist()
    texts = [value.hex() for value in chain.from_iterable((math.exp(x), math.log(x), x**1.37) for x in numbers)]
    sys.stdout.write(f"libm {sha256(''.join(texts).encode()).hexdigest()}\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
