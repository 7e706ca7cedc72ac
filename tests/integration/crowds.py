"""Crowds that answer in processes of their own, and what becomes of their answers: records beside the truth."""

import sys
import time
from dataclasses import dataclass

import numpy as np
import orjson
from scipy import stats

from oracles.estimate import Noise
from tests.integration.workers import HUBBUB, Worker, environment, judge, until

FALSE_ALARM = 1e-6
"""Of each check of a coverage: how often it fails where all is as promised."""
PROMISED = (0.945, 0.975)
"""How often a published interval covers a share above zero, and how often one of zero."""


def crowd(place, query, *options):
    """A process of `hubbub simulate`; it ends with the place."""
    command = [str(HUBBUB), "simulate", "--query", query, *map(str, options)]
    process = Worker(command, environment(place.kafka, place.file), place.folder, f"crowd-{query}")
    place.workers.append(process)
    return process


def script(place, name, code, *arguments):
    """A process of code that finds in its environment where Kafka and the queries are; it ends with the place."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    process = Worker(command, environment(place.kafka, place.file), place.folder, name)
    place.workers.append(process)
    return process


def settled(place, through):
    """The verdict over the finals, once every window that ends by `through` is final in the log's eyes and is there."""
    lateness = max(query.lateness for query in place.queries.values())
    time.sleep(max(0.0, through + lateness + 0.5 - time.time()))
    wanted = demanded(place)
    until(lambda: wanted.keys() <= place.published().keys())
    return judge(place.published(), wanted, demanded(place))


def demanded(place):
    """The final records and the alerts that the log demands so far, by key."""
    return place.expected()


def finals(place, query, kind, size):
    """The finals of one kind of window of a query, by their ends."""
    found = {}
    for key, versions in place.finals().items():
        name, _, *window, end = key.decode().split("|")
        if (name, *window[:2]) == (query, kind, str(size)):
            [value] = versions
            found[int(end)] = orjson.loads(value)
    return dict(sorted(found.items()))


def truth(place, query):
    """The true counts of each pane, all sources together."""
    newest = {record.key: orjson.loads(record.value) for record in place.read("truth")}
    panes = {}
    for told in newest.values():
        if told["query"] == query:
            panes[told["pane"]] = panes.get(told["pane"], 0) + np.array(told["counts"])
    return dict(sorted(panes.items()))


def within(panes, record):
    """The true counts of a record's window."""
    window = record["window"]
    return sum(counts for pane, counts in panes.items() if window["start"] <= pane < window["end"])


@dataclass(frozen=True)
class Coverage:
    """How many of so many intervals hold the true share."""

    hits: int
    cells: int

    def __add__(self, other):
        return Coverage(self.hits + other.hits, self.cells + other.cells)

    @property
    def as_promised(self):
        """False once in a million times, if the intervals of different values miss independently."""
        low, high = PROMISED
        fewest = stats.binom.ppf(FALSE_ALARM / 2, self.cells, low)
        most = stats.binom.isf(FALSE_ALARM / 2, self.cells, high)
        return fewest <= self.hits <= most


def covered(record, counts, independent=None):
    """How many of a record's intervals hold the true shares.

    With `independent` they are made anew from the record's shares, p and q, as if so many of its
    reports were independent.
    """
    order = [int(value) for value in record["values"]]
    low, high = np.array(record["low"]), np.array(record["high"])
    if independent is not None:
        low, high = interval(record, independent)
    true = counts[order] / counts.sum()
    return Coverage(int(((low <= true) & (true <= high)).sum()), len(true))


def interval(record, independent):
    """The 95% interval by the formulas, from what a record says."""
    p, q = record["oracle"]["p"], record["oracle"]["q"]
    noise = Noise(q * (1 - q) / (independent * (p - q) ** 2), (1 - p - q) / (independent * (p - q)))
    return [np.clip(bound, 0.0, 1.0) for bound in noise.interval(np.array(record["shares"]["unbiased"]))]
