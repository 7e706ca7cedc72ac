"""The benchmark of unknown strings by length: the smallest share that a search finds with probability 0.9.

python -m benchmarks.string_lengths [--runs N] [--clients N] [--epsilon E]

The words are random letters in the default alphabet, and their shares fall like Zipf's law with exponent 1.1. The
counts of each cell are drawn as the clients' reports would give them. `aggregator/plan/kinds/names.py` has the
results.
"""

from typing import NamedTuple, cast

import numpy as np

from benchmarks.harness import arguments
from oracles.discover import Slots, Strings, search
from oracles.mechanisms.protocol import Oracle
from oracles.query import Query, parse
from oracles.types import Floats, Ints

WORDS, EXPONENT, SHORTEST = 100_000, 1.1, 4
LENGTHS = (8, 12, 16, 24)
POWER = 0.9


class Drawn(Slots):
    """Slots whose tally is drawn: the counts of every level and map."""

    def draw(self, cells: Ints, shares: Floats, n: int, rng: np.random.Generator) -> None:
        """Draw the counts of `n` clients. `cells` has a row for each word."""
        parts, size = self.strings.parts, 1 << self.strings.cells
        part_of_slot = self.strings.part(np.arange(self.strings.slots))
        self.numbers = rng.multinomial(n, np.bincount(part_of_slot) / self.strings.slots).tolist()
        p, q = self.cell_oracle.p, self.cell_oracle.q
        self.counts = []
        for part in range(parts):
            clients = self.numbers[part]
            own = rng.multinomial(clients, shares)
            holders = np.bincount(cells[:, part], own, size).astype(np.int64)
            self.counts.append(rng.binomial(holders, p) + rng.binomial(clients - holders, q))

    def support(self, state: Ints, n: int) -> list[Ints]:
        del state, n
        return self.counts

    def answering(self, state: Ints, n: int) -> list[int]:
        del state, n
        return self.numbers


class Result(NamedTuple):
    """The smallest share, and how many names were found and false in a run."""

    share: float
    found: float
    false: float


def study(query: Query, n: int, runs: int, rng: np.random.Generator) -> Result:
    """Return the smallest share of names that are found with probability 0.9."""
    slots = cast(Slots, query.oracle)
    strings, cell = slots.strings, slots.cell_oracle
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    shares = np.arange(1, WORDS + 1, dtype=np.float64) ** -EXPONENT
    shares /= shares.sum()
    logs, hits, found, false = [], [], 0, 0
    for _ in range(runs):
        lengths = rng.integers(min(SHORTEST, strings.coding.length), strings.coding.length + 1, WORDS)
        texts = ["".join(letters[rng.integers(0, 26, length)]) for length in lengths]
        cells = cells_of(strings, texts)
        drawn = Drawn(strings, lambda _: cell)
        drawn.draw(cells, shares, n, rng)
        names = {name.text.removesuffix("…") for name in search(drawn, drawn.zeros(), n).names}
        logs += np.log(shares[:400]).tolist()
        hits += [text in names for text in texts[:400]]
        found += len(names & set(texts))
        false += len(names - set(texts))
    return Result(_share_at_power(np.array(logs), np.array(hits, np.float64)), found / runs, false / runs)


def cells_of(strings: Strings, texts: list[str]) -> Ints:
    """Return the cells of many texts by the tables of the search."""
    rows = np.array([strings.numbers(text) for text in texts])
    cells = np.zeros((len(texts), strings.parts), np.int64)
    for chunk in range(strings.levels):
        words = strings.table(chunk)[np.searchsorted(strings.valid(chunk), rows[:, chunk])]
        cells[:, chunk:] ^= words[:, chunk:]
    return cells


def _share_at_power(logs: Floats, hits: Floats) -> float:
    """Return the share at which a logistic curve through the hits is at the power."""
    from scipy.optimize import minimize

    def loss(law: Floats) -> float:
        # The logarithm of the slope keeps it positive.
        score = np.exp(law[1]) * (logs - law[0])
        return float((np.logaddexp(0.0, score) - hits * score).sum())

    start = float(np.median(logs[hits > 0])) if hits.any() else -4.0
    law = minimize(loss, [start, 1.5], method="Nelder-Mead").x
    return float(np.exp(law[0] + np.log(POWER / (1.0 - POWER)) / np.exp(law[1])))


def query_of(length: int, epsilon: float, cells: int = 16, answers: str = "once") -> Query:
    domain = {"discover": "text", "length": length, "cells": cells}
    table = {"domain": domain, "epsilon": epsilon, "pane": "5m", "answers": answers}
    return parse({"edition": 2, "queries": {"words": table}}, "benchmark", None)["words"]


def sigma(cell: Oracle) -> float:
    """Return the standard error of a share near zero, times the square root of the number of reports."""
    return float(np.sqrt(cell.q * (1.0 - cell.q)) / (cell.p - cell.q))


def main() -> None:
    options = arguments(__doc__, runs=12, clients=1e6, epsilon=2.0, cells=16)
    rng, n = np.random.default_rng(37), int(options.clients)
    print(f"{n:,} clients, epsilon {options.epsilon:g}, 2^{options.cells} cells, {options.runs} runs")
    print("length  share at power 0.9  in sigma/sqrt(n)  found  false")
    for length in LENGTHS:
        query = query_of(length, options.epsilon, options.cells)
        result = study(query, n, options.runs, rng)
        unit = sigma(query.only_oracle) / np.sqrt(n)  # type: ignore[arg-type]
        print(
            f"{length:6}  {result.share:18.4f}  {result.share / unit:16.1f}  {result.found:5.1f}  {result.false:5.2f}"
        )


if __name__ == "__main__":
    main()
