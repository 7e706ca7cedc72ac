"""Populations with known counts: made ones by their law, and the public data sets where their folder is given."""

import csv
import gzip
from collections import defaultdict
from pathlib import Path

import numpy as np

from oracles.types import Floats, Ints

FILES = {
    "retail": "retail_counts.csv.gz",
    "adult": "adult.csv.gz",
    "nursery": "nursery.csv.gz",
    "ms-fimu": "msfimu_marginals.csv.gz",
}
"""Under the names that the page uses."""


def rounded(weights: Floats, people: int) -> Ints:
    """Counts that sum to `people`, in proportion to the weights."""
    return np.diff(np.rint(people * np.cumsum(weights) / weights.sum()), prepend=0).astype(np.int64)


def zipf(size: int, people: int, exponent: float) -> Ints:
    return rounded(np.arange(1.0, size + 1) ** -exponent, people)


def beta(size: int, people: int, a: float, b: float) -> Ints:
    """A Beta law on [0, 1] in equal bins."""
    from scipy import stats

    return rounded(np.diff(stats.beta.cdf(np.linspace(0.0, 1.0, size + 1), a, b)), people)


def rows(folder: Path, name: str) -> list[dict[str, str]] | None:
    """The rows of a public data set; None where it is absent."""
    path = folder / FILES[name]
    if not path.is_file():
        return None
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def retail(folder: Path) -> Ints | None:
    """The Retail Market Basket data (FIMI, Tom Brijs): how often each item was bought, the commonest first."""
    found = rows(folder, "retail")
    return None if found is None else np.sort([int(row["count"]) for row in found])[::-1].copy()


def marginals(folder: Path, name: str) -> list[Ints] | None:
    """The counts of each attribute's values."""
    found = rows(folder, name)
    if found is None:
        return None
    if name == "ms-fimu":
        columns: dict[str, list[int]] = defaultdict(list)
        for row in found:
            columns[row["attribute"]].append(int(row["count"]))
        return [np.array(column) for column in columns.values()]
    return [np.bincount([int(row[column]) for row in found]) for column in found[0]]
