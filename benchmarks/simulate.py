"""Measure the speed of simulated clients, up to their frames, relative to `perturb` alone in the same run.

taskset -c 0 python -m benchmarks.simulate
"""

import numpy as np

from benchmarks.harness import query_of, together
from producers.simulation.crowd.distribution import read_crowd
from producers.simulation.crowd.population import Population
from producers.simulation.crowd.scenario import Course, Scenario, Surge
from producers.simulation.traffic import Traffic

CLIENTS = 1 << 20
START = 1_700_000_000
SURGE = Scenario((Surge(Course(0.1), 0, 7),))


def measure(oracle: str) -> None:
    query = query_of(oracle=oracle)
    fresh_query = query_of(oracle=oracle, answers="fresh")
    crowd = read_crowd(["zipf:1.1"], query)
    values = crowd.draw(np.random.default_rng(1), CLIENTS)
    rng = np.random.default_rng(2)

    def simulated(scenario: Scenario, *, fresh: bool) -> None:
        traffic = Traffic(Population(fresh_query if fresh else query, crowd, CLIENTS, 1, scenario), START, 12)
        for step in range(16):
            for _ in traffic.step(1000 * START + 100 * step, CLIENTS // 16):
                pass

    alone, plain, fresh, surge = together(
        [
            lambda: query.oracle.perturb(values, rng),
            lambda: simulated(Scenario(), fresh=False),
            lambda: simulated(Scenario(), fresh=True),
            lambda: simulated(SURGE, fresh=False),
        ]
    )
    rates = "  ".join(f"{CLIENTS / seconds / 1e6:9.1f}" for seconds in (alone, plain, fresh, surge))
    print(f"{oracle:6}  {rates}  {alone / plain:6.2f}")


def main() -> None:
    print("million reports/s, size 1,024, epsilon 1; simulated: values, noise, frames of 1,000 with ids")
    print(f"{'oracle':6}  {'perturb':>9}  {'memoised':>9}  {'fresh':>9}  {'surge':>9}  {'ratio':>6}")
    for oracle in ("grr", "olh", "hr"):
        measure(oracle)


if __name__ == "__main__":
    main()
