"""The key store of an application. A device notices a lost or old store, and its limits hold across it."""

import json
import shutil
from dataclasses import replace
from fractions import Fraction

import pytest

from oracles.errors import ReportError
from producers import BudgetSpent, Client, FileKeyStore, Ledger, NotYet, StoreError
from producers.client.key_item import KeyItem, amount_text
from tests.queries import make_query

DAY = 86_400
KEY = bytes(range(32))


class Vault:
    """A key store in memory, which can fail."""

    item = None
    fault = None

    def read(self):
        return self.item

    def write(self, item):
        if self.fault:
            raise self.fault
        self.item = item


@pytest.fixture
def vault():
    return Vault()


def query(name="q", **keys):
    return make_query({"domain": 1 << 20, "oracle": "hr", "period": "1d", "budget": 99.0} | keys, name=name)


def client(q, store, vault, day=0, **options):
    return Client(q, store, key_store=vault, clock=lambda: float(day * DAY), **options)


def answer(q, store, vault, day=0, value=7, **options):
    return client(q, store, vault, day, **options).answer(value).tobytes()


def lose(path):
    path.unlink()


def test_a_missing_store_with_a_key_of_the_application_is_no_first_start(tmp_path):
    """It was four times a first start, and 26.7 epsilon under max_epsilon 8."""
    with pytest.raises(StoreError, match="pass first=True"):
        Ledger(tmp_path / "store", KEY)
    Ledger(tmp_path / "store", KEY, first=True)
    assert Ledger(tmp_path / "store", KEY, first=True).key == KEY
    (tmp_path / "store").unlink()
    with pytest.raises(StoreError, match="its record of charges too"):
        Ledger(tmp_path / "store", KEY)
    Ledger(":memory:", KEY)


def test_a_key_file_without_a_store_stays_an_error_at_a_first_start(tmp_path):
    (tmp_path / "store.key").write_bytes(KEY)
    with pytest.raises(StoreError, match="the record of charges is lost"):
        Ledger(tmp_path / "store", first=True)


def test_the_key_is_in_the_key_store_alone(tmp_path, vault):
    ledger = Ledger(tmp_path / "store", key_store=vault)
    assert [path.name for path in tmp_path.iterdir()] == ["store"]
    assert KeyItem.decode(vault.item).key == ledger.key == Ledger(tmp_path / "store", key_store=vault).key


def test_an_item_is_canonical_json(tmp_path, vault):
    answer(query(), tmp_path / "store", vault, 2)
    answer(query("f", answers="fresh"), tmp_path / "store", vault, 3.00001)
    content = json.loads(vault.item)
    assert vault.item == json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    assert content == {
        "version": 1,
        "key": Ledger(tmp_path / "store", key_store=vault).key.hex(),
        "life": "3",
        "newest": 3 * DAY + 1,
        "rounds": {query().digest.hex(): [0, "2"]},
        "fresh": {query("f", answers="fresh").digest.hex(): 1},
    }


def test_charges_of_a_lost_store_are_booked_again_and_answers_for_life_go_on(tmp_path, vault):
    store, limits = tmp_path / "store", {"max_epsilon": 4.5}
    report = answer(query(renew="10d"), store, vault, 11, **limits)
    answer(query("f", answers="fresh"), store, vault, 11, **limits)
    lose(store)
    person = client(query(renew="10d"), store, vault, 12, **limits)
    assert [person.status().life, person.status().counted, person.spent] == [3.0, 3.0, 2.0]
    assert [each.name for each in person.status().queries] == ["(lost)"]
    assert person.answer(7).tobytes() == report
    for _ in range(5):
        lose(store)
        assert client(query(renew="10d"), store, vault, 12, **limits).status().life == 3.0
    with pytest.raises(BudgetSpent, match=r"is 4\.5: 3 is spent"):
        client(query("new"), store, vault, 12, **limits)


def test_lost_charges_expire_from_the_newest_use(tmp_path, vault):
    store, limits = tmp_path / "store", {"max_epsilon": 2.0, "per": "10d"}
    answer(query(), store, vault, 5, **limits)
    lose(store)
    with pytest.raises(BudgetSpent):
        client(query("other"), store, vault, 3, **limits)
    with pytest.raises(BudgetSpent):
        client(query("other"), store, vault, 14.9, **limits)
    client(query("other"), store, vault, 15, **limits)


def test_noise_that_had_expired_before_a_loss_needs_room_after_it(tmp_path, vault):
    """All charges of a lost store count from its newest use. So the noise that had expired was used without room."""
    store, limits = tmp_path / "store", {"max_epsilon": 4.5, "per": "10d"}
    for day, name in ((0, "a"), (1, "b"), (12, "c"), (13, "d")):
        answer(query(name), store, vault, day, **limits)
    lose(store)
    for name in ("c", "d"):
        answer(query(name), store, vault, 14, **limits)
    with pytest.raises(BudgetSpent):
        answer(query("a"), store, vault, 15, **limits)
    assert KeyItem.decode(vault.item).rounds[query("a").digest] == (0, 0)
    answer(query("a"), store, vault, 25, **limits)


@pytest.mark.parametrize("copy", ["lost", "old"])
def test_a_round_of_once_is_not_answered_twice(tmp_path, vault, copy):
    """The first report was 00 and the second 03, charged once."""
    store, q = tmp_path / "store", query(answers="once", renew="10d")
    client(query("other", answers="once"), store, vault).answer(1)
    shutil.copy(store, tmp_path / "old")
    first = answer(q, store, vault, 1, 7)
    assert answer(q, store, vault, 2, 9) == first
    lose(store)
    if copy == "old":
        shutil.copy(tmp_path / "old", store)
    for _ in range(2):
        with pytest.raises(NotYet, match="the next round") as early:
            answer(q, store, vault, 3, 9)
        assert 10 * DAY <= early.value.due < 11 * DAY
    answer(q, store, vault, 10, 9)
    assert client(q, store, vault, 10).status().life == 3.0


def test_a_round_of_once_without_an_end_is_refused_for_good(tmp_path, vault):
    store, q = tmp_path / "store", query(answers="once")
    answer(q, store, vault)
    lose(store)
    with pytest.raises(BudgetSpent, match="does not have the report any more"):
        answer(q, store, vault, 5)


def test_a_charge_of_once_without_an_answer_is_answered_later(tmp_path, vault):
    store, q = tmp_path / "store", query(answers="once", domain=5, other=False)
    with pytest.raises(ReportError):
        answer(q, store, vault, value=99)
    answer(query("other"), store, vault)
    assert q.digest not in KeyItem.decode(vault.item).rounds
    answer(q, store, vault, value=3)
    assert client(q, store, vault, 1).status().life == 3.0


def test_a_charge_without_an_answer_hides_no_earlier_answer(tmp_path, vault):
    """After a loss, a clock that goes back led to a second report of the first round."""
    store, q = tmp_path / "store", query(answers="once", renew="1d", domain=5, other=False)
    answer(q, store, vault, value=3)
    with pytest.raises(ReportError):
        answer(q, store, vault, 1, value=99)
    answer(query("other"), store, vault, 1)
    (start, _) = KeyItem.decode(vault.item).rounds[q.digest]
    assert start == 0
    lose(store)
    with pytest.raises(NotYet, match="does not have the report any more"):
        answer(q, store, vault, 0, value=4)


def test_a_fresh_number_is_never_used_twice(tmp_path, vault):
    store, q = tmp_path / "store", query(answers="fresh")
    reports = [answer(q, store, vault, day) for day in range(3)]
    lose(store)
    reports += [answer(q, store, vault, day) for day in range(3, 6)]
    assert len(set(reports)) == 6
    assert KeyItem.decode(vault.item).fresh == {q.digest: 6}
    assert client(q, store, vault, 6).status().life == 6.0


def test_a_draw_of_a_backup_between_its_charge_and_its_answer_is_not_used_again(tmp_path, vault):
    store, q = tmp_path / "store", query(answers="fresh")
    person = client(q, store, vault)
    with pytest.raises(ReportError):
        person.answer(-1)
    backup = store.read_bytes()
    reports = [person.answer(7).tobytes()]
    store.write_bytes(backup)
    for extra in (store.with_name("store-wal"), store.with_name("store-shm")):
        extra.unlink(missing_ok=True)
    reports.append(answer(q, store, vault, 0))
    assert len(set(reports)) == 2
    assert KeyItem.decode(vault.item).fresh == {q.digest: 2}


def test_a_write_that_fails_gives_no_report_and_the_charge_stays(tmp_path, vault):
    store = tmp_path / "store"
    person = client(query(), store, vault)
    vault.fault = OSError("the key store is locked")
    with pytest.raises(StoreError, match="the key store cannot be written, and no answer is given: OSError"):
        person.answer(7)
    vault.fault = None
    assert person.status().life == 2.0
    assert KeyItem.decode(vault.item).life == 0
    client(query(), store, vault)
    assert KeyItem.decode(vault.item).life == 2, "written at the start, before anything that waits is sent"


def test_an_item_that_would_be_too_large_charges_nothing(tmp_path, vault, monkeypatch):
    person = client(query(), tmp_path / "store", vault)
    monkeypatch.setattr("producers.client.key_item.MOST", len(vault.item) + 5)
    with pytest.raises(StoreError, match="would have"):
        person.answer(7)
    assert person.status().life == 0.0


@pytest.mark.parametrize(
    "item", [b"{", b"[]", b'{"version":2}', b"x" * 70_000, b'{"version":1,"key":"00"}', "wrong life", "more members"]
)
def test_an_item_that_cannot_be_read_is_an_error(tmp_path, vault, item):
    Ledger(tmp_path / "store", key_store=vault)
    content = json.loads(vault.item)
    changes = {"wrong life": {"life": "1e3"}, "more members": {"more": 1}}
    vault.item = json.dumps(content | changes[item]).encode() if item in changes else item
    with pytest.raises(StoreError, match="the item of the key store cannot be read"):
        Ledger(tmp_path / "store", key_store=vault)


def test_another_key_than_that_of_the_store_is_refused(tmp_path, vault):
    answer(query(), tmp_path / "store", vault)
    with pytest.raises(StoreError, match="is not the key in the key store"):
        Ledger(tmp_path / "store", KEY, key_store=vault)
    vault.item = replace(KeyItem.decode(vault.item), key=KEY).encode()
    with pytest.raises(StoreError, match="not the first key"):
        Ledger(tmp_path / "store", key_store=vault)
    vault.item = None
    with pytest.raises(StoreError, match="is missing"):
        Ledger(tmp_path / "store", key_store=vault)


def test_a_key_file_moves_into_the_key_store(tmp_path, vault):
    report = Client(query(), tmp_path / "store", clock=lambda: 0.0).answer(7).tobytes()
    key = (tmp_path / "store.key").read_bytes()
    assert answer(query(), tmp_path / "store", vault, 1) == report
    assert not (tmp_path / "store.key").exists()
    assert KeyItem.decode(vault.item).key == key


def test_a_key_of_the_application_makes_the_first_item(tmp_path, vault):
    with pytest.raises(StoreError, match="pass first=True"):
        Ledger(tmp_path / "store", KEY, key_store=vault)
    assert Ledger(tmp_path / "store", KEY, key_store=vault, first=True).key == KEY
    assert Ledger(tmp_path / "store", KEY, key_store=vault).key == KEY


def test_forgetting_empties_the_key_store(tmp_path, vault):
    person = client(query(), tmp_path / "store", vault)
    person.answer(7)
    person.forget()
    assert vault.item == b""
    assert client(query(), tmp_path / "store", vault).status().life == 0.0


def test_a_file_is_a_key_store(tmp_path):
    folder = tmp_path / "keys"
    folder.mkdir(mode=0o700)
    person = client(query(), tmp_path / "store", FileKeyStore(folder / "device"))
    person.answer(7)
    assert KeyItem.decode((folder / "device").read_bytes()).life == 2
    assert (folder / "device").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in folder.iterdir()] == ["device"]
    person.forget()
    assert FileKeyStore(folder / "device").read() is None


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (Fraction(0), "0"),
        (Fraction(2), "2"),
        (Fraction(1, 3), "0.333333333334"),
        (Fraction(2.202062733218), "2.20206273322"),
        (Fraction(1, 10**7), "0.0000001"),
        (Fraction(999_999_999_999_5, 10), "1000000000000"),
        (Fraction(1200), "1200"),
    ],
)
def test_amounts_are_plain_decimals_rounded_up(amount, text):
    assert amount_text(amount) == text
    assert Fraction(text) >= amount
