"""`hubbub demo` refuses options that cannot work."""

import argparse
import asyncio
import math
import re
import tomllib
from dataclasses import replace

import numpy as np
import pytest

from aggregator.demo import command as demo
from aggregator.demo import crashes, pace, story, surge
from aggregator.demo.forecast import Promise, Punctuality
from aggregator.demo.keeper import temporary_file
from aggregator.errors import ChildEnded
from aggregator.reading.tail.summary import Summary
from aggregator.records.decoder import decode
from aggregator.records.needed_people import needed_people
from oracles.query import load
from oracles.query.settings import Place
from producers.simulation.crowd.crowd_groups import read_groups
from producers.simulation.crowd.distribution import read_crowd
from producers.simulation.crowd.scenario import parse_scenario
from producers.simulation.crowd.words import read_words
from tests.queries import make_query, make_table
from tests.string_crowds import CRASHES, HOUR, NEW, SHARES, StringCrowd


def test_a_missing_requirement_is_an_error(tmp_path, capsys):
    assert demo.main(["--kafka", "127.0.0.1:1", "--no-browser"]) == 3
    assert "hubbub demo: Kafka at 127.0.0.1:1 cannot be reached" in capsys.readouterr().err
    assert demo.main(["--queries", str(tmp_path / "none.toml")]) == 2
    assert "none.toml: cannot be read" in capsys.readouterr().err
    for wrong_value in (["--seconds", "0"], ["--kafka", "here"], ["--prefix", "a b"]):
        with pytest.raises(SystemExit) as ending:
            demo.main(wrong_value)
        assert ending.value.code == 2


class LateBoard:
    """A board that finds its first port taken, because another demo started at the same time."""

    def __init__(self, *, ends):
        self.ends, self.ports = ends, []

    def start(self, *arguments):
        self.ports.append(int(arguments[-1]))

    async def find_output(self, pattern):
        if self.ends or self.ports == [demo.PAGE]:
            raise ChildEnded("board", 2, "cannot be listened on")
        return re.search(pattern, f"hubbub board: http://127.0.0.1:{self.ports[-1]}")


@pytest.mark.parametrize("ends", [False, True])
def test_the_page_of_a_demo_takes_another_port_if_its_own_is_taken_meanwhile(ends, monkeypatch, capsys):
    options = argparse.Namespace(device=False, no_browser=True, pace=pace.MachinePace(1, 1.0, 50_000))
    board = LateBoard(ends=ends)
    looks = iter([True, ends])
    the_demo = demo.Demo(None, options, {})
    monkeypatch.setattr(the_demo, "_child", lambda _: board)
    monkeypatch.setattr(demo, "is_free", lambda _: next(looks))
    page = asyncio.run(the_demo._page())
    output = capsys.readouterr().out
    if ends:
        assert page is None
        assert board.ports == [demo.PAGE]
        assert output == "no page: the board exited with code 2: cannot be listened on\n"
    else:
        assert page is board
        assert board.ports[0] == demo.PAGE != board.ports[1]
        assert f"page: http://127.0.0.1:{board.ports[1]}" in output


LOG = {"low": 10, "high": 60_000, "scale": "log"}


@pytest.mark.parametrize(
    ("settings", "values"),
    [
        ({"domain": LOG}, "lognormal:6.304,0.8004"),
        ({"domain": {"low": 0, "high": 100}}, "normal:46,9.2"),
        ({"domain": {"low": -100, "high": 0}}, "uniform"),
        ({"attributes": {"age": LOG, "sex": ["f", "m"]}, "solution": "smp"}, "zipf:1.1"),
    ],
)
def test_the_crowd_of_a_demo_fits_any_numbers(settings, values):
    query = make_query({"budget": 1e9}, **settings)
    assert surge.values(query) == values
    read_crowd([values], query)
    (change,) = parse_scenario(tomllib.loads(surge.scenario(query)), Place("test"), query).changes
    assert change.factor == surge.FACTOR
    assert change.course.at(surge.BEGINS - 1) == 0.0
    assert surge.events(query) == ["regression: p95 of q, 60 s from now"]


def test_the_demo_shows_a_number_beside_the_homepages():
    queries = load(story.QUERIES)
    assert list(queries) == ["homepage", "load_time"]
    assert queries["load_time"].domain.unit == "ms"
    assert surge.values(queries["load_time"]).startswith("lognormal:6.3")


def test_the_platforms_of_the_demo_differ():
    query = load(story.QUERIES)["homepage"]
    option, shares, *own_groups = surge.groups(query)
    assert option == "--groups"
    assert own_groups[::2] == ["--group-values"] * 3
    crowd = read_groups(shares, [surge.values(query)], own_groups[1::2], query)
    assert [round(share, 2) for share in crowd.shares.values()] == [0.55, 0.27, 0.18]
    first_shares = [law.weights[0] / law.weights.sum() for law in crowd.crowds.values()]
    assert min(np.diff(sorted(first_shares))) > 0.05


@pytest.mark.parametrize("count", [1, 2, 255])
def test_a_demo_of_other_groups_has_them_all(count):
    groups = {"v": [f"v{number}" for number in range(count)]}
    query = make_query(domain=LOG, groups=groups)
    _, shares, *own_groups = surge.groups(query)
    crowd = read_groups(shares, [], own_groups[1::2], query)
    assert list(crowd.shares) == list(range(1, 1 + count))
    assert sum(crowd.shares.values()) == pytest.approx(1.0)


START = 1_700_000_123.4
BYTES = make_table(domain={"discover": "bytes", "length": 8}, pane="10m", search="10m")


def demo_crashes(moment):
    with temporary_file("demo.toml", story.query_text(crashes.clock_delay(moment))) as path:
        return load(path)["crashes"]


@pytest.mark.parametrize("moment", [START, START + 0.6, START + 101, 1_699_999_925.0])
def test_the_first_pane_of_strings_ends_soon_after_the_start(moment):
    query = demo_crashes(moment)
    delay = crashes.clock_delay(moment)
    assert 0 <= delay < query.pane
    assert (math.ceil(moment) + crashes.FIRST_END - delay) % query.pane == 0
    assert query.lateness == crashes.LATENESS + delay
    assert query.is_searched(query.windows[0])
    scenario = parse_scenario(tomllib.loads(crashes.scenario(query, delay)), Place("test"), query)
    assert [conduct.clock for conduct in scenario.conducts] == ([-delay] if delay else [])
    assert [change.value for change in scenario.changes] == list(crashes.CRASHES)
    assert ("behind" in " ".join(story.events(query, delay))) == bool(delay)


def test_the_query_file_of_a_demo_is_gone_after_it():
    with temporary_file("demo.toml", story.query_text(1)) as path:
        assert list(load(path)) == ["homepage", "load_time", "crashes"]
    assert not path.parent.exists()


@pytest.mark.parametrize("table", [None, BYTES, {**BYTES, "known": ["a\tb", "\n", "c"]}])
def test_the_clients_know_none_of_the_new_crashes(table, tmp_path):
    query = demo_crashes(START) if table is None else make_query(table)
    _, spec = story.values(query, tmp_path)
    words = read_words([spec], query)
    assert len(words.texts) == crashes.RARE + max(1, sum(name.isprintable() for name in query.known))
    assert not {*crashes.CRASHES} & {*words.texts}
    assert words.weights[-crashes.RARE :].sum() == pytest.approx(crashes.RARE_SHARE)
    assert words.weights.sum() == pytest.approx(1.0)


def test_queries_of_unknown_strings_have_a_rate_of_their_own():
    queries = [*load(story.QUERIES).values(), demo_crashes(START)]
    assert story.rates(queries, 50_000) == {"homepage": 25_000, "load_time": 25_000, "crashes": 5_000}
    assert story.rates(queries[2:], 100) == {"crashes": 100}


def test_a_slow_machine_gets_a_rate_that_it_can_follow():
    assert pace.choose(1.0) == pace.RATES[0]
    assert [pace.choose(pace.need(rate)) for rate in pace.RATES] == list(pace.RATES)
    assert pace.choose(0.0) == pace.RATES[-1]
    assert str(pace.MachinePace(1, 0.5, 10_000)) == (
        "machine: 1 core, too slow or too busy for 50,000 answers a second, so the crowd sends 10,000"
    )
    assert str(pace.MachinePace(1, 0.1, 2_500)) == (
        "machine: 1 core, too slow or too busy even for 2,500 answers a second: results may be late"
    )


def test_a_fast_machine_is_not_said_to_have_more_cores_than_it_has():
    assert str(pace.MachinePace(2, 2.6, 50_000)) == "machine: 2 cores, fast enough for 50,000 answers a second"


def test_the_machine_is_measured(monkeypatch):
    monkeypatch.setattr(pace, "SECONDS", 0.05)
    pace_here = pace.measure()
    assert pace_here.cores >= 1
    assert pace_here.capacity > 0.0
    assert pace_here.rate == pace.choose(pace_here.capacity)


@pytest.mark.parametrize("total", pace.RATES)
def test_each_rate_shows_what_the_demo_promises(total):
    queries = [*load(story.QUERIES).values(), demo_crashes(START)]
    rates = story.rates(queries, total)
    for query in queries:
        # A new crash has appeared for most of its first pane only, and the other changes for a whole window.
        names = query.strings is not None
        seconds = crashes.FIRST_END if names else max(window.size for window in query.windows)
        first = min(crashes.CRASHES.values()) if names else 0
        share = surge.SHARE * (seconds - first - crashes.RISES) / seconds
        people = needed_people(query, 0) * (surge.SHARE / share) ** 2
        assert rates[query.name] * (seconds - crashes.RISES) >= people


def late_demo():
    """Return a demo of pages and crashes that began at START, with its promises."""
    delay = crashes.clock_delay(START)
    queries = [load(story.QUERIES)["homepage"], demo_crashes(START)]
    return queries, Punctuality(queries, story.promises(queries, delay), START)


def windows_until(query, due):
    """Return the ends of the windows that are due from 12 s after the start on."""
    first = math.ceil((START + 12 - query.lateness) / query.pane) * query.pane
    return range(first, int(START + due - query.lateness), query.pane)


def test_a_demo_on_time_says_nothing():
    (pages, names), punctuality = late_demo()
    for second in range(1, 120):
        for query in (pages, names):
            for end in windows_until(query, second - 2):
                punctuality.take_final(query.name, end)
        assert list(punctuality.lines(second)) == []


def test_a_late_demo_says_so_moves_its_promises_and_recovers():
    (pages, names), punctuality = late_demo()
    text_lines = []
    for second in range(1, 121):
        # Time goes on at half its speed in the results.
        for end in windows_until(pages, second / 2):
            punctuality.take_final(pages.name, end)
        text_lines += punctuality.lines(second)
    text = "\n".join(text_lines)
    assert "late: results come" in text_lines[0]
    assert 'late: the name of the crash "null tile in map view" appears in about 2 minutes' in text
    assert "late: the surge of page-42 appears in about" in text
    assert len(text_lines) < 30

    for query in (pages, names):
        for end in windows_until(query, 121):
            punctuality.take_final(query.name, end)
    assert list(punctuality.lines(121)) == ["on time again: the results keep up with the crowd"]
    assert list(punctuality.lines(122)) == []


def test_a_kept_promise_is_not_moved_and_one_that_a_final_broke_waits_for_the_next():
    query = load(story.QUERIES)["homepage"]
    promises = [Promise(query.name, name, f"the rise of {name}", 60.0, 300) for name in ("a", "b")]
    punctuality = Punctuality([query], promises, START)
    punctuality.fulfil(query.name, "a")
    punctuality.take_final(query.name, int(START) + 58)
    text = " ".join(punctuality.lines(200.0))
    assert "the rise of a" not in text
    minutes = int(re.search(r"the rise of b appears in about (\d+) minutes", text)[1])
    assert minutes > 4


def test_the_terminal_names_each_crash_that_the_query_file_does_not_list_once():
    crowd = StringCrowd(HOUR * 400_000, clients=20_000)
    query = replace(CRASHES, known=("out of memory",))
    lines = []
    memory = set()
    for _ in range(3):
        records = [value for topic, _, value in crowd.next() if topic == "estimates"]
        lines.append(
            list(crashes.discoveries({"crashes": query}, [Summary.of(decode(record)) for record in records], memory))
        )
    assert [len(line) for line in lines] == [len(SHARES) - 1, 0, 1]
    assert lines[2][0].startswith(f"FOUND: {NEW} of crashes: ")
    assert list(crashes.discoveries({}, [Summary.of(decode(records[0]))], set())) == []
