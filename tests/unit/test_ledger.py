"""The store of a device. Writes are atomic, nobody else can read it, and processes do not disturb one another."""

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
from producers.client.ledger import Ledger
from producers.client.transaction import NoiseId
from producers.errors import StoreError

DIGEST = b"12345678"
ONE = Charge(1.0, 1)


def charge(transaction, name="q", epsilon=1.0, digest=DIGEST, start=0, times=1, used=0.0):
    transaction.add_charge(name, NoiseId(digest, start), Charge(epsilon, times), used)


def test_a_charge_is_on_disk_before_its_report_is_sent(tmp_path):
    """No test can cut the power. SQLite promises it with the level EXTRA, which is 3."""
    with Ledger(tmp_path / "store", first=True)._database() as database:
        assert database.execute("PRAGMA synchronous").fetchone() == (3,)
        assert database.execute("PRAGMA secure_delete").fetchone() == (1,)


def test_a_forgotten_key_is_overwritten_on_the_disk(tmp_path, monkeypatch):
    """A second name shows the blocks of the deleted file."""
    ledger = Ledger(tmp_path / "store", first=True)
    os.link(f"{ledger.store}.key", tmp_path / "blocks")
    key = (tmp_path / "blocks").read_bytes()
    assert any(key)

    contents_on_disk = []
    fsync = os.fsync

    def note_contents(handle):
        fsync(handle)
        contents_on_disk.append((tmp_path / "blocks").read_bytes())

    monkeypatch.setattr(os, "fsync", note_contents)
    ledger.forget()
    assert bytes(len(key)) in contents_on_disk


def test_a_store_refuses_another_key_than_its_own(tmp_path):
    """The key comes from the application, or from another device's backup. The store stays unchanged."""
    first_key = bytes([1] * 32)
    second_key = bytes([2] * 32)
    original = Ledger(tmp_path / "kept", first_key, first=True)
    with original.transaction() as transaction:
        charge(transaction)
    with pytest.raises(StoreError, match=r"not the first key of .*kept"):
        Ledger(tmp_path / "kept", second_key)
    with Ledger(tmp_path / "kept", first_key).transaction() as transaction:
        assert transaction.round_charge("q", DIGEST, 1.0, 0) == 1
    with Ledger(tmp_path / "beside").transaction() as transaction:
        charge(transaction)
    (tmp_path / "beside.key").write_bytes(second_key)
    with pytest.raises(StoreError, match="not the first key"):
        Ledger(tmp_path / "beside")
    assert first_key not in (tmp_path / "kept").read_bytes()


def test_a_store_from_before_key_marks_accepts_its_key(tmp_path):
    with Ledger(tmp_path / "store").transaction() as transaction:
        charge(transaction)
    with sqlite3.connect(tmp_path / "store") as database:
        database.executescript("DROP TABLE mark; PRAGMA user_version = 2")
    # The context of a connection commits, but does not close it.
    database.close()
    key = Ledger(tmp_path / "store").key
    assert Ledger(tmp_path / "store").key == key
    with pytest.raises(StoreError, match="not the first key"):
        Ledger(tmp_path / "store", bytes(32))


@pytest.fixture(params=["memory", "file"])
def ledger(request, tmp_path):
    return Ledger(":memory:" if request.param == "memory" else tmp_path / "store")


def test_a_transaction_reads_what_the_one_before_wrote(ledger):
    with ledger.transaction() as transaction:
        transaction.store_once_report(DIGEST, 60, b"report")
        transaction.enter_round(DIGEST, 60)
        transaction.add_answer(DIGEST)
        transaction.add_answer(DIGEST)
        transaction.set_answer_time("q", 1_700_000_000.25)
    with ledger.transaction() as transaction:
        assert transaction.once_report(DIGEST, 60) == b"report"
        assert transaction.once_report(DIGEST, 0) is None
        assert transaction.once_report(b"87654321", 60) is None
        assert transaction.last_round(DIGEST) == 60
        assert transaction.last_round(b"87654321") == 0
        assert transaction.count_answers(DIGEST) == 2
        assert transaction.count_answers(b"87654321") == 0
        assert transaction.answer_time("q") == 1_700_000_000.25
        assert transaction.answer_time("other") is None


def test_a_round_never_goes_back(ledger):
    with ledger.transaction() as transaction:
        transaction.enter_round(DIGEST, 60)
        transaction.enter_round(DIGEST, 30)
        assert transaction.last_round(DIGEST) == 60


def test_sums_are_exact_over_rounds_and_definitions(ledger):
    with ledger.transaction() as transaction:
        for _ in range(10):
            charge(transaction, "a", 0.1)
        charge(transaction, "a", 1.0)
        charge(transaction, "b", 0.3, b"b" * 8, 30, used=40.0)
        charge(transaction, "b", 0.7, b"b" * 8, 60, used=70.0)
        assert transaction.round_charge("a", DIGEST, 1.0, 0) == 10 * Fraction(0.1) + 1
        assert transaction.round_charge("a", DIGEST, 1.0, 60) == 0
        assert transaction.active_charge(39.0) == Fraction(0.3) + Fraction(0.7)
        assert transaction.active_charge(40.0) == Fraction(0.7), "used later, not at that time"
        assert transaction.total_charge() == 10 * Fraction(0.1) + 1 + Fraction(0.3) + Fraction(0.7)
        assert transaction.names() == ["a", "b"]


def test_a_transaction_that_raises_writes_nothing(ledger):
    def half():
        with ledger.transaction() as transaction:
            charge(transaction)
            transaction.store_once_report(DIGEST, 0, b"report")
            raise KeyError

    with pytest.raises(KeyError):
        half()
    with ledger.transaction() as transaction:
        assert transaction.total_charge() == 0
        assert transaction.once_report(DIGEST, 0) is None


def test_transactions_of_many_threads_are_sequential(ledger):
    def pay():
        for _ in range(20):
            with ledger.transaction() as transaction:
                if transaction.total_charge() < 50:
                    charge(transaction)

    threads = [threading.Thread(target=pay) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with ledger.transaction() as transaction:
        assert transaction.total_charge() == 50


def test_a_store_opened_before_a_fork_serves_both_sides(tmp_path):
    ledger = Ledger(tmp_path / "store")

    def pay():
        for _ in range(20):
            with ledger.transaction() as transaction:
                charge(transaction)

    children = [multiprocessing.get_context("fork").Process(target=pay) for _ in range(2)]
    for child in children:
        child.start()
    pay()
    for child in children:
        child.join()
        assert child.exitcode == 0
    with ledger.transaction() as transaction:
        assert transaction.total_charge() == 60


def test_a_store_in_memory_spends_nothing_in_a_forked_process():
    """Each process would have the whole budget. The process that made the store goes on."""
    ledger = Ledger(":memory:")
    with ledger.transaction() as transaction:
        charge(transaction)
    refusals = multiprocessing.get_context("fork").SimpleQueue()

    def pay():
        try:
            with ledger.transaction() as transaction:
                charge(transaction)
            refusals.put("")
        except StoreError as error:
            refusals.put(str(error))

    child = multiprocessing.get_context("fork").Process(target=pay)
    child.start()
    child.join()
    assert "fork" in refusals.get()
    with ledger.transaction() as transaction:
        charge(transaction)
        assert transaction.total_charge() == 2


def test_the_file_becomes_private(tmp_path):
    path = tmp_path / "store"
    # Without a mask the system would make a file that everybody can read.
    umask = os.umask(0)
    try:
        Ledger(path)
    finally:
        os.umask(umask)
    for file in (path, tmp_path / "store.key"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        file.chmod(0o644)
    Ledger(path)
    for file in (path, tmp_path / "store.key"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_file_that_vanishes_is_an_error_and_no_new_budget(tmp_path):
    ledger = Ledger(tmp_path / "store")
    (tmp_path / "store").unlink()
    with pytest.raises(StoreError, match="store"), ledger.transaction() as transaction:
        transaction.total_charge()
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("name", ["a?b", "a#b", "a%41b", "ä b"])
def test_a_file_may_have_any_name(tmp_path, name):
    with Ledger(tmp_path / name).transaction() as transaction:
        charge(transaction)
    with Ledger(str(tmp_path / name)).transaction() as transaction:
        assert transaction.total_charge() == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == [name, f"{name}.key"]


def test_other_files_are_refused(tmp_path):
    (tmp_path / "text").write_text("not a database, but long enough to be looked at as one" * 20)
    newer = sqlite3.connect(tmp_path / "newer")
    # One more than this release writes.
    newer.execute("PRAGMA user_version = 5")
    newer.close()
    refused = {"text": "not a database", "newer": "version 5", "no/folder": "No such file", ".": "is a folder"}
    for path, fault in refused.items():
        with pytest.raises(StoreError, match=fault):
            Ledger(tmp_path / path)


def test_a_key_is_made_once_and_stays(tmp_path):
    key = Ledger(tmp_path / "store").key
    assert len(key) == 32
    assert (tmp_path / "store.key").read_bytes() == key == Ledger(tmp_path / "store").key


def test_a_store_with_charges_but_without_its_key_is_refused(tmp_path):
    ledger = Ledger(tmp_path / "store")
    (tmp_path / "store.key").unlink()
    assert Ledger(tmp_path / "store").key != ledger.key, "nothing was drawn yet"
    with Ledger(tmp_path / "store").transaction() as transaction:
        charge(transaction)
    (tmp_path / "store.key").unlink()
    with pytest.raises(StoreError, match=r"key of .*store is missing"):
        Ledger(tmp_path / "store")
    assert not (tmp_path / "store.key").exists()


@pytest.mark.parametrize("key", [b"", b"1" * 31, b"1" * 33])
def test_a_key_of_another_length_is_refused_and_stays(tmp_path, key):
    Ledger(tmp_path / "store")
    (tmp_path / "store.key").write_bytes(key)
    with pytest.raises(StoreError, match=f"has {len(key)} bytes, a device key has 32"):
        Ledger(tmp_path / "store")
    assert (tmp_path / "store.key").read_bytes() == key


def test_a_truncated_store_is_refused(tmp_path):
    with Ledger(tmp_path / "store").transaction() as transaction:
        charge(transaction)
    # 4,096 bytes are a page of SQLite, so the header is whole and its tables are missing.
    whole_store = (tmp_path / "store").read_bytes()
    for length in (0, 100, 4096, len(whole_store) // 2):
        (tmp_path / "store").write_bytes(whole_store[:length])
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


def test_a_store_of_version_1_is_converted_without_its_answers(tmp_path):
    old = sqlite3.connect(tmp_path / "store")
    old.executescript(OLD)
    old.close()
    with Ledger(tmp_path / "store").transaction() as transaction:
        assert transaction.answer_time("q") == 1_700_000_000.25
        assert transaction.round_charge("q", DIGEST, 0.5, 0) == transaction.round_charge("q", DIGEST, 0.5, 60) == 1.5
        assert transaction.round_charge("q", DIGEST, 0.6, 0) == transaction.round_charge("p", DIGEST, 0.5, 0) == 0
        assert transaction.active_charge(1_700_000_000.0) == 1.5
        assert transaction.active_charge(1_700_000_000.25) == 0, "it counts from the last answer"
    assert len((tmp_path / "store.key").read_bytes()) == 32
    assert b"a report that was kept" not in (tmp_path / "store").read_bytes()
    Ledger(tmp_path / "store")


DYING_PROCESS = """
import os, signal, sys
from producers.client.ledger import Ledger
from producers.client.transaction import NoiseId
from oracles.mechanisms.protocol import Charge
with Ledger(sys.argv[1]).transaction() as transaction:
    transaction.add_charge("q", NoiseId(b"12345678", 0), Charge(1.0, 1), 0.0)
    transaction.store_once_report(b"12345678", 0, b"report" * 10_000)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_process_killed_in_a_transaction_leaves_no_trace_of_it(tmp_path):
    ledger = Ledger(tmp_path / "store")
    with ledger.transaction() as transaction:
        charge(transaction, epsilon=0.25)
    process = subprocess.run([sys.executable, "-c", DYING_PROCESS, tmp_path / "store"], check=False)
    assert process.returncode == -signal.SIGKILL
    with ledger.transaction() as transaction:
        assert transaction.total_charge() == 0.25
        assert transaction.once_report(DIGEST, 0) is None
