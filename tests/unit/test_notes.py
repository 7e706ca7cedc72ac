"""The store of notes on a device, and the client that notes and answers from it."""

import multiprocessing
import os
import random
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from datetime import date
from pathlib import Path

import pytest

from oracles.errors import ReportError
from producers import BudgetSpent, Client, NotYet
from producers.client import ledger as ledger_module
from producers.client.ledger import Ledger
from producers.client.note_rules import NoteState
from producers.client.note_store import Notes
from producers.errors import StoreError
from tests.queries import make_query

DIGEST = b"12345678"
DAY = 86_400
START = 1_000 * DAY
SUMS = {"domain": 65_536, "oracle": "olh", "recorder": {"keep": "count"}, "period": "1d", "pane": "1h"}
SUMS |= {"epsilon": 2.0, "answers": "fresh", "budget": 100.0}
QUERY = make_query(**SUMS)


class Clock:
    def __init__(self, time_s=START):
        self.time_s = time_s

    def __call__(self):
        return self.time_s


def count(state):
    """Add a note in period 1."""
    state = state or NoteState(1, 1)
    return state._replace(total=(state.total or 0) + 1)


def state_of(notes):
    return notes.update(DIGEST, lambda state: state)


@pytest.fixture
def notes(tmp_path):
    return Notes(str(tmp_path / "store.notes"))


def test_a_note_survives_its_process_and_the_files_are_private(notes, tmp_path):
    notes.update(DIGEST, count)
    files = list(tmp_path.iterdir())
    assert {path.name for path in files} == {"store.notes", "store.notes-wal", "store.notes-shm"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert state_of(Notes(notes.path)) == NoteState(1, 1, 1)


def test_the_settings_are_those_that_a_kill_cannot_harm(notes):
    notes.update(DIGEST, count)
    database = notes._connection
    for pragma, value in {"journal_mode": "wal", "synchronous": 1, "secure_delete": 1}.items():
        assert database.execute(f"PRAGMA {pragma}").fetchone() == (value,)


def test_a_change_that_raises_is_undone(notes):
    notes.update(DIGEST, count)

    def fail(_):
        raise ReportError("no note")

    with pytest.raises(ReportError, match="no note"):
        notes.update(DIGEST, fail)
    assert state_of(notes) == NoteState(1, 1, 1)


def test_the_log_keeps_no_earlier_notes_after_it_is_emptied(notes):
    for _ in range(10):
        notes.update(DIGEST, count)
    log = Path(f"{notes.path}-wal")
    assert log.stat().st_size > 0
    notes.empty_log()
    assert log.stat().st_size == 0
    assert state_of(notes) == NoteState(1, 1, 10)


@pytest.mark.parametrize("damage", ["missing", "text", "cut", "version", "empty", "rows"])
def test_a_missing_or_damaged_file_is_a_new_one(notes, damage):
    notes.update(DIGEST, count)
    notes.close()
    path = Path(notes.path)
    if damage == "missing":
        path.unlink()
    elif damage == "rows":
        with sqlite3.connect(path) as database:
            database.execute("UPDATE recorder SET total = 'many'")
        database.close()
    elif damage == "version":
        with sqlite3.connect(path) as database:
            database.execute("PRAGMA user_version = 2")
        database.close()
    else:
        data = path.read_bytes()
        path.write_bytes({"text": b"x" * len(data), "cut": data[:5000], "empty": b""}[damage])
    assert state_of(Notes(notes.path)) is None
    assert notes.update(DIGEST, count) == NoteState(1, 1, 1)


def test_a_file_of_others_is_refused(notes, tmp_path):
    (tmp_path / "elsewhere").touch()
    Path(notes.path).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="symbolic link"):
        notes.update(DIGEST, count)


def test_a_full_disk_is_an_error_and_no_new_file(notes):
    notes.update(DIGEST, count)
    notes._connection.execute("PRAGMA max_page_count = 1")

    def fill():
        for number in range(1_000):
            notes.update(number.to_bytes(8, "little"), lambda _: NoteState(1, 1, 1))

    with pytest.raises(StoreError, match="full"):
        fill()
    assert state_of(notes) == NoteState(1, 1, 1)


def test_threads_and_processes_note_at_once(notes):
    def add():
        for _ in range(25):
            notes.update(DIGEST, count)

    # Forked with an open store, so each process must open its own connection.
    notes.update(DIGEST, count)
    processes = [multiprocessing.get_context("fork").Process(target=add) for _ in range(2)]
    for process in processes:
        process.start()
    threads = [threading.Thread(target=add) for _ in range(2)]
    for thread in threads:
        thread.start()
    for part in (*threads, *processes):
        part.join()
    assert [process.exitcode for process in processes] == [0, 0]
    assert state_of(notes) == NoteState(1, 1, 101)


def test_notes_in_memory_end_at_a_fork():
    ledger = Ledger(":memory:", first=True)
    ledger.notes.update(DIGEST, count)
    child = os.fork()
    if child == 0:
        try:
            ledger.notes.update(DIGEST, count)
        except StoreError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert state_of(ledger.notes) == NoteState(1, 1, 1)


def test_a_forgotten_file_is_new_for_each_process_that_has_it_open(notes):
    other_notes = Notes(notes.path)
    other_notes.update(DIGEST, count)
    notes.forget()
    assert not list(Path(notes.path).parent.iterdir())
    assert other_notes.update(DIGEST, count) == NoteState(1, 1, 1)
    notes.forget()
    notes.forget()


def test_forget_deletes_the_notes_first(tmp_path, monkeypatch):
    clock = Clock()
    client = Client(QUERY, tmp_path / "store", first=True, clock=clock)
    client.note(3)

    def fail(_):
        raise StoreError("the key stays")

    monkeypatch.setattr(ledger_module.DeviceKey, "destroy", fail)
    with pytest.raises(StoreError):
        client.forget()
    assert not (tmp_path / "store.notes").exists()
    assert (tmp_path / "store").exists()
    monkeypatch.undo()
    assert client.forget().startswith("Deleted the notes, the key, the store")
    assert not list(tmp_path.iterdir())


def test_the_store_of_charges_has_no_note_and_a_note_has_no_charge(tmp_path):
    clock = Clock()
    client = Client(QUERY, tmp_path / "store", first=True, clock=clock)
    charges = (tmp_path / "store").read_bytes()
    for _ in range(5):
        client.note(1)
    assert (tmp_path / "store").read_bytes() == charges
    assert client.spent == 0
    clock.time_s += DAY
    client.answer()
    assert client.spent == 2
    client.note()
    assert client.spent == 2


def test_a_store_without_recorders_makes_no_file_of_notes(tmp_path):
    client = Client(make_query(domain=["a", "b"], oracle="grr"), tmp_path / "store", first=True, clock=Clock())
    client.answer("a")
    assert not (tmp_path / "store.notes").exists()


def test_values_and_notes_of_the_wrong_query_are_refused_before_any_charge():
    clock = Clock()
    client = Client(QUERY, ":memory:", clock=clock)
    clock.time_s += DAY
    with pytest.raises(ReportError, match="pass no value"):
        client.answer(3)
    plain = Client(make_query(domain=["a", "b"], oracle="grr"), ":memory:", clock=clock)
    with pytest.raises(ReportError, match="needs a value"):
        plain.answer()
    with pytest.raises(ReportError, match="has no recorder"):
        plain.note(1)
    assert (client.spent, plain.spent) == (0, 0)


def test_a_device_that_begins_tells_nothing_in_its_first_period_and_pays_nothing():
    clock = Clock()
    client = Client(QUERY, ":memory:", clock=clock)
    client.note(4)
    with pytest.raises(NotYet) as error:
        client.answer()
    assert error.value.due // DAY == START // DAY + 1
    assert client.spent == 0


def test_a_device_that_has_spent_all_goes_on_to_note():
    clock = Clock()
    client = Client(make_query(**SUMS | {"budget": 2.0}), ":memory:", clock=clock)
    clock.time_s += DAY
    client.answer()
    clock.time_s += DAY
    client.note(5)
    with pytest.raises(BudgetSpent):
        client.answer()
    client.note(5)


def test_the_state_of_a_query_that_is_over_is_deleted(tmp_path):
    clock = Clock()
    query = make_query(**SUMS, until=date(1972, 10, 1))
    client = Client(query, tmp_path / "store", first=True, clock=clock)
    client.note(4)
    clock.time_s = query.until
    Client(query, tmp_path / "store", clock=clock)
    notes = Notes(str(tmp_path / "store.notes"))
    assert notes.update(query.digest, lambda state: state) is None


def test_an_answer_never_has_the_notes_of_a_later_period(tmp_path, monkeypatch):
    """A second process goes on to the next period while the first one is between its charge and its value."""
    clock = Clock()
    client = Client(QUERY, tmp_path / "store", first=True, clock=clock)
    other_clock = Clock(START + 2 * DAY)
    clock.time_s += DAY
    client.note(9)
    book = Ledger.check_item

    def go_on(ledger, transaction):
        book(ledger, transaction)
        monkeypatch.undo()
        other_client.note(1)

    other_client = Client(QUERY, tmp_path / "store", clock=lambda: START + DAY)
    other_client._clock = other_clock
    monkeypatch.setattr(Ledger, "check_item", go_on)
    with pytest.raises(NotYet, match="later period"):
        client.answer()


NOTING = """
import os, sys
from producers.client.note_store import Notes
from producers.client.note_rules import NoteState
notes = Notes(sys.argv[1])
def count(state):
    return (state or NoteState(1, 1, 0))._replace(total=state.total + 1 if state else 1)
while True:
    notes.update(b"12345678", count)
    os.write(1, b".")
"""


def notes_until_kill(path, least):
    """Note in a process, and kill it after so many notes. Return the number of notes that returned."""
    process = subprocess.Popen([sys.executable, "-c", NOTING, path], stdout=subprocess.PIPE)
    output = process.stdout.read(least)
    process.send_signal(signal.SIGKILL)
    rest, _ = process.communicate()
    return len(output + rest)


def check_kills(notes, numbers):
    """Kill a process again and again. Each note that returned counts once, and the one that was under way at most."""
    total = 0
    for least in numbers:
        returns = notes_until_kill(notes.path, least)
        counts = state_of(Notes(notes.path)).total - total
        assert returns <= counts <= returns + 1
        total += counts


def test_each_note_that_returned_is_counted_once_after_a_kill(notes):
    check_kills(notes, [7])


@pytest.mark.long
def test_each_note_that_returned_is_counted_once_after_many_kills(notes):
    rng = random.Random(1)
    check_kills(notes, [rng.randrange(1, 500) for _ in range(100)])
