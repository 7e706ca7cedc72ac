"""The oldest window with reports that has no acknowledged final, from which the age of unpublished windows follows."""

import time
from random import Random

import numpy as np
import pytest
from prometheus_client import generate_latest

from aggregator.counting.admission.gate import Gate
from aggregator.counting.partition import SourcePartition
from aggregator.merging.merger import Merger
from aggregator.merging.query_state import QueryState
from aggregator.process.freshness import Unpublished
from aggregator.tallies.snapshot import Snapshot
from aggregator.worker.unpublished_windows import oldest_due
from hubbub.command.metrics import registry
from hubbub.definitions.versions import Version, Versions
from oracles.frame import encode
from tests.queries import make_query, make_table

PANE = 10


def query(**settings):
    table = make_table(domain=4, oracle="grr", budget=1e9, crowd=1, lateness="5s")
    return make_query({**table, "windows": ["10s", "30s/20s", "all"], **settings})


def snapshot(n):
    return Snapshot(n, 0, 0, 0, np.full(query().oracle.state_size, n, np.int64))


def owes(state):
    state.collect()
    return state.owes(1)


@pytest.mark.parametrize("windows", [["10s"], ["30s/20s"], ["1m"], ["all"], ["10s", "1m/10s", "2m", "all"]])
@pytest.mark.parametrize("seed", range(12))
def test_the_next_end_is_the_end_of_the_final_that_comes_next(windows, seed):
    """Snapshots are complete at once. Then panes close, and finals are taken, in random steps."""
    random, partitions = Random(seed), 2
    state = QueryState(Merger(Versions.of(query(windows=windows)), partitions))
    for pane in range(0, 300, PANE):
        for partition in range(partitions):
            if random.random() < 0.3:
                state.merger.take(pane, partition, snapshot(random.choice([0, 1, 7])))
    ends, predictions = [], [(0, state.next_end())]
    marks, settled_count = [0] * partitions, 0
    while min(marks) < 10_000:
        at = random.randrange(partitions)
        marks[at] += random.choice([0, 10, 50, 5000])
        state.merger.mark(at, marks[at])
        ends += [state.answer([], {}).final.span.end for _ in range(random.randint(0, 4)) if owes(state)]
        if random.random() < 0.5:
            state.settle()  # the broker acknowledged them
            settled_count = len(ends)
        predictions.append((settled_count, state.next_end()))
    while owes(state):
        ends.append(state.answer([], {}).final.span.end)
    assert len(ends) > 2
    assert [end for _, end in predictions] == [min(ends[count:], default=None) for count, _ in predictions]


def test_the_first_window_of_a_pane_lies_in_an_interval_of_publication():
    two_versions = Versions((Version(0, query(windows=["30s"])), Version(60, query(windows=["20s"]))))
    assert [two_versions.first_window_end(pane) for pane in (0, 20, 30, 60, 70, 80)] == [30, 30, 60, 80, 80, 100]
    retired = Versions.of(query(windows=["30s/20s", "all"])).with_version(Version(40, query(), retired=True))
    assert [retired.first_window_end(pane) for pane in (0, 30)] == [10, 40]


def source(definition):
    """Return a source partition with one report in the pane 1000, which is open until the clock 1015 s."""
    versions = {definition.digest: Versions.of(definition)}
    owner = SourcePartition(Gate(0, 1, versions), "writer")
    report = definition.oracle.perturb(np.zeros(1, np.int64), np.random.default_rng(1))
    owner.take([(0, 1_003_000, encode(definition.digest, 1000, report))])
    return owner, versions


def test_an_open_pane_is_due_when_its_first_window_and_its_lateness_are_over():
    for windows, end in ((["10s"], 1010), (["1m"], 1020), (["1h"], 3600), (["1m", "all"], 1010)):
        owner, versions = source(query(windows=windows))
        assert oldest_due(versions, [owner], []) == {"q": end + 5}


def test_a_closed_pane_counts_until_its_final_is_acknowledged():
    definition = query(windows=["10s"])
    owner, versions = source(definition)
    owner.take([(1, 1_020_000, b"")])  # any record moves the clock
    assert not owner.tallies
    assert oldest_due(versions, [owner], []) == {"q": 1015}
    plan = owner.plan(whole=True)
    owner.settle(plan)
    state = QueryState(Merger(versions[definition.digest], 1))
    assert oldest_due(versions, [owner], [state]) == {"q": None}
    state.merger.take(1000, 0, snapshot(1))
    assert oldest_due(versions, [owner], [state]) == {"q": 1015}
    state.merger.mark(0, 1010)
    assert owes(state)
    state.answer([], {})
    assert oldest_due(versions, [], [state]) == {"q": 1015}
    state.settle()
    assert oldest_due(versions, [], [state]) == {"q": None}


def test_a_query_without_reports_has_no_late_window():
    definition = query()
    versions = {definition.digest: Versions.of(definition)}
    empty_partition = SourcePartition(Gate(0, 1, versions), "writer")
    empty_partition.take([(0, 1_003_000, b"")])
    assert oldest_due(versions, [empty_partition], [QueryState(Merger(Versions.of(definition), 1))]) == {"q": None}


def test_the_metric_is_the_time_since_then_and_never_negative():
    now, process_registry = time.time(), registry()
    process_registry.register(Unpublished(lambda: {"late": now - 100, "early": now + 100, "none": None}, lambda: True))
    lines = generate_latest(process_registry).decode().splitlines()
    ages = {line.split('"')[1]: float(line.split()[-1]) for line in lines if line.startswith("hubbub_unpublished")}
    assert 100 <= ages.pop("late") < 160
    assert ages == {"early": 0, "none": 0}
