"""Alerts of groups: a pair and value that is proved to differ has one alert, by the law of every look."""

from dataclasses import replace

import numpy as np
import orjson
import pytest
from scipy import stats

from aggregator.publishing.alerts.state import check_states, load
from aggregator.reading.tail.notice import Notice
from aggregator.records.alert import OWN_MEMBERS, decode
from aggregator.records.span import Span
from aggregator.tallies.snapshot import Snapshot
from benchmarks.accuracy.looks import CASES, FAMILY_ERROR, experiments
from hubbub.definitions.formats import Formats
from hubbub.definitions.key_formats import early_keys
from hubbub.definitions.table import query_of
from oracles.errors import QueryError, ReportError
from oracles.query.keys import dump
from oracles.query.settings import Window
from tests import schemas
from tests.boards import FRESH, START
from tests.queries import make_query, make_table
from tests.results import window_result
from tests.unit.test_board_store import ask, store

FALSE_ALARM = 1e-6
PANE = 10
GROUPS = {"arm": ["control", "blue"]}
ALL = Window("all", 0, 0)
EQUAL = replace(CASES[0], name="equal groups")
LARGE = replace(CASES[0], name="15 points more", gain=0.15)


def button(compare=(("control", "blue"),), **keys):
    table = FRESH | {"domain": [f"v{number}" for number in range(8)], "oracle": "oue", "crowd": 1, "alerts_a_day": 1e-9}
    table |= {"other": False}
    table |= {"groups": GROUPS, "windows": ["all"], "publish": "all"}
    return make_query(table, name="button", compare=[list(pair) for pair in compare], **keys)


def snapshot(query, trials, run, look):
    """Return the reports of both groups of an experiment at a look. Group 0 has none."""
    parts = [query.oracle.zeros()]
    for counts, reports in zip(trials.counts, trials.reports, strict=True):
        state = query.oracle.zeros()
        state[: trials.arms.values] = counts[run, look]
        parts += [state, [reports[look], 0, 0]]
    return Snapshot(sum(int(reports[look]) for reports in trials.reports), 0, 0, 0, np.concatenate(parts))


def final(query, trials, run, look, states=()):
    span = Span(ALL, START, START + PANE * (look + 1))
    return window_result(query, span, snapshot(query, trials, run, look), states=states)


def arms_of(result):
    return [alert for _, value in result.decision.alerts if (alert := decode(value)).kind == "arms"]


def test_a_value_that_differs_has_one_alert_at_the_first_final_that_proves_it():
    query = button()
    trials = experiments(LARGE, 1)
    states = []
    alerts = []
    for look in range(40):
        result = final(query, trials, 0, look, states)
        states = result.decision.states
        check_states(query, states)
        p_values = trials.smallest(every_look=True)[0]
        alerts += [(look, alert) for alert in arms_of(result)]

    [first, *_] = [look for look in range(40) if p_values[look] <= FAMILY_ERROR / 8]
    assert alerts[0][0] == first
    assert alerts[0][1].value == "v0"
    places = [(alert.value, alert.group, alert.with_) for _, alert in alerts]
    assert len(places) == len(set(places)), "a pair and value alerts once"


def test_an_alert_says_what_the_board_answers():
    query = button()
    trials = experiments(LARGE, 1)
    result = final(query, trials, 0, 30)
    [key, value] = next((key, value) for key, value in result.decision.alerts if b"|arms|v0|" in key)
    alert = schemas.alert(value)
    assert key.endswith(b"|arms|v0|control|blue")

    messages = [("estimates", *record) for record in result.window.records]
    pair = {"group": "control", "with": "blue", "window": START + PANE * 31}
    answer = ask(store(messages, queries={"button": query}), "compare", "button", kind="all", **pair)
    row = next(row for row in answer["values"] if row["value"] == "v0")
    assert row["proved"]
    assert answer["looks"] == "always"
    members = {
        "share": "after",
        "before": "before",
        "difference": "difference",
        "p_value": "p_value",
        "low": "low",
        "high": "high",
    }
    for member, column in members.items():
        assert alert[member] == pytest.approx(row[column], rel=1e-6)
    assert alert["low"] <= alert["difference"] <= alert["high"]
    assert alert["low"] >= 0.0, "the interval agrees with the proof"
    text = str(Notice.of(decode(value)))
    assert text.startswith("a difference of v0 between control (1"), text


def test_equal_groups_seldom_alert_at_any_final():
    """Each experiment is asked at its surest look, so its other looks alert no more."""
    runs = 60
    trials = experiments(EQUAL, runs)
    looks = trials.smallest(every_look=True).argmin(axis=1)
    false = sum(bool(arms_of(final(button(), trials, run, int(look)))) for run, look in enumerate(looks))
    assert false <= stats.binom.ppf(1.0 - FALSE_ALARM, runs, FAMILY_ERROR)


def test_all_pairs_share_the_family_error():
    """A difference that one pair proves is not proved if it is one of many pairs."""
    trials = experiments(LARGE, 1)
    p_values = trials.smallest(every_look=True)[0]
    many = [f"arm{number}" for number in range(64)]
    groups = {"arm": ["control", "blue", *many]}
    look = next(look for look, p in enumerate(p_values) if FAMILY_ERROR / 8 / 64 < p <= FAMILY_ERROR / 8 / 2)
    pairs = [("control", "blue"), *(("control", name) for name in many[:63])]
    for compare, count in ((pairs, 0), (pairs[:1], 1)):
        query = button(compare, groups=groups)
        empty = [query.oracle.zeros(), [0, 0, 0]]
        total = snapshot(query, trials, 0, look)
        total = total._replace(counts=np.concatenate([total.counts, *empty * 64]))
        result = window_result(query, Span(ALL, START, START + PANE * (look + 1)), total)
        assert len(arms_of(result)) == count


def test_other_alerts_and_states_keep_their_bytes():
    plain = make_query(dump(button()) | {"alerts_a_day": 100.0}, name="button", standing=True)
    trials = experiments(LARGE, 1)
    final_with_pairs = final(plain, trials, 0, 30)
    free = make_query(
        {key: value for key, value in dump(plain).items() if key != "compare"}, name="button", standing=True
    )
    plain_final = final(free, trials, 0, 30)
    assert plain_final.decision.alerts == [row for row in final_with_pairs.decision.alerts if b"|arms|" not in row[0]]
    assert all(not own_members(value) for _, value in plain_final.decision.alerts)
    assert b"arms" not in plain_final.decision.states[0]
    assert load(final_with_pairs.decision.states[0]).arms
    assert plain.digest == free.digest


def own_members(value):
    return set(OWN_MEMBERS) & orjson.loads(value).keys()


def test_a_damaged_state_is_refused():
    query = button()
    state = final(query, experiments(LARGE, 1), 0, 30).decision.states[0]
    with pytest.raises(ReportError, match="two groups and a value"):
        load(state.replace(b'["control",', b"[1,", 1))


@pytest.mark.parametrize(
    ("keys", "fault"),
    [
        ({"compare": [["control", "red"]]}, "compare: must have pairs of two different groups"),
        ({"compare": [["control", "control"]]}, "compare: must have pairs of two different groups"),
        ({"compare": [["control"]]}, "compare: must have pairs"),
        ({"compare": []}, "compare: must be a list of 1 to 64 pairs"),
        ({"compare": [["control", "blue"], ["blue", "control"]]}, "compare: must name each pair once"),
        ({"compare": [["control", "blue"]], "windows": ["10s"]}, 'compare: must be absent without "all"'),
    ],
)
def test_wrong_pairs_are_refused(keys, fault):
    with pytest.raises(QueryError, match=fault):
        make_query(FRESH | {"domain": 8, "groups": GROUPS, "windows": ["all"]} | keys)


def test_the_key_needs_the_formats_version_that_knows_it():
    query = button()
    [sentence] = early_keys([query], Formats(2))
    assert "`compare` needs formats version 3" in sentence
    assert query_of("button", dump(query)).compare == (("control", "blue"),)
    assert "compare" not in dump(make_query(make_table(domain=["a", "b"])))
