"""The answer about the values of one attribute among the clients with one value of another."""

from dataclasses import dataclass, fields
from typing import Annotated, Self

import numpy as np

from aggregator.board.answers import lookup
from aggregator.board.answers.parameters import Parameters
from aggregator.board.answers.reply import bad, missing
from aggregator.board.answers.rows import GroupName, Through, Withheld
from aggregator.board.answers.view import Definition, View
from aggregator.board.answers.window_answers import TableAnswer
from aggregator.board.store.store import Store
from aggregator.records.digits import rounded
from aggregator.records.rows import WindowRow
from hubbub.http.schema import Chance, Count, Digest, Known
from oracles.estimate.pairs import given
from oracles.query import Query
from oracles.types import Ints


@dataclass(frozen=True, kw_only=True, slots=True)
class GivenRow:
    """The share of one value among the clients with the other. Null if the noise leaves it unknown."""

    value: str
    share: Chance
    low: Chance
    high: Chance


@dataclass(frozen=True, kw_only=True, slots=True)
class MarginRow:
    """The share of one value among all clients."""

    share: Known
    low: Chance
    high: Chance


_UNKNOWN = MarginRow(share=None, low=None, high=None)


@dataclass(frozen=True, kw_only=True)
class GivenShares(TableAnswer):
    """A row of the table of a pair, as shares of that row."""

    table = "values"
    columns = tuple(field.name for field in fields(GivenRow))

    query: str
    digest: Digest
    group: GroupName
    attribute: str
    value: str
    of_attribute: str
    window: WindowRow
    final: bool
    through: Through
    n: Annotated[int, {"minimum": 0, "description": "Reports that answer the pair"}]
    n_independent: Count
    withheld: Withheld
    margin: Annotated[MarginRow, {"description": "The share of `value` by the table of the pair"}]
    single: Annotated[MarginRow, {"description": "The share of `value` by the reports that answer `attribute` alone"}]
    values: list[GivenRow]

    @classmethod
    def of(cls, store: Store, parameters: Parameters, name: str) -> Self:
        series, windows = lookup.windows(store, parameters, name)
        query = store.definition(series)
        attribute, second_attribute, pair = _pair(query, parameters)
        view = lookup.view_of(windows, parameters, Definition(query, pair))

        value = parameters.text("value")
        if value is None:
            raise bad("the parameter value is missing: name a value of `attribute`", parameter="value")
        position = query.domains[attribute].find(value)
        if position is None:
            raise missing(f"{value!r} is not a value of {query.attributes[attribute].name}", parameter="value")

        cells = _cells(query, pair, attribute, position)
        names = query.domains[second_attribute]
        return cls(
            query=view.record.query,
            digest=view.record.digest,
            group=lookup.group_name(query, view.record.group),
            attribute=query.attributes[attribute].name,
            value=value,
            of_attribute=query.attributes[second_attribute].name,
            window=WindowRow.of(view.record.span),
            final=view.record.final,
            through=view.part.through,
            n=view.part.n,
            n_independent=view.part.n_independent,
            withheld=view.part.withheld,
            margin=_margin(view, cells),
            single=_single(view, Definition(query, attribute), position),
            values=_rows(view, cells, [names.name(place) for place in range(names.size)]),
        )


def _pair(query: Query, parameters: Parameters) -> tuple[int, int, int]:
    """Return the numbers of the attribute, of the other one and of their pair."""
    names = [attribute.name for attribute in query.attributes]
    pairs = [attribute for attribute in query.attributes if attribute.pair]
    if not pairs:
        raise bad(f"query {query.name} has no pairs; add `pairs` to the query file", parameter="of")

    choices = [parameters.text(key) for key in ("attribute", "of")]
    for number, attribute in enumerate(query.attributes):
        # The query file has each pair in one order, but a request may ask for either side.
        places = attribute.pair
        if places is not None and [names[place] for place in places] in (choices, choices[::-1]):
            row, column = places if names[places[0]] == choices[0] else places[::-1]
            return row, column, number

    text = ", ".join(pair.name for pair in pairs)
    raise bad(f"name the two attributes of a pair as `attribute` and `of`; the pairs are {text}", parameter="of")


def _cells(query: Query, pair: int, attribute: int, position: int) -> Ints:
    """Return the positions of all pairs that hold the value of the attribute."""
    places = query.attributes[pair].pair or (0, 0)
    table = np.arange(query.domains[pair].size).reshape([query.domains[place].size for place in places])
    row: Ints = table[position] if places[0] == attribute else table[:, position]
    return row


def _rows(view: View, cells: Ints, names: list[str]) -> list[GivenRow]:
    # A share among the clients of a row needs all its cells, and `publish` may leave some out.
    if not view.whole:
        return [GivenRow(value=name, share=None, low=None, high=None) for name in names]
    shares = given(view.estimate, cells)
    columns = (map(rounded, column.tolist()) for column in (shares.share, shares.low, shares.high))
    rows = zip(names, *columns, strict=True)
    return [GivenRow(value=name, share=share, low=low, high=high) for name, share, low, high in rows]


def _single(view: View, definition: Definition, position: int) -> MarginRow:
    """Return the share of one value by the reports that answer its attribute alone."""
    if not view.record.shows(definition.name):  # a provisional window has no record of a withheld attribute
        return _UNKNOWN
    part = view.record.part(definition.name)
    return _margin(View(view.record, part, definition), np.array([position]))


def _margin(view: View, positions: Ints) -> MarginRow:
    if not view.part.n_independent or not view.whole:
        return _UNKNOWN
    share, _, low, high = map(rounded, view.estimate.of_set(positions))
    return MarginRow(share=share, low=low, high=high)
