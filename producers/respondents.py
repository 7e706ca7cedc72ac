"""Respondents: clients that keep what they drew, and say the same again while their class is the same.

The client of a device is one of them, with streams of its key; a simulated crowd is many at once, with
seeded streams. What becomes of a value is the same code.
"""

from collections.abc import Callable

import numpy as np

from oracles.mechanisms.entropy import Source
from oracles.mechanisms.protocol import Oracle
from oracles.multi import Smp, Spl
from oracles.multi.attributes import Multi
from oracles.types import Ints, Reports, Rows
from producers.entropy import Purpose

Streams = Callable[[int, Purpose, tuple[int, ...]], Source]
"""The stream of an attribute, a purpose and classes, in one round or at one fresh answer."""

_Part = slice | Ints


class Respondents:
    """`count` clients in one round: their rows, their attribute, and the report of each class, made when needed."""

    def __init__(self, oracle: Oracle | Multi, count: int, streams: Streams) -> None:
        self.oracle = oracle
        self.count = count
        self._streams = streams
        self._rows: dict[int, Rows] = {}
        self._said: dict[tuple[int, int], Reports] = {}
        self._chosen: Ints | None = None

    def reports(self, values: Ints, part: _Part = slice(None)) -> Reports:
        """The answers of the clients of a part: their values, or records of shape (clients, attributes)."""
        oracle = self.oracle
        if isinstance(oracle, Oracle):
            return self._one(oracle, 0, values, part)
        columns = np.ascontiguousarray(values.T)
        if isinstance(oracle, Spl):
            return oracle.joined([self._one(e, j, columns[j], part) for j, e in enumerate(oracle.encoders)])
        if isinstance(oracle, Smp):
            return self._disclosed(oracle, columns, part)
        # The whole record of rsfd is one class: no part of it may stay while another moves.
        classes = tuple(map(int, values[0])) if self.count == 1 else ()
        return oracle.perturb(values, self._streams(0, Purpose.ANSWER, classes))

    def _disclosed(self, oracle: Smp, columns: Ints, part: _Part) -> Reports:
        if self._chosen is None:
            self._chosen = self._streams(0, Purpose.ATTRIBUTE, ()).below(len(oracle.encoders), self.count)
        answered = self._chosen[part]
        reports = oracle.disclosed(answered)
        everyone = np.arange(self.count)[part]
        for j, encoder in enumerate(oracle.encoders):
            these = np.flatnonzero(answered == j)
            if len(these):
                reports[these, 2 : 2 + encoder.width] = self._one(encoder, j, columns[j][these], everyone[these])
        return reports

    def _one(self, oracle: Oracle, attribute: int, values: Ints, part: _Part) -> Reports:
        """The reports of one attribute."""
        if attribute not in self._rows:
            self._rows[attribute] = oracle.rows(self.count, self._streams(attribute, Purpose.ROWS, ()))
        rows = self._rows[attribute]
        classes = oracle.classify(values, None if rows is None else rows[part])
        reports = np.empty((len(values), oracle.width), np.uint8)
        for number in np.unique(classes):
            those = np.flatnonzero(classes == number)
            reports[those] = self._class(oracle, attribute, int(number))[part][those]
        return reports

    def _class(self, oracle: Oracle, attribute: int, number: int) -> Reports:
        """The answer of each client whenever its class is this one."""
        if (attribute, number) not in self._said:
            stream = self._streams(attribute, Purpose.ANSWER, (number,))
            everyone = np.full(self.count, number, np.int64)
            self._said[attribute, number] = oracle.answer(everyone, self._rows[attribute], stream)
        return self._said[attribute, number]
