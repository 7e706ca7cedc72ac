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

from producers.errors import StoreError
from producers.ledger import Ledger

DIGEST = b"12345678"


@pytest.fixture(params=["memory", "file"])
def ledger(request, tmp_path):
    return Ledger(":memory:" if request.param == "memory" else tmp_path / "store")


def test_what_is_written_on_a_page_is_read_on_the_next(ledger):
    with ledger.page() as page:
        page.remember(DIGEST, (3, 1), b"report")
        page.charge("q", 0.5)
        page.answered("q", 1_700_000_000.25)
    with ledger.page() as page:
        assert page.report(DIGEST, (3, 1)) == b"report"
        assert page.last("q") == 1_700_000_000.25
        assert page.report(DIGEST, (31,)) is None
        assert page.report(b"87654321", (3, 1)) is None
        assert page.last("other") is None


def test_sums_are_exact_over_names_and_epsilons(ledger):
    with ledger.page() as page:
        for _ in range(10):
            page.charge("a", 0.1)
        page.charge("a", 1.0)
        page.charge("b", 0.3)
        assert page.spent("a") == 10 * Fraction(0.1) + 1
        assert page.spent() == 10 * Fraction(0.1) + 1 + Fraction(0.3)
        assert page.spent("nobody") == 0


def test_a_page_that_raises_was_never_written(ledger):
    def half():
        with ledger.page() as page:
            page.charge("q", 1.0)
            page.remember(DIGEST, (0,), b"report")
            raise KeyError

    with pytest.raises(KeyError):
        half()
    with ledger.page() as page:
        assert page.spent() == 0
        assert page.report(DIGEST, (0,)) is None


def test_pages_of_one_store_in_many_threads_follow_one_another(ledger):
    def charge():
        for _ in range(20):
            with ledger.page() as page:
                if page.spent("q") < 50:
                    page.charge("q", 1.0)

    threads = [threading.Thread(target=charge) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with ledger.page() as page:
        assert page.spent("q") == 50


def test_a_store_opened_before_a_fork_serves_both_sides(tmp_path):
    ledger = Ledger(tmp_path / "store")

    def charge():
        for _ in range(20):
            with ledger.page() as page:
                page.charge("q", 1.0)

    children = [multiprocessing.get_context("fork").Process(target=charge) for _ in range(2)]
    for child in children:
        child.start()
    charge()
    for child in children:
        child.join()
        assert child.exitcode == 0
    with ledger.page() as page:
        assert page.spent() == 60


def test_the_file_is_private_also_where_it_was_not(tmp_path):
    path = tmp_path / "store"
    before = os.umask(0)
    try:
        Ledger(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    Ledger(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_that_vanishes_is_an_error_and_no_new_budget(tmp_path):
    ledger = Ledger(tmp_path / "store")
    (tmp_path / "store").unlink()
    with pytest.raises(StoreError, match="store"), ledger.page() as page:
        page.spent()
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("name", ["a?b", "a#b", "a%41b", "ä b"])
def test_any_name_of_a_file_will_do(tmp_path, name):
    with Ledger(tmp_path / name).page() as page:
        page.charge("q", 1.0)
    with Ledger(str(tmp_path / name)).page() as page:
        assert page.spent() == 1
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_what_is_no_store_is_refused(tmp_path):
    (tmp_path / "text").write_text("not a database, but long enough to be looked at as one" * 20)
    newer = sqlite3.connect(tmp_path / "newer")
    newer.execute("PRAGMA user_version = 2")
    newer.close()
    refused = {"text": "not a database", "newer": "version 2", "no/folder": "No such file", ".": "unable to open"}
    for path, fault in refused.items():
        with pytest.raises(StoreError, match=fault):
            Ledger(tmp_path / path)


KILLED = """
import os, signal, sys
from producers.ledger import Ledger
with Ledger(sys.argv[1]).page() as page:
    page.charge("q", 1.0)
    page.remember(b"12345678", (0,), b"report" * 10_000)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_process_killed_on_a_page_leaves_no_trace_of_it(tmp_path):
    ledger = Ledger(tmp_path / "store")
    with ledger.page() as page:
        page.charge("q", 0.25)
    done = subprocess.run([sys.executable, "-c", KILLED, tmp_path / "store"], check=False)
    assert done.returncode == -signal.SIGKILL
    with ledger.page() as page:
        assert page.spent() == 0.25
        assert page.report(DIGEST, (0,)) is None
