"""`hubbub tail` shows the published records in any order of arrival, and hostile text has no effect."""

import copy
import io
import itertools
import json
import re
import unicodedata
from dataclasses import replace
from itertools import chain, product

import numpy as np
import orjson
import pytest
from rich.cells import cell_len
from rich.console import Console, Group

from aggregator.demo import surge
from aggregator.reading.tail import command as tail
from aggregator.reading.tail import overview as overviews
from aggregator.reading.tail.command import Lines, News, line, take
from aggregator.reading.tail.notation import clock, label, plain, quantity, sparkline
from aggregator.reading.tail.notice import Notice, notice_lines
from aggregator.reading.tail.overview import HISTORY
from aggregator.reading.tail.pages import KEYS, Pages
from aggregator.reading.tail.summary import Summary
from aggregator.reading.tail.table import Screen, page
from aggregator.records.alert import decode
from aggregator.records.decoder import decode as decode_record
from aggregator.records.percentages import digits, percent
from aggregator.records.round_privacy import round_sentences
from aggregator.records.span import Span, shortest_expected_age
from aggregator.tallies.snapshot import Snapshot
from oracles.errors import ReportError
from oracles.query.settings import Place, Window, read_windows
from producers.simulation.crowd.scenario import parse_scenario
from tests import boards
from tests.queries import make_query
from tests.results import build, window_result
from tests.string_crowds import CRASHES, HOUR, StringCrowd

START = 1_700_000_000


class Overview(overviews.Overview):
    """An overview that takes messages as Python objects, which the tests can change."""

    def add_record(self, record):
        return super().add_record(orjson.dumps(record))

    def add_alert(self, alert):
        return super().add_alert(orjson.dumps(alert))


def read_record(message):
    return [Summary.of(decode_record(orjson.dumps(message)))]


def read_alert(message):
    return Notice.of(decode(orjson.dumps(message)))


EVIL = "\x1b[2J\n\r\u202e\x9b31m" + "y" * 100 + "\x1b]0;owned\x07[bold]evil[/]"
VALUES = ["a", "b", "[blink]c", EVIL]


def page_query(name="visits", **settings):
    table = {"epsilon": 2.0, "budget": 1e9}
    if "attributes" not in settings:
        table |= {"domain": VALUES, "other": False, "oracle": "grr"}
    return make_query(table, name=name, **settings)


def snapshot_of(query, counts, seed=1):
    """Return the snapshot of a window with honest reports of the values at these positions."""
    values = np.repeat(np.arange(len(counts)), counts)
    if query.attributes:
        values = np.stack([values % domain.size for domain in query.domains], axis=1)
    state = query.oracle.zeros()
    query.oracle.add(state, query.oracle.perturb(values, np.random.default_rng(seed)))
    return Snapshot(len(values), 0, 0, 0, state)


def records(query, counts, *, end=10, final=True, window=0, seed=1):
    kind = query.windows[window]
    span = Span(kind, START + end - kind.size if kind.size else START, START + end)
    total = snapshot_of(query, counts, seed)
    through = None if final else span.end
    return [orjson.loads(value) for _, value in build(query, span, total, through=through).records]


def one_record(query, counts, **options):
    (record,) = records(query, counts, **options)
    return record


def alert_messages(query, *windows):
    """Return the alerts of consecutive windows with these counts."""
    states, messages = [], []
    for number, counts in enumerate(windows):
        span = Span(query.windows[0], START + 10 * number, START + 10 * number + 10)
        decision = window_result(query, span, snapshot_of(query, counts, number), states=states).decision
        states = decision.states
        messages += [orjson.loads(value) for _, value in decision.alerts]
    return messages


VISITS = page_query()
MANY = (6000, 2000, 1500, 500)


def parts(overview, top, now=0.0, *, pages=None, width=160, height=50):
    """Return the parts of a page in a terminal of this size."""
    return list(page(overview, pages or Pages(), top, width, height, now))


def text_of(overview, top=15, now=0.0, *, pages=None, width=160, height=50):
    """Return a page as a terminal of this size shows it."""
    screen = io.StringIO()
    group = Group(*parts(overview, top, now, pages=pages, width=width, height=height))
    Console(file=screen, width=width, height=height).print(group)
    return screen.getvalue()


def define(overview, *queries):
    for _, key, value in boards.definition_messages({query.name: query for query in queries}):
        overview.define(key, value, 0)


def newest_summaries(overview):
    return {place: track.newest for place, track in overview.tracks.items()}


def test_a_summary_has_the_numbers_of_the_record():
    record = one_record(VISITS, MANY)
    (summary,) = read_record(record)
    assert [row.value for row in summary.rows] == record["values"]
    for key, column in (("amount", record["shares"]["unbiased"]), ("low", record["low"]), ("high", record["high"])):
        assert [getattr(row, key) for row in summary.rows] == column
    assert [row.consistent for row in summary.rows] == record["shares"]["norm_sub"]
    assert [row.value for row in summary.rows if row.frequent] == [
        hit["value"] for hit in record["hitters"]["norm_sub"]
    ]
    assert summary.n == record["n"]
    assert summary.record.sigma == record["sigma"]
    assert summary.record.detectable == record["detectable"]


def test_a_line_has_each_share_with_its_interval():
    (summary,) = read_record(one_record(VISITS, MANY))
    output = summary.line(2)
    level, listed = summary.listed(2)
    assert level == 1 - 0.05 * 2 / len(VALUES)
    assert output.endswith("; 97.5% intervals")
    for row, own in zip(listed, summary.rows, strict=False):
        assert row.low < own.low
        assert row.high > own.high
        assert f"{row.name} {100 * row.amount:.{row.digits}f}% (" in output
        assert f"{100 * row.low:.{row.digits}f}% to {100 * row.high:.{row.digits}f}%)" in output
        assert 10 <= round(50 * (row.high - row.low) * 10**row.digits) < 100  # two digits of the error
    assert "10,000 reports" in output
    assert "standard error" in output
    assert summary.rows[2].name not in output


def test_flags_are_words():
    record = one_record(VISITS, MANY)
    record["quality"]["flags"] = ["partial", "skewed", "new_flag"]
    (summary,) = read_record(record)
    line = summary.line(1)
    assert "the definition changed within, forged reports suspected, new_flag" in line


def test_every_attribute_has_its_summary():
    query = page_query(attributes={"age": 5, "sex": ["f", "m"]}, solution="smp")
    records_of = records(query, (500, 300, 100, 60, 40))
    summaries = [*chain.from_iterable(read_record(record) for record in records_of)]
    assert [str(summary.heading) for summary in summaries] == ["visits, age 10s", "visits, sex 10s"]
    overview = Overview()
    assert [*chain.from_iterable(overview.add_record(record) for record in records_of)] == summaries
    assert len(overview.tracks) == 2


def test_the_order_of_records_does_not_matter():
    records = [one_record(VISITS, MANY, end=end, seed=end) for end in (10, 20, 30)]
    records.append(one_record(VISITS, MANY, end=40, final=False))
    first_state = None
    for order in itertools.permutations(records):
        overview = Overview()
        for record in order + order[:2]:  # some records arrive twice
            overview.add_record(record)
        (track,) = overview.tracks.values()
        state = (track.newest, track.history("a"), track.history(EVIL))
        first_state = first_state or state
        assert state == first_state
    assert first_state[0].final
    assert first_state[0].heading.end == START + 30
    assert len(first_state[1]) == 3


def test_a_provisional_record_is_shown_until_there_is_a_final_one():
    overview = Overview()
    few_records, more = (one_record(VISITS, counts, final=False) for counts in ((600, 200, 100, 100), MANY))
    assert [summary.n for summary in overview.add_record(few_records)] == [1000]
    assert [summary.n for summary in overview.add_record(more)] == [10_000]
    assert overview.add_record(few_records) == []
    assert overview.add_record(one_record(VISITS, MANY))[0].final
    assert overview.add_record(one_record(VISITS, MANY, end=20, final=False)) == []


def test_the_shortest_window_is_shown_unless_one_is_requested():
    query = page_query(windows=["all", "1m/10s", "10s"])
    records = [one_record(query, MANY, window=number, end=60) for number in range(3)]
    for order in itertools.permutations(records):
        overview = Overview()
        long_overview = Overview(window=Window("hopping", 60, 10))
        for record in order:
            overview.add_record(record)
            long_overview.add_record(record)
        assert [str(summary.heading) for summary in newest_summaries(overview).values()] == ["visits 10s"]
        assert [str(summary.heading) for summary in newest_summaries(long_overview).values()] == ["visits 1m/10s"]


def test_a_new_definition_replaces_the_old_one():
    old_visits = VISITS
    new_query = page_query(epsilon=1.0)
    overview = Overview()
    overview.add_record(one_record(old_visits, MANY, end=20))
    assert overview.add_record(one_record(new_query, MANY, end=10)) == []
    assert overview.add_record(one_record(new_query, MANY, end=30))
    assert overview.add_record(one_record(old_visits, MANY, end=25)) == []
    (track,) = overview.tracks.values()
    assert track.newest.heading.digest == new_query.digest.hex()
    assert len(track.finals) == 1


def test_only_the_requested_query_is_shown_and_others_are_named():
    overview = Overview("visits")
    assert overview.add_record(one_record(page_query("clicks"), MANY)) == []
    assert [str(part) for part in parts(overview, 5)] == ["waiting for records of visits; there are records of clicks"]
    assert overview.add_record(one_record(VISITS, MANY))


def withheld(record, reason="small"):
    _, _, value = boards.withheld(("estimates", b"", orjson.dumps(record)), reason)
    return orjson.loads(value)


def test_the_newest_window_with_values_is_shown_and_later_ones_are_withheld():
    records = [one_record(VISITS, MANY, end=end, seed=end) for end in (10, 20, 30, 40)]
    records = [*records[:2], withheld(records[2], "held"), withheld(records[3])]
    for order in itertools.permutations(records):
        overview = Overview()
        for record in order:
            overview.add_record(record)
        (track,) = overview.tracks.values()
        assert track.newest.heading.end == START + 20
        assert [share is None for share in track.history("a")] == [False, False, True, True]
        assert track.gap == f"windows since {clock(START + 30)} are withheld: fewer reports than the query's crowd"
        assert any(track.gap == str(part) for part in parts(overview, 5))
    overview.add_record(one_record(VISITS, MANY, end=50))
    assert track.gap == ""


def test_a_withheld_window_is_never_zero_reports(capsys):
    overview, lines = Overview(), Lines()
    for end in (10, 20):
        record = orjson.dumps(withheld(one_record(VISITS, MANY, end=end)))
        lines.show(overview, *take(overview, News([orjson.loads(record)], [])))
    table = text_of(overview, 2)
    output = capsys.readouterr().out
    assert output.count("withheld: fewer reports than the query's crowd\n") == 2
    assert "withheld: fewer" in table
    assert "0 reports" not in output + table


def test_a_provisional_window_says_up_to_when_it_counts():
    record = one_record(VISITS, MANY, final=False) | {"version": 3}
    record["window"]["through"] = START + 5
    overview = Overview()
    (summary,) = overview.add_record(record)
    assert f"provisional, 10,000 reports up to {clock(START + 5)}" in summary.line(1)
    assert overview.add_record(withheld(one_record(VISITS, MANY))), "the window is final and withheld"
    (track,) = overview.tracks.values()
    assert track.newest.withheld


def test_history_is_bounded():
    overview = Overview()
    record = one_record(VISITS, MANY)
    for end in range(10, 10 * HISTORY + 100, 10):
        record["window"] |= {"start": START + end - 10, "end": START + end}
        overview.add_record(copy.deepcopy(record))
    (track,) = overview.tracks.values()
    assert len(track.finals) == HISTORY
    assert max(track.finals) == track.newest.heading.end


def test_an_alert_is_shown_once_with_its_change():
    messages = alert_messages(VISITS, MANY, (6000, 2000, 100, 1900))
    overview = Overview()
    # Each alert comes twice, as after a restart of its worker.
    alerts = [overview.add_alert(message) for message in messages + messages]
    notices = [alert for alert in alerts if alert]
    assert len(notices) == len(messages) == len({decode(orjson.dumps(message)).key for message in messages})
    surge_notice = next(alert for alert in notices if alert.kind == "surge")
    message = next(message for message in messages if message["kind"] == "surge")
    assert surge_notice.row.value == EVIL
    assert f"has risen to {surge_notice.row} " not in str(surge_notice)
    assert percent(message["share"], surge_notice.row.digits) in str(surge_notice)
    assert f"before {percent(message['before'], surge_notice.row.digits)}" in str(surge_notice)


def test_simultaneous_alerts_share_a_line():
    notices = [
        read_alert(message) for message in alert_messages(VISITS, (10_000, 0, 0, 0), MANY) if not message["baseline"]
    ]
    notices = [alert for alert in notices if alert.kind == "enter"]
    assert len(notices) > 2
    ((kind, text),) = notice_lines(notices, 2)
    assert kind == "enter"
    assert f"ALERT enter: {len(notices)} values are now proved present: " in text
    assert text.endswith(", ...")
    ((_, alone),) = notice_lines(notices[:1], 2)
    assert str(notices[0]) in alone


def test_baselines_of_all_windows_share_a_line():
    query = page_query(windows=["10s", "all"])
    notices = [read_alert(message) for message in alert_messages(query, MANY)]
    notices += [replace(alert, heading=replace(alert.heading, window=query.windows[1])) for alert in notices]
    ((_, text),) = notice_lines(notices, 2)
    assert f"baseline: {len(notices) // 2} values frequent from the start: a, b, ..." in text


def test_names_that_look_alike_when_shortened_are_counted_each():
    names = [f"{'a' * 20}{number}{'b' * 40}" for number in range(4)]
    notices = [read_alert(message) for message in alert_messages(page_query(domain=names), MANY)]
    ((_, text),) = notice_lines(notices, 2)
    assert f"baseline: {len({notice.row.value for notice in notices})} values frequent from the start" in text


def test_baselines_are_shown_once_for_successive_windows(capsys):
    query = page_query(windows=["10s", "all"])
    overview, lines = Overview(), Lines()
    for window in query.windows:
        notices = [read_alert(message) for message in alert_messages(query, MANY)]
        lines.show(overview, [], [replace(alert, heading=replace(alert.heading, window=window)) for alert in notices])
    assert capsys.readouterr().out.count("frequent from the start") == 1
    more = replace(notices[0], row=replace(notices[0].row, value="late"))
    lines.show(overview, [], [*notices, more])
    assert capsys.readouterr().out.endswith("baseline: 1 value frequent from the start: late\n")


def test_page_and_tail_have_one_rule_for_late_and_quiet():
    for windows, window in ((["10s", "all"], 0), (["1m/10s"], 0)):
        query = page_query(windows=windows)
        overview = Overview()
        define(overview, query)
        assert overview.pulse("visits", START).state == "waiting"
        for end in (20, 40):
            overview.add_record(one_record(query, MANY, end=end, window=window))
        deadline = START + 40 + shortest_expected_age(query)
        assert overview.pulse("visits", deadline).state == "live"
        assert overview.pulse("visits", deadline + 180).state == "late"
        assert "late by 3 min" in text_of(overview, now=deadline + 180)
        last_end = (deadline + 180) // 10 * 10 - 10
        for newest, state in ((START + 40, "quiet"), (last_end, "late")):
            _, _, status = boards.status_message(query, last_end, newest)
            overview.add_status(status)
            assert overview.pulse("visits", deadline + 180).state == state
            assert ("no reports since" in text_of(overview, now=deadline + 180)) == (state == "quiet")


def test_lines_say_once_that_a_query_is_quiet_or_late(capsys, monkeypatch):
    overview, lines = Overview(), Lines()
    define(overview, VISITS)
    lines.show(overview, *take(overview, News([one_record(VISITS, MANY, end=40)], [])))
    monkeypatch.setattr(tail.time, "time", lambda: START + 1_000)
    capsys.readouterr()
    for _ in range(3):
        lines.show(overview, [], [])
    (text,) = capsys.readouterr().out.splitlines()
    assert text.startswith("visits: no final since")
    overview.add_status(boards.status_message(VISITS, START + 990, START + 40)[2])
    for _ in range(3):
        lines.show(overview, [], [])
    assert capsys.readouterr().out.splitlines() == [f"visits: no reports since {clock(START + 40)}"]


def test_lines_say_once_that_a_query_has_no_such_windows(capsys):
    overview, lines = Overview("visits", Window("tumbling", 77, 77)), Lines()
    define(overview, VISITS)
    lines.show(overview, *take(overview, News([one_record(VISITS, MANY, end=40)], [])))
    for _ in range(4):
        lines.show(overview, [], [])
    assert capsys.readouterr().out == "visits: it has no windows of this kind, only 10s\n"


def test_lines_say_once_that_no_query_has_the_name(capsys):
    overview, lines = Overview("visit"), Lines()
    define(overview, VISITS)
    lines.show(overview, *take(overview, News([one_record(VISITS, MANY, end=40)], [])))
    assert capsys.readouterr().out == ""
    for _ in range(4):
        lines.show(overview, [], [])
    assert capsys.readouterr().out == "waiting for records of visit; there are records of visits\n"


NAMES = [f"organisation.product.release-{number:02}" for number in range(11)]


@pytest.fixture(scope="module")
def eleven():
    """Return an overview of eleven queries with long names, of which one is withheld and one has no records."""
    queries = [page_query(name) for name in NAMES]
    overview = Overview()
    define(overview, *queries)
    for number, query in enumerate(queries[:-1]):
        record = one_record(query, MANY, end=10, seed=number)
        overview.add_record(withheld(record) if number == 3 else record)
    for message in alert_messages(queries[0], MANY, (1000, 7000, 1500, 500)):
        overview.add_alert(message)
    return overview


@pytest.mark.parametrize("width", [80, 100, 200])
def test_an_overview_of_eleven_queries_fits_a_terminal(eleven, width):
    lines = text_of(eleven, now=START + 15, width=width, height=24).splitlines()
    assert len(lines) <= 24
    assert all(len(line) <= width for line in lines)
    rows = {line[0]: line for line in lines if line[0] in KEYS and line[1] == " "}
    assert list(rows) == list(KEYS[:11])
    for number, row in enumerate(rows.values()):
        assert f"release-{number:02}" in row, "names stay different"
        assert ("withheld" in row) == (number == 3)
        assert ("waiting" in row) == (number == 10)
        if number not in (3, 10):
            assert "live" in row
            assert "10,000" in row
            assert "%" in row
    assert any("surge" in line for line in lines)


def test_names_are_as_wide_as_the_terminal_allows(eleven):
    name = "a-name-of-sixty-letters-" + "x" * 40
    query = page_query(domain=[name[:60], "b"])
    overview = Overview()
    overview.add_record(one_record(query, (500, 400)))
    assert name[:60] in text_of(overview, width=120)
    assert name[:60] not in text_of(overview, width=80)
    assert all(name in text_of(eleven, width=120) for name in NAMES)


@pytest.mark.parametrize("width", [80, 100, 160])
def test_wide_names_stay_different_and_cost_no_number(width):
    """A Chinese character fills two columns."""
    names = [f"{'東京都新宿区西新宿二丁目の庁舎' * 3}{end}" for end in "甲乙丙戊"]
    query = page_query(domain=names)
    first_overview, two = Overview(), Overview()
    for overview in (first_overview, two):
        overview.add_record(one_record(query, MANY))
        for message in alert_messages(query, MANY, (1000, 7000, 1500, 500)):
            overview.add_alert(message)
    two.add_record(one_record(page_query("others", domain=names), MANY))
    for overview in (first_overview, two):
        lines = text_of(overview, width=width, height=24).splitlines()
        assert len(lines) <= 24
        assert all(cell_len(line) <= width for line in lines)
    summary, alerts = text_of(first_overview, width=width).split("alerts\n")
    rows = [row for row in summary.splitlines() if "東京" in row]
    assert [next(end for end in "甲乙丙戊" if end in row) for row in rows] == [*"甲乙丙戊"]
    assert len(alerts.splitlines()) == len(first_overview.notices)
    assert all(row.count("%") == 4 and "\N{HORIZONTAL ELLIPSIS}" not in row for row in rows)
    rows = [row for row in text_of(two, width=width).splitlines() if row.startswith(("1 visits", "2 others"))]
    assert all("甲 " in row and row.endswith("%)") for row in rows), rows


@pytest.mark.parametrize(("width", "numbers"), [(34, 1), (40, 1), (50, 3), (60, 4)])
def test_a_narrow_terminal_shows_fewer_numbers_and_cuts_none(width, numbers):
    query = page_query(domain=[f"{'東京都新宿区' * 3}{end}" for end in "甲乙丙戊"])
    overview = Overview()
    overview.add_record(one_record(query, MANY))
    rows = [text for text in text_of(overview, width=width).splitlines() if text.startswith("●   ")]
    assert len(rows) == 4
    summary = overview.tracks["visits", ""].newest
    for text, row in zip(rows, summary.rows, strict=True):
        assert f" {row.text(row.amount)}" in text
        assert text.count("%") == numbers
        assert "\N{HORIZONTAL ELLIPSIS}" not in text
        assert row.value[-1] in text


def test_one_key_leads_to_each_page(eleven):
    pages = Pages()
    for key, name in zip(KEYS, NAMES, strict=False):
        pages.press(key, eleven.names, 19)
        lines = text_of(eleven, now=START + 15, pages=pages, width=80, height=24).splitlines()
        assert len(lines) <= 24
        assert name in lines[0]
        assert not any(other_name in line for line, other_name in product(lines, NAMES) if other_name != name)
        pages.press("0", eleven.names, 19)
        assert pages.name is None
    pages.press("!", eleven.names, 19)
    assert pages.name is None


def test_an_overview_of_many_queries_turns_its_rows():
    names = [f"q{number:03}" for number in range(100)]
    pages, visible_names = Pages(), []
    for _ in range(6):
        visible_names += [name for _, name in pages.visible(names, 19)]
        pages.press(" ", names, 19)
    assert visible_names == names
    assert pages.visible(names, 19)[0] == ("1", "q000"), "after the last rows come the first"
    pages.press(" ", names, 19)
    pages.press("2", names, 19)
    assert pages.name == "q020"


def broken_messages(message):
    """Yield the message without each of its parts, and with a wrong one instead."""

    def paths(node, at=()):
        if isinstance(node, dict):
            for key in node:
                yield (*at, key)
                yield from paths(node[key], (*at, key))

    for path in paths(message):
        for wrong_value in (None, "x", -1, [], {}, 1e300):
            bad = copy.deepcopy(message)
            inner = bad
            for key in path[:-1]:
                inner = inner[key]
            inner[path[-1]] = wrong_value
            yield bad
        without = copy.deepcopy(message)
        inner = without
        for key in path[:-1]:
            inner = inner[key]
        del inner[path[-1]]
        yield without


def test_invalid_records_and_alerts_are_skipped(capsys):
    overview, lines = Overview(), Lines()
    (alert, *_) = alert_messages(VISITS, MANY)
    for message in broken_messages(one_record(VISITS, MANY)):
        lines.show(overview, *take(overview, News([message], [])))
    for message in broken_messages(alert):
        lines.show(overview, *take(overview, News([], [message])))
    for strange in ({}, {"window": {}}, {"attributes": [1]}):
        lines.show(overview, *take(overview, News([strange], [strange])))
        with pytest.raises(ReportError):
            read_record(strange)
    assert overview.unreadable > 100
    assert capsys.readouterr().err == ""
    parts(overview, 10)


def control_characters(text):
    """Return the characters of `text` that control a terminal, are invisible, or change the direction of text."""
    return {char for char in text if unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp", "Cs")} - {"\n", "\u200d"}


def news():
    return News([one_record(VISITS, (1000, 2000, 1500, 5500))], alert_messages(VISITS, (1000, 2000, 1500, 5500)))


def test_plain_text_has_no_effect_on_a_terminal():
    every = "".join(map(chr, (*range(0xD800), *range(0xE000, 0x30000), *range(0xE0000, 0xE01F0))))
    for start in range(0, len(every), 40):
        output = plain(every[start : start + 40])
        assert not control_characters(output)
        assert "\n" not in output
    assert plain("👩‍👩‍👧 café 日本") == "👩‍👩‍👧 café 日本"
    assert len(plain("x" * 1000)) == 40
    assert len({plain(f"{'shop/' * 20}item-{number}") for number in range(100)}) == 100, "long texts stay different"


def test_hostile_values_are_shown_as_text_in_lines(capsys):
    overview = Overview()
    Lines(10).show(overview, *take(overview, news()))
    output = capsys.readouterr().out
    assert not control_characters(output)
    assert r"\x1b[2J\n\r\u202e\x9b31my..." in output
    assert r"\x1b]0;owned\x07[bold]evil" in output
    assert "[blink]c" in output
    assert len(output.splitlines()) == 2


def test_hostile_values_are_shown_as_text_in_the_table():
    screen_text = io.StringIO()
    overview = Overview()
    with Screen(10, Console(file=screen_text, width=200, height=50, force_terminal=True, color_system=None)) as screen:
        screen.show(overview, *take(overview, news()))
    output = re.sub(r"\x1b\[[0-9;?]*[A-Zhlm]", "", screen_text.getvalue())  # the control sequences of rich
    assert not control_characters(output.replace("\r", ""))
    for part in output.split("alerts")[:2]:  # the values, then the alerts
        assert r"\x1b[2J\n\r\u202e\x9b31my" in part
        assert r"\x1b]0;owned\x07[bold]evil" in part
        assert "[blink]c" in part


def test_letters_that_the_encoding_lacks_are_escaped(monkeypatch):
    content = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(content, "ascii"))
    with tail.output() as lines:
        lines.show(Overview(), *take(Overview(), News([one_record(page_query(domain=[*"ab日"]), (500, 400, 900))], [])))
    assert rb"\u65e5 " in content.getvalue()


def test_an_empty_value_is_visible(capsys):
    record = one_record(VISITS, MANY)
    record["values"][:2] = "", "   "
    overview = Overview()
    hitters = {"a": "", "b": "   "}
    for row in (row for row in chain.from_iterable(record["hitters"].values())):
        row["value"] = hitters.get(row["value"], row["value"])
    Lines(10).show(overview, *take(overview, News([record], [])))
    for text in (capsys.readouterr().out, text_of(overview)):
        assert '"" ' in text
        assert '"   " ' in text
    overview.add_record(record | {"query": "others"})
    assert '"" ' in next(row for row in text_of(overview).splitlines() if "others" in row)


def test_hostile_values_are_escaped_in_json():
    (record,) = news().records
    output = line(orjson.dumps(record))
    assert output.isascii()
    assert not control_characters(output)
    assert output.count("\n") == 1
    assert json.loads(output) == record
    assert json.loads(line(b'{"value": "\x7f"}')) == {"value": "\x7f"}
    assert "\x7f" not in line(b'{"value": "\x7f"}')


def test_the_table_has_intervals_history_hitters_and_alerts():
    overview = Overview()
    for end in (10, 20, 30):
        overview.add_record(one_record(VISITS, MANY, end=end))
    for message in alert_messages(VISITS, MANY):
        overview.add_alert(message)
    output = text_of(overview, 2)
    first = overview.tracks["visits", ""].newest.listed(2)[1][0]
    row = next(text for text in output.splitlines() if text.startswith("●") and " a " in text)
    assert percent(first.amount, first.digits) in row
    assert first.interval in row
    assert row.split()[1] == first.rank == "1"
    assert "rank" in output
    assert row.rstrip().endswith("███")
    assert "10s, to " + clock(START + 30) in output
    assert "is now proved present" in output
    assert "[blink]c" not in output.split("alerts")[0]


def test_a_page_says_what_all_windows_reveal_of_a_person():
    query = page_query(answers="life")
    overview = Overview()
    define(overview, query)
    overview.add_record(one_record(query, MANY))
    lines = text_of(overview, width=80, height=24).splitlines()
    text = " ".join(line.strip() for line in lines)
    assert all(sentence in text for sentence in round_sentences(query))
    assert "Whoever sees two windows learns the report of a person who changed, came or went." in text
    assert len(lines) <= 24


def test_numbers_have_as_many_digits_as_their_error_allows():
    assert [digits(error) for error in (0.5, 0.05, 0.0099, 0.0012, 1e-6, 0.0)] == [0, 1, 2, 2, 5, 2]
    assert percent(-0.00001, 2) == "0.00%"


def test_windows_are_named_as_in_query_files():
    for text in ("10s", "1m", "90s", "1m/10s", "2h/15m", "7d/1d", "all"):
        assert label(read_windows([text], Place("test"), 1)[0]) == text


@pytest.mark.parametrize(
    ("number", "error", "text"),
    [
        (1.7e308, 1e308, "1.7e+308"),
        (-3.14159e15, 2e10, "-3.14159e+15"),
        (2.5e14, 1e13, "250,000,000,000,000"),
        (1.23456e-300, 5e-302, "1.235e-300"),
        (1e-300, 5e299, "0"),
        (1e-9, 0.5, "0.00"),
        (-1e-9, 0.5, "0.00"),
        (0.0, 0.0, "0.00"),
    ],
)
def test_numbers_of_any_size_are_short(number, error, text):
    assert quantity(number, error) == text


def test_a_sparkline_is_scaled_from_zero_to_the_largest():
    assert sparkline([0.0, None, 0.5, 1.0]) == "▁ ▅█"
    assert sparkline([-0.1, 0.0]) == "▁▁"
    assert sparkline([]) == ""


def test_wrong_options_are_usage_errors(capsys):
    for wrong_value in (["--window", "10"], ["--top", "-1"], ["--last", "x"], ["--kafka", "nowhere"]):
        with pytest.raises(SystemExit) as error_info:
            tail.main(wrong_value)
        assert error_info.value.code == 2
        assert "hubbub tail: error:" in capsys.readouterr().err


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"domain": ['quo"te\\', "\x7f\t\x01", "é👩‍👩‍👧", "\u2028"]},
        {"domain": 2},
        {"domain": 5000},
        {"domain": ["only"], "other": True},
        {"attributes": {"age": 5, "sex": ["f", "m"]}},
    ],
)
def test_the_scenario_of_a_demo_fits_any_query(settings):
    import tomllib

    query = page_query(**settings)
    scenario = parse_scenario(tomllib.loads(surge.scenario(query)), Place("test"), query)
    (change,) = scenario.changes
    assert query.domains[0].name(change.value) == surge.surge_value(query)
    assert change.course.at(surge.BEGINS - 1) == 0.0
    assert change.course.at(surge.BEGINS + surge.RISES) == surge.SHARE


def test_the_overview_shows_the_total_or_one_group():
    records = [value for _, _, value in boards.GroupCrowd(boards.SCREENS).next()]
    for group, n in ((None, 15_000), ("ios", 9_000), ("(none)", 0)):
        overview = overviews.Overview(group=group)
        assert [summary.n for summary in chain.from_iterable(overview.add_record(record) for record in records)] == [n]


def test_lines_of_json_are_about_the_total_or_one_group():
    records = [value for _, _, value in boards.GroupCrowd(boards.SCREENS).next()]
    for group, n in ((None, 15_000), ("web", 2_000)):
        options = tail._options(["--json"] if group is None else ["--json", "--group", group])
        matches = [orjson.loads(record)["n"] for record in records if tail._matches_record(record, options)]
        assert matches == [n]


def test_a_line_promises_a_search_only_if_such_windows_are_searched():
    crowd = StringCrowd(HOUR * 400_000, clients=20_000)
    records = [value for topic, _, value in crowd.next() if topic == "estimates"]
    blank = overviews.Overview()
    overview = overviews.Overview()
    for _, key, value in boards.definition_messages({"crashes": CRASHES}):
        overview.define(key, value, 0)
    texts = {}
    for value in records:
        window = decode_record(value).span.window
        for one, state in ((blank, "unknown"), (overview, "known")):
            one.window = window
            (summary,) = one.add_record(value)
            texts[window.size, state] = summary.quality
    assert texts[3600, "known"].startswith("4 names, a search finds shares from ")
    assert texts[300, "known"] == "4 names that were found before"
    assert {texts[size, "unknown"] for size in (300, 3600)} == {"4 names"}
