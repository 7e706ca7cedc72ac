"""Crowds that answer in processes of their own, and a comparison of the records with the true counts."""

import sys
import time
from dataclasses import dataclass

import numpy as np
import orjson
from scipy import stats

from oracles.estimate import Noise
from tests.integration.workers import HUBBUB, Worker, environment, judge, until

FALSE_ALARM = 1e-6
"""The chance that a check of a coverage fails although the coverage is right."""
BOUNDS = (0.945, 0.975)
"""The coverage of a published interval for a share above zero, and for a share of zero."""


def crowd(place, query, *options):
    """Start `hubbub simulate`. The process ends with the place."""
    command = [str(HUBBUB), "simulate", "--query", query, *map(str, options)]
    process = Worker(command, environment(place.kafka, place.file), place.folder, f"crowd-{query}")
    place.workers.append(process)
    return process


def script(place, name, code, *arguments):
    """Start a process of code. Its environment names Kafka and the query file. It ends with the place."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    process = Worker(command, environment(place.kafka, place.file), place.folder, name)
    place.workers.append(process)
    return process


def verdict_through(place, through):
    """Return the verdict once every window that ends by `through` is published."""
    lateness = max(query.lateness for query in place.queries.values())
    time.sleep(max(0.0, through + lateness + 0.5 - time.time()))
    least = place.expected()
    until(lambda: least.keys() <= place.published().keys())
    return judge(place.published(), least, place.expected())


def finals(place, query, kind, size):
    """Return the finals of one kind of window of a query, by their ends."""
    by_end = {}
    for key, versions in place.finals().items():
        name, _, *window, end = key.decode().split("|")
        if (name, *window[:2]) == (query, kind, str(size)):
            [value] = versions
            by_end[int(end)] = orjson.loads(value)
    return dict(sorted(by_end.items()))


def true_counts(place, query):
    """Return the true counts of each pane, summed over all sources."""
    newest = {record.key: orjson.loads(record.value) for record in place.read("truth")}
    panes = {}
    for counts in newest.values():
        if counts["query"] == query:
            panes[counts["pane"]] = panes.get(counts["pane"], 0) + np.array(counts["counts"])
    return dict(sorted(panes.items()))


def counts_of(panes, record):
    """Return the true counts of a record's window."""
    window = record["window"]
    return sum(counts for pane, counts in panes.items() if window["start"] <= pane < window["end"])


@dataclass(frozen=True)
class Coverage:
    """The number of intervals that contain the true share, and the number of all intervals."""

    hits: int
    cells: int

    def __add__(self, other):
        return Coverage(self.hits + other.hits, self.cells + other.cells)

    @property
    def is_right(self):
        """Whether the coverage fits the bounds. By chance it is False once in a million times.

        This holds if the intervals of different values miss independently.
        """
        low, high = BOUNDS
        fewest = stats.binom.ppf(FALSE_ALARM / 2, self.cells, low)
        most = stats.binom.isf(FALSE_ALARM / 2, self.cells, high)
        return fewest <= self.hits <= most


def coverage(record, counts, independent=None):
    """Return how many of a record's intervals contain the true shares.

    With `independent`, the number of independent reports, the intervals come from it and the record's shares, p and q.
    """
    order = [int(value) for value in record["values"]]
    low = np.array(record["low"])
    high = np.array(record["high"])
    if independent is not None:
        low, high = interval(record, independent)
    true = counts[order] / counts.sum()
    return Coverage(int(((low <= true) & (true <= high)).sum()), len(true))


def interval(record, independent):
    """Return the 95% intervals by the formulas, from the shares, p and q of a record."""
    p = record["oracle"]["p"]
    q = record["oracle"]["q"]
    noise = Noise(q * (1 - q) / (independent * (p - q) ** 2), (1 - p - q) / (independent * (p - q)))
    return [np.clip(bound, 0.0, 1.0) for bound in noise.interval(np.array(record["shares"]["unbiased"]))]
