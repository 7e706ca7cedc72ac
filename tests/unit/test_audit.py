"""The audit counts like the simple fold of the tests, for any division of the records into runs."""

from itertools import groupby
from operator import itemgetter
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator.errors import Guarantee
from aggregator.merging.merger import Merger
from aggregator.reading.audit.comparison import compare as comparison_of
from aggregator.reading.audit.fold import Fold
from aggregator.reading.audit.ranges import PublishedFinal, place_of
from aggregator.records.span import Span
from aggregator.tallies.group_cells import count_reports
from aggregator.tallies.snapshot import INCOMPLETE, Snapshot, encode_snapshot
from hubbub.definitions.catalog import Definitions
from hubbub.definitions.versions import Versions
from hubbub.kafka.columns import UNTRUSTED
from oracles.frame import TICK, encode
from oracles.query.footprint import tally_size
from tests.fold import fold
from tests.logs import LIMIT, START, VERSIONS, random_log
from tests.queries import make_query, make_table
from tests.results import build

PANE = 10


def encode_finals(finals):
    return {key: encode_snapshot(total) for key, total in finals.items()}


@pytest.mark.parametrize("seed", range(12))
def test_the_audit_has_the_counts_of_the_fold(seed):
    random = Random(seed)
    partitions = 1 + seed % 3
    log = random_log(random, partitions, 60, log_has_time=seed % 4 != 0)
    audit = Fold(Definitions(VERSIONS), partitions, log_has_time=seed % 4 != 0, limit=LIMIT)
    for partition, records in enumerate(log):
        while records:
            count = random.randrange(1, 20)
            audit.read(partition, records[:count])
            records = records[count:]  # noqa: PLW2901
    totals = {
        (versions.query.name, final.span.window, final.span.end): final.total
        for versions in VERSIONS.values()
        for final in audit.finals(versions)
    }
    truth = fold(log, VERSIONS.values(), log_has_time=seed % 4 != 0, limit=LIMIT)
    assert encode_finals(totals) == encode_finals(truth)
    assert totals


def test_a_record_without_a_broker_timestamp_stops_the_audit():
    audit = Fold(Definitions(VERSIONS), 1, log_has_time=True, limit=LIMIT)
    with pytest.raises(Guarantee, match="partition 0, offset 7"):
        audit.read(0, [(7, UNTRUSTED, b"")])


# --- ranges -----------------------------------------------------------------------------------------------------------

KINDS = ["10s", "20s", "30s/10s", "1m", "90s/60s", "all"]


def ask(windows, crowd=10, **changes):
    table = make_table({"domain": 3, "oracle": "grr", "budget": 1e9, "crowd": crowd}, **changes)
    table = {key: value for key, value in table.items() if value is not None}
    return make_query(table, windows=windows)


def catalog_of(query):
    return Definitions({query.digest: Versions.of(query)})


def log_of(query, sizes):
    """Return a log with so many reports in each pane, one frame for each group. A number is that of group 0."""
    rng = np.random.default_rng(5)
    log = []
    for position, numbers in enumerate(sizes):
        for group, n in enumerate(numbers if isinstance(numbers, tuple) else (numbers,)):
            values = rng.integers(0, query.domains[0].size, (n, len(query.domains)))
            reports = query.oracle.perturb(values if query.attributes else values[:, 0], rng)
            log.append((position, START + PANE * position, group, reports))
    return log


def read_log(query, log, lost_panes=()):
    """Return an audit of a log that lost the records of some panes. A tick is far behind the last one."""
    audit = Fold(catalog_of(query), 1, log_has_time=True, limit=LIMIT)
    records = [
        (offset, 1000 * pane, encode(query.digest, pane, reports, group=group))
        for offset, (position, pane, group, reports) in enumerate(log)
        if len(reports) and position not in lost_panes
    ]
    audit.read(0, [*records, (len(log), 1000 * (START + PANE * (len(log) + 20)), TICK)])
    return audit


def published(query, log, incomplete=()):
    """Return the finals that a worker publishes that has read the whole log. Some panes are flagged."""
    merger = Merger(Versions.of(query), 1)
    for (number, pane), frames in groupby(log, key=itemgetter(0, 1)):
        state = np.zeros(tally_size(query), np.int64)
        n = 0
        for *_, group, reports in frames:
            count_reports(query.oracle, state, reports, [len(reports)], np.array([group], np.uint8))
            n += len(reports)
        if n:
            merger.take(pane, 0, Snapshot(n, 0, 0, INCOMPLETE if number in incomplete else 0, state))
    merger.mark(0, START + PANE * (len(log) + 19))
    records = {}
    for final in merger.finals():
        records |= dict(build(query, final.span, final.total, final.withheld).records)
    return records


def is_alert(key):
    """Whether a key is that of an alert, which has the attribute before the kind of window."""
    return key.split(b"|")[3] in (b"tumbling", b"hopping", b"all")


def compare(query, audit, records, start=None):
    """Return the number of right records, and the keys of the wrong ones."""
    comparison = comparison_of(audit, catalog_of(query), records, start, None)
    # `published` makes records only, but many reports may also prove a value, which is an alert.
    expected = {key: value for key, value in comparison.expected.items() if not is_alert(key)}
    wrong = [key for key, value in expected.items() if records.get(key) != value]
    return len(expected), [*wrong, *(comparison.compared - comparison.expected.keys())]


sizes = st.lists(st.sampled_from([0, 0, 1, 4, 8, 9, 12, 15, 30]), min_size=8, max_size=30)
kinds = st.lists(st.sampled_from(KINDS), min_size=1, max_size=4, unique=True)
FIXED = settings(derandomize=True, deadline=None, max_examples=80)


@FIXED
@given(sizes, kinds, st.sets(st.integers(0, 29), max_size=3), st.booleans())
def test_records_behind_an_incomplete_window_match_the_log_again(numbers, names, lost_panes, is_several):
    """A worker counted reports that the log has lost since, and flagged their panes. The audit cannot count them."""
    more = {"domain": None, "attributes": {"a": 3, "b": 3}, "solution": "smp"} if is_several else {}
    query = ask(names, **more)
    log = log_of(query, numbers)
    records = published(query, log, incomplete=lost_panes)
    assert compare(query, read_log(query, log, lost_panes), records)[1] == []


@FIXED
@given(sizes, kinds, st.integers(0, 20), st.sets(st.integers(0, 29), max_size=2))
def test_records_from_a_time_on_match_the_log(numbers, names, first_time, lost_panes):
    query = ask(names)
    log = log_of(query, numbers)
    records = published(query, log, incomplete=lost_panes)
    audit = read_log(query, log, {*range(first_time), *lost_panes})
    assert compare(query, audit, records, START + PANE * first_time)[1] == []


@settings(FIXED, max_examples=80)
@given(
    st.lists(st.tuples(*[st.sampled_from([0, 1, 8, 12, 30])] * 3), min_size=8, max_size=20),
    kinds,
    st.integers(0, 12),
    st.sets(st.integers(0, 19), max_size=2),
)
def test_records_of_groups_from_a_time_on_match_the_log(numbers, names, first_time, lost_panes):
    query = ask(names, groups={"platform": ["ios", "web"]})
    log = log_of(query, numbers)
    records = published(query, log, incomplete=lost_panes)
    assert compare(query, read_log(query, log, lost_panes), records)[1] == []
    audit = read_log(query, log, {*range(first_time), *lost_panes})
    assert compare(query, audit, records, START + PANE * first_time)[1] == []


def test_the_audit_compares_groups_from_a_time_on():
    query = ask(["10s"], groups={"platform": ["ios", "web"]})
    log = log_of(query, [(12, 12, 12)] * 6)
    records = published(query, log)
    audit = read_log(query, log, range(2))
    equal_count, different = compare(query, audit, records, START + PANE * 2)
    assert different == []
    assert equal_count >= 12, "three groups and their total, for at least three windows"
    last = max(key for key in records if b"|g:platform=ios" in key)
    assert compare(query, audit, records | {last: records[last][:-1]}, START + PANE * 2)[1] == [last]


@pytest.mark.parametrize(("keys", "places"), [({}, [0, None, None]), ({"groups": {"os": ["ios"]}}, [None, 0, 1])])
def test_a_final_of_an_unknown_group_has_no_place(keys, places):
    query = make_query(domain=4, **keys)
    finals = [
        PublishedFinal(query.digest, Span(query.windows[0], 0, 10), group, None, flags=())
        for group in (None, "(none)", "ios")
    ]
    assert [place_of(Versions.of(query), final) for final in finals] == places


def test_the_audit_goes_on_at_the_first_window_with_values_behind_an_incomplete_one():
    query = ask(["10s", "20s"])
    log = log_of(query, [12, 14, 4, 16, 3, 8, 20, 15])
    records = published(query, log, incomplete=[2])
    audit = read_log(query, log, lost_panes=[2])
    ends = {key.rpartition(b"|")[2] for key in comparison_of(audit, catalog_of(query), records, None, None).expected}
    start = log[0][1]
    assert ends == {b"%d" % (start + PANE * at) for at in (1, 2, 5, 6, 7, 8)}, "the third and fourth pane are one gap"
    last_record = max(records, key=lambda key: key.rpartition(b"|")[2])
    assert compare(query, audit, records | {last_record: records[last_record][:-1]})[1] == [last_record]
