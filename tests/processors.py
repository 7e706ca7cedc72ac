"""Finals of all oracles by all methods, with their alerts; what they are made of are integers, alike everywhere.

python -m tests.processors PLAIN FITTED prints a hash of each, then one of what this processor's libm says. FITTED are
by a prior fitted to them, and by all methods that are rehearsed; that is where logarithms are summed.
"""

import math
import sys
from hashlib import sha256

import numpy as np

from aggregator.counting.tally import Snapshot
from aggregator.merging.windows import ClosedWindow, Position, Span
from aggregator.publishing.final import publish
from oracles.consistency import METHODS
from oracles.query import parse
from oracles.query.settings import Window

PLAIN = ["norm_sub", "base_pos", "norm"]
FITTED = [name for name in METHODS if name != "base"]
SIZES = {"grr": 5, "olh": 40, "blh": 12, "hr": 30, "oue": 20, "sue": 9, "ss": 16}


def queries(methods):
    """One of each oracle, and one of several attributes."""
    same = {"epsilon": 1.0, "budget": 1e9, "pane": "10s", "methods": methods, "publish": "all"}
    tables = {
        name: same | {"domain": size, "oracle": name, "sets": {"some": ["0", "2"]}} for name, size in SIZES.items()
    }
    tables["smp"] = same | {"attributes": {"a": 3, "b": 17}, "solution": "smp", "epsilon": 2.0}
    return parse({"queries": tables}, "test", ".").values()


CLIENTS = 3000


def finals(query, count):
    """The bytes of so many finals in a row."""
    rng, states, shown = np.random.default_rng(len(query.name) + query.oracle.state_size), [], []
    sizes = [domain.size for domain in query.domains]
    window = Window("tumbling", 10, 10)
    for number in range(count):
        n = CLIENTS // (1 + number % 7)
        lists = [np.minimum.reduce(rng.integers(0, size, (1 + number % 4, n))) for size in sizes]
        counts = query.oracle.zeros()
        left_out = query.oracle.add(
            counts, query.oracle.perturb(lists[0] if len(lists) == 1 else np.column_stack(lists), rng)
        )
        span = Span(window, 10 * number, 10 * number + 10)
        final = ClosedWindow(span, Snapshot(n - left_out, left_out, 0, 0, counts), Position(span.end))
        made = publish(query, final, states, shown)
        states, shown = made.states, made.shown
        yield repr((made.built.records, states, made.alerts)).encode()


def main(plain, fitted):
    for methods, count in ((PLAIN, plain), (FITTED, fitted)):
        for query in queries(methods):
            for one in finals(query, count // (len(SIZES) + 1)):
                sys.stdout.write(f"{query.name} {sha256(one).hexdigest()}\n")
    numbers = np.random.default_rng(1).random(10_000).tolist()
    said = [value.hex() for x in numbers for value in (math.exp(x), math.log(x), x**1.37)]
    sys.stdout.write(f"libm {sha256(''.join(said).encode()).hexdigest()}\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
