"""The part of a store that a viewer may see."""

from collections.abc import Callable

from aggregator.board.store.store import Store
from aggregator.records.alert import Alert


class VisibleStore(Store):
    """A store whose lists have only some of the queries. An answer about another one is that of an unknown query."""

    def __init__(self, store: Store, sees: Callable[[str], bool]) -> None:
        """Take the whole store, and a test whether the viewer sees a query of this name."""
        # It has the memory of the store, not a copy of it, and lives as long as one request.
        vars(self).update(vars(store))
        self._sees = sees
        # A note may name any query, so it is for those who see all of them.
        self.notes = tuple

    @property
    def names(self) -> list[str]:
        return [name for name in super().names if self._sees(name)]

    def alerts(self) -> list[Alert]:
        return [alert for alert in super().alerts() if self._sees(alert.query)]
