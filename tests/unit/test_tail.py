"""`hubbub tail`: what it shows is what was published, in whatever order it comes, and nothing a stranger wrote acts."""

import copy
import io
import itertools
import json
import re
import unicodedata
from dataclasses import replace

import numpy as np
import orjson
import pytest
from rich.console import Console

from aggregator.counting.tally import Snapshot
from aggregator.demo import surge
from aggregator.merging.windows import Span
from aggregator.publishing import record_reader
from aggregator.publishing.alert import decode
from aggregator.publishing.changes import alerts
from aggregator.publishing.record import build
from aggregator.reading.tail import command as tail
from aggregator.reading.tail import overview as overviews
from aggregator.reading.tail.command import Lines, News, line, take
from aggregator.reading.tail.notation import clock, digits, label, percent, plain, sparkline
from aggregator.reading.tail.overview import HISTORY, PUBLISHED
from aggregator.reading.tail.summary import Notice, Summary, notice_lines
from aggregator.reading.tail.table import Screen, drawn
from oracles.errors import ReportError
from oracles.query import parse
from oracles.query.settings import Place, Window, read_windows
from producers.simulation.scenario import parse_scenario

START = 1_700_000_000


class Overview(overviews.Overview):
    """An overview that takes messages which the tests can change."""

    def take(self, record):
        return super().take(orjson.dumps(record))

    def hear(self, alert):
        return super().hear(orjson.dumps(alert))


def read_record(message):
    return list(map(Summary.of, record_reader.decode(orjson.dumps(message))))


def read_alert(message):
    return Notice.of(decode(orjson.dumps(message)))


EVIL = "\x1b[2J\n\r\u202e\x9b31m" + "y" * 100 + "\x1b]0;owned\x07[bold]evil[/]"
VALUES = ["a", "b", "[blink]c", EVIL]


def ask(name="visits", **settings):
    asked = {"epsilon": 2.0, "budget": 1e9, "pane": "10s", "domain": VALUES, "other": False, "oracle": "grr"} | settings
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


def records(query, counts, *, end=10, final=True, window=0, seed=1):
    kind = query.windows[window]
    span = Span(kind, START + end - kind.size if kind.size else START, START + end)
    return [orjson.loads(value) for _, value in build(query, span, held(query, counts, seed), final=final).records]


def published(query, counts, **of):
    (record,) = records(query, counts, **of)
    return record


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


def shown(overview):
    return {place: track.newest for place, track in overview.tracks.items()}


def test_a_sheet_has_the_numbers_of_the_record():
    record = published(VISITS, MANY)
    (summary,) = read_record(record)
    assert [row.value for row in summary.rows] == record["values"]
    for key, column in (("share", record["shares"]["unbiased"]), ("low", record["low"]), ("high", record["high"])):
        assert [getattr(row, key) for row in summary.rows] == column
    assert [row.consistent for row in summary.rows] == record["shares"]["norm_sub"]
    assert [row.value for row in summary.rows if row.frequent] == [
        hit["value"] for hit in record["hitters"]["norm_sub"]
    ]
    assert (summary.n, summary.sigma, summary.detectable) == (record["n"], record["sigma"], record["detectable"])


def test_a_line_gives_each_share_with_its_interval():
    (summary,) = read_record(published(VISITS, MANY))
    said = summary.line(2)
    for row in summary.rows[:2]:
        assert f"{row.name} {100 * row.share:.{row.digits}f}% (" in said
        assert f"{100 * row.low:.{row.digits}f}% to {100 * row.high:.{row.digits}f}%)" in said
        assert 10 <= round(50 * (row.high - row.low) * 10**row.digits) < 100  # two digits of the error
    assert "10,000 reports" in said
    assert "standard error" in said
    assert summary.rows[2].name not in said


def test_every_attribute_has_its_sheet():
    query = ask(attributes={"age": 5, "sex": ["f", "m"]}, solution="smp")
    records_of = records(query, (500, 300, 100, 60, 40))
    summaries = [summary for record in records_of for summary in read_record(record)]
    assert [str(summary.heading) for summary in summaries] == ["visits, age 10s", "visits, sex 10s"]
    overview = Overview()
    assert [summary for record in records_of for summary in overview.take(record)] == summaries
    assert len(overview.tracks) == 2


def test_the_order_in_which_records_come_does_not_matter():
    records = [published(VISITS, MANY, end=end, seed=end) for end in (10, 20, 30)]
    records.append(published(VISITS, MANY, end=40, final=False))
    expected = None
    for order in itertools.permutations(records):
        overview = Overview()
        for record in order + order[:2]:  # some come twice
            overview.take(record)
        (track,) = overview.tracks.values()
        state = (track.newest, track.history("a"), track.history(EVIL))
        expected = expected or state
        assert state == expected
    assert expected[0].final
    assert expected[0].heading.end == START + 30
    assert len(expected[1]) == 3


def test_a_provisional_record_is_shown_until_there_is_a_final_one():
    overview = Overview()
    few, more = (published(VISITS, counts, final=False) for counts in ((600, 200, 100, 100), MANY))
    assert [summary.n for summary in overview.take(few)] == [1000]
    assert [summary.n for summary in overview.take(more)] == [10_000]
    assert overview.take(few) == []
    assert overview.take(published(VISITS, MANY))[0].final
    assert overview.take(published(VISITS, MANY, end=20, final=False)) == []


def test_of_each_query_the_shortest_window_is_shown_or_the_one_asked_for():
    query = ask(windows=["all", "1m/10s", "10s"])
    records = [published(query, MANY, window=number, end=60) for number in range(3)]
    for order in itertools.permutations(records):
        overview, long = Overview(), Overview(window=Window("hopping", 60, 10))
        for record in order:
            overview.take(record)
            long.take(record)
        assert [str(summary.heading) for summary in shown(overview).values()] == ["visits 10s"]
        assert [str(summary.heading) for summary in shown(long).values()] == ["visits 1m/10s"]


def test_a_new_definition_takes_the_place_of_the_old_one():
    old, new = VISITS, ask(epsilon=1.0)
    overview = Overview()
    overview.take(published(old, MANY, end=20))
    assert overview.take(published(new, MANY, end=10)) == []
    assert overview.take(published(new, MANY, end=30))
    assert overview.take(published(old, MANY, end=25)) == []
    (track,) = overview.tracks.values()
    assert track.newest.heading.digest == new.digest.hex()
    assert len(track.finals) == 1


def test_only_the_query_asked_for_is_shown_and_the_others_are_named():
    overview = Overview("visits")
    assert overview.take(published(ask("clicks"), MANY)) == []
    assert [str(part) for part in drawn(overview, 5)] == ["waiting for records of visits; there are records of clicks"]
    assert overview.take(published(VISITS, MANY))


def test_history_is_bounded():
    overview = Overview()
    record = published(VISITS, MANY)
    for end in range(10, 10 * HISTORY + 100, 10):
        record["window"] |= {"start": START + end - 10, "end": START + end}
        overview.take(copy.deepcopy(record))
    (track,) = overview.tracks.values()
    assert len(track.finals) == HISTORY
    assert max(track.finals) == track.newest.heading.end


def test_an_alert_is_heard_once_and_says_what_has_changed():
    found = alerted(VISITS, MANY, (6000, 2000, 100, 1900))
    overview = Overview()
    heard = [alert for message in found + found if (alert := overview.hear(message))]
    assert len(heard) == len(found) == len({decode(orjson.dumps(message)).key for message in found})
    risen = next(alert for alert in heard if alert.kind == "surge")
    message = next(message for message in found if message["kind"] == "surge")
    assert risen.row.value == EVIL
    assert f"has risen to {risen.row} " not in str(risen)
    assert percent(message["share"], risen.row.digits) in str(risen)
    assert f"before {percent(message['before'], risen.row.digits)}" in str(risen)


def test_alerts_that_come_together_are_one_line():
    heard = [read_alert(message) for message in alerted(VISITS, (10_000, 0, 0, 0), MANY) if not message["baseline"]]
    heard = [alert for alert in heard if alert.kind == "enter"]
    assert len(heard) > 2
    ((kind, text),) = notice_lines(heard, 2)
    assert kind == "enter"
    assert f"ALERT enter: {len(heard)} values are now proved frequent: " in text
    assert text.endswith(", ...")
    ((_, alone),) = notice_lines(heard[:1], 2)
    assert str(heard[0]) in alone


def test_what_was_there_from_the_start_is_one_line_of_all_windows():
    query = ask(windows=["10s", "all"])
    heard = [read_alert(message) for message in alerted(query, MANY)]
    heard += [replace(alert, heading=replace(alert.heading, window=query.windows[1])) for alert in heard]
    ((_, text),) = notice_lines(heard, 2)
    assert f"baseline: {len(heard) // 2} values frequent from the start: a, b, ..." in text


def test_what_was_there_from_the_start_is_told_once_though_windows_come_one_after_another(capsys):
    query = ask(windows=["10s", "all"])
    overview, lines = Overview(), Lines()
    for window in query.windows:
        heard = [read_alert(message) for message in alerted(query, MANY)]
        lines.show(overview, [], [replace(alert, heading=replace(alert.heading, window=window)) for alert in heard])
    assert capsys.readouterr().out.count("frequent from the start") == 1
    more = replace(heard[0], row=replace(heard[0].row, value="late"))
    lines.show(overview, [], [*heard, more])
    assert capsys.readouterr().out.endswith("baseline: 1 value frequent from the start: late\n")


def test_a_table_says_how_late_its_numbers_are():
    for window, step in ((0, 10), (1, 20)):
        overview = Overview()
        for end in (20, 40):
            overview.take(published(ask(windows=["10s", "all"]), MANY, end=end, window=window))
        (track,) = overview.tracks.values()
        fits = START + 40 + 2 * step + PUBLISHED
        assert track.late(fits) == 0.0
        assert track.late(fits + 180) == 180.0
        said = [str(part) for part in drawn(overview, 5, fits + 180)]
        assert any("late by 3 min" in text for text in said)
        assert not any("late by" in str(part) for part in drawn(overview, 5, fits))


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
    overview, lines = Overview(), Lines()
    (alert, *_) = alerted(VISITS, MANY)
    for spoilt in broken(published(VISITS, MANY)):
        lines.show(overview, *take(overview, News([spoilt], [])))
    for spoilt in broken(alert):
        lines.show(overview, *take(overview, News([], [spoilt])))
    for strange in ({}, {"window": {}}, {"attributes": [1]}):
        lines.show(overview, *take(overview, News([strange], [strange])))
        with pytest.raises(ReportError):
            read_record(strange)
    assert overview.unreadable > 100
    assert capsys.readouterr().err == ""
    list(drawn(overview, 10))


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
    assert len({plain(f"{'shop/' * 20}item-{number}") for number in range(100)}) == 100, "what differs is seen"


def test_hostile_values_are_shown_as_text_in_lines(capsys):
    overview = Overview()
    Lines(10).show(overview, *take(overview, news()))
    said = capsys.readouterr().out
    assert not acts(said)
    assert r"\x1b[2J\n\r\u202e\x9b31my..." in said
    assert r"\x1b]0;owned\x07[bold]evil" in said
    assert "[blink]c" in said
    assert len(said.splitlines()) == 2


def test_hostile_values_are_shown_as_text_in_the_table():
    seen = io.StringIO()
    overview = Overview()
    with Screen(10, Console(file=seen, width=140, height=50, force_terminal=True, color_system=None)) as screen:
        screen.show(overview, *take(overview, news()))
    said = re.sub(r"\x1b\[[0-9;?]*[A-Zhlm]", "", seen.getvalue())  # what rich itself says to the terminal
    assert not acts(said.replace("\r", ""))
    for part in said.split("alerts")[:2]:  # the values, and what has changed
        assert r"\x1b[2J\n\r\u202e\x9b31my..." in part
        assert r"\x1b]0;owned\x07[bold]evil" in part
        assert "[blink]c" in part


def test_hostile_values_are_escaped_in_json():
    (record,), _ = news()
    said = line(orjson.dumps(record))
    assert said.isascii()
    assert not acts(said)
    assert said.count("\n") == 1
    assert json.loads(said) == record
    assert json.loads(line(b'{"value": "\x7f"}')) == {"value": "\x7f"}
    assert "\x7f" not in line(b'{"value": "\x7f"}')


def test_the_table_has_intervals_history_hitters_and_alerts():
    overview = Overview()
    for end in (10, 20, 30):
        overview.take(published(VISITS, MANY, end=end))
    for message in alerted(VISITS, MANY):
        overview.hear(message)
    seen = io.StringIO()
    Console(file=seen, width=160).print(*drawn(overview, 2))
    said = seen.getvalue()
    first = overview.tracks["visits", ""].newest.rows[0]
    row = next(text for text in said.splitlines() if text.startswith("●") and " a " in text)
    assert percent(first.share, first.digits) in row
    assert first.interval in row
    assert row.rstrip().endswith("███")
    assert "10s, to " + clock(START + 30) in said
    assert "is now proved frequent" in said
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
