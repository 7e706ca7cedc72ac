"""Simulated people, real processes, and final records. The estimates are right, and so are their intervals.

Crowds have fixed seeds, and panes begin with whole seconds as crowds do, so each run asks the same people in the same
panes. Checks of coverage fail once in a million times. Other checks state how often.
"""

import signal
import time
from itertools import chain

import pytest

from oracles.frame import decode
from producers.publishers.spool import Spool
from tests.brokers import ROOT
from tests.integration.crowds import Coverage, counts_of, coverage, crowd, finals, script, true_counts, verdict_through
from tests.integration.workers import Place, until
from tests.queries import LIVE, make_text

SECONDS = 8
"""For which crowds answer."""
SITE, HABIT, ATTACK_RATE = 4_000, 3_000, 40_000
"""Answers a second."""
PERIOD = 2
"""Of the habit's clients, who answer again and again."""
HONEST = 4
"""Seconds until some of the attacked turn into attackers."""
COMMON = LIVE | {"lateness": "4s", "skew": "30s", "publish": "all", "emit_every": "never"}
PAGES = [f"page-{number}" for number in range(100)]
QUERIES = (
    make_text("site", COMMON, domain=200, oracle="oue", windows=["1s"], period="20s")
    + make_text("habit", COMMON, domain=500, oracle="oue", windows=["6s/2s", "all"], period=f"{PERIOD}s")
    + make_text("attacked", COMMON, domain=PAGES, oracle="olh", windows=["2s"], period="20s")
    + make_text("sent", COMMON, domain=["a", "b", "c"], oracle="grr", windows=["1s"])
)
ON_EACH_BROKER = [
    pytest.param("kafka", marks=pytest.mark.xdist_group("end to end, kafka")),
    pytest.param("tansu", marks=[pytest.mark.xdist_group("end to end, tansu"), pytest.mark.long]),
]

PUBLISHER = """
import asyncio, os, signal, sys, time
from pathlib import Path
from threading import Lock
from hubbub.kafka import Kafka
from oracles.query import load
from producers import Client, Publisher
from producers.publishers.spool import Spool

go, spool, frames, until = *map(Path, sys.argv[1:3]), *map(int, sys.argv[3:])
query = load(os.environ["HUBBUB_QUERIES"])["sent"]
remove, noted, one = Spool.remove, [], Lock()

def remove_or_die(self, frame):
    with one:
        if len(noted) == until:
            os.kill(os.getpid(), signal.SIGKILL)  # Kafka has the frame, and so has the disk
        remove(self, frame)
        noted.append(frame)
        print(frame.n, flush=True)

Spool.remove = remove_or_die
print("ready", flush=True)
while not (told := go.exists() and go.read_text()):
    time.sleep(0.02)

async def main():
    where = Kafka(os.environ["HUBBUB_KAFKA"], os.environ["HUBBUB_PREFIX"], os.environ["HUBBUB_EMBEDDED"] == "1")
    answers = [Client(query, ":memory:").answer(value) for value in "abc" * 5 * frames]
    async with Publisher(where, reports=5, spool=spool) as publisher:
        for report in answers:
            await publisher.put(query, report, at=int(told))

asyncio.run(main())
"""
"""A publisher of 3 * `frames` frames of 5 reports for the pane in the file `go`.

It kills itself when `until` of them are acknowledged.
"""


class Run:
    """The records of one worker, three crowds and a publisher that is killed and started again."""

    def __init__(self, place):
        self.place = place
        publishers = [self._publisher("one", 20, 20), self._publisher("two", 2, -1)]
        worker = place.start().ready()
        place.wait_for_ticks()
        people = ["--seconds", SECONDS, "--seed", 1]
        crowds = [
            crowd(place, "site", "--rate", SITE, "--values", "zipf:1", *people),
            crowd(place, "habit", "--clients", HABIT * PERIOD, "--values", "beta:2,3", "--churn", 0, *people),
            crowd(place, "attacked", "--rate", ATTACK_RATE, "--scenario", hasty_poison(place.folder), *people),
        ]
        pane = int(time.time()) + 8
        self._kill_and_restart(*publishers, pane)
        assert [crowd.wait() for crowd in crowds] == [0, 0, 0]
        self.verdict = verdict_through(place, max(time.time(), pane + 1))
        digest = place.queries["sent"].digest
        self.sent = [frame for part in place.log() for *_, data in part if (frame := decode(data)).digest == digest]
        self.truth = {name: true_counts(place, name) for name in ("site", "habit", "attacked")}
        until(lambda: worker.total("hubbub_coverage_ratio", query="site"))
        self.metrics = worker.metrics()
        assert worker.stop() == 0

    def _publisher(self, name, frames, acks):
        folder = self.place.folder
        return script(self.place, name, PUBLISHER, folder / f"{name}.go", folder / "spool", frames, acks)

    def _kill_and_restart(self, one, two, pane):
        """Set the number of acknowledged reports, of those on disk, and of those of the next publisher."""
        folder = self.place.folder
        for name in ("one", "two"):
            until(lambda name=name: (folder / f"{name}.out").read_text())
        (folder / "one.go").write_text(str(pane))
        assert one.wait() == -signal.SIGKILL
        self.acknowledged = sum(map(int, (folder / "one.out").read_text().split()[1:]))
        self.left = sum(frame.n for frame in Spool(folder / "spool").frames())
        (folder / "two.go").write_text(str(pane))
        assert two.wait() == 0
        assert not list((folder / "spool").iterdir())
        self.more = 3 * 2 * 5


def hasty_poison(folder):
    """Write the scenario poison.toml with an attack that starts a minute earlier. Return its path."""
    text = (ROOT / "producers" / "simulation" / "crowd" / "scenarios" / "poison.toml").read_text()
    path = folder / "poison.toml"
    path.write_text(text.replace('"1m"', f'"{HONEST}s"'))
    assert "1m" in text
    return path


@pytest.fixture(scope="module", params=ON_EACH_BROKER)
def ran(request, tmp_path_factory):
    broker = request.getfixturevalue(request.param)
    with Place(broker, tmp_path_factory.mktemp("ran"), QUERIES) as place:
        yield Run(place)


def test_finals_are_byte_for_byte_those_of_the_log(ran):
    assert ran.verdict.exact, ran.verdict


def test_every_answer_is_counted_in_its_pane(ran):
    records = finals(ran.place, "site", "tumbling", 1)
    panes = ran.truth["site"]
    assert sum(counts.sum() for counts in panes.values()) == SITE * SECONDS
    assert {end - 1: total(record) for end, record in records.items()} == {p: c.sum() for p, c in panes.items()}


def total(record):
    """Return the number of answers, with implausible ones. One of a billion honest answers is implausible."""
    return record["n"] + record["refused"]["implausible"]


def test_intervals_cover_the_truth_as_often_as_stated(ran):
    """Bits of oue are independent and nobody answers twice, so intervals miss independently."""
    records = finals(ran.place, "site", "tumbling", 1).values()
    each = [coverage(record, counts_of(ran.truth["site"], record)) for record in records]
    pool = sum(each, Coverage(0, 0))
    assert pool.cells == 200 * SECONDS
    assert pool.is_right, pool


def test_metrics_show_the_coverage_and_error_of_a_simulation(ran):
    """Each of 200 intervals contains the truth with 95%. Fewer than 160 do so in one of 10^13 windows."""
    [coverage] = [value for has, value in ran.metrics["hubbub_coverage_ratio"] if has["query"] == "site"]
    assert 0.8 <= coverage <= 1.0
    error = {has["method"]: value for has, value in ran.metrics["hubbub_true_mse"] if has["query"] == "site"}
    assert 0.0 < error["unbiased"] < 1.0


@pytest.mark.parametrize(("kind", "size"), [("hopping", 6), ("all", 0)])
def test_intervals_cover_repeated_answers_because_they_count_as_one(ran, kind, size):
    """This checks one window of each kind, because the others repeat its noise."""
    panes = ran.truth["habit"]
    first_pane = min(panes)
    last = max(panes) + 1
    records = finals(ran.place, "habit", kind, size)
    record = records[last if kind == "all" else min(end for end in records if end - size >= first_pane)]
    repeats = (size or SECONDS) // PERIOD
    counts = counts_of(panes, record)
    assert record["n"] == counts.sum() == HABIT * PERIOD * repeats
    begins = record["window"]["start"]
    ends = record["window"]["end"]
    periods = -(-ends // PERIOD) - begins // PERIOD
    assert repeats <= periods <= repeats + 1, "aligned periods"
    assert record["n_independent"] == record["n"] // periods
    assert coverage(record, counts).is_right, coverage(record, counts)
    assert coverage(record, counts, record["n_independent"]) == coverage(record, counts)
    narrow_coverage = coverage(record, counts, record["n"])
    assert not narrow_coverage.is_right, narrow_coverage


def test_a_publisher_that_is_killed_and_started_again_counts_once(ran):
    [record] = finals(ran.place, "sent", "tumbling", 1).values()
    assert record["n"] == ran.acknowledged + ran.left + ran.more
    again = sum(frame.n for frame in ran.sent) - record["n"]
    assert record["refused"]["duplicate"] == again > 0


def test_poison_is_flagged_and_nothing_else(ran):
    """An attack on a window of 80,000 reports is missed once in 1e20. Two of a million honest windows are flagged."""
    panes = ran.truth["attacked"]
    begins = min(panes) + HONEST
    ends = max(panes) + 1
    honest, attack = [], []
    for end, record in finals(ran.place, "attacked", "tumbling", 2).items():
        flags = record["quality"]["flags"]
        if begins - HONEST <= end - 2 and end <= begins:
            honest.append(flags)
        elif begins <= end - 2 and end <= ends:
            attack.append(flags)
            lies = record["n"] - counts_of(panes, record).sum()
            assert 0.04 < lies / record["n"] < 0.06
    assert honest
    assert attack
    assert honest == [[]] * len(honest)
    assert attack == [["skewed"]] * len(attack)
    for name, kind, size in [("site", "tumbling", 1), ("habit", "hopping", 6), ("habit", "all", 0)]:
        assert all(not record["quality"]["flags"] for record in finals(ran.place, name, kind, size).values())


@pytest.mark.parametrize(("away", "lateness"), [(5, 8), pytest.param(20, 35, marks=pytest.mark.long)])
def test_an_outage_of_the_broker_loses_nothing(kafka, tmp_path, away, lateness):
    """The embedded broker loses its records when it stops, so this test needs Kafka."""
    queries = QUERIES.replace('lateness = "4s"', f'lateness = "{lateness}s"')
    with Place(kafka, tmp_path, queries) as place:
        worker = place.start().ready()
        people = crowd(place, "site", "--clients", 20 * SITE, "--values", "zipf:1", "--seed", 2)
        until(lambda: worker.total("hubbub_reports_total") > SITE)
        kafka.freeze(0)
        try:
            time.sleep(away)
        finally:
            kafka.resume(0)
        until(lambda: people.running and worker.running and fresh(place))
        people.signal(signal.SIGINT)
        assert people.wait() == 0
        verdict = verdict_through(place, time.time())
        assert verdict.exact, verdict
        panes = true_counts(place, "site")
        records = finals(place, "site", "tumbling", 1)
        assert {end - 1: total(record) for end, record in records.items()} == {p: c.sum() for p, c in panes.items()}
        assert max(panes) - min(panes) > away
        assert min(sum(counts) for pane, counts in panes.items() if min(panes) < pane < max(panes)) == SITE
        assert worker.stop() == 0


def fresh(place):
    """Whether the log has reports of the pane before this one."""
    return any(decode(data).pane >= time.time() - 2 for _, _, data in chain.from_iterable(place.log()))
