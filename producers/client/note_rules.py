"""The state of a recorder on a device, and the five rules by which the clock moves it.

A period is the number of whole lengths since 1970. An answer in period a tells about period a - 1. Nothing here reads a
clock or a file. tests/unit/test_recorder.py shows that no note is in two answers, however the clock jumps.
"""

import sys
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from oracles.errors import ReportError
from oracles.query.domain import Domain
from oracles.query.recorder import DAY, MOST, Recorder
from oracles.query.settings import shown

LONGEST_AWAY = 400 * DAY
"""Seconds after which a device forgets the state of a recorder that nobody used."""
MOST_COUNT = (1 << 31) - 1


class NoteState(NamedTuple):
    """The memory of a recorder. Notes of a period are one number, no more precise than the domain needs."""

    first_period: int
    """The first period of the recorder."""
    period: int
    total: int | None = None
    """The notes of `period` so far, or None if there is none."""
    past_answer: int | None = None
    """The position of the answer about the period before, or None if it has no note."""
    newest_note: int | None = None
    """The newest period before `period` with a note, or None."""


def turn(state: NoteState | None, period: int, length: int) -> NoteState:
    """Return the state in a period of the clock. `length` is that of a period in seconds."""
    # Rules 0 and 1: a state that is too old is deleted, and a new one begins.
    if state is None or (period - state.period) * length > LONGEST_AWAY:
        return NoteState(period, period)
    # Rule 2: a clock that was set back by less than two periods goes on in the newer one.
    if state.period - 1 <= period <= state.period:
        return state
    # Rule 4: the clock was far ahead. Its notes belong to no period of the device.
    if period < state.period:
        return NoteState(min(state.first_period, period), period)

    # Rule 3: only the period right before this one can be told.
    newest_note = state.newest_note if state.total is None else state.period
    past_answer = state.total if period == state.period + 1 else None
    return NoteState(state.first_period, period, None, past_answer, newest_note)


@dataclass(frozen=True)
class NoteRules:
    """The way in which the recorder of a query adds notes and answers."""

    recorder: Recorder
    domain: Domain

    def period_of(self, time_s: float) -> int:
        return int(time_s // self.recorder.period)

    def turn(self, state: NoteState | None, period: int) -> NoteState:
        """Return the state in a period of the clock. Of the period before it keeps the position of the answer alone."""
        turned_state = turn(state, period, self.recorder.period)
        if turned_state.past_answer is None or turned_state is state:
            return turned_state
        return turned_state._replace(past_answer=self._closed(turned_state.past_answer))

    def amount_of(self, note: Any) -> int:
        """Return what a note adds. Raise a ReportError if it is no note of this recorder."""
        if isinstance(note, np.integer | np.floating):
            note = note.item()
        keep = self.recorder.keep
        if keep == "count":
            return self._count_of(note)
        if keep == "max":
            is_number = isinstance(note, int | float) and not isinstance(note, bool)
            # Integers beyond the largest float are no numbers elsewhere.
            if not is_number or not abs(note) <= sys.float_info.max:
                raise ReportError(f"a note of this recorder must be a finite number, got {shown(note)}")
            # The order of values is that of their numbers, so the largest value is that of the largest number.
            return self.recorder.value_of(note, self.domain)
        if keep in ("last", "step"):
            form = self.domain.wrong_form(note)
            if form is not None:
                raise ReportError(f"a note of this recorder must be {form}, got {shown(note)}")
            return self.domain.position(note)
        if note is not None:
            raise ReportError(f'a recorder with keep = "{keep}" notes no value: call note(), got {shown(note)}')
        return 1

    def add(self, state: NoteState, amount: int, time_s: float) -> NoteState:
        """Return the state with a note. Turn the state first."""
        # `age` counts from the first period, which needs no note.
        if self.recorder.keep == "age":
            return state
        return state._replace(total=self._sum(state, amount, time_s))

    def wait(self, state: NoteState, period: int) -> int | None:
        """Return the period in which an answer is due if none can be given in this one, else None."""
        if period < state.period:
            return state.period
        if period == state.first_period and self.recorder.keep != "age":
            return period + 1
        return None

    def answer(self, state: NoteState) -> int:
        """Return the position of the answer in the period of the state."""
        recorder = self.recorder
        if recorder.keep == "age":
            return recorder.value_of(state.period - state.first_period, self.domain)
        if recorder.keep == "since" and state.newest_note is not None:
            return recorder.value_of(state.period - state.newest_note, self.domain)
        if recorder.keep == "since" or state.past_answer is None:
            return recorder.empty_position(self.domain)
        return state.past_answer

    def _closed(self, notes: int) -> int:
        """Return the position of the answer about the notes of a whole period."""
        if self.recorder.keep == "days":
            return self.recorder.value_of(notes.bit_count(), self.domain)
        return self.recorder.value_of(notes, self.domain) if self.recorder.keep == "count" else notes

    @property
    def _most(self) -> int:
        """The largest sum that changes the answer."""
        edges = self.recorder.edges
        return min(self.domain.top_amount if edges is None else edges[-1], MOST)

    def _count_of(self, note: Any) -> int:
        count = 1 if note is None else note
        if type(count) is not int or not 1 <= count <= MOST_COUNT:
            raise ReportError(f"a note of a count must be a whole number from 1 to {MOST_COUNT}, got {shown(note)}")
        return count

    def _sum(self, state: NoteState, amount: int, time_s: float) -> int:
        keep = self.recorder.keep
        if keep == "days":
            # A clock that was set back into the period before counts the first day.
            day = int(time_s - state.period * self.recorder.period) // DAY
            return (state.total or 0) | 1 << max(day, 0)
        if keep == "count":
            return min((state.total or 0) + amount, self._most)
        if state.total is None or keep == "last":
            return amount
        return max(state.total, amount)
