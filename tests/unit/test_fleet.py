"""`hubbub plan --rate`: its costs are those that docs/performance.md publishes, and its sums hold."""

import re
import tomllib
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from aggregator.plan import command, costs
from aggregator.plan.fleet import HEADER_SIZE, Assumptions, fleet, per_frame
from oracles import oracle
from oracles.query import parse

USUAL = Assumptions()
PAGE = (Path(__file__).parents[2] / "docs" / "performance.md").read_text()


def queries(*bodies):
    text = "".join(f"[queries.q{i}]\nepsilon = 1.0\nbudget = 1e9\n{body}\n" for i, body in enumerate(bodies))
    return list(parse(tomllib.loads(text), "hubbub.toml", ".").values())


SMALL = 'pane = "10s"\ndomain = 1024\noracle = "olh"\nmethods = ["norm_sub"]'
MANY = queries(*[SMALL] * 60)
RATES = [10**power for power in range(10)]


def published(row):
    """A row of the page's tables, by what it begins with: the numbers of its cells."""
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
def test_a_message_costs_what_was_measured(row, name, reports, ids):
    _, _, (measured, *_), *_ = published(row)
    chosen = oracle(name, epsilon=1.0, size=1024)
    said = costs.message(reports, chosen.width, ids=ids, header=HEADER_SIZE) + reports * costs.add(chosen)
    assert 1e6 * said == pytest.approx(measured, rel=0.25)


@pytest.mark.parametrize(("name", "size"), [("olh", 1024), ("olh", 10_000), ("olh", 1_000_000), ("oue", 1024)])
def test_counting_a_report_costs_no_less_than_the_kernel_alone(name, size):
    row = f"`{name}` add, size {size:,}" if name == "olh" else "`oue`, `sue` add, size 1,024"
    *_, rates = published(row)
    said = costs.add(oracle(name, epsilon=1.0, size=size))
    assert 0.9e-6 / rates[0] <= said <= 2e-6 / rates[0], "the rate is in millions"


def test_a_record_costs_what_was_measured():
    (query,) = queries('pane = "10s"\ndomain = 1000000\noracle = "olh"\nmethods = ["norm_sub", "calibrate"]')
    (measured, *_), *_ = published("a record of 1,000,000 values, the same; with all twelve methods")
    assert costs.record(query) == pytest.approx(measured, rel=0.15)


def test_several_attributes_are_all_counted_but_where_one_is_sent():
    body = 'pane = "10s"\nattributes = { a = 100, b = 200 }\noracle = "grr"\nsolution = "%s"'
    spl, smp = queries(body % "spl", body % "smp")
    assert costs.add(spl.oracle) == pytest.approx(2 * costs.add(smp.oracle))


@pytest.mark.parametrize("file", [queries(SMALL), MANY, queries('pane = "1s"\ndomain = 16384\noracle = "oue"')])
def test_more_reports_never_take_less(file):
    found = [fleet(file, rate, USUAL) for rate in RATES]
    for less, more in pairwise(found):
        assert less.counting < more.counting
        for name in ("state", "estimates", "cores", "workers", "partitions", "brokers", "arriving", "writing"):
            assert getattr(less, name) <= getattr(more, name), name


@pytest.mark.parametrize("rate", RATES)
def test_there_are_partitions_for_all_and_as_many_for_each(rate):
    found = fleet(MANY, rate, USUAL)
    assert found.partitions >= max(12, found.workers, found.cores)
    assert found.partitions % found.workers == 0
    assert found.arriving <= found.partitions * USUAL.partition_rate
    assert found.brokers * USUAL.broker_rate >= USUAL.replicas * (found.arriving + found.writing)
    assert found.counting + found.state <= found.workers * USUAL.fill
    assert found.counting + found.state + found.estimates <= found.cores * USUAL.fill


def test_what_is_assumed_counts():
    base = fleet(MANY, 10**8, USUAL)
    assert fleet(MANY, 10**8, replace(USUAL, speed=2.0)).counting == pytest.approx(base.counting / 2)
    assert fleet(MANY, 10**8, replace(USUAL, ids=False)).counting < base.counting
    assert fleet(MANY, 10**8, replace(USUAL, per_frame=1)).counting > 20 * base.counting
    assert fleet(MANY, 10**8, replace(USUAL, fill=0.9)).workers < base.workers
    assert fleet(MANY, 10**8, replace(USUAL, broker_rate=1 << 30)).brokers < base.brokers
    assert fleet(MANY, 10**8, replace(USUAL, replicas=1)).brokers < base.brokers
    assert fleet(MANY, 10**8, replace(USUAL, partitions=1000)).partitions >= 1000
    assert fleet(MANY, 1, replace(USUAL, replicas=5)).brokers == 5


def test_state_is_bounded_by_the_frames_that_come():
    """One frame a second changes one tally a second, whatever there is of them."""
    assert fleet(MANY, 1, USUAL).state < 1e-3
    busy = fleet(MANY, 10**8, USUAL)
    tallies = len(MANY) * busy.partitions
    assert busy.state == pytest.approx(
        tallies * (2 * costs.WRITTEN + costs.SHOWN + (2 * costs.WRITTEN + costs.SHOWN) / 10), rel=1e-9
    )


def test_a_wide_report_makes_shorter_frames():
    (wide,) = queries('pane = "10s"\ndomain = 500000\noracle = "oue"')
    assert per_frame(wide, USUAL) == (2**20 - HEADER_SIZE) // wide.oracle.width < 1000


def plan(file, *options):
    return command.main(["--queries", str(file), *options])


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "hubbub.toml"
    path.write_text(f"[queries.web]\nepsilon = 1.0\nbudget = 1e9\n{SMALL}\n")
    return path


def test_the_table_has_a_line_for_each_rate(file, capsys):
    assert plan(file, "--rate", "1e6,2500000") == 0
    said = capsys.readouterr().out
    assert said.startswith(f"1 query of {file}, frames of 1,000 reports with ids")
    head, *rows = said.splitlines()[-3:]
    names = "reports/s counting state estimates cores workers partitions brokers bytes/s memory"
    assert " ".join(head.split()) == names
    assert [row.split()[0] for row in rows] == ["1,000,000", "2,500,000"]
    assert all(len(line) <= 100 for line in said.splitlines()[1:])


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
        (["--rate", "1e6", "--size", "10"], "have no place beside it"),
        (["--size", "10"], "required: --clients and --size, or --rate"),
        ([], "required: --clients and --size, or --rate"),
    ],
)
def test_nonsense_is_refused_kindly(file, options, fault, capsys):
    with pytest.raises(SystemExit) as refused:
        plan(file, *options)
    assert refused.value.code == 2
    assert fault in capsys.readouterr().err


def test_what_no_number_of_workers_carries_is_said(file, tmp_path, capsys):
    slow = tmp_path / "slow.toml"
    slow.write_text(
        '[queries.web]\nepsilon = 1.0\nbudget = 1e9\npane = "1s"\ndomain = 1000000\noracle = "olh"\n'
        'windows = ["1s", "1m/1s", "all"]\nmethods = ["calibrate"]\nemit_every = "1s"\n'
    )
    assert plan(slow, "--rate", "1e6") == 2
    assert "queries.web: its records take" in capsys.readouterr().err
    assert plan(file, "--rate", "1e12", "--per-frame", "1", "--speed", "0.01") == 2
    assert "no number of workers" in capsys.readouterr().err
    assert plan(tmp_path / "none.toml", "--rate", "1e6") == 2
    assert "none.toml" in capsys.readouterr().err
