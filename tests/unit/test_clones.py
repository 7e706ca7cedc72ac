"""Devices that are made from one image: no two have one key, and a copy of a store is noticed."""

import hashlib
import hmac
import shutil
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from oracles import oracle
from oracles.errors import ParameterError
from producers import Client, Ledger, StoreError
from producers.client import machine
from producers.client.clones import derive
from producers.client.machine import machine_id
from producers.client.respondents import Respondents
from producers.entropy import Keyed
from tests.queries import make_query

QUERY = make_query(domain=1 << 22, oracle="olh")
KEY = bytes(range(32))
ONE, TWO = b"device-1", b"device-2"


def answer(store, **settings):
    """The bytes of one answer. The value is always the same."""
    return Client(QUERY, store, **settings).answer(7).tobytes()


def copy(store, folder):
    """A copy of a store and its key in another folder."""
    folder.mkdir()
    for name in (store, Path(f"{store}.key")):
        if name.exists():
            shutil.copy(name, folder / name.name)
    return folder / store.name


@pytest.fixture
def computer(tmp_path, monkeypatch):
    """A function that makes this process run on the machine of a name, with files of its own."""
    # The tests may run in a container themselves, which would count as no machine.
    for variable in ("container", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(variable, raising=False)

    def run_on(name):
        root = tmp_path / "machines" / name
        (root / "etc").mkdir(parents=True, exist_ok=True)
        (root / "etc/machine-id").write_text(hashlib.md5(name.encode(), usedforsecurity=False).hexdigest() + "\n")
        monkeypatch.setattr(machine, "ROOT", root)
        return root

    run_on("first")
    return run_on


def test_the_installation_goes_into_the_key_of_a_new_store(tmp_path):
    ledger = Ledger(tmp_path / "store", installation=ONE)
    secret = (tmp_path / "store.key").read_bytes()
    assert ledger.key == hmac.digest(secret, b"hubbub installation" + ONE, "sha256")
    assert Ledger(tmp_path / "store", installation=ONE).key == ledger.key
    assert ONE not in (tmp_path / "store").read_bytes()


def test_the_key_of_an_installation_is_that_of_the_wire_format():
    noise_key = "6071c5465e3f29b4cc0f21c7257320355adc10dd24e08819e0915c3154b54d7e"
    assert Ledger(":memory:", KEY, installation=ONE).key.hex() == noise_key
    assert noise_key in (Path(__file__).parents[2] / "docs/wire-format.md").read_text()


def test_devices_of_one_image_with_one_key_draw_different_noise(tmp_path):
    """20 devices get the application's key from their image. Two reports are equal with probability below 1e-5."""
    without = {answer(tmp_path / f"clone-{i}", key=KEY, first=True) for i in range(20)}
    assert len(without) == 1
    reports = {answer(tmp_path / f"device-{i}", key=KEY, first=True, installation=b"%d" % i) for i in range(20)}
    assert len(reports) == 20
    assert reports == {answer(":memory:", key=KEY, installation=b"%d" % i) for i in range(20)}, "in memory the same"


def error(name, installations):
    """The mean squared error over the stated variance. 1,000 of 5,000 devices have one key in their image."""
    o = oracle(name, epsilon=1.0, size=16)
    # One seed, so that the figures below are those of the bound in the test.
    rng = np.random.default_rng(1)
    values = rng.integers(0, 16, 5000)
    reports = [o.perturb(values[1000:], rng)]
    for value, installation in zip(values[:1000], installations, strict=True):
        key = derive(KEY, installation)
        device = Respondents(o, 1, lambda j, purpose, classes, key=key: Keyed(key, bytes(8), j, 0, purpose, 0, classes))
        reports.append(device.reports(np.array([value])))
    state = o.zeros()
    o.add(state, np.concatenate(reports))
    estimates = (o.support(state, 5000) / 5000 - o.q) / (o.p - o.q)
    return float(np.mean((estimates - np.bincount(values, minlength=16) / 5000) ** 2 / o.variance(5000, 1 / 16)))


@pytest.mark.parametrize("name", ["grr", "olh", "hr"])
def test_clones_spoil_the_stated_error_and_an_installation_restores_it(name):
    """The mean of 16 squares is about chi-square/16. Above 3.5 it is a false alarm with probability 2e-6."""
    assert error(name, [None] * 1000) > 5
    assert error(name, [b"%d" % i for i in range(1000)]) < 3.5


@pytest.mark.parametrize("other", [None, TWO])
@pytest.mark.parametrize("history", [True, False])
def test_another_installation_or_none_is_refused(tmp_path, other, history):
    store = tmp_path / "store"
    if history:
        answer(store, installation=ONE)
    else:
        Ledger(store, installation=ONE)
    clone = copy(store, tmp_path / "clone")
    with pytest.raises(StoreError, match=r"clone/store was made with an installation .* delete the store and its key"):
        Client(QUERY, clone, installation=other)
    with pytest.raises(StoreError, match="was made with an installation"):
        Ledger(store, installation=other)
    Ledger(store, installation=ONE)


def test_a_key_that_was_lost_before_the_first_charge_keeps_the_installation_asked_for(tmp_path):
    Ledger(tmp_path / "store", installation=ONE)
    (tmp_path / "store.key").unlink()
    with pytest.raises(StoreError, match="opened without one"):
        Ledger(tmp_path / "store")
    key = Ledger(tmp_path / "store", installation=TWO).key
    assert Ledger(tmp_path / "store", installation=TWO).key == key
    with pytest.raises(StoreError, match="opened with another one"):
        Ledger(tmp_path / "store", installation=ONE)


def test_a_store_made_without_an_installation_ignores_it_for_ever(tmp_path):
    key = Ledger(tmp_path / "store").key
    assert Ledger(tmp_path / "store", installation=ONE).key == key
    report = answer(tmp_path / "store")
    assert Ledger(tmp_path / "store", installation=TWO).key == key
    assert Ledger(copy(tmp_path / "store", tmp_path / "clone"), installation=ONE).key == key
    assert report == answer(":memory:", key=key)


@pytest.mark.parametrize("wrong", [b"", "device-1", 7, bytearray(b"device-1")])
def test_an_installation_is_bytes(tmp_path, wrong):
    with pytest.raises(ParameterError, match="installation must be bytes"):
        Client(QUERY, tmp_path / "store", installation=wrong)
    assert not list(tmp_path.iterdir())


def test_a_copied_store_with_charges_is_refused_on_another_machine(tmp_path, computer):
    report = answer(tmp_path / "store")
    clone = copy(tmp_path / "store", tmp_path / "clone")
    Ledger(clone)
    computer("second")
    with pytest.raises(StoreError, match=r"clone/store was last opened on another machine.*moved=True"):
        Ledger(clone)
    with pytest.raises(StoreError, match="another machine"):
        Client(QUERY, clone)
    key = Ledger(clone, moved=True).key
    assert report == answer(":memory:", key=key), "the noise stays"
    assert Ledger(clone).key == key, "moved is needed once"
    computer("first")
    with pytest.raises(StoreError, match="another machine"):
        Ledger(clone)
    Ledger(tmp_path / "store")


def test_moved_accepts_neither_another_key_nor_another_installation(tmp_path, computer):
    answer(tmp_path / "store", key=KEY, first=True, installation=ONE)
    computer("second")
    with pytest.raises(StoreError, match="not the first key"):
        Ledger(tmp_path / "store", bytes(32), installation=ONE, moved=True)
    with pytest.raises(StoreError, match="with another one"):
        Ledger(tmp_path / "store", KEY, installation=TWO, moved=True)
    with pytest.raises(StoreError, match="another machine"):
        Ledger(tmp_path / "store", KEY, installation=ONE)
    Client(QUERY, tmp_path / "store", key=KEY, installation=ONE, moved=True)


def test_copies_of_a_store_without_charges_make_keys_of_their_own(tmp_path, computer):
    """An application that ran once while its image was made has a store, and has answered nothing."""
    image = Ledger(tmp_path / "store", installation=ONE).key
    keys = [image]
    for name in ("second", "third"):
        clone = copy(tmp_path / "store", tmp_path / name)
        computer(name)
        keys.append(Ledger(clone, installation=ONE).key)
        assert Ledger(clone, installation=ONE).key == keys[-1]
    assert len(set(keys)) == 3


def test_the_key_of_an_application_stays_without_charges_too(tmp_path, computer):
    Ledger(tmp_path / "store", KEY, first=True)
    computer("second")
    assert Ledger(tmp_path / "store", KEY).key == KEY
    assert not (tmp_path / "store.key").exists()


CONTAINERS = {
    ".dockerenv": "",
    "run/.containerenv": "",
    "run/systemd/container": "lxc",
    "proc/self/mounts": "overlay / overlay rw,relatime,lowerdir=/layers 0 0\nproc /proc proc rw 0 0\n",
}


@pytest.mark.parametrize("name", [*CONTAINERS, "container", "KUBERNETES_SERVICE_HOST"])
def test_a_container_is_no_machine(tmp_path, computer, monkeypatch, name):
    answer(tmp_path / "store")
    root = computer("second")
    if name in CONTAINERS:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(CONTAINERS[name])
    else:
        monkeypatch.setenv(name, "1")
    assert machine_id() is None
    Ledger(tmp_path / "store")
    answer(tmp_path / "new")
    computer("third")
    monkeypatch.delenv(name, raising=False)
    with pytest.raises(StoreError, match="another machine"):
        Ledger(tmp_path / "store")
    Ledger(tmp_path / "new")


@pytest.mark.parametrize("text", ["", "uninitialized\n", "0123"])
def test_a_system_without_an_id_is_no_machine(computer, text):
    root = computer("first")
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/mounts").write_text("/dev/sda1 / ext4 rw 0 0\noverlay /var/lib/docker/1 overlay rw 0 0\n")
    assert len(machine_id()) == 32
    (root / "etc/machine-id").write_text(text)
    assert machine_id() is None
    (root / "var/lib/dbus").mkdir(parents=True)
    (root / "var/lib/dbus/machine-id").write_text("0" * 32)
    assert machine_id() == b"0" * 32


def test_this_machine_is_the_same_in_every_process():
    program = "from producers.client.machine import machine_id; print(machine_id())"
    result = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert result.stdout.strip() == str(machine_id())


DEVICE = """
import sys
from pathlib import Path
from producers import Ledger
from producers.client import machine

machine.ROOT = Path(sys.argv[1])
print(Ledger(sys.argv[2], installation=sys.argv[3].encode()).key.hex())
"""


def test_processes_that_open_a_copied_store_together_agree_on_its_new_key(tmp_path, computer):
    Ledger(tmp_path / "store", installation=ONE)
    root = computer("second")
    command = [sys.executable, "-c", DEVICE, root, tmp_path / "store", ONE.decode()]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    keys = {process.communicate()[0].strip() for process in processes}
    assert [process.returncode for process in processes] == [0] * 4
    assert keys == {Ledger(tmp_path / "store", installation=ONE).key.hex()}


def test_threads_that_make_a_store_together_agree_on_its_key(tmp_path):
    keys = []
    make = threading.Barrier(4)

    def first_start():
        make.wait()
        keys.append(Ledger(tmp_path / "store", installation=ONE).key)

    # The barrier lets all threads start at once, or the first would be done before the second begins.
    threads = [threading.Thread(target=first_start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(keys) == 4
    assert len(set(keys)) == 1


VERSION_2 = """
CREATE TABLE charge (name TEXT, digest BLOB, round INTEGER, mode INTEGER, epsilon REAL, times INTEGER NOT NULL,
    PRIMARY KEY (digest, name, round, mode, epsilon));
CREATE TABLE last (name TEXT PRIMARY KEY, at REAL NOT NULL);
CREATE TABLE round (digest BLOB PRIMARY KEY, began INTEGER NOT NULL);
CREATE TABLE given (digest BLOB PRIMARY KEY, answers INTEGER NOT NULL);
CREATE TABLE once (digest BLOB, round INTEGER, report BLOB NOT NULL, PRIMARY KEY (digest, round));
CREATE TABLE mark (of_key BLOB NOT NULL);
PRAGMA user_version = 2;
"""


def version_2(store, *, history=True):
    """A store as version 2 wrote it, with the answer of `KEY` at second 1,000."""
    mark = hmac.digest(KEY, b"hubbub: the key of this store", "sha256")[:8]
    database = sqlite3.connect(store)
    with database:
        database.executescript(VERSION_2)
        database.execute("INSERT INTO mark VALUES (?)", (mark,))
        if history:
            database.execute("INSERT INTO charge VALUES ('q', ?, 0, 0, 1.0, 2)", (QUERY.digest,))
            database.execute("INSERT INTO last VALUES ('q', 1000.0)")
    database.close()
    Path(f"{store}.key").write_bytes(KEY)


def test_a_store_of_version_2_keeps_its_key_and_charges_and_takes_the_machine_of_its_first_opening(tmp_path, computer):
    version_2(tmp_path / "store")
    clone = copy(tmp_path / "store", tmp_path / "clone")
    ledger = Ledger(tmp_path / "store", installation=ONE)
    assert ledger.key == KEY, "it was made without an installation"
    with ledger.transaction() as transaction:
        assert transaction.total_charge() == 2
        assert transaction.answer_time("q") == 1000.0
    assert sqlite3.connect(tmp_path / "store").execute("PRAGMA user_version").fetchone() == (4,)
    computer("second")
    with pytest.raises(StoreError, match="another machine"):
        Ledger(tmp_path / "store")
    assert Ledger(clone).key == KEY
    (tmp_path / "clone/store.key").write_bytes(bytes(32))
    with pytest.raises(StoreError, match="not the first key"):
        Ledger(clone)


def test_a_store_of_version_2_without_charges_was_made_without_an_installation_too(tmp_path):
    version_2(tmp_path / "store", history=False)
    assert Ledger(tmp_path / "store", installation=ONE).key == KEY
    assert Ledger(tmp_path / "store").key == KEY


def test_an_upgrade_that_is_killed_leaves_version_2(tmp_path):
    version_2(tmp_path / "store")
    program = f"""
import os, signal
from producers.client import clones, ledger
clones.bind = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)
ledger.Ledger({str(tmp_path / "store")!r})
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -9
    assert sqlite3.connect(tmp_path / "store").execute("PRAGMA user_version").fetchone() == (2,)
    assert Ledger(tmp_path / "store").key == KEY
