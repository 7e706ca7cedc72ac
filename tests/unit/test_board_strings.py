"""The API answers for unknown strings: the names of a record, and any other string by the maps."""

import math
from dataclasses import replace
from itertools import chain

import orjson
import pytest

from aggregator.board.server.metrics import ShareMetrics
from aggregator.board.store.early_maps import MOST, EarlyMaps
from aggregator.reading.tail.notice import Notice, notice_lines
from aggregator.records import alert
from aggregator.records.decoder import decode
from aggregator.records.maps_record import MapsKey, maps_name
from hubbub.http.problem import Problem
from oracles.errors import ReportError
from tests import schemas
from tests.boards import START
from tests.string_crowds import (
    CRASHES,
    HOSTILE_NAMES,
    HOUR,
    NEW,
    SHARES,
    STRINGS,
    StringCrowd,
    empty_message,
    hostile_message,
)
from tests.unit.test_board_store import ask, feed, store

BEGIN = START // HOUR * HOUR
HOURS = 3
LAST = BEGIN + HOURS * HOUR


def refusal(board, question, *names, **parameters):
    """Return why the board does not answer."""
    with pytest.raises(Problem) as error_info:
        ask(board, question, *names, **parameters)
    return error_info.value.detail


def hours(messages):
    """Return the records of the windows of an hour."""
    return [each for each in messages if each[0] == "estimates" and b"|3600|3600|" in each[1]]


@pytest.fixture(scope="module")
def messages():
    crowd = StringCrowd(BEGIN)
    return [*chain.from_iterable(crowd.next() for _ in range(HOURS))]


@pytest.fixture(scope="module")
def board(messages):
    return store([*messages, hostile_message(hours(messages)[0])], queries=STRINGS)


def test_the_names_of_a_window_have_their_intervals_and_first_proofs(board):
    answer = ask(board, "estimate", "crashes")
    about = {row["value"]: row for row in answer["discover"]["names"]}
    assert [row["value"] for row in answer["values"]][:3] == [*list(SHARES)[:2], NEW]
    assert {*about} == {*SHARES, NEW}
    for row in answer["values"]:
        share = {**SHARES, NEW: 0.08}[row["value"]]
        assert row["low"] - 0.02 < share < row["high"] + 0.02
        assert row["decided"]
        assert about[row["value"]]["n"] > 0
    assert {about[name]["first_seen"] for name in SHARES} == {BEGIN + HOUR}
    assert about[NEW]["first_seen"] == LAST
    assert about[NEW]["level"] > 0.999 > about[next(iter(SHARES))]["level"] == 0.95
    assert answer["level"] == 0.95, "the lowest level holds for every row"
    assert answer["size"] is None
    assert answer["discover"]["has_search"] is True
    assert 0 < answer["discover"]["smallest"] < 0.05


def test_a_string_without_a_name_has_a_share_by_the_maps(board, messages):
    answer = ask(board, "estimate", "crashes", value="rare 7")
    (row,), (about,) = answer["values"], answer["discover"]["names"]
    assert row["value"] == "rare 7"
    assert row["decided"] is False
    assert about["level"] == 0.95
    assert about["first_seen"] is None
    assert row["low"] < 0.001 < row["high"]
    assert answer["level"] == 0.95
    record = decode(hours(messages)[-1][2])
    assert row["stderr"] == pytest.approx(record.stderr[-1], rel=1.0)
    numbers = [row[column] for column in ("share", "unbiased", "stderr", "low", "high")]
    assert numbers == [float(f"{number:.3g}") for number in numbers], "more digits tell the exact count of its cells"


def test_a_name_that_is_asked_for_has_the_row_of_its_record(board):
    listed = ask(board, "estimate", "crashes")
    for text in ("out of memory", "OUT of Memory"):
        answer = ask(board, "estimate", "crashes", value=text)
        assert answer["values"] == [row for row in listed["values"] if row["value"] == "out of memory"]
        assert answer["missing"] == []


def test_texts_that_are_coded_alike_are_one_answer(board):
    long_text = "rangeerror: invalid array length in module"
    answer = ask(board, "estimate", "crashes", value=long_text)
    assert [row["value"] for row in answer["values"]] == ["rangeerror: invalid arra\N{HORIZONTAL ELLIPSIS}"]
    assert len(ask(board, "estimate", "crashes", values="rare 7,RARE 7")["values"]) == 1


def test_a_string_that_no_map_tells_apart_is_null(board, messages):
    """All its cells are taken if each map names every cell."""
    names = [f"name {number}" for number in range(4096 * 16)]
    cells = {}
    for name in names:
        own_cells = CRASHES.strings.cells_of(name)[CRASHES.strings.levels :].tolist()
        for place, cell in enumerate(own_cells):
            cells.setdefault((place, cell), name)
    target = CRASHES.strings.cells_of("rare 7")[CRASHES.strings.levels :].tolist()
    takers = [cells[place, cell] for place, cell in enumerate(target)]
    topic, key, value = hours(messages)[0]
    maps = next(message for message in messages if message[:2] == ("maps", key))
    record = orjson.loads(value)
    record |= {"values": takers, "shares": {"unbiased": [0.1] * 4}, "level": [0.99] * 4}
    record |= {column: [0.1] * 4 for column in ("stderr", "low", "high")}
    record["discover"] |= {"names_n": [9] * 4, "first_seen": dict.fromkeys(takers, BEGIN)}
    blind = store([(topic, key, orjson.dumps(record)), maps], queries=STRINGS)
    answer = ask(blind, "estimate", "crashes", value="rare 7")
    assert [(row["share"], row["low"], row["high"]) for row in answer["values"]] == [(None, None, None)]
    assert answer["discover"]["ambiguous"] == ["rare 7"]


def test_a_window_without_maps_says_so(messages):
    alone = store([message for message in messages if message[0] != "maps"], queries=STRINGS)
    assert ask(alone, "estimate", "crashes", value="out of memory")["values"]
    text = refusal(alone, "estimate", "crashes", value="rare 7")
    assert "no maps of this window" in text
    assert "ask a final window" in text
    alone.maps_gap = "this board has no right to read the topic"
    assert "no right to read the topic" in refusal(alone, "estimate", "crashes", value="rare 7")


def test_maps_may_come_before_their_final_and_from_the_topic_of_older_releases(messages):
    maps = [message for message in messages if message[0] == "maps"]
    others = [message for message in messages if message[0] != "maps"]
    early = store([*maps, *others], queries=STRINGS)
    older = store([*others, *(("maps", maps_name(key), value) for _, key, value in maps)], queries=STRINGS)
    answer = ask(store(messages, queries=STRINGS), "estimate", "crashes", value="rare 7")
    for board in (early, older):
        assert ask(board, "estimate", "crashes", value="rare 7") == answer
        assert board.size == store(messages, queries=STRINGS).size


def test_early_maps_have_a_limit():
    early = EarlyMaps()
    places = [MapsKey("q", "0" * 16, CRASHES.windows[0], end) for end in range(5)]
    for place in places:
        early.put(place, bytes(MOST // 4))
    early.put(places[4], b"new")
    assert early.pop(places[0]) is None
    assert early.pop(places[4]) == b"new"
    assert early.pop(places[4]) is None
    assert early.pop(places[1]) == bytes(MOST // 4)


def test_questions_about_numbers_get_advice_that_works(board):
    for question in ("quantiles", "range", "cdf"):
        assert "ask its estimate for any string with value=" in refusal(board, question, "crashes")


def test_short_windows_have_the_names_that_were_found_before(board):
    answer = ask(board, "estimate", "crashes", kind="tumbling", size=300)
    assert not answer["discover"]["has_search"]
    assert {about["level"] for about in answer["discover"]["names"]} == {0.95}
    assert "out of memory" in [row["value"] for row in answer["values"]]


def test_the_history_of_a_name_begins_with_its_first_proof(board):
    points = ask(board, "history", "crashes", value=NEW.upper())["points"]
    assert [point["share"] is None for point in points] == [True, True, False]
    assert all(point["share"] for point in ask(board, "history", "crashes", value="out of memory")["points"])


@pytest.mark.parametrize("question", ["set", "heavy-hitters", "compare"])
def test_questions_about_a_list_of_values_are_refused(board, question):
    more = {"from": BEGIN + HOUR, "to": LAST} if question == "compare" else {}
    assert "no list of values" in refusal(board, question, "crashes", **more)


def test_the_overview_and_the_queries_show_strings(board):
    rows = {row["name"]: row for row in ask(board, "overview")["queries"]}
    assert rows["crashes"]["value"] == next(iter(SHARES))
    assert rows["crashes"]["level"] == 0.95
    (attribute,) = next(row for row in ask(board, "queries")["queries"] if row["name"] == "crashes")["attributes"]
    assert attribute["size"] is None
    assert attribute["strings"]["search"] == HOUR
    assert attribute["strings"]["length"] == 24


def test_hostile_names_are_plain_text(board):
    answer = ask(board, "estimate", "terms")
    assert [row["value"] for row in answer["values"]] == list(HOSTILE_NAMES)
    labels = {
        sample.labels["value"]
        for family in ShareMetrics(board).collect()
        for sample in family.samples
        if sample.labels["query"] == "terms"
    }
    assert labels == {*HOSTILE_NAMES}


def test_the_first_proof_of_a_name_is_an_alert(board):
    alerts = ask(board, "alerts", query="crashes")["alerts"]
    assert [(alert["value"], alert["kind"], alert["window"]["end"]) for alert in alerts if not alert["baseline"]] == [
        (NEW, "enter", LAST)
    ]
    assert {alert["value"] for alert in alerts if alert["baseline"]} == {*SHARES}


def test_an_alert_of_a_name_says_that_it_was_found_for_the_first_time(messages):
    notices = [Notice.of(alert.decode(value)) for topic, _, value in messages if topic == "alerts"]
    new_notices = [notice for notice in notices if not notice.baseline]
    assert str(new_notices[0]).startswith(f"{NEW} was found for the first time: {new_notices[0].row}")
    two = [replace(new_notices[0], row=replace(new_notices[0].row, value=name)) for name in ("one", "two")]
    ((_, line),) = notice_lines(two, 5)
    assert "ALERT enter: 2 names were found for the first time: one " in line
    ((_, baseline),) = notice_lines([notice for notice in notices if notice.baseline], 9)
    assert f"baseline: {len(SHARES)} names found in the first search: " in baseline


def test_a_board_drops_the_maps_of_old_windows(messages):
    board = store(messages, retention=2 * HOUR, queries=STRINGS)
    windows = board.series("crashes").kinds[CRASHES.windows[0]]
    assert windows.ends == [LAST - HOUR, LAST]
    assert [*windows.maps] == windows.ends
    assert windows.size == sum(entry.size for entry in windows.finals.values()) + sum(map(len, windows.maps.values()))


def test_records_and_alerts_of_names_fit_the_published_schemas(messages):
    """A record without names and one of strange names fit too. The empty string is a name."""
    last_hour = hours(messages)[-1]
    records = [*hours(messages), hostile_message(last_hour), empty_message(last_hour)]
    assert all(schemas.record(value)["discover"]["levels"] for _, _, value in records)
    events = [schemas.alert(value) for topic, _, value in messages if topic == "alerts"]
    assert {(event["kind"], event["threshold"]) for event in events} == {("enter", None)}


def test_maps_of_no_final_are_refused(messages):
    board = store(messages, queries=STRINGS)
    key, value = next((key, value) for topic, key, value in messages if topic == "maps")
    end = str(MapsKey.of(key).end).encode()
    strangers = [(key.replace(end, str(LAST - 1).encode()), value), (key.replace(b"|ffff", b"|0000"), value)]
    for wrong_key, wrong_value in [*strangers, (key, value[:100]), (key[:-20], value)]:
        with pytest.raises((ReportError, ValueError)):
            feed(board, "maps", wrong_key, wrong_value)
    assert math.isfinite(board.size)
