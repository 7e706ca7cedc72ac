"""Clients that repeat their reports. A client sends the same report as long as its class stays the same.

With a table, one draw in a round decides the reports of all its classes.

A device is one respondent, with streams of its key. A simulated crowd is many respondents with one seeded stream. Both
use the same code from a value to a report.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import cast

import numpy as np
from numpy.typing import NDArray

from oracles.mechanisms.entropy import Source
from oracles.mechanisms.hashing import MAX_ROWS
from oracles.mechanisms.protocol import Oracle
from oracles.mechanisms.table import Table
from oracles.multi import Smp, Spl
from oracles.multi.attributes import Multi
from oracles.types import Ints, Reports
from producers.entropy import EVERY_CLASS, Purpose

Streams = Callable[[int, Purpose, tuple[int, ...]], Source]
"""The stream of an attribute, a purpose and classes, in one round or at one fresh answer.

The classes are those of a single client. A crowd has one stream for all, so it passes none.
"""

_Compact = NDArray[np.integer]

Draw = Callable[[Ints], Reports]
"""Make the reports of some rows, given by their positions."""


class Respondents:
    """`count` clients in one round: their rows, their attribute, and the reports that they sent."""

    def __init__(self, oracle: Oracle | Multi, count: int, streams: Streams) -> None:
        self.oracle = oracle
        self.count = count
        self._streams = streams
        self._rows: dict[int, _Compact | None] = {}
        self._reports: dict[int, RepeatedReports] = {}
        self._tables: dict[int, _Compact] = {}

    def reports(self, values: Ints, part: slice = slice(None)) -> Reports:
        """Return the answers of the clients of a part to their values, or records of shape (clients, attributes).

        Records have no pairs.
        """
        oracle = self.oracle
        clients = np.arange(self.count)[part]
        if isinstance(oracle, Oracle):
            return self._one(oracle, 0, values, clients)
        columns = np.ascontiguousarray(values.T)
        if isinstance(oracle, Spl):
            return oracle.joined([self._one(e, j, columns[j], clients) for j, e in enumerate(oracle.encoders)])
        if isinstance(oracle, Smp):
            return self._disclose(oracle, oracle.with_pairs(list(columns)), clients)
        # The whole record of rsfd is one class: no part of it may stay while another moves.
        return oracle.perturb(values, self._streams(0, Purpose.ANSWER, self._of_one(values)))

    def _disclose(self, oracle: Smp, columns: Sequence[Ints], clients: Ints) -> Reports:
        attributes = self._attributes[clients].astype(np.int64)
        reports = oracle.disclosed(attributes)
        for j, encoder in enumerate(oracle.encoders):
            rows = np.flatnonzero(attributes == j)
            if len(rows):
                reports[rows, 2 : 2 + encoder.width] = self._one(encoder, j, columns[j][rows], clients[rows])
        return reports

    @cached_property
    def _attributes(self) -> _Compact:
        """The attribute of each client of smp."""
        return _compact(cast(Smp, self.oracle).choose(self._streams(0, Purpose.ATTRIBUTE, ()), self.count))

    def _one(self, oracle: Oracle, attribute: int, values: Ints, clients: Ints) -> Reports:
        """Return the reports of one attribute."""
        if attribute not in self._rows:
            rows = oracle.rows(self.count, self._streams(attribute, Purpose.ROWS, ()))
            self._rows[attribute] = None if rows is None else _compact(rows)
        compact = self._rows[attribute]
        own_rows = None if compact is None else compact[clients].astype(np.int64)
        classes = oracle.classify(values, own_rows)

        # With a table all classes share one draw in a round, so that answers of several classes cost one bound.
        if oracle.tables is not None:
            return oracle.reports_of(self._look_up(oracle.tables, attribute, clients, classes), own_rows)

        if attribute not in self._reports:
            # A hash may have more buckets than the domain has values.
            classes_limit = max(oracle.size, 1 << MAX_ROWS)
            self._reports[attribute] = RepeatedReports(self.count, classes_limit, oracle.width)

        def draw(positions: Ints) -> Reports:
            stream = self._streams(attribute, Purpose.ANSWER, self._of_one(classes))
            return oracle.answer(classes[positions], None if own_rows is None else own_rows[positions], stream)

        return self._reports[attribute].reports(clients, classes, draw)

    def _look_up(self, law: Table, attribute: int, clients: Ints, classes: Ints) -> Ints:
        """Return the bucket of each class in the client's table, which it draws once in a round."""
        if attribute not in self._tables:
            stream = self._streams(attribute, Purpose.ANSWER, EVERY_CLASS)
            self._tables[attribute] = _compact(law.draw(self.count, stream))
        return self._tables[attribute][clients, classes].astype(np.int64)

    def _of_one(self, classes: Ints) -> tuple[int, ...]:
        """Return the classes of a single client, for its stream."""
        return tuple(map(int, classes.ravel())) if self.count == 1 else ()


class RepeatedReports:
    """A sorted table of reports by client and class. Each report is drawn once, then repeated."""

    def __init__(self, clients: int, classes: int, width: int) -> None:
        self._classes = classes
        self._keys = np.empty(0, np.min_scalar_type(clients * classes - 1))
        """The client's number times `classes`, plus the class, in rising order."""
        self._reports = np.empty((0, width), np.uint8)

    def reports(self, clients: Ints, classes: Ints | int, draw: Draw) -> Reports:
        """Return a report for each client, in rising order, and its class. `draw` makes missing reports."""
        keys = (clients * self._classes + classes).astype(self._keys.dtype)
        places = np.searchsorted(self._keys, keys)
        missing = places == len(self._keys)
        missing[~missing] = self._keys[places[~missing]] != keys[~missing]
        new_positions = np.flatnonzero(missing)
        # Reports are drawn for missing rows alone. A second draw for the others would reveal more.
        if len(new_positions):
            self._reports = np.insert(self._reports, places[new_positions], draw(new_positions), axis=0)
            self._keys = np.insert(self._keys, places[new_positions], keys[new_positions])
            places += np.cumsum(missing) - missing
        return self._reports[places]


def _compact(numbers: Ints) -> _Compact:
    """Return numbers of at least 0 in as few bytes as the largest needs."""
    return numbers.astype(np.min_scalar_type(int(numbers.max())))
