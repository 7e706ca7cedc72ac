"""`hubbub plan --rate`. Its costs equal those in docs/performance.md, and its sums are right."""

import re
import tomllib
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from aggregator.counting.checkpoint_plan import INTERVAL
from aggregator.plan import command, costs
from aggregator.plan.costs import provisional_records
from aggregator.plan.fleet import HEADER_SIZE, Assumptions, fleet, per_frame
from benchmarks.finals import MIXES
from oracles import oracle
from oracles.query import parse
from tests.queries import make_queries, make_table, make_text

USUAL = Assumptions()
PAGE = (Path(__file__).parents[2] / "docs" / "performance.md").read_text()


def queries(*tables):
    return list(make_queries({f"q{i}": make_table(table, budget=1e9) for i, table in enumerate(tables)}).values())


SMALL = make_table(domain=1024, oracle="olh", methods=["norm_sub"], budget=1e9)
MANY = queries(*[SMALL] * 60)
RATES = [10**power for power in range(10)]


def page_numbers(row):
    """Return the numbers in a row of the page's tables, found by the start of the row."""
    (line,) = re.findall(rf"^\| {re.escape(row)} \|(.*)\|$", PAGE, re.MULTILINE)
    return [
        [float(number.replace(",", "")) for number in re.findall(r"[0-9.,]*[0-9]", cell)] for cell in line.split("|")
    ]


@pytest.mark.parametrize(
    ("row", "name", "reports", "ids"),
    [
        ("`olh`, one report a message", "olh", 1, False),
        ("`olh`, one with id", "olh", 1, True),
        ("`olh`, frames of 20 with ids", "olh", 20, True),
        ("`olh`, frames of 1,000 with ids", "olh", 1000, True),
        ("`oue`, frames of 1,000 with ids", "oue", 1000, True),
    ],
)
def test_the_cost_of_a_message_equals_the_measurement(row, name, reports, ids):
    _, _, (measurement, *_), *_ = page_numbers(row)
    method = oracle(name, epsilon=1.0, size=1024)
    cost = costs.message(reports, method.width, ids=ids, header=HEADER_SIZE) + reports * costs.add(method)
    assert 1e6 * cost == pytest.approx(measurement, rel=0.25)


@pytest.mark.parametrize(
    ("name", "size", "maximum"),
    [
        ("olh", 1024, 2),
        ("olh", 10_000, 2),
        ("olh", 1_000_000, 2),
        ("oue", 1024, 3.5),  # the page's rate is of a newer machine than the constant
    ],
)
def test_counting_a_report_costs_no_less_than_the_kernel_alone(name, size, maximum):
    row = f"`{name}` add, size {size:,}" if name == "olh" else "`oue`, `sue` add, size 1,024"
    *_, rates = page_numbers(row)
    cost = costs.add(oracle(name, epsilon=1.0, size=size))
    assert 0.9e-6 / rates[0] <= cost <= maximum * 1e-6 / rates[0], "the rate is in millions"


def test_the_cost_of_a_record_equals_the_measurement():
    (query,) = queries({"domain": 1_000_000, "oracle": "olh", "methods": ["norm_sub", "calibrate"]})
    (measurement, *_), *_ = page_numbers("a record of 1,000,000 values, the same; with all twelve methods")
    assert costs.record(query) == pytest.approx(measurement, rel=0.15)


@pytest.mark.parametrize("name", MIXES)
def test_the_whole_cpu_of_a_final_is_within_a_factor_of_the_measurement(name):
    """The row has the finals a second, and the milliseconds of worker, estimator, both together, and the promise."""
    mix = MIXES[name]
    (rate,), *_, (together,), (promise,) = page_numbers(f"`{name}`, {mix.partitions}, {mix.frames}")
    file = parse(tomllib.loads(mix.text), name, ".").values()
    assert sum(map(costs.finals, file)) == pytest.approx(rate, rel=0.05)
    assert 1000 * costs.cpu_per_final(file, mix.partitions) == pytest.approx(promise, rel=0.01)
    assert together / 1.3 <= promise <= 1.3 * together


def test_all_attributes_are_counted_except_with_smp():
    table = make_table(attributes={"a": 100, "b": 200}, oracle="grr")
    spl, smp = queries(table | {"solution": "spl"}, table | {"solution": "smp"})
    assert costs.add(spl.oracle) == pytest.approx(2 * costs.add(smp.oracle))


@pytest.mark.parametrize("file", [queries(SMALL), MANY, queries({"pane": "1s", "domain": 16384, "oracle": "oue"})])
def test_more_reports_never_need_less(file):
    fleets = [fleet(file, rate, USUAL) for rate in RATES]
    for less, more in pairwise(fleets):
        assert less.counting < more.counting
        for name in ("state", "estimates", "cores", "workers", "partitions", "brokers", "arriving", "writing"):
            assert getattr(less, name) <= getattr(more, name), name


@pytest.mark.parametrize("rate", RATES)
def test_each_worker_has_the_same_number_of_partitions(rate):
    result = fleet(MANY, rate, USUAL)
    assert result.partitions >= max(12, result.workers, result.cores)
    assert result.partitions % result.workers == 0
    assert result.arriving <= result.partitions * USUAL.partition_rate
    assert result.brokers * USUAL.broker_rate >= USUAL.replication * (result.arriving + result.writing)
    assert result.counting + result.state <= result.workers * USUAL.fill
    assert result.counting + result.state + result.estimates <= result.cores * USUAL.fill


def test_assumptions_have_an_effect():
    base = fleet(MANY, 10**8, USUAL)
    assert fleet(MANY, 10**8, replace(USUAL, speed=2.0)).counting == pytest.approx(base.counting / 2)
    assert fleet(MANY, 10**8, replace(USUAL, ids=False)).counting < base.counting
    assert fleet(MANY, 10**8, replace(USUAL, frame=1)).counting > 20 * base.counting
    assert fleet(MANY, 10**8, replace(USUAL, fill=0.9)).workers < base.workers
    assert fleet(MANY, 10**8, replace(USUAL, broker_rate=1 << 30)).brokers < base.brokers
    assert fleet(MANY, 10**8, replace(USUAL, replication=1)).brokers < base.brokers
    assert fleet(MANY, 10**8, replace(USUAL, partitions=1000)).partitions >= 1000
    assert fleet(MANY, 1, replace(USUAL, replication=5)).brokers == 5


def test_state_is_bounded_by_the_rate_of_frames():
    """One frame per second changes one tally per second, for any number of tallies."""
    assert fleet(MANY, 1, USUAL).state < 1e-3
    busy = fleet(MANY, 10**8, USUAL)
    tallies = len(MANY) * busy.partitions
    finals = sum(map(costs.finals, MANY))
    assert busy.state == pytest.approx(
        tallies * (costs.CHANGELOG / INTERVAL + (2 * costs.CHANGELOG + costs.SNAPSHOT) / 10) + finals * costs.FINAL,
        rel=1e-9,
    )


def test_snapshots_are_written_once_for_each_closed_pane():
    """Provisional records read no snapshots, so `emit_every` changes nothing but the records."""
    often, never = (queries(SMALL | {"windows": ["10s", "1m"], "emit_every": pause}) for pause in ("1s", "never"))
    busy, calm = (fleet(query, 10**8, USUAL) for query in (often, never))
    assert busy.state == calm.state
    assert busy.writing == calm.writing
    assert busy.estimates > calm.estimates
    (short_query,) = queries(SMALL)
    (long_query,) = queries(SMALL | {"windows": ["10s", "1m/10s"]})
    more = fleet([long_query], 10**6, USUAL).state - fleet([short_query], 10**6, USUAL).state
    assert more == pytest.approx((costs.SNAPSHOT + costs.FINAL) / 10), "one total of all partitions for each pane"


@pytest.mark.parametrize(
    ("windows", "emit_every", "rate"),
    [
        (["10s"], "1s", 0.0),
        (["10s", "1m", "all"], "1s", 0.1),
        (["10s", "1m", "2m/30s"], "1s", 0.2),
        (["1m", "2m"], "20s", 1 / 60),
        (["10s", "1m"], "20s", 0.05),
        (["10s", "1m"], "never", 0.0),
    ],
)
def test_a_window_has_a_provisional_record_for_each_mark_inside(windows, emit_every, rate):
    (query,) = queries(SMALL | {"windows": windows, "emit_every": emit_every})
    assert provisional_records(query) == pytest.approx(rate)


def test_a_wide_report_makes_shorter_frames():
    (wide_query,) = queries({"domain": 500_000, "oracle": "oue"})
    assert per_frame(wide_query, USUAL) == (2**20 - HEADER_SIZE) // wide_query.oracle.width < 1000


def plan(file, *options):
    return command.main(["--queries", str(file), *options])


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "hubbub.toml"
    path.write_text(make_text("web", SMALL))
    return path


def test_a_request_costs_a_gateway_what_the_page_says():
    """One report, and 10,000 in a request; the other cells of these rows are other numbers of reports."""
    rows = re.findall(r"^\| (?:`\w+` )?\| ([0-9,]+) \| ([0-9]+) \(bare", PAGE, re.MULTILINE)
    measured = [(int(reports.replace(",", "")), int(micros) * 1e-6) for reports, micros in rows]
    assert {reports for reports, _ in measured} == {1, 100, 10_000}
    for reports, seconds in measured:
        assert costs.gateway(1, reports) * reports == pytest.approx(seconds, rel=0.5)


def test_the_disk_is_retention_times_rate_times_replicas(file, capsys):
    one = fleet(MANY, 10**6, USUAL)
    assert one.disk == pytest.approx(one.arriving * 7 * 86_400 * 3, rel=1e-9)
    assert fleet(MANY, 10**6, replace(USUAL, retention=86_400, replication=1)).disk == pytest.approx(one.disk / 21)
    assert fleet(MANY, 2 * 10**6, USUAL).gateways == pytest.approx(2 * one.gateways)
    assert plan(file, "--rate", "1e6,2e6", "--retention", "2d") == 0
    output = capsys.readouterr().out
    sizes = re.search(r"^disk for 2 days of reports, replicas included: (.*), (.*)$", output, re.MULTILINE)
    assert float(sizes[2].split()[0]) == pytest.approx(2 * float(sizes[1].split()[0]), rel=0.01)
    assert "gateways: 0.2, 0.3 cores, if all reports arrive in requests of 1,000 reports" in output
    assert re.search(r"^a board: .* of memory for 24 hours$", output, re.MULTILINE)


def test_the_table_has_a_line_for_each_rate(file, capsys):
    assert plan(file, "--rate", "1e6,2500000") == 0
    output = capsys.readouterr().out
    assert output.startswith(f"1 query of {file}, frames of 1,000 reports with ids")
    head, *rows = output.splitlines()[-3:]
    names = "reports/s counting state estimates cores workers partitions brokers bytes/s memory"
    assert " ".join(head.split()) == names
    assert [row.split()[0] for row in rows] == ["1,000,000", "2,500,000"]
    assert all(len(line) <= 100 for line in output.splitlines()[1:])


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (["--rate", "0"], "must be a whole number from 1 to"),
        (["--rate", "fast"], "must be a whole number from 1 to"),
        (["--rate", "1e6,"], "must be a whole number from 1 to"),
        (["--rate", "1e99"], "must be a whole number from 1 to"),
        (["--rate", "1e6", "--fill", "1.5"], "must be a share"),
        (["--rate", "1e6", "--speed", "0"], "must be a number from 0.01 to 100"),
        (["--rate", "1e6", "--broker-rate", "0"], "must be at least 1KiB"),
        (["--rate", "1e6", "--size", "10"], "leave --clients and --size out"),
        (["--size", "10"], "required: --clients and --size, or --table, or --rate"),
        ([], "required: --clients and --size, or --table, or --rate"),
    ],
)
def test_wrong_options_are_usage_errors(file, options, fault, capsys):
    with pytest.raises(SystemExit) as error_info:
        plan(file, *options)
    assert error_info.value.code == 2
    assert fault in capsys.readouterr().err


def test_an_impossible_rate_is_refused(file, tmp_path, capsys):
    slow = tmp_path / "slow.toml"
    large = {"domain": 1_000_000, "oracle": "olh", "methods": ["calibrate"]}
    slow.write_text(make_text("web", large, budget=1e9, pane="1s", windows=["1s", "1m/1s", "all"], emit_every="1s"))
    assert plan(slow, "--rate", "1e6") == 2
    assert "queries.web: one process makes all its records" in capsys.readouterr().err
    assert plan(file, "--rate", "1e12", "--frame", "1", "--speed", "0.01") == 2
    assert "no number of workers" in capsys.readouterr().err
    assert plan(tmp_path / "none.toml", "--rate", "1e6") == 2
    assert "none.toml" in capsys.readouterr().err
