"""The rules of a recorder: the vectors, lives with clocks that jump, and their wrong notes."""

import json
import random
import tomllib
from pathlib import Path

import pytest

from oracles.errors import ReportError
from oracles.query import parse
from oracles.query.domain import Domain
from oracles.query.recorder import Recorder
from producers import Client, Ledger, NotYet
from producers.client.note_rules import NoteRules, NoteState, turn
from tests.unit.reference_recorder import Reference

DAY = 86_400
VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "recorder.json").read_text())


def query_of(text):
    (query,) = parse(tomllib.loads(text), "a life", None).values()
    return query


def make_query(recorder, domain="8", period="1d"):
    return query_of(
        f"[queries.uses]\ndomain = {domain}\nrecorder = {recorder}\nperiod = '{period}'\nepsilon = 2.0\n"
        "pane = '1h'\nanswers = 'fresh'\nbudget = 1000.0\n"
    )


def test_there_are_at_least_60_lives_of_every_kind():
    queries = [query_of(life["query"]) for life in VECTORS]
    assert len(queries) >= 60
    assert {query.recorder.keep for query in queries} == {"count", "max", "last", "step", "days", "since", "age"}
    assert {query.answers for query in queries} == {"life", "once", "fresh"}


@pytest.mark.parametrize("number", range(len(VECTORS)))
def test_a_client_lives_the_vectors_byte_for_byte(number):
    life = VECTORS[number]
    clock = [life["steps"][0]["at"]]
    query = query_of(life["query"])
    ledger = Ledger(":memory:", bytes.fromhex(life["key"]), first=True)
    client = Client(query, ledger, max_epsilon=1e6, clock=lambda: clock[0])
    for step in life["steps"]:
        clock[0] = step["at"]
        if "note" in step:
            client.note(step["note"])
        elif "not_yet" in step:
            with pytest.raises(NotYet) as error:
                client.answer()
            assert error.value.due == step["not_yet"]
        else:
            assert bytes(client.answer()[0]).hex() == step["report"]


def position_of(query, number):
    """Return the position of a value or a number of the reference."""
    recorder = query.recorder
    domain = query.domain
    if number is None or number == []:
        return domain.position(recorder.empty)
    if recorder.keep == "step":
        return max(map(domain.position, number))
    if recorder.keep == "last":
        return domain.position(number)
    number = max(number) if recorder.keep == "max" else number
    if recorder.edges:
        return max([0] + [place for place, edge in enumerate(recorder.edges) if edge <= number])
    return domain.position(number) if domain.scale else int(min(max(number, 0), domain.size - 1))


@pytest.mark.parametrize("number", range(len(VECTORS)))
def test_a_literal_recorder_gives_the_answers_of_the_vectors(number):
    life = VECTORS[number]
    query = query_of(life["query"])
    reference = Reference(query.recorder.keep, query.period)
    last_answer = None
    for step in life["steps"]:
        if "note" in step:
            reference.note(step["at"], step["note"])
            continue
        due = reference.due(step["at"])
        is_answered = last_answer is not None and step["at"] // query.period <= last_answer
        if "not_yet" in step:
            due = last_answer + 1 if is_answered else due
            assert step["not_yet"] // query.period == due
        else:
            assert not is_answered
            assert due is None
            assert step["answer"] == position_of(query, reference.number())
            last_answer = step["at"] // query.period


BITS = NoteRules(Recorder("count", None, None, DAY), Domain(None, 1 << 32, other=False))
"""A sum of 31 different bits, which tells each of its notes."""


def live(seed, *, jumps):
    """Live with up to 31 notes, each a bit of its own. Return the times of the notes and the sums of the answers."""
    rng = random.Random(seed)
    time_s = 1_000.0 * DAY
    state = BITS.turn(None, BITS.period_of(time_s))
    last_answer = None
    notes, answers = [], {}
    for _ in range(60):
        step = rng.choice([0.0, 0.2, 0.4, 1.0, 1.0])
        if jumps and rng.random() < 0.3:
            step = rng.choice([-100, -2, -1, 1, 2, 100, -0.5, 0.5])
        time_s += step * DAY
        period = BITS.period_of(time_s)
        state = BITS.turn(state, period)
        if rng.random() < 0.5 and len(notes) < 31:
            state = BITS.add(state, BITS.amount_of(1 << len(notes)), time_s)
            notes.append(period)
        elif (last_answer is None or period > last_answer) and BITS.wait(state, period) is None:
            answers[period] = BITS.answer(state)
            last_answer = period
    return notes, answers


def test_no_note_is_in_two_answers_however_the_clock_jumps():
    bits = 0
    for seed in range(1_000):
        _, answers = live(seed, jumps=True)
        earlier_notes = 0
        for notes in answers.values():
            assert not earlier_notes & notes
            earlier_notes |= notes
        bits += earlier_notes.bit_count()
    assert bits > 1_000, "the lives tell notes"


def test_on_a_clock_that_only_goes_forward_an_answer_has_all_notes_of_its_period():
    for seed in range(300):
        notes, answers = live(seed, jumps=False)
        for period, answer in answers.items():
            assert answer == sum(1 << place for place, own_period in enumerate(notes) if own_period == period - 1)


@pytest.mark.parametrize(
    ("state", "period", "result"),
    [
        (None, 7, NoteState(7, 7)),
        (NoteState(5, 7, 1, 2, 6), 7, NoteState(5, 7, 1, 2, 6)),
        (NoteState(5, 7, 1, 2, 6), 6, NoteState(5, 7, 1, 2, 6)),
        (NoteState(5, 7, 1, 2, 6), 8, NoteState(5, 8, None, 1, 7)),
        (NoteState(5, 7, None, 2, 6), 8, NoteState(5, 8, None, None, 6)),
        (NoteState(5, 7, 1, 2, 6), 9, NoteState(5, 9, None, None, 7)),
        (NoteState(5, 7, 1, 2, 6), 5, NoteState(5, 5)),
        (NoteState(5, 7, 1, 2, 6), 3, NoteState(3, 3)),
        (NoteState(5, 7, 1, 2, 6), 407, NoteState(5, 407, None, None, 7)),
        (NoteState(5, 7, 1, 2, 6), 408, NoteState(408, 408)),
    ],
)
def test_each_rule_turns_the_state(state, period, result):
    assert turn(state, period, DAY) == result


@pytest.mark.parametrize(
    ("recorder", "domain", "wrong"),
    [
        ('{ keep = "count" }', "8", [0, -1, 1.0, True, "1", 1 << 31]),
        ('{ keep = "max", empty = 0 }', "8", [None, "1", True, float("nan"), float("inf"), 10**400]),
        ('{ keep = "last", empty = "a" }', '["a", "b"]', [None, 1, "c"]),
        ('{ keep = "step", empty = 0 }', "8", [None, 8, -1, 1.5]),
        ('{ keep = "days" }', "8", [1, "a", False]),
        ('{ keep = "since", empty = 7 }', "8", [0]),
        ('{ keep = "age" }', "8", [0]),
    ],
)
def test_a_wrong_note_is_an_error_and_changes_nothing(recorder, domain, wrong):
    ledger = Ledger(":memory:", first=True)
    query = make_query(recorder, domain)
    clock = [1000 * DAY]
    client = Client(query, ledger, clock=lambda: clock[0])
    states = ledger.notes._states.copy()
    clock[0] += 50 * DAY
    for value in wrong:
        with pytest.raises(ReportError, match=r"note|value"):
            client.note(value)
    assert ledger.notes._states == states


def test_a_state_is_no_more_precise_than_the_domain():
    query = make_query('{ keep = "count", edges = [0, 1, 5] }', '["none", "some", "many"]')
    rules = NoteRules(query.recorder, query.domain)
    state = rules.turn(None, 10)
    for _ in range(9):
        state = rules.add(state, 3, 10 * DAY)
    assert state.total == 5, "the last edge"
    assert rules.turn(state, 11).past_answer == 2, "the answer alone"

    days = make_query('{ keep = "days" }', period="7d")
    rules = NoteRules(days.recorder, days.domain)
    state = rules.turn(None, 10)
    for day in (0, 3, 3, 6):
        state = rules.add(state, 1, (70 + day) * DAY)
    assert rules.turn(state, 11).past_answer == 3, "the number of days, not which"
