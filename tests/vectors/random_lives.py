"""Random lives of devices, with new listings, clocks that jump, lost stores, restarts and two processes.

`python tests/vectors/random_lives.py COUNT` prints them as JSON, one life on each line, with what a device does at each
step. They have the form of tests/vectors/histories.json, so that another client can run them.
"""

import json
import sys

import numpy as np
from life_cases import DAY, Life, Step, of

from oracles.query import parse

SEED = 47
STEPS = 40
_ANSWERS = ("life", "once", "fresh")
_RENEWS = (None, "1d", "2d", "3d", "7d", "30d")
_ORACLES = (
    {"domain": 64, "oracle": "olh", "noise": "table"},
    {"domain": 9, "oracle": "hr", "noise": "each"},
    {"domain": 5, "oracle": "grr", "noise": "table"},
    {"attributes": {"x": 12, "y": ["a", "b"]}, "solution": "smp", "oracle": "olh", "noise": "table"},
)
_LIMITS = ((8.0, None), (3.0, None), (3.0, 2 * DAY), (5.0, 5 * DAY), (4.5, 30 * DAY), (2.3, 7 * DAY), (20.0, 60 * DAY))


def random_lives(count, seed=SEED, first=0):
    """Yield random lives from a number on. The same seed gives the same lives."""
    for number in range(first, first + count):
        rng = np.random.default_rng((seed, number))
        yield _life(f"random life {number}", rng)


def _life(name, rng):
    queries = [_query(rng) for _ in range(rng.integers(1, 5))]
    max_epsilon, per = _LIMITS[rng.integers(len(_LIMITS))]
    has_key_store = bool(rng.integers(2))
    time_s = int(rng.integers(20_000 * DAY, 20_100 * DAY))
    steps = []
    for _ in range(STEPS):
        time_s = max(0, time_s + _move(rng))
        definition = int(rng.integers(len(queries)))
        steps.append(
            Step(
                at=time_s,
                value=_value(queries[definition], rng),
                definition=definition,
                lost=has_key_store and rng.random() < 0.05,
                process=int(rng.integers(2)),
            )
        )
    key = rng.bytes(32).hex()
    return Life(name, queries, steps, max_epsilon=max_epsilon, per=per, key=key, has_key_store=has_key_store)


def _move(rng):
    """Return the seconds to the next answer. One in ten clocks jumps, both ways."""
    if rng.random() < 0.1:
        return int(rng.integers(-60 * DAY, 60 * DAY))
    return int(rng.integers(0, 3 * DAY))


def _query(rng):
    name = f"q{rng.integers(2)}"
    kind = _ORACLES[rng.integers(len(_ORACLES))]
    renew = _RENEWS[rng.integers(len(_RENEWS))]
    table = {"epsilon": 1.0, "pane": "10s", "period": "1d", "budget": 4.0, **kind}
    table["answers"] = _ANSWERS[rng.integers(len(_ANSWERS))]
    if renew is not None:
        table["renew"] = renew
    return parse({"edition": 2, "queries": {name: table}}, "random lives", None)[name]


def _value(query, rng):
    if query.attributes:
        return {"x": int(rng.integers(12)), "y": "ab"[rng.integers(2)]}
    # One value is outside of each domain, and is charged all the same.
    return int(rng.integers(65)) if rng.random() < 0.05 else int(rng.integers(5))


if __name__ == "__main__":
    for life in random_lives(int(sys.argv[1])):
        sys.stdout.write(json.dumps(of(life), separators=(",", ":")) + "\n")
