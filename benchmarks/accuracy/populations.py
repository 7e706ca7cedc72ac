"""Populations with known counts: synthetic ones, and the public data sets in a folder."""

import csv
import gzip
from collections import defaultdict
from pathlib import Path

import numpy as np

from oracles.types import Floats, Ints

FILES = {
    "retail": "retail_counts.csv.gz",
    "kosarak": "kosarak_counts.csv.gz",
    "pos": "pos_counts.csv.gz",
    "adult": "adult.csv.gz",
    "nursery": "nursery.csv.gz",
    "ms-fimu": "msfimu_marginals.csv.gz",
}
"""File names by the names on the page."""
ITEMS = {"retail": "Retail", "kosarak": "Kosarak", "pos": "POS"}
"""The data sets that count items, with their names on the page."""


def rounded(weights: Floats, people: int) -> Ints:
    """Return counts that sum to `people`, in proportion to the weights."""
    return np.diff(np.rint(people * np.cumsum(weights) / weights.sum()), prepend=0).astype(np.int64)


def zipf(size: int, people: int, exponent: float) -> Ints:
    return rounded(np.arange(1.0, size + 1) ** -exponent, people)


def beta(size: int, people: int, a: float, b: float) -> Ints:
    """Return the counts of a Beta law on [0, 1] in equal bins."""
    from scipy import stats

    return rounded(np.diff(stats.beta.cdf(np.linspace(0.0, 1.0, size + 1), a, b)), people)


def rows(folder: Path, name: str) -> list[dict[str, str]] | None:
    """Return the rows of a public data set, or None if its file is missing."""
    path = folder / FILES[name]
    if not path.is_file():
        return None
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def items(folder: Path, name: str) -> Ints | None:
    """Return how often each item occurs, the most common first, or None if the file is missing."""
    records = rows(folder, name)
    return None if records is None else np.sort([int(row["count"]) for row in records])[::-1].copy()


def marginals(folder: Path, name: str) -> list[Ints] | None:
    """Return the counts of each attribute's values, or None if the file is missing."""
    records = rows(folder, name)
    if records is None:
        return None
    if name == "ms-fimu":
        columns: dict[str, list[int]] = defaultdict(list)
        for row in records:
            columns[row["attribute"]].append(int(row["count"]))
        return [np.array(column) for column in columns.values()]
    return [np.bincount([int(row[column]) for row in records]) for column in records[0]]
