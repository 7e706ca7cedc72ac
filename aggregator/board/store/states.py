"""The states of all queries, and which of them have changed since the last look. Pure."""

from dataclasses import dataclass

from aggregator.board.store.store import Store
from aggregator.records.status import State


@dataclass(frozen=True, kw_only=True, slots=True)
class StateChange:
    """The data of a `state` event."""

    query: str
    state: State
    latest: int | None
    """The end of the newest final of any kind."""
    newest_report: int | None
    """The end of the newest closed pane with reports, or None if it is unknown."""


class States:
    """The newest state of each query. Time alone can change a state, so the board looks regularly."""

    def __init__(self) -> None:
        self._states: dict[str, State] = {}

    def changes(self, store: Store) -> list[StateChange]:
        """Return the states that have changed since the last call."""
        changes = []
        for name in store.names:
            series = store.series(name)
            state = store.state(series)
            if self._states.get(name) != state:
                self._states[name] = state
                status = store.status(series)
                change = StateChange(
                    query=name,
                    state=state,
                    latest=series.latest_end,
                    newest_report=status.newest_report if status else None,
                )
                changes.append(change)
        return changes
