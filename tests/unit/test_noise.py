"""Noise of answers for life in query files, clients and simulated crowds: one table, or noise for each class."""

import itertools
import json
from fractions import Fraction

import numpy as np
import pytest

from oracles import oracle
from oracles.errors import QueryError
from oracles.estimate import Estimate, change
from oracles.estimate.covariance import quantile
from oracles.mechanisms.entropy import Seeded
from oracles.query import load_file
from producers import Client, Ledger
from producers.client.respondents import Respondents
from producers.gateway.intake.active_definitions import ServedDefinitions
from producers.publishers.pinned_query import pin_query
from tests.queries import make_query, make_table, make_text

KEY = bytes(range(32))
SCREENS = make_table(domain=64)
SEVERAL = make_table(attributes={"age": 100, "sex": ["f", "m"], "os": 5}, budget=200.0)


def query(edition=2, name="screens", **table):
    return make_query(table, name=name, edition=edition)


@pytest.mark.parametrize(
    ("name", "table", "digest", "bound"),
    [
        ("screens", {"domain": 64, "epsilon": 1.0, "oracle": "olh"}, "a3dc4497a4d3d094", 2.202062733218),
        ("screens", {"domain": 1024, "epsilon": 2.0, "oracle": "olh"}, "9107183a397126bb", 6.685227078600),
        ("five", {"domain": 5, "epsilon": 4.0}, "cb48a772cabf4f9d", 7.160345471527),
    ],
)
def test_digests_and_charges_of_edition_2_never_change(name, table, digest, bound):
    q = query(name=name, **table)
    assert q.digest.hex() == digest
    assert q.record_charge == bound
    assert q.noise == "table"
    assert query(1, name=name, noise="table", **table) == q


@pytest.mark.parametrize(
    ("edition", "table", "noise", "name"),
    [
        (1, {}, "each", "olh"),
        (2, {}, "table", "full"),
        (2, {"answers": "once"}, "each", "full"),
        (2, {"answers": "fresh"}, "each", "full"),
        (2, {"answers": "once", "noise": "table"}, "table", "full"),
        (2, {"noise": "each"}, "each", "full"),
        (2, {"noise": "each", "budget": 2.0}, "each", "hr"),
        (2, {"budget": 1.0}, "table", "hr"),
        (2, {"oracle": "oue", "budget": 64.0}, "each", "oue"),
        (1, {"noise": "table"}, "table", "full"),
    ],
)
def test_the_edition_decides_what_the_file_leaves_open(edition, table, noise, name):
    q = query(edition, **SCREENS | table)
    assert q.noise == noise
    assert q.oracle.name == name


def test_answers_are_not_part_of_the_noise():
    digests = {query(**SCREENS, noise="table", answers=answers).digest for answers in ("life", "once", "fresh")}
    assert len(digests) == 1


def test_a_file_asks_for_a_table_with_more_fixed_points():
    best = query(**SCREENS, oracle="olh")
    more = query(**SCREENS, oracle="olh", table=4)
    assert best.table == 2
    assert more.table == 4
    assert best.record_charge < more.record_charge == more.oracle.bound(4)
    assert more.oracle.bound(2) < best.oracle.bound(2) == best.record_charge
    assert query(**SCREENS, table=4).table == 4


def test_each_attribute_has_its_own_table():
    q = query(**SEVERAL)
    assert q.table == {"os": 3, "sex": 3}
    assert q.noise == "table"
    assert '"table":{"os":3,"sex":3}' in q.canonical
    assert q.record_charge == 100.0, "age answers with noise for each of 100 values"
    spl = query(**SEVERAL | {"solution": "spl"})
    parts = [o.life.amount for o in spl.oracle.encoders]
    assert spl.record_charge == pytest.approx(float(sum(parts)), rel=1e-15)
    assert spl.charge.amount >= sum(parts)
    assert query(**SEVERAL, table={"os": 5}).table == {"os": 5, "sex": 3}
    rsfd = query(**SEVERAL | {"solution": "rsfd"})
    assert rsfd.noise == "each"
    assert rsfd.answers == "once"


@pytest.mark.parametrize(
    ("edition", "table", "message"),
    [
        (2, {"oracle": "ss", "noise": "table"}, 'noise: "table" needs an oracle with at most 8 buckets'),
        (2, SEVERAL | {"solution": "rsfd", "noise": "table"}, 'noise: "table" needs an oracle'),
        (1, {"oracle": "olh", "table": 2}, 'table: needs noise = "table"'),
        (2, {"oracle": "olh", "table": 5}, "table: table must be one of 2, 3, 4"),
        (2, {"oracle": "olh", "table": 9}, "table: must be a whole number from 1 to 8"),
        (2, SEVERAL | {"table": {"age": 2}}, "table needs attributes"),
        (2, SEVERAL | {"table": {"nobody": 2}}, "unknown key"),
        (2, {"noise": "some"}, "noise: must be one of table, each"),
        (4, {}, "edition: must be a whole number from 1 to 3"),
        ("2", {}, "edition: must be a whole number"),
    ],
)
def test_an_impossible_noise_is_an_error_with_its_key(edition, table, message):
    with pytest.raises(QueryError, match=message) as error:
        query(edition, **({} if "attributes" in table else SCREENS) | table)
    assert error.value.exit_code == 2


def test_a_file_names_its_edition_before_all_tables(tmp_path):
    path = tmp_path / "hubbub.toml"
    path.write_text("edition = 2\n" + "revision = 3\n" + make_text("screens", domain=64))
    file = load_file(path)
    assert file.edition == 2
    assert file.revision == 3
    assert file.queries["screens"].noise == "table"


class Days:
    def __init__(self):
        self.now = 1_700_000_000.0

    def __call__(self):
        self.now += 86_400.0
        return self.now


def client(ledger=None, **table):
    return Client(query(**{"domain": 5, "epsilon": 1.0, "budget": 8.0} | table), ledger or ":memory:", clock=Days())


def test_a_device_looks_its_answers_up_in_one_table():
    person = client()
    reports = {value: {person.answer(value).tobytes() for _ in range(3)} for value in range(5)}
    assert all(len(report) == 1 for report in reports.values())
    assert len(set.union(*reports.values())) == 5, "no two values have the same report"
    assert person.spent == person.query.record_charge == person.query.oracle.bound(5) < 5.0


def test_a_device_that_answers_once_and_then_for_life_is_charged_the_bound_in_all():
    clock, ledger = Days(), Ledger(":memory:", KEY)
    table = {"domain": 5, "epsilon": 1.0, "budget": 8.0, "noise": "table"}
    once, life = (Client(query(**table, answers=answers), ledger, clock=clock) for answers in ("once", "life"))
    assert once.query.digest == life.query.digest
    report = once.answer(3).tobytes()
    assert once.spent == 1.0
    assert life.answer(3).tobytes() == report
    assert life.spent == pytest.approx(life.query.record_charge, abs=1e-15)
    assert once.answer(3).tobytes() == report
    assert once.spent == life.spent >= life.query.record_charge


def test_a_fresh_answer_has_a_table_of_its_own():
    person = client(noise="table", answers="fresh", oracle="grr")
    reports = [person.answer(2).tobytes() for _ in range(8)]
    assert len(set(reports)) > 1
    assert person.spent == 8.0


@pytest.mark.parametrize(("name", "size", "options"), [("grr", 4, {}), ("olh", 64, {}), ("full", 12, {"buckets": 4})])
def test_a_crowd_keeps_its_tables(name, size, options):
    o = oracle(name, epsilon=1.0, size=size, table=2, **options)
    crowd = Respondents(o, 3000, lambda *_: Seeded(rng))
    rng = np.random.default_rng(3)
    by_value = [crowd.reports(np.full(3000, value)) for value in (*range(4), 0)]
    assert np.array_equal(by_value[0], by_value[4])
    for one, other in itertools.combinations(by_value[:4], 2):
        same = (one == other).all(axis=1)
        assert (same == 0).all() if name == "grr" else 0 < same.mean() < 0.5
    for value, reports in enumerate(by_value[:4]):
        state = o.zeros()
        o.add(state, reports)
        assert abs(o.support(state, 3000)[value] / 3000 - o.p) < 5 * np.sqrt(o.p * (1 - o.p) / 3000)


@pytest.mark.parametrize("solution", ["spl", "smp"])
def test_a_crowd_of_records_keeps_its_tables(solution):
    q = query(**SEVERAL | {"solution": solution})
    rng = np.random.default_rng(3)
    crowd = Respondents(q.oracle, 50, lambda *_: Seeded(rng))
    values = rng.integers(0, [100, 5, 2], (50, 3))
    first_reports = crowd.reports(values)
    crowd.reports(rng.integers(0, [100, 5, 2], (50, 3)))
    assert np.array_equal(crowd.reports(values), first_reports)


@pytest.mark.parametrize(
    "table",
    [
        SCREENS,
        SCREENS | {"noise": "each"},
        SCREENS | {"epsilon": 4.0, "table": 8},
        SCREENS | {"answers": "once", "noise": "table"},
        SCREENS | {"oracle": "oue", "budget": 64.0},
        SEVERAL,
        SEVERAL | {"solution": "spl", "table": {"os": 5}},
    ],
)
def test_a_listing_gives_all_that_a_client_needs(table):
    q = query(**table)
    listing = ServedDefinitions.of({"screens": q}).listing(2e9).text
    [definition] = json.loads(listing)["queries"]
    assert tuple(definition[key] for key in ("noise", "table", "record_charge")) == (q.noise, q.table, q.record_charge)
    assert pin_query(listing, "screens", 8.0, "gateway").canonical == q.canonical
    if not q.attributes:
        law = q.oracle.tables
        integers = {"T_p": str(q.oracle.own), "T_q": str(q.oracle.other)} if q.oracle.name == "oue" else None
        integers = integers or ({"T": str(q.oracle.keep)} if law is None else {"hi": str(law.hi), "lo": str(law.lo)})
        assert definition["thresholds"] == integers
    else:
        assert set(definition["thresholds"]) == {"age", "os", "sex"}
        assert set(definition["thresholds"]["os"]) == {"hi", "lo"}


def covariance_of_a_change(o, then, later_values, value):
    """Return the covariance of the supports of a value in two windows, by the sum over all rows and tables."""
    law, total, both, first, second = o.tables, Fraction(), Fraction(), Fraction(), Fraction()
    codes = itertools.product(range(1, getattr(o, "cells", 2)), repeat=2) if o.name == "full" else [None]
    for rows in codes:
        # Two equal rows are not independent, and no report has them.
        if rows is not None and rows[0] == rows[1]:
            continue
        places = np.array([then, later_values, value])
        words = None if rows is None else np.repeat([rows], 3, axis=0)
        own, later, bucket = o.classify(places, words).tolist()
        for order in itertools.permutations(range(o.places)):
            points = sum(element == place for place, element in enumerate(order))
            # A table has only two probabilities, by its number of fixed points.
            weight = law.hi if points >= law.fixed_points else law.lo
            total += weight
            one = order[own] == bucket
            two = order[later] == bucket
            both, first, second = both + weight * (one and two), first + weight * one, second + weight * two
    return (both - first * second / total) / total


@pytest.mark.parametrize(
    ("name", "size", "points", "options"),
    [("grr", 2, 2, {}), ("grr", 3, 3, {}), ("grr", 5, 2, {}), ("full", 4, 4, {}), ("full", 8, 2, {"buckets": 4})],
)
def test_the_errors_of_a_change_are_those_of_all_tables(name, size, points, options):
    o = oracle(name, epsilon=1.0, size=size, table=points, **options)
    law = Estimate(np.full(size, 1.0 / size), 1, o).covariance
    scale = o.gap**2
    values = (0, 1, 2) if size > 2 else (0, 1)
    for value in values:
        exact = float(covariance_of_a_change(o, 0, 1, value))
        assert law.pair(float(value == 0), float(value == 1)) * scale == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize(("name", "size", "points"), [("grr", 2, 2), ("grr", 8, 3), ("olh", 64, 2), ("hr", 64, 2)])
def test_changes_of_a_panel_have_the_stated_error(name, size, points):
    """200 panels in which everybody changes. A correct error fails here with a chance below 1e-6."""
    o = oracle(name, epsilon=1.0, size=size, table=points)
    # One seed for all panels, so that the test gives the same verdict each time.
    rng = np.random.default_rng(11)
    scores = []
    for _ in range(200):
        crowd = Respondents(o, 2000, lambda *_: Seeded(rng))
        earlier_numbers = rng.integers(0, size, 2000)
        later_values = (earlier_numbers + rng.integers(1, size, 2000)) % size
        estimates = []
        for values in (earlier_numbers, later_values):
            state = o.zeros()
            o.add(state, crowd.reports(values))
            estimates.append(o.estimate(state, 2000))
        shares, stderr = change(*estimates)
        truth = (np.bincount(later_values, minlength=size) - np.bincount(earlier_numbers, minlength=size)) / 2000
        scores.append((shares - truth)[0] / stderr[0])
    variance = float(np.mean(np.square(scores)))
    assert variance < 1 + quantile(1e-6) * np.sqrt(2 / 200)
    if name == "grr":
        assert variance > 1 - quantile(1e-6) * np.sqrt(2 / 200), "the extra variance is real"
