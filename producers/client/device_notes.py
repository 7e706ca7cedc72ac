"""The recorder of a client: its rules, and its state in the device's store of notes."""

from typing import Any, cast

from oracles.errors import ReportError
from oracles.query import Query
from oracles.query.domain import Domain
from producers.client.note_rules import NoteRules, NoteState
from producers.client.note_store import MemoryNotes, Notes
from producers.errors import NotYet


class DeviceNotes:
    """The notes of a device for one query, which may have no recorder."""

    def __init__(self, query: Query, notes: Notes | MemoryNotes) -> None:
        self._query = query
        self._notes = notes
        # A query with a recorder has one domain.
        self._rules = None if query.recorder is None else NoteRules(query.recorder, cast(Domain, query.domain))

    def open(self, time_s: float) -> None:
        """Turn the state to a time, or delete it if the query is over."""
        if self._rules is None:
            return
        until = self._query.until
        if until is not None and time_s >= until:
            self._notes.update(self._query.digest, lambda _: None)
        else:
            self._turn(self._rules, time_s)

    def note(self, value: Any, time_s: float) -> None:
        """Add a note. A wrong value raises a ReportError and changes nothing."""
        if self._rules is None:
            raise ReportError(f"query {self._query.name!r} has no recorder: give its answers with answer(value)")
        self._turn(self._rules, time_s, self._rules.amount_of(value))

    def check_value(self, value: object) -> None:
        """Refuse a value beside a recorder, and an answer without both."""
        if self._rules is not None and value is not None:
            raise ReportError(f"query {self._query.name!r} has a recorder, which gives the answer: pass no value")
        if self._rules is None and value is None:
            raise ReportError(f"query {self._query.name!r} needs a value, because it has no recorder")

    def wait(self, time_s: float) -> int | None:
        """Turn the state. Return the time from which an answer is due if none can be given now, else None."""
        if self._rules is None:
            return None
        period = self._rules.wait(self._turn(self._rules, time_s), self._rules.period_of(time_s))
        return None if period is None else period * self._rules.recorder.period

    def answer(self, time_s: float) -> int:
        """Return the position of the answer in the period of a time, for which the state was turned."""
        rules = cast(NoteRules, self._rules)
        state = self._notes.update(self._query.digest, lambda state: state)
        # Another process may have gone on to a later period. Its notes belong to the answer of that one.
        if state is None or state.period != rules.period_of(time_s):
            due = time_s if state is None else float(state.period * rules.recorder.period)
            raise NotYet(f"query {self._query.name!r} is in a later period by now", due)
        return rules.answer(state)

    def _turn(self, rules: NoteRules, time_s: float, amount: int | None = None) -> NoteState:
        """Turn the state to a time, and add a note to it in the same transaction."""
        period = rules.period_of(time_s)
        is_new_period = False

        def change(state: NoteState | None) -> NoteState:
            nonlocal is_new_period
            turned_state = rules.turn(state, period)
            is_new_period = state is None or turned_state.period != state.period
            return turned_state if amount is None else rules.add(turned_state, amount, time_s)

        state = cast(NoteState, self._notes.update(self._query.digest, change))
        if is_new_period:
            # The log of the file has every earlier state, which is more than a device may keep.
            self._notes.empty_log()
        return state
