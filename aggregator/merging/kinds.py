"""The kinds of answers in merging: a row for each kind whose windows are not merged like those of values."""

from typing import NamedTuple

from aggregator.merging.cumulative_window import CumulativeWindow, SearchWindow
from oracles.query import Query
from oracles.query.domain import NAMES
from oracles.query.footprint import MOST_BLOCK_VALUES


class MergedKind(NamedTuple):
    """How the windows of a kind of answer are merged, and what the states of finals hold."""

    cumulative_window: type[CumulativeWindow] = CumulativeWindow
    """The windows `all`."""
    has_provisional: bool = True
    """Whether open windows are published. Names that come and go with each pane would not be news."""
    has_comparisons: bool = True
    """Whether windows are compared with earlier ones, whose counts are kept for that."""
    has_search: bool = False
    """Whether finals search for names, which later finals need."""


_VALUES = MergedKind()
_KINDS = {NAMES: MergedKind(SearchWindow, has_provisional=False, has_comparisons=False, has_search=True)}


def kind_of(query: Query) -> MergedKind:
    """Return the kind of a query. Unknown strings are its only answer, so the first answer tells."""
    return _KINDS.get(query.domains[0].kind, _VALUES)


def has_blocks(query: Query) -> list[bool]:
    """Return for each attribute whether it has blocks, because it has few enough values."""
    has_comparisons = kind_of(query).has_comparisons
    return [has_comparisons and domain.size <= MOST_BLOCK_VALUES for domain in query.domains]
