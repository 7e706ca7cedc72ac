"""Single reports that a reader of one record reads: the number of MATH is held against real records."""

import json

import numpy as np
import pytest

from aggregator.records.span import Span
from aggregator.tallies.snapshot import Snapshot
from oracles import oracle
from oracles.kernels.walsh import walsh
from oracles.query.settings import Window
from oracles.readable import RowDraw, lone_reports, readable_below
from tests.queries import make_query
from tests.results import build
from tests.string_crowds import CRASHES

RUNS = 50
FALSE_ALARM = 1e-6


def record_of(query, reports):
    """Return the record of a window with these reports, as readers get it."""
    state = query.oracle.zeros()
    query.oracle.add(state, reports)
    span = Span(Window("tumbling", 10, 10), 0, 10)
    ((_, value),) = build(query, span, Snapshot(len(reports), 0, 0, 0, state)).records
    return json.loads(value)


def sums_of_values(record, view):
    """Return the sum of each row, from the shares of a record only."""
    n = record["n"]
    p, q = (float(chance) for chance in view.exact)
    shares = dict(zip(record["values"], record["shares"]["unbiased"], strict=True))
    supports = [shares[value] * n * (p - q) + n * q for value in map(str, range(view.size))]

    # With g buckets a code collects g times its support, minus all reports.
    transform = np.zeros(view.cells, np.int64)
    transform[view.offset :][: view.size] = np.rint(view.buckets * np.array(supports)) - n
    if not view.offset:
        return walsh(transform) // view.cells

    # No value has code 0, so its sum is open. Only one choice makes all sums whole and small enough.
    rest = walsh(transform)
    choices = [zero for zero in range(-n, n + 1) if not ((rest + zero) % view.cells).any()]
    return min(((rest + zero) // view.cells for zero in choices), key=lambda sums: np.abs(sums).sum())


def sums_of_numbers(record, view):
    """Return the sum of each row of each level, from the steps of a record only."""
    numbers = record["numbers"]
    shares = np.diff(np.array(numbers["cdf"]), prepend=0.0)
    sums = np.zeros(view.cells, np.int64)
    for level, coefficients in enumerate(view.tree.coefficients(shares)):
        signs = np.rint(coefficients * numbers["levels"][level] * view.tree.gap).astype(np.int64)
        rows = (2 * np.arange(len(signs)) + 1) << level
        sums[rows] = walsh(signs) // len(signs)
    return sums


def occupants(view, reports):
    """Return the number of reports in each row."""
    counts = np.zeros(view.cells, np.int64)
    for report in reports:
        state = view.zeros()
        view.add(state, report[None])
        counts += np.abs(state[: view.cells])
    return counts


@pytest.mark.parametrize(
    ("domain", "name", "epsilon"),
    [(63, "hr", 1.0), (64, "full", 2.0), (64, "olh", 2.0), ({"low": 0, "high": 9}, "haar", 1.0)],
)
def test_the_sums_of_all_rows_follow_from_a_record(domain, name, epsilon):
    query = make_query(domain=domain, oracle=name, epsilon=epsilon, crowd=1, windows=["10s"], edition=2)
    view = query.only_oracle
    rng = np.random.default_rng(1)
    reports = query.oracle.perturb(rng.integers(0, view.size, 300), rng)
    state = query.oracle.zeros()
    query.oracle.add(state, reports)
    read = sums_of_numbers if name == "haar" else sums_of_values
    sums = read(record_of(query, reports), view)
    assert np.array_equal(sums, state[: view.cells])


@pytest.mark.parametrize(
    ("name", "epsilon", "size", "n"), [("hr", 1.0, 63, 60), ("full", 2.0, 64, 20), ("haar", 1.0, 256, 60)]
)
def test_as_many_reports_as_expected_are_alone_in_their_row(name, epsilon, size, n):
    view = oracle(name, epsilon=epsilon, size=size)
    rng = np.random.default_rng(2)
    reports = view.perturb(rng.integers(0, size, RUNS * n), rng)
    crowds = [occupants(view, reports[start : start + n]) for start in range(0, RUNS * n, n)]
    alone = sum(int((counts == 1).sum()) for counts in crowds) / (view.buckets - 1)

    # One report changes the number of lone ones by at most two (McDiarmid).
    reach = np.sqrt(2 * RUNS * n * np.log(2 / FALSE_ALARM))
    assert abs(alone - RUNS * lone_reports(view.row_draws, n)) < reach


@pytest.mark.parametrize("bins", [256, 1024])
def test_the_number_is_the_first_with_one_lone_report_in_twenty(bins):
    draws = oracle("haar", epsilon=1.0, size=bins).row_draws
    least = readable_below(draws)
    assert lone_reports(draws, least) <= least / 20
    assert lone_reports(draws, 0.9 * least) > 0.9 * least / 20


@pytest.mark.parametrize(
    ("keys", "least"),
    [
        ({"domain": 63, "oracle": "hr"}, 200),
        ({"domain": 63, "oracle": "grr"}, None),
        ({"domain": 63, "oracle": "oue"}, None),
        ({"domain": {"low": 0, "high": 9}}, 1300),
        ({"attributes": {"a": 63, "b": 63}, "solution": "smp", "oracle": "hr"}, 390),
        ({"attributes": {"a": 63, "b": 63}, "solution": "spl", "oracle": "hr"}, 200),
        ({"attributes": {"a": 63, "b": 63}, "solution": "rsfd", "oracle": "oue_r"}, None),
    ],
)
def test_the_number_of_a_query_is_that_of_all_its_parts(keys, least):
    query = make_query(**keys, answers="once", windows=["10s"])
    assert readable_below(query.oracle.row_draws) == least
    assert all(isinstance(draw, RowDraw) for draw in query.oracle.row_draws)


def test_of_unknown_strings_the_maps_count():
    maps = CRASHES.oracle.row_draws
    assert len(maps) == 4
    assert readable_below(maps) == readable_below([RowDraw(maps[0].rows, maps[0].share)])
