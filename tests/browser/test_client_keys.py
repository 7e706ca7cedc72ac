"""The key item of the client for Node, which remembers the charges that a lost store forgets. Its files are private."""

import json
import os
import shutil

import pytest

from tests.browser.node_device import DAY, Device, item_of

KEY = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"


@pytest.fixture
def device(tmp_path):
    (tmp_path / "keys").mkdir(mode=0o700)
    return Device(tmp_path, {"keyStore": str(tmp_path / "keys" / "item")})


def item(device):
    """Return the key item, which is canonical JSON."""
    text = (device.folder / "keys" / "item").read_text()
    value = json.loads(text)
    assert text == json.dumps(value, sort_keys=True, separators=(",", ":"))
    return value


def lose_store(device):
    (device.folder / "device").unlink()


def test_a_lost_store_spends_nothing_anew_and_life_goes_on_with_its_noise(device):
    listing = [item_of()]
    first, second = device.live([10, DAY + 10], listing)
    assert sorted(path.name for path in device.folder.iterdir() if path.is_file()) == ["device", "device.mjs"]
    charge = listing[0]["record_charge"]
    floor = item(device)
    assert floor | {"key": ""} == {
        "version": 1,
        "key": "",
        "life": "2.20206273322",
        "newest": DAY + 10,
        "rounds": {listing[0]["digest"]: [0, "2.20206273322"]},
        "fresh": {},
    }
    assert len(bytes.fromhex(floor["key"])) == 32

    lose_store(device)
    third, fourth = device.live([20, 2 * DAY + 10], listing, maxEpsilon=2.3)
    assert third["frame"][80:] == fourth["frame"][80:] == second["frame"][80:] == first["frame"][80:]
    (row,) = fourth["status"]["queries"]
    assert row == {"name": "(lost)", "counted": row["life"], "life": pytest.approx(2.20206273322, abs=1e-12)}
    assert row["life"] >= charge
    assert item(device)["newest"] == 2 * DAY + 10


@pytest.mark.parametrize(("renew", "outcome"), [(None, "BudgetSpent"), ("2d", "NotYet")])
def test_once_is_not_answered_twice_with_a_store_from_before_the_answer(device, renew, outcome):
    listing = [item_of(answers="once", renew=renew) if renew else item_of(answers="once")]
    other = [item_of("other")]
    assert device.outcomes([10], other) == ["ok"]
    shutil.copy(device.folder / "device", device.folder / "backup")
    assert device.outcomes([20, DAY + 20], listing) == ["ok", "ok"]

    shutil.copy(device.folder / "backup", device.folder / "device")
    early, late = device.live([DAY + 30, 2 * DAY], listing)
    assert (early["error"], early.get("due", 0) >= (2 * DAY if renew else 0)) == (outcome, True)
    assert late.get("error") == (None if renew else "BudgetSpent")
    assert early["status"]["life"] == pytest.approx(other[0]["record_charge"] + 1, abs=1e-11)


def test_a_charge_without_an_answer_hides_no_earlier_answer(device):
    """After a loss, a clock that goes back led to a second report of the first round."""
    listing = [item_of(answers="once", renew="1d")]
    assert device.outcomes([10], listing) == ["ok"]
    assert device.outcomes([DAY + 10], listing, value=-1) == ["ReportError"]
    assert device.outcomes([DAY + 20], [item_of("other")]) == ["ok"]
    assert item(device)["rounds"][listing[0]["digest"]] == [0, "1"]
    lose_store(device)
    assert device.outcomes([10], listing) == ["NotYet"]


def test_a_draw_of_a_backup_between_its_charge_and_its_answer_is_not_used_again(device):
    listing = [item_of(answers="fresh", budget=9.0)]
    assert device.outcomes([10], listing, value=-1) == ["ReportError"]
    shutil.copy(device.folder / "device", device.folder / "backup")
    (first,) = device.live([20], listing)
    shutil.copy(device.folder / "backup", device.folder / "device")
    (second,) = device.live([30], listing)
    assert first["frame"][80:] != second["frame"][80:]
    assert item(device)["fresh"] == {listing[0]["digest"]: 2}


def test_a_fresh_draw_is_not_repeated(device):
    listing = [item_of(answers="fresh", budget=9.0)]
    frames = [result["frame"][80:] for result in device.live([10, DAY, 2 * DAY], listing)]
    assert item(device)["fresh"] == {listing[0]["digest"]: 3}
    lose_store(device)
    results = device.live([3 * DAY + step for step in (0, DAY, 2 * DAY)], listing, maxEpsilon=5.5)
    assert [result.get("error") for result in results] == [None, None, "BudgetSpent"]
    assert item(device)["fresh"] == {listing[0]["digest"]: 5}
    assert item(device)["life"] == "5"
    other = Device(device.folder, {"key": item(device)["key"], "store": ":memory:", "maxEpsilon": 99})
    same = [result["frame"][80:] for result in other.live([10], listing)]
    assert same == frames[:1]


def test_the_item_knows_a_charge_before_its_report_leaves(device):
    listing = [item_of(answers="fresh", budget=9.0)]
    waiting, *results = device.live([{"at": 10, "value": 99}, 20, DAY], listing)
    assert (waiting["error"], item(device)["life"]) == ("ReportError", "2")
    assert [(result["item"]["life"], result["item"]["newest"]) for result in results] == [("1", 20), ("2", DAY)]


def test_a_write_that_fails_sends_nothing_and_keeps_the_charge(device):
    listing = [item_of(answers="once")]
    at_start, later = device.live([{"at": 10, "writes": 0}, {"at": 20, "writes": 1}], listing)
    assert (at_start["error"], at_start["status"]) == ("StoreError", None)
    assert (later["error"], later["status"]["life"]) == ("StoreError", 1)
    assert device.state()["queue"] == []


def test_an_answer_for_which_the_item_has_no_room_is_not_charged(device):
    assert device.outcomes([10], [item_of()]) == ["ok"]
    state = device.state()
    (row,) = state["charges"]
    entry = len('"0123456789abcdef":[0,"1"],')
    count = (65_536 - 230) // entry
    state["charges"] += [{**row, "digest": f"{number:016x}", "epsilon": 1} for number in range(count)]
    (device.folder / "device").write_text(json.dumps(state))
    queries = [[item_of(f"query-{number}")] for number in range(3)]
    steps = [{"at": DAY, "listing": number, "query": f"query-{number}"} for number in range(3)]
    outcomes = device.outcomes(steps, *queries, maxEpsilon=1e6)
    fitting = outcomes.count("ok")
    assert outcomes == ["ok"] * fitting + ["StoreError"] * (3 - fitting)
    assert 0 < fitting < 3
    assert len(device.state()["charges"]) == 1 + count + fitting
    assert 65_536 - 60 < (device.folder / "keys" / "item").stat().st_size <= 65_536


def test_an_application_that_passed_a_key_adopts_a_key_store(device):
    listing = [item_of()]
    application = Device(device.folder, {"key": KEY})
    assert application.outcomes([10], listing) == ["StoreError"]
    assert not (device.folder / "device").exists()
    assert application.outcomes([10], listing, first=True) == ["ok"]
    assert application.outcomes([DAY], listing) == ["ok"]
    assert device.outcomes([2 * DAY], listing) == ["StoreError"], "neither key nor item"
    assert device.outcomes([2 * DAY], listing, key="01" * 32) == ["StoreError"]
    assert device.outcomes([2 * DAY], listing, key=KEY) == ["ok"]
    assert item(device)["key"] == KEY
    assert device.outcomes([3 * DAY], listing) == ["ok"]
    assert device.outcomes([4 * DAY], listing, key="01" * 32) == ["StoreError"]
    lose_store(device)
    assert application.outcomes([5 * DAY], listing) == ["StoreError"]
    assert device.outcomes([5 * DAY], listing) == ["ok"]


def test_a_key_file_moves_into_the_item(device):
    listing = [item_of()]
    plain = Device(device.folder)
    assert plain.outcomes([10], listing) == ["ok"]
    key = (device.folder / "device.key").read_bytes()
    assert device.outcomes([DAY], listing) == ["ok"]
    assert item(device)["key"] == key.hex()
    assert not (device.folder / "device.key").exists()
    assert plain.outcomes([2 * DAY], listing) == ["StoreError"]


@pytest.mark.parametrize("store", ["device", "item"])
def test_a_missing_store_with_a_key_file_is_an_error_also_at_a_first_start(device, store):
    plain = Device(device.folder)
    assert plain.outcomes([10], [item_of()]) == ["ok"]
    lose_store(device)
    assert (plain if store == "device" else device).outcomes([DAY], [item_of()], first=True) == ["StoreError"]


@pytest.mark.parametrize("text", ["", "{", "{}", "VERSION", "KEY", "LIFE"])
def test_an_item_that_cannot_be_read_sends_nothing(device, text):
    assert device.outcomes([10], [item_of()]) == ["ok"]
    floor = item(device)
    texts = {"VERSION": {**floor, "version": 2}, "KEY": {**floor, "key": "00" * 32}, "LIFE": {**floor, "life": "1e3"}}
    path = device.folder / "keys" / "item"
    path.write_text(json.dumps(texts[text]) if text in texts else text)
    assert device.outcomes([DAY], [item_of()]) == ["StoreError"]


def spoil(path, kind):
    """Replace a private file by something that another user may have made."""
    copy = path.with_name("copy")
    if path.exists():
        path.rename(copy)
    if kind == "link":
        path.symlink_to(copy)
    elif kind == "pipe":
        os.mkfifo(path, 0o600)
    elif kind == "folder":
        path.mkdir()
    elif kind == "rights":
        shutil.copy(copy, path)
        path.chmod(0o640)


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "rights"])
@pytest.mark.parametrize("name", ["device", "device.key", "keys/item"])
def test_a_file_that_others_can_use_is_refused(device, name, kind):
    options = device.options if name == "keys/item" else {}
    own = Device(device.folder, options)
    assert own.outcomes([10], [item_of()]) == ["ok"]
    path = device.folder / name
    spoil(path, kind)
    (result,) = own.live([DAY], [item_of()])
    assert result["error"] == "StoreError"
    assert str(path) in result["message"]
    assert ("chmod 600 " if kind == "rights" else "rm ") in result["message"]


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_a_lock_that_is_no_file_is_refused(device, kind):
    own = Device(device.folder)
    assert own.outcomes([10], [item_of()]) == ["ok"]
    spoil(device.folder / "device.lock", kind)
    (result,) = own.live([DAY], [item_of()])
    assert (result["error"], "rm " in result["message"]) == ("StoreError", True)


def test_a_file_of_another_user_is_refused(device):
    if os.getuid() != 0:
        pytest.skip("only root can give a file away")
    own = Device(device.folder)
    assert own.outcomes([10], [item_of()]) == ["ok"]
    os.chown(device.folder / "device", 12345, 12345)
    (result,) = own.live([DAY], [item_of()])
    assert (result["error"], "sudo chown 0 " in result["message"]) == ("StoreError", True)


def test_a_folder_in_which_everybody_may_write_is_refused(device):
    own = Device(device.folder)
    device.folder.chmod(0o777)
    (result,) = own.live([10], [item_of()])
    assert (result["error"], f"chmod o-w '{device.folder}'" in result["message"]) == ("StoreError", True)
    device.folder.chmod(0o1777)
    assert own.outcomes([10], [item_of()]) == (["ok"] if os.getuid() == 0 else ["StoreError"])


def test_drafts_are_made_anew(device):
    """A link that somebody put in place of a draft is not followed."""
    (device.folder / "target").write_text("untouched")
    (device.folder / "device.new").symlink_to(device.folder / "target")
    own = Device(device.folder)
    assert own.outcomes([10], [item_of()]) == ["ok"]
    assert (device.folder / "target").read_text() == "untouched"
    assert (device.folder / "device").stat().st_mode & 0o777 == 0o600
    assert (device.folder / "device.key").stat().st_mode & 0o777 == 0o600
