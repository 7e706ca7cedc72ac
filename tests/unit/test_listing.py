"""Estimates for people, as rows by name, text, tables and charts, and tallies that know their n."""

import numpy as np
import polars as pl
import pytest

from oracles import Estimate, oracle
from oracles.errors import ParameterError, ReportError
from oracles.heavy import heavy_hitters
from oracles.multi import multi
from oracles.query import load
from tests.queries import make_text

NAMES = ["a", "b", "c", "d", "e", "f", "g", "h"]


def counted(labels=NAMES, clients=40_000):
    o = oracle("olh", epsilon=2.0, size=8)
    tally = o.tally(labels)
    tally.add(o.perturb(np.minimum(np.arange(clients) % 16, 7), np.random.default_rng(1)))
    return tally


def test_a_tally_knows_how_many_reports_it_holds():
    few_counts = counted()
    many_counts = counted(clients=1_000)
    assert (few_counts + many_counts).n == 41_000
    np.testing.assert_array_equal((few_counts + many_counts - many_counts).state, few_counts.state)
    raw = few_counts.oracle.estimate(few_counts.state, 40_000)
    np.testing.assert_array_equal(few_counts.estimate().shares, raw.shares)
    assert few_counts.estimate(20_000).n_independent == 20_000
    with pytest.raises(ReportError, match="cannot subtract"):
        many_counts - few_counts
    with pytest.raises(ReportError, match="does not fit"):
        few_counts + oracle("grr", epsilon=2.0, size=8).tally(NAMES)


def test_implausible_reports_are_subtracted_from_n():
    o = oracle("sue", epsilon=1.0, size=1024)
    tally = o.tally()
    reports = np.full((3, o.width), 255, np.uint8)
    assert tally.add(np.vstack([o.perturb(np.zeros(5, int), np.random.default_rng(1)), reports])) == 3
    assert tally.n == 5
    assert tally.implausible == 3


@pytest.mark.parametrize("name", ["grr", "haar"])
@pytest.mark.parametrize("n", [800, 16_000])
def test_some_values_have_the_results_that_they_have_among_all(name, n):
    o = oracle(name, epsilon=1.0, size=16)
    tally = o.tally()
    tally.add(o.perturb(np.arange(n) % 16 // 2, np.random.default_rng(1)))
    estimate = tally.estimate()
    places = np.array([5, 0])
    for interval, every in zip(estimate.intervals_at(places, 0.99), estimate.interval(0.99), strict=True):
        np.testing.assert_array_equal(interval, every[places])
    assert estimate.top(3)[0].low == estimate.interval(estimate.top(3)[0].level)[0][estimate.top(3)[0].value]
    assert estimate[5].low == estimate.low[5]
    assert estimate[5].high == estimate.high[5]
    if name == "grr":
        interval = estimate.test_shares(estimate.shares[places], 0.05)
        np.testing.assert_array_equal(interval, estimate.test(0.05)[places])


def test_names_replace_positions_everywhere():
    estimate = counted().estimate()
    assert estimate["h"] == estimate[7] == estimate.top(8)[0]
    assert estimate["h"].level == 0.95
    assert estimate.top(2)[0].level == 1 - 0.05 * 2 / 8
    assert estimate["h"].value == "h"
    assert estimate["h"].low < 9 / 16 < estimate["h"].high
    assert estimate.of_set(["a", "h"]) == estimate.of_set([0, 7])
    assert estimate.difference("h", "a") == estimate.difference(7, 0)
    assert estimate.difference("a", "a")[:2] == (0.0, 0.0)
    np.testing.assert_array_equal(estimate.ranks(["h", 0]), estimate.ranks([7, 0]))
    with pytest.raises(ReportError, match="value 'z' is not one of"):
        estimate["z"]
    for wrong_value in (NAMES[:3], ["a"] * 8):
        with pytest.raises(ParameterError, match="labels must be 8 different names"):
            estimate.labelled(wrong_value)


def test_the_largest_come_first_and_ties_in_the_domain_s_order():
    o = oracle("grr", epsilon=1.0, size=4)
    estimate = Estimate(np.array([0.1, 0.4, 0.1, 0.4]), 1_000, o)
    assert [row.value for row in estimate.top(3)] == [1, 3, 0]
    assert len(estimate.top()) == 4


@pytest.mark.parametrize("n", [0, 30, 40_000])
def test_a_list_of_none_is_empty(n):
    """Counts are sparse or dense, or there are none."""
    tally = oracle("oue", epsilon=1.0, size=64).tally()
    estimate = tally.estimate() if not n else Estimate(np.full(64, -0.01), n, tally.oracle)
    assert estimate.top(0) == []
    with pytest.raises(ParameterError, match="k must be a whole number"):
        estimate.top(-1)
    hitters = heavy_hitters(estimate, threshold=0.5)
    assert hitters.level == 0.95
    assert len(hitters.low) == 0
    assert len(hitters.high) == 0


def test_its_text_has_the_largest_shares_with_their_errors():
    lines = repr(counted().estimate()).splitlines()
    assert lines[0] == "Estimate of 8 values from 40,000 reports, share ± standard error:"
    assert lines[1].startswith("  h   5")
    assert lines[-1] == "  and 3 more"
    assert repr(oracle("grr", epsilon=1.0, size=4).tally().estimate()) == (
        "Estimate of 4 values from 0 reports: no share is known"
    )


def test_a_list_or_a_slice_of_values_gives_a_list_of_rows():
    estimate = counted().estimate()
    assert [row.value for row in estimate[["h", "a"]]] == ["h", "a"]
    assert estimate[["h"]] == estimate[[7]] == estimate[np.array([7])] == estimate[-1:] == [estimate["h"]]
    assert estimate[:2] == [estimate["a"], estimate["b"]]
    assert estimate[2:2] == []
    assert len(estimate) == len(list(estimate)) == 8
    assert list(estimate) == estimate[NAMES]
    assert ["a" in estimate, "z" in estimate, 7 in estimate, 8 in estimate] == [True, False, True, False]
    with pytest.raises(ReportError, match="value 'z' is not one of"):
        estimate[["a", "z"]]


def test_an_empty_tally_says_so():
    tally = oracle("grr", epsilon=1.0, size=8).tally(NAMES)
    estimate = tally.estimate()
    for ask in (lambda: estimate["a"], estimate.top, lambda: list(estimate), estimate.plot):
        with pytest.raises(ReportError, match="the tally has no reports, so no share is known; add reports first"):
            ask()
    assert estimate.to_frame()["share"].null_count() == 8


def test_wrong_labels_are_refused_when_they_are_given():
    with pytest.raises(ParameterError, match="labels must be 8 different names"):
        oracle("grr", epsilon=1.0, size=8).tally(NAMES[:3])
    both = multi("smp", epsilon=1.0, sizes=[8, 3])
    for labels, message in (([NAMES], "a list for each of 2 attributes, got 1"), ([None, NAMES], "3 different names")):
        with pytest.raises(ParameterError, match=message):
            both.tally(labels)


def test_a_notebook_shows_the_text_and_no_code_of_a_stranger():
    text = counted(["<script>", *NAMES[1:7], "<b>"]).estimate()._repr_html_()
    assert text.startswith("<pre>Estimate of 8 values from 40,000 reports")
    assert "&lt;b&gt;" in text
    assert "<b>" not in text


def test_a_table_of_pandas_has_the_same_rows():
    pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    assert counted().estimate().to_pandas()["value"].tolist() == NAMES


def test_a_table_has_a_row_a_value():
    estimate = counted().estimate()
    table = estimate.to_frame()
    assert table.columns == ["value", "share", "stderr", "low", "high"]
    assert table["value"].to_list() == NAMES
    assert table.filter(pl.col("value") == "h").row(0) == tuple(estimate["h"])[:-1]


def test_a_chart_shows_bars_with_their_intervals(monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "Agg")
    from matplotlib import pyplot as plt

    estimate = counted().estimate()
    axes = estimate.plot(3)
    top = estimate.top(3)
    assert [label.get_text() for label in axes.get_yticklabels()] == [row.value for row in top]
    bars, errors = axes.containers
    np.testing.assert_allclose([bar.get_width() for bar in bars], [row.share for row in top])
    segments = np.array([[end[0] for end in segment] for segment in errors.lines[2][0].get_segments()])
    np.testing.assert_allclose(segments, [[row.low, row.high] for row in top])
    other = plt.subplots()[1]
    assert estimate.plot(axes=other) is other
    plt.close("all")


def test_a_query_s_tally_names_its_values(tmp_path):
    file = tmp_path / "hubbub.toml"
    file.write_text(
        make_text("q", domain=["a", "b"]) + make_text("p", attributes={"age": 5, "sex": ["f", "m"]}, budget=1e9)
    )
    queries = load(file)
    assert queries["q"].tally().estimate().labels == ("a", "b", "(other)")
    tally = queries["p"].tally()
    tally.add(queries["p"].oracle.perturb([[0, 1]] * 200, np.random.default_rng(1)))
    age, sex = tally.estimate()
    assert age.labels is None
    assert sex.labels == ("f", "m", "(other)")
    assert age.n + sex.n == 200
    assert multi("spl", sizes=[3, 4], epsilon=1.0).tally().estimate()[1].n == 0
