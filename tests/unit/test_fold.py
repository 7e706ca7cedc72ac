"""The pure parts under random faults. Their finals equal those of the fold over the log, bit for bit."""

from collections import Counter, defaultdict
from random import Random
from unittest.mock import patch

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from aggregator.counting.admission.columnar_gate import admit
from aggregator.counting.admission.gate import Gate, Reason, Refusal
from aggregator.merging import cumulative_window
from aggregator.tallies.snapshot import encode_snapshot
from aggregator.tallies.tally import Tally
from hubbub.definitions.versions import Versions
from oracles.frame import TICK, encode
from tests.fold import finals, fold, with_reasons
from tests.logs import LIMIT, POOL, QUERIES, START, VERSIONS, random_log
from tests.pretended import Daemon

EXAMPLES = settings(derandomize=True, deadline=None, max_examples=25, phases=[Phase.generate])
"""A smaller seed does not give a simpler log, so nothing is shrunk."""


def truth(log, **gate):
    """Return start, total and reasons of each final, by query, window and end."""
    groups = defaultdict(list)
    for final in finals(log, VERSIONS.values(), limit=LIMIT, **gate):
        groups[final.versions.query.name].append(final)
    return {
        (name, final.window, final.end): (final.start, encode_snapshot(final.whole), tuple(reasons))
        for name, group in groups.items()
        for final, reasons in with_reasons(group)
    }


@patch.object(cumulative_window, "IDLE", 3)
def check(seed, partitions, length, *, log_has_time, ends):
    random = Random(seed)
    log = random_log(random, partitions, length, log_has_time=log_has_time, ends=ends)
    daemon = Daemon(log, random, log_has_time=log_has_time)
    for _ in range(random.choice([0, 50, 300])):
        daemon.live()
    daemon.finish()
    assert daemon.finals == truth(log, log_has_time=log_has_time)


@pytest.mark.parametrize("partitions", [1, 2, 3, 4])
@pytest.mark.parametrize("log_has_time", [True, False])
@EXAMPLES
@given(seed=st.integers(0, 1 << 32), length=st.integers(0, 60), ends=st.booleans())
def test_finals_equal_those_of_the_fold_under_faults(partitions, log_has_time, seed, length, ends):
    check(seed, partitions, length, log_has_time=log_has_time, ends=ends)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3_000))
def test_finals_equal_those_of_the_fold_on_thousands_of_logs(seed):
    check(seed, 1 + seed % 4, 80, log_has_time=seed % 3 != 0, ends=seed % 2 == 0)


@pytest.mark.parametrize("log_has_time", [True, False])
def test_a_year_of_silence_is_processed(log_has_time):
    """This uses the real IDLE. The time jumps on one partition first."""
    random = Random(1)
    log = random_log(random, 2, 20, ends=False, log_has_time=log_has_time)
    for position, records in enumerate(log):
        records += [(1000, (START + (position + 1) * 365 * 86_400) * 1000, TICK), (1001, (START + 10**9) * 1000, TICK)]
    daemon = Daemon(log, random, log_has_time=log_has_time)
    for _ in range(100):
        daemon.live()
    daemon.finish()
    assert daemon.finals == truth(log, log_has_time=log_has_time)


def test_the_logs_have_all_kinds_of_records():
    reasons = set()
    counts = Counter()
    for seed in range(30):
        log = random_log(Random(seed), 2, 60)
        for partition, records in enumerate(log):
            gate = Gate(partition, 2, VERSIONS, limit=LIMIT)
            clock = None
            for _, timestamp, data in records:
                outcome, clock = gate.admit(data, timestamp, clock)
                if isinstance(outcome, Refusal):
                    reasons.add(outcome.reason)
        for total in fold(log, VERSIONS.values(), limit=LIMIT).values():
            counts.update(n=total.n, implausible=total.implausible, duplicates=total.duplicates, overflow=total.flags)
    assert reasons == set(Reason) - {Reason.DUPLICATE}
    assert min(counts.values()) > 50, counts


def test_a_hostile_log_keeps_no_more_panes_and_ids_than_the_query_allows():
    random = Random(3)
    tallies = {}
    peak = Counter()
    clock = None
    steady = {query.digest: Versions.of(query) for query in QUERIES.values()}
    gate = Gate(0, 1, steady)
    for offset in range(10_000):
        query = random.choice([*QUERIES.values()])
        timestamp = START * 1000 + 10 * offset + random.randrange(2000)
        pane = (START + offset // 100 + random.randrange(-200, 200)) // query.pane * query.pane
        data = encode(query.digest, pane, POOL[query.name][:1], random.randbytes(8))
        result = admit(gate, [(offset, timestamp, data)], clock)
        clock = result.clock
        for key, (_, frames) in result.batches.items():
            tally = tallies.setdefault(key, Tally(query.oracle.zeros()))
            tally.add(query.oracle, frames, query.max_ids)
            assert len(tally.ids) <= query.max_ids
        tallies = {key: tally for key, tally in tallies.items() if not steady[key[0]].is_late(key[1], clock)}
        peak[query.name] = max(peak[query.name], sum(digest == query.digest for digest, _ in tallies))
    for query in QUERIES.values():
        maximum = steady[query.digest].most_open
        assert maximum - 1 <= peak[query.name] <= maximum
