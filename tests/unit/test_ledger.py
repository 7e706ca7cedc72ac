"""The store of a device: nothing half written, nothing read by others, no process in another's way."""

import multiprocessing
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from fractions import Fraction

import pytest

from oracles.mechanisms.protocol import Charge
from producers.entropy import Mode
from producers.errors import StoreError
from producers.ledger import Ledger

DIGEST = b"12345678"
ONE = Charge(1.0, 1)


def charge(page, name="q", epsilon=1.0, digest=DIGEST, begun=0, times=1):
    page.charge(name, digest, begun, Mode.KEPT, Charge(epsilon, times))


def test_another_key_than_the_one_a_store_began_with_is_refused(tmp_path):
    """Given by the application, or restored from another device's backup; the store stays as it was."""
    one, two = bytes([1] * 32), bytes([2] * 32)
    kept = Ledger(tmp_path / "kept", one)
    with kept.page() as page:
        charge(page)
    with pytest.raises(StoreError, match=r"not the one that .*kept began with"):
        Ledger(tmp_path / "kept", two)
    with Ledger(tmp_path / "kept", one).page() as page:
        assert page.spent("q", DIGEST, 1.0, 0) == 1
    with Ledger(tmp_path / "beside").page() as page:
        charge(page)
    (tmp_path / "beside.key").write_bytes(two)
    with pytest.raises(StoreError, match="began with"):
        Ledger(tmp_path / "beside")
    assert one not in (tmp_path / "kept").read_bytes()


def test_a_store_that_was_made_before_keys_were_marked_takes_the_one_that_it_has(tmp_path):
    with Ledger(tmp_path / "store").page() as page:
        charge(page)
    with sqlite3.connect(tmp_path / "store") as database:
        database.execute("DROP TABLE mark")
    database.close()
    key = Ledger(tmp_path / "store").key
    assert Ledger(tmp_path / "store").key == key
    with pytest.raises(StoreError, match="began with"):
        Ledger(tmp_path / "store", bytes(32))


@pytest.fixture(params=["memory", "file"])
def ledger(request, tmp_path):
    return Ledger(":memory:" if request.param == "memory" else tmp_path / "store")


def test_what_is_written_on_a_page_is_read_on_the_next(ledger):
    with ledger.page() as page:
        page.keep(DIGEST, 60, b"report")
        page.enter(DIGEST, 60)
        page.give(DIGEST)
        page.give(DIGEST)
        page.answered("q", 1_700_000_000.25)
    with ledger.page() as page:
        assert page.report(DIGEST, 60) == b"report"
        assert page.report(DIGEST, 0) is None
        assert page.report(b"87654321", 60) is None
        assert (page.round(DIGEST), page.round(b"87654321")) == (60, 0)
        assert (page.given(DIGEST), page.given(b"87654321")) == (2, 0)
        assert page.last("q") == 1_700_000_000.25
        assert page.last("other") is None


def test_a_round_never_goes_back(ledger):
    with ledger.page() as page:
        page.enter(DIGEST, 60)
        page.enter(DIGEST, 30)
        assert page.round(DIGEST) == 60


def test_sums_are_exact_over_rounds_and_definitions(ledger):
    with ledger.page() as page:
        for _ in range(10):
            charge(page, "a", 0.1)
        charge(page, "a", 1.0)
        charge(page, "b", 0.3, b"b" * 8, 30)
        charge(page, "b", 0.7, b"b" * 8, 60)
        assert page.spent("a", DIGEST, 1.0, 0) == 10 * Fraction(0.1) + 1
        assert page.spent("a", DIGEST, 1.0, 60) == 0
        assert page.total(DIGEST, 0) == 10 * Fraction(0.1) + 1 + Fraction(0.7), "of b its latest round"
        assert page.total(b"b" * 8, 90) == 10 * Fraction(0.1) + 1
        assert page.everything() == 10 * Fraction(0.1) + 1 + Fraction(0.3) + Fraction(0.7)
        assert page.names() == ["a", "b"]


def test_a_page_that_raises_was_never_written(ledger):
    def half():
        with ledger.page() as page:
            charge(page)
            page.keep(DIGEST, 0, b"report")
            raise KeyError

    with pytest.raises(KeyError):
        half()
    with ledger.page() as page:
        assert page.everything() == 0
        assert page.report(DIGEST, 0) is None


def test_pages_of_one_store_in_many_threads_follow_one_another(ledger):
    def pay():
        for _ in range(20):
            with ledger.page() as page:
                if page.everything() < 50:
                    charge(page)

    threads = [threading.Thread(target=pay) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with ledger.page() as page:
        assert page.everything() == 50


def test_a_store_opened_before_a_fork_serves_both_sides(tmp_path):
    ledger = Ledger(tmp_path / "store")

    def pay():
        for _ in range(20):
            with ledger.page() as page:
                charge(page)

    children = [multiprocessing.get_context("fork").Process(target=pay) for _ in range(2)]
    for child in children:
        child.start()
    pay()
    for child in children:
        child.join()
        assert child.exitcode == 0
    with ledger.page() as page:
        assert page.everything() == 60


def test_the_file_is_private_also_where_it_was_not(tmp_path):
    path = tmp_path / "store"
    before = os.umask(0)
    try:
        Ledger(path)
    finally:
        os.umask(before)
    for file in (path, tmp_path / "store.key"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        file.chmod(0o644)
    Ledger(path)
    for file in (path, tmp_path / "store.key"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_file_that_vanishes_is_an_error_and_no_new_budget(tmp_path):
    ledger = Ledger(tmp_path / "store")
    (tmp_path / "store").unlink()
    with pytest.raises(StoreError, match="store"), ledger.page() as page:
        page.everything()
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("name", ["a?b", "a#b", "a%41b", "ä b"])
def test_any_name_of_a_file_will_do(tmp_path, name):
    with Ledger(tmp_path / name).page() as page:
        charge(page)
    with Ledger(str(tmp_path / name)).page() as page:
        assert page.everything() == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == [name, f"{name}.key"]


def test_what_is_no_store_is_refused(tmp_path):
    (tmp_path / "text").write_text("not a database, but long enough to be looked at as one" * 20)
    newer = sqlite3.connect(tmp_path / "newer")
    newer.execute("PRAGMA user_version = 3")
    newer.close()
    refused = {"text": "not a database", "newer": "version 3", "no/folder": "No such file", ".": "unable to open"}
    for path, fault in refused.items():
        with pytest.raises(StoreError, match=fault):
            Ledger(tmp_path / path)


def test_a_key_is_made_once_and_stays(tmp_path):
    key = Ledger(tmp_path / "store").key
    assert len(key) == 32
    assert (tmp_path / "store.key").read_bytes() == key == Ledger(tmp_path / "store").key


def test_a_store_without_its_key_is_refused_where_something_was_charged(tmp_path):
    ledger = Ledger(tmp_path / "store")
    (tmp_path / "store.key").unlink()
    assert Ledger(tmp_path / "store").key != ledger.key, "nothing was drawn yet"
    with Ledger(tmp_path / "store").page() as page:
        charge(page)
    (tmp_path / "store.key").unlink()
    with pytest.raises(StoreError, match=r"key of .*store is gone"):
        Ledger(tmp_path / "store")
    assert not (tmp_path / "store.key").exists()


@pytest.mark.parametrize("key", [b"", b"1" * 31, b"1" * 33])
def test_a_key_of_another_length_is_refused_and_stays(tmp_path, key):
    Ledger(tmp_path / "store")
    (tmp_path / "store.key").write_bytes(key)
    with pytest.raises(StoreError, match=f"has {len(key)} bytes where a device key has 32"):
        Ledger(tmp_path / "store")
    assert (tmp_path / "store.key").read_bytes() == key


def test_a_store_that_was_cut_off_is_refused(tmp_path):
    with Ledger(tmp_path / "store").page() as page:
        charge(page)
    whole = (tmp_path / "store").read_bytes()
    for length in (0, 100, 4096, len(whole) // 2):
        (tmp_path / "store").write_bytes(whole[:length])
        with pytest.raises(StoreError, match="store"):
            Ledger(tmp_path / "store")


OLD = """
CREATE TABLE memo (digest BLOB, answer TEXT, report BLOB NOT NULL, PRIMARY KEY (digest, answer));
CREATE TABLE spent (name TEXT, epsilon REAL, times INTEGER NOT NULL, PRIMARY KEY (name, epsilon));
CREATE TABLE last (name TEXT PRIMARY KEY, at REAL NOT NULL);
INSERT INTO memo VALUES (x'3132333435363738', '3,1', 'a report that was kept');
INSERT INTO spent VALUES ('q', 0.5, 3);
INSERT INTO last VALUES ('q', 1700000000.25);
PRAGMA user_version = 1;
"""


def test_a_store_of_version_1_is_taken_over_without_its_answers(tmp_path):
    old = sqlite3.connect(tmp_path / "store")
    old.executescript(OLD)
    old.close()
    with Ledger(tmp_path / "store").page() as page:
        assert page.last("q") == 1_700_000_000.25
        assert page.spent("q", DIGEST, 0.5, 0) == page.spent("q", DIGEST, 0.5, 60) == 1.5
        assert page.spent("q", DIGEST, 0.6, 0) == page.spent("p", DIGEST, 0.5, 0) == 0
        assert page.total(DIGEST, 0) == 1.5
    assert len((tmp_path / "store.key").read_bytes()) == 32
    assert b"a report that was kept" not in (tmp_path / "store").read_bytes()
    Ledger(tmp_path / "store")


KILLED = """
import os, signal, sys
from producers.ledger import Ledger
from oracles.mechanisms.protocol import Charge
with Ledger(sys.argv[1]).page() as page:
    page.charge("q", b"12345678", 0, 0, Charge(1.0, 1))
    page.keep(b"12345678", 0, b"report" * 10_000)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_process_killed_on_a_page_leaves_no_trace_of_it(tmp_path):
    ledger = Ledger(tmp_path / "store")
    with ledger.page() as page:
        charge(page, epsilon=0.25)
    done = subprocess.run([sys.executable, "-c", KILLED, tmp_path / "store"], check=False)
    assert done.returncode == -signal.SIGKILL
    with ledger.page() as page:
        assert page.everything() == 0.25
        assert page.report(DIGEST, 0) is None
