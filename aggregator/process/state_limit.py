"""The limit of a worker's tallies. `hubbub check` and workers refuse definitions that need more memory."""

import argparse
import logging
from collections.abc import Collection
from dataclasses import dataclass

from hubbub.command.options import add_option, in_bytes, size, size_text
from hubbub.definitions.catalog import DefinitionsError
from hubbub.definitions.versions import open_panes
from oracles.query import Query
from oracles.query.footprint import INTEGER, tally_size

log = logging.getLogger(__name__)

MAX_STATE = 4 << 30
"""Bytes of the tallies of a worker above which definitions are refused, by default."""
REFUSING_RELEASE = "0.4.0"
"""The release in which a worker without the option refuses definitions, too."""


def add_max_state(parser: argparse.ArgumentParser) -> None:
    """Add the option of the limit. Without it the value is None."""
    add_option(
        parser,
        "HUBBUB_MAX_STATE",
        "--max-state",
        "maximum memory of a worker's tallies, such as 512MiB",
        note=f"default: {size_text(MAX_STATE)}",
        type=size,
        metavar="SIZE",
    )


def worker_bytes(query: Query, partitions: int) -> int:
    """Return the bytes of tallies in a worker with all partitions, if all panes are open that may be."""
    return query.slot_count(partitions) * open_panes(query) * tally_size(query) * INTEGER


@dataclass(frozen=True)
class StateLimit:
    """The limit of the tallies in a worker with all partitions, as one worker may be left with all of them."""

    partitions: int
    size: int | None = None
    """Maximum bytes; None: MAX_STATE, above which a worker only warns."""

    @property
    def limit(self) -> int:
        return MAX_STATE if self.size is None else self.size

    def faults(self, queries: Collection[Query]) -> list[str]:
        """Return why queries need too much memory. All together are only judged if each one fits."""
        faults = [fault for query in queries if (fault := self._query_fault(query))]
        # The sum of all queries adds nothing to a fault that names the query to change.
        if faults:
            return faults
        total_fault = self._total_fault(queries)
        return [total_fault] if total_fault else []

    def require(self, queries: Collection[Query]) -> None:
        """Raise a DefinitionsError if queries need too much memory. Only warn if the operator has set no limit."""
        text = "; ".join(self.faults(queries))
        if not text:
            return
        if self.size is not None:
            raise DefinitionsError(text)
        log.warning("%s. Release %s will refuse this. Set --max-state (HUBBUB_MAX_STATE)", text, REFUSING_RELEASE)

    def _query_fault(self, query: Query) -> str | None:
        """Return why a query needs too much memory, and what helps, or None if it fits."""
        need = worker_bytes(query, self.partitions)
        if need <= self.limit:
            return None

        tally = tally_size(query)
        panes = f"{open_panes(query)} open panes of {tally:,} integers each ({in_bytes(tally * INTEGER)})"
        return (
            f"queries.{query.name}: a worker with {self.partitions} partitions needs {in_bytes(need)} for {panes}, "
            f"above --max-state {in_bytes(self.limit)}; "
            "lengthen the pane, shorten lateness or skew, use fewer values or groups (for unknown strings "
            "fewer `cells` or a smaller `length`), or raise --max-state"
        )

    def _total_fault(self, queries: Collection[Query]) -> str | None:
        """Return why all queries of a file together need too much memory, or None if they fit."""
        needs = {query.name: worker_bytes(query, self.partitions) for query in queries}
        total = sum(needs.values())
        if total <= self.limit:
            return None

        # Changing the largest query saves most, so the text names it.
        largest_query = max(needs, key=lambda name: needs[name])
        return (
            f"queries: a worker with {self.partitions} partitions needs {in_bytes(total)} for the open panes of "
            f"all {len(needs):,}, above --max-state {in_bytes(self.limit)}; the largest is {largest_query} with "
            f"{in_bytes(needs[largest_query])}"
        )
