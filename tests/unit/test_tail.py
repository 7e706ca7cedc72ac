"""`hubbub tail`: what it shows is what was published, in whatever order it comes, and nothing a stranger wrote acts."""

import copy
import io
import itertools
import json
import re
import unicodedata

import numpy as np
import orjson
import pytest
from rich.console import Console

from aggregator.counting.tally import Snapshot
from aggregator.demo import surge
from aggregator.merging.windows import Span
from aggregator.publishing.changes import alert_key, alerts
from aggregator.publishing.record import build
from aggregator.reading.tail import command as tail
from aggregator.reading.tail.command import Lines, News, line, take
from aggregator.reading.tail.notation import clock, digits, label, percent, plain, sparkline
from aggregator.reading.tail.overview import HISTORY, View
from aggregator.reading.tail.summary import Unreadable, read_alert, read_record, told
from aggregator.reading.tail.table import Screen, drawn
from oracles.query import parse
from oracles.query.settings import Place, Window, read_windows
from producers.simulation.scenario import parse_scenario

START = 1_700_000_000
EVIL = "\x1b[2J\x1b]0;owned\x07[bold red]evil[/]\nx\r\u202egnp.exe\x9b31m" + "y" * 100
VALUES = ["a", "b", "[blink]c", EVIL]


def ask(name="visits", **settings):
    asked = {"epsilon": 2.0, "pane": "10s", "domain": VALUES, "other": False, "oracle": "grr"} | settings
    if "attributes" in asked:
        asked = {key: value for key, value in asked.items() if key not in ("domain", "other", "oracle")}
    return parse({"queries": {name: asked}}, "test", ".")[name]


def held(query, counts, seed=1):
    """What a window holds after honest reports of the values at these positions."""
    values = np.repeat(np.arange(len(counts)), counts)
    if query.attributes:
        values = np.stack([values % domain.size for domain in query.domains], axis=1)
    state = query.oracle.zeros()
    query.oracle.add(state, query.oracle.perturb(values, np.random.default_rng(seed)))
    return Snapshot(len(values), 0, 0, 0, state)


def published(query, counts, *, end=10, final=True, window=0, seed=1):
    span = Span(query.windows[window], START, START + end)
    return orjson.loads(build(query, span, held(query, counts, seed), final=final).value)


def alerted(query, *windows):
    """The alerts of consecutive windows that hold these counts."""
    states, found = [], []
    for number, counts in enumerate(windows):
        span = Span(query.windows[0], START + 10 * number, START + 10 * number + 10)
        built = build(query, span, held(query, counts, number), final=True)
        states, new = alerts(query, span, built, states)
        found += [orjson.loads(value) for _, value in new]
    return found


VISITS = ask()
MANY = (6000, 2000, 1500, 500)


def shown(view):
    return {place: track.newest for place, track in view.tracks.items()}


def test_a_sheet_has_the_numbers_of_the_record():
    record = published(VISITS, MANY)
    (sheet,) = read_record(record)
    assert [row.value for row in sheet.rows] == record["values"]
    for key, column in (("share", record["shares"]["unbiased"]), ("low", record["low"]), ("high", record["high"])):
        assert [getattr(row, key) for row in sheet.rows] == column
    assert [row.consistent for row in sheet.rows] == record["shares"]["norm_sub"]
    assert [row.value for row in sheet.rows if row.frequent] == [hit["value"] for hit in record["hitters"]["norm_sub"]]
    assert (sheet.n, sheet.sigma, sheet.detectable) == (record["n"], record["sigma"], record["detectable"])


def test_a_line_gives_each_share_with_its_interval():
    (sheet,) = read_record(published(VISITS, MANY))
    said = sheet.line(2)
    for row in sheet.rows[:2]:
        assert f"{row.name} {100 * row.share:.{row.digits}f}% (" in said
        assert f"{100 * row.low:.{row.digits}f}% to {100 * row.high:.{row.digits}f}%)" in said
        assert 10 <= round(50 * (row.high - row.low) * 10**row.digits) < 100  # two digits of the error
    assert "10,000 reports" in said
    assert "standard error" in said
    assert sheet.rows[2].name not in said


def test_every_attribute_has_its_sheet():
    query = ask(attributes={"age": 5, "sex": ["f", "m"]}, solution="smp")
    sheets = read_record(published(query, (500, 300, 100, 60, 40)))
    assert [str(sheet.subject) for sheet in sheets] == ["visits, age 10s", "visits, sex 10s"]
    view = View()
    assert view.take(published(query, (500, 300, 100, 60, 40))) == sheets
    assert len(view.tracks) == 2


def test_the_order_in_which_records_come_does_not_matter():
    records = [published(VISITS, MANY, end=end, seed=end) for end in (10, 20, 30)]
    records.append(published(VISITS, MANY, end=40, final=False))
    expected = None
    for order in itertools.permutations(records):
        view = View()
        for record in order + order[:2]:  # some come twice
            view.take(record)
        (track,) = view.tracks.values()
        state = (track.newest, track.history("a"), track.history(EVIL))
        expected = expected or state
        assert state == expected
    assert expected[0].final
    assert expected[0].subject.end == START + 30
    assert len(expected[1]) == 3


def test_a_provisional_record_is_shown_until_there_is_a_final_one():
    view = View()
    few, more = (published(VISITS, counts, final=False) for counts in ((600, 200, 100, 100), MANY))
    assert [sheet.n for sheet in view.take(few)] == [1000]
    assert [sheet.n for sheet in view.take(more)] == [10_000]
    assert view.take(few) == []
    assert view.take(published(VISITS, MANY))[0].final
    assert view.take(published(VISITS, MANY, end=20, final=False)) == []


def test_of_each_query_the_shortest_window_is_shown_or_the_one_asked_for():
    query = ask(windows=["all", "1m/10s", "10s"])
    records = [published(query, MANY, window=number, end=60) for number in range(3)]
    for order in itertools.permutations(records):
        view, long = View(), View(window=Window("hopping", 60, 10))
        for record in order:
            view.take(record)
            long.take(record)
        assert [str(sheet.subject) for sheet in shown(view).values()] == ["visits 10s"]
        assert [str(sheet.subject) for sheet in shown(long).values()] == ["visits 1m/10s"]


def test_a_new_definition_takes_the_place_of_the_old_one():
    old, new = VISITS, ask(epsilon=1.0)
    view = View()
    view.take(published(old, MANY, end=20))
    assert view.take(published(new, MANY, end=10)) == []
    assert view.take(published(new, MANY, end=30))
    assert view.take(published(old, MANY, end=25)) == []
    (track,) = view.tracks.values()
    assert track.newest.subject.digest == new.digest.hex()
    assert len(track.finals) == 1


def test_only_the_query_asked_for_is_shown_and_the_others_are_named():
    view = View("visits")
    assert view.take(published(ask("clicks"), MANY)) == []
    assert [str(part) for part in drawn(view, 5)] == ["waiting for records of visits; there are records of clicks"]
    assert view.take(published(VISITS, MANY))


def test_history_is_bounded():
    view = View()
    record = published(VISITS, MANY)
    for end in range(10, 10 * HISTORY + 100, 10):
        record["window"]["end"] = START + end
        view.take(copy.deepcopy(record))
    (track,) = view.tracks.values()
    assert len(track.finals) == HISTORY
    assert max(track.finals) == track.newest.subject.end


def test_an_alert_is_heard_once_and_says_what_has_changed():
    found = alerted(VISITS, MANY, (6000, 2000, 100, 1900))
    view = View()
    heard = [alert for message in found + found if (alert := view.hear(message))]
    assert len(heard) == len(found) == len({alert_key(message) for message in found})
    risen = next(alert for alert in heard if alert.kind == "surge")
    message = next(message for message in found if message["kind"] == "surge")
    assert risen.row.value == EVIL
    assert f"has risen to {risen.row} " not in str(risen)
    assert percent(message["share"], risen.row.digits) in str(risen)
    assert f"before {percent(message['before'], risen.row.digits)}" in str(risen)


def test_alerts_that_come_together_are_one_line():
    heard = [read_alert(message) for message in alerted(VISITS, MANY)]
    assert len(heard) > 2
    ((kind, text),) = told(heard, 2)
    assert kind == "enter"
    assert f"ALERT enter: {len(heard)} values have become frequent: a " in text
    assert text.endswith(", ...")
    ((_, alone),) = told(heard[:1], 2)
    assert str(heard[0]) in alone


def broken(message):
    """The message without one of its parts, and with a wrong one, for each."""

    def paths(node, at=()):
        if isinstance(node, dict):
            for key in node:
                yield (*at, key)
                yield from paths(node[key], (*at, key))

    for path in paths(message):
        for wrong in (None, "x", -1, [], {}, 1e300):
            spoilt = copy.deepcopy(message)
            inner = spoilt
            for key in path[:-1]:
                inner = inner[key]
            inner[path[-1]] = wrong
            yield spoilt
        without = copy.deepcopy(message)
        inner = without
        for key in path[:-1]:
            inner = inner[key]
        del inner[path[-1]]
        yield without


def test_what_is_no_record_or_alert_is_passed_over(capsys):
    view, lines = View(), Lines()
    (alert, *_) = alerted(VISITS, MANY)
    for spoilt in broken(published(VISITS, MANY)):
        lines.show(view, *take(view, News([spoilt], [])))
    for spoilt in broken(alert):
        lines.show(view, *take(view, News([], [spoilt])))
    for strange in ({}, {"window": {}}, {"attributes": [1]}):
        lines.show(view, *take(view, News([strange], [strange])))
        with pytest.raises(Unreadable):
            read_record(strange)
    assert view.unreadable > 100
    assert capsys.readouterr().err == ""
    list(drawn(view, 10))


def acts(text):
    """The characters of `text` that a terminal acts on, or that hide or turn what stands around them."""
    return {char for char in text if unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp", "Cs")} - {"\n", "\u200d"}


def news():
    return News([published(VISITS, (1000, 2000, 1500, 5500))], alerted(VISITS, (1000, 2000, 1500, 5500)))


def test_plain_text_does_nothing_to_a_terminal():
    every = "".join(map(chr, (*range(0xD800), *range(0xE000, 0x30000), *range(0xE0000, 0xE01F0))))
    for start in range(0, len(every), 40):
        said = plain(every[start : start + 40])
        assert not acts(said)
        assert "\n" not in said
    assert plain("👩‍👩‍👧 café 日本") == "👩‍👩‍👧 café 日本"
    assert len(plain("x" * 1000)) == 40


def test_hostile_values_are_shown_as_text_in_lines(capsys):
    view = View()
    Lines(10).show(view, *take(view, news()))
    said = capsys.readouterr().out
    assert not acts(said)
    assert r"\x1b[2J\x1b]0;owned\x07[bold red]evil" in said
    assert "[blink]c" in said
    assert len(said.splitlines()) == 2


def test_hostile_values_are_shown_as_text_in_the_table():
    seen = io.StringIO()
    view = View()
    with Screen(10, Console(file=seen, width=140, height=50, force_terminal=True, color_system=None)) as screen:
        screen.show(view, *take(view, news()))
    said = re.sub(r"\x1b\[[0-9;?]*[A-Zhlm]", "", seen.getvalue())  # what rich itself says to the terminal
    assert not acts(said.replace("\r", ""))
    for part in said.split("alerts")[:2]:  # the values, and what has changed
        assert r"\x1b[2J\x1b]0;owned\x07[bold red]evil" in part
        assert "[blink]c" in part


def test_hostile_values_are_escaped_in_json():
    (record,), _ = news()
    said = line(record)
    assert said.isascii()
    assert not acts(said)
    assert said.count("\n") == 1
    assert json.loads(said) == record
    assert json.loads(line({"value": "\x7f"})) == {"value": "\x7f"}
    assert "\x7f" not in line({"value": "\x7f"})


def test_the_table_has_intervals_history_hitters_and_alerts():
    view = View()
    for end in (10, 20, 30):
        view.take(published(VISITS, MANY, end=end))
    for message in alerted(VISITS, MANY):
        view.hear(message)
    seen = io.StringIO()
    Console(file=seen, width=160).print(*drawn(view, 2))
    said = seen.getvalue()
    first = view.tracks["visits", ""].newest.rows[0]
    row = next(text for text in said.splitlines() if text.startswith("●") and " a " in text)
    assert percent(first.share, first.digits) in row
    assert first.interval in row
    assert row.rstrip().endswith("███")
    assert "10s, to " + clock(START + 30) in said
    assert "has become frequent" in said
    assert "[blink]c" not in said.split("alerts")[0]


def test_numbers_have_as_many_digits_as_their_error_allows():
    assert [digits(error) for error in (0.5, 0.05, 0.0099, 0.0012, 1e-6, 0.0)] == [0, 1, 2, 2, 5, 2]
    assert percent(-0.00001, 2) == "0.00%"


def test_windows_are_named_as_in_query_files():
    for text in ("10s", "1m", "90s", "1m/10s", "2h/15m", "7d/1d", "all"):
        assert label(read_windows([text], Place("test"), 1)[0]) == text


def test_a_sparkline_goes_from_nothing_to_the_largest():
    assert sparkline([0.0, None, 0.5, 1.0]) == "▁ ▅█"
    assert sparkline([-0.1, 0.0]) == "▁▁"
    assert sparkline([]) == ""


def test_wrong_options_are_usage_errors(capsys):
    for wrong in (["--window", "10"], ["--top", "-1"], ["--last", "x"], ["--kafka", "nowhere"]):
        with pytest.raises(SystemExit) as ended:
            tail.main(wrong)
        assert ended.value.code == 2
        assert "hubbub tail: error:" in capsys.readouterr().err


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"domain": ['quo"te\\', "\x7f\t\x01", "é👩‍👩‍👧", "\u2028"]},
        {"domain": 2},
        {"domain": 5000},
        {"domain": ["only"], "other": True},
        {"attributes": {"age": 5, "sex": ["f", "m"]}},
    ],
)
def test_the_scenario_of_a_demo_fits_any_query(asked):
    import tomllib

    query = ask(**asked)
    scenario = parse_scenario(tomllib.loads(surge.scenario(query)), Place("test"), query)
    (change,) = scenario.changes
    assert query.domains[0].name(change.value) == surge.surging(query)
    assert change.course.at(surge.BEGINS - 1) == 0.0
    assert change.course.at(surge.BEGINS + surge.RISES) == surge.SHARE
