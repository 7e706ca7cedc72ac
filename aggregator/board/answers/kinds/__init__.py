"""Answers of the API for the kinds of answers, one module a kind, all with the functions of `Kind`."""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from aggregator.board.answers.kinds import names, numbers, values
from aggregator.board.answers.parameters import Parameters
from aggregator.board.answers.rows import GroupAnswerRow, PointRow
from aggregator.board.answers.view import Definition, View
from aggregator.board.store.entry import Entry
from aggregator.board.store.series import Series
from aggregator.records.record import Record
from oracles.query.domain import NAMES, NUMBERS, VALUES


class Kind(Protocol):
    """The functions that answer about one kind."""

    def domain_fields(self, definition: Definition, /) -> dict[str, Any]:
        """Return the members of an attribute in the list of queries that depend on the kind."""

    def answer(self, series: Series, view: View, parameters: Parameters, /) -> dict[str, Any]:
        """Return the members of an estimate that depend on the kind."""

    def series(
        self, series: Series, definition: Definition, records: Sequence[Entry], value: str, parameters: Parameters, /
    ) -> tuple[dict[str, Any], Iterator[PointRow]]:
        """Return the members of a history that depend on the kind, and its points, each computed when it is needed."""

    def compare(self, view: View, names: list[str] | None, /) -> list[str] | None:
        """Return the names of a comparison as records write them. Raise a Problem if a name has no answer."""

    def group_names(self, total: View, names: list[str] | None, top: int, /) -> list[str]:
        """Return these names or, without them, the first `top` that a table of groups shows."""

    def group_level(self, total: View, listed: int, groups: int, /) -> float:
        """Return the level of intervals of so many answers that a table of groups lists without being asked."""

    def group_rows(self, group: str, part: Record, names: Sequence[str], level: float, /) -> Iterator[GroupAnswerRow]:
        """Yield the answers of one group, in the order of the names."""

    def leader(self, part: Record, /) -> dict[str, Any]:
        """Return the members of the overview about the first answer of a window."""


KINDS: dict[str, Kind] = {VALUES: values, NUMBERS: numbers, NAMES: names}


def kind_of(definition: Definition) -> Kind:
    """Return the kind of an attribute's answers. A kind without a module here is answered like values."""
    return KINDS.get(definition.domain.kind, values)
