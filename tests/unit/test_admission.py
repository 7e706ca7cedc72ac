"""The gate. Its checks have one order and one reason each, and runs give the same outcomes as single records."""

import struct
from copy import copy
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator.counting.admission import verdict_cache
from aggregator.counting.admission.columnar_gate import admit
from aggregator.counting.admission.gate import (
    TICK,
    TICK_STEP,
    AcceptedFrame,
    Gate,
    Reason,
    Refusal,
    duplicate_refusal,
)
from hubbub.definitions.versions import Version, Versions
from oracles.frame import TICK as TICK_FRAME
from oracles.frame import encode, encode_json, partition_of
from tests.queries import make_queries, make_table

EXAMPLES = settings(derandomize=True, deadline=None, max_examples=150)
QUERIES = make_queries(
    {
        "web": make_table(domain=5, oracle="grr", budget=1e9),
        "app": make_table(domain=9, oracle="olh", budget=1e9, pane="5s", lateness="0s", require_id=True),
        "old": make_table(domain=3, oracle="grr", epsilon=2.0, budget=1e9, skew="1d"),
    }
)
WEB, APP, OLD = (QUERIES[name] for name in ("web", "app", "old"))
OLD = replace(OLD, starts=900, until=2000)
DEFINITIONS = {one.digest: Versions.of(one, 1500 if one is OLD else None) for one in (WEB, APP, OLD)}
GATE = Gate(1, 4, DEFINITIONS, limit=400)
NOW = 1_012_000
GRR = np.array([[1], [4], [0]], np.uint8)
HERE, ELSEWHERE = (9).to_bytes(8, "little"), (8).to_bytes(8, "little")


def reason_of(data, timestamp=NOW, clock=None, gate=GATE):
    return gate.admit(data, timestamp, clock)[0]


def web(pane=1000, reports=GRR, name=None):
    return encode(WEB.digest, pane, reports, name)


def header(n, width, size, magic=b"HBB1", version=1):
    return struct.pack("<4sBBH8sq8sII", magic, version, 0, width, WEB.digest, 1000, bytes(8), n, 0) + bytes(size)


def test_a_good_frame_is_accepted_with_the_data_for_its_tally():
    for data in (web(name=HERE), encode_json(WEB.digest, 1000, GRR, HERE)):
        frame = reason_of(data)
        assert isinstance(frame, AcceptedFrame)
        assert frame.query == WEB
        assert frame.pane == 1000
        assert frame.id == HERE
        assert np.array_equal(frame.reports, GRR)


BAD = np.array([[1], [5]], np.uint8)
ORDER = [
    ("too_large", web(reports=np.zeros((361, 1), np.uint8)), 361, None),
    ("malformed", web()[:-1], 1, None),
    ("malformed", None, 1, None),
    ("malformed", header(3, 1, 3, version=2), 3, None),
    ("unknown_query", encode(b"nobody!!", 7, BAD), 2, None),
    ("stale_digest", encode(OLD.digest, 1501, BAD), 2, "old"),
    ("malformed", encode(OLD.digest, 1499, np.zeros((2, 3), np.uint8)), 2, "old"),
    ("malformed", web(pane=1005), 3, "web"),
    ("malformed", web(pane=0, reports=BAD), 2, "web"),
    ("malformed", web(pane=100_000, reports=BAD), 2, "web"),
    ("malformed", web(name=ELSEWHERE, reports=BAD), 2, "web"),
    ("malformed", encode_json(APP.digest, 1000, np.zeros((1, 5), np.uint8), HERE), 1, "app"),
    ("malformed", encode(APP.digest, 1000, np.zeros((2, 4), np.uint8)), 2, "app"),
    ("misplaced", web(name=ELSEWHERE), 3, "web"),
    ("misplaced", web(pane=0, name=ELSEWHERE), 3, "web"),
    ("expired", encode(OLD.digest, 890, GRR[:2] % 3), 2, "old"),
    ("expired", encode(replace(OLD).digest, 890, GRR[2:]), 1, "old"),
    ("late", web(pane=990), 3, "web"),
    ("future", web(pane=1080), 3, "web"),
]


@pytest.mark.parametrize(("reason", "data", "reports", "query"), ORDER)
def test_each_fault_has_its_reason_and_the_first_one_wins(reason, data, reports, query):
    clock = NOW + 4_000 if reason == "late" else NOW
    refusal = reason_of(data, clock)
    assert isinstance(refusal, Refusal)
    assert refusal.reason == reason
    assert refusal.reports == reports
    assert refusal.query == query
    assert refusal.detail


def test_frames_without_reports_are_malformed_so_their_ids_need_no_memory():
    empty = [header(0, 1, 0), *(web(reports=GRR[:0], name=(4 * i + 1).to_bytes(8, "little")) for i in range(9))]
    admission = admit(GATE, [(offset, NOW, data) for offset, data in enumerate(empty)], None)
    assert [refusal.reason for _, refusal in admission.refusals] == [Reason.MALFORMED] * 10
    assert not admission.batches


def test_alternating_good_and_bad_frames_are_checked_at_once():
    """The gate checks the reports once, for any number of bad ones, and names the first bad one of each frame."""
    arrays = []
    check = WEB.oracle.malformed
    oracle = copy(WEB.oracle)
    oracle.malformed = lambda reports: arrays.append(len(reports)) or check(reports)
    query = replace(WEB, oracle=oracle)
    bad_reports = np.array([[1], [5], [9]], np.uint8)
    run = [(offset, NOW, web(reports=bad_reports if offset % 2 else GRR)) for offset in range(1000)]
    admission = admit(Gate(1, 4, {WEB.digest: Versions.of(query)}), run, None)
    assert arrays == [3000]
    [(_, frames)] = admission.batches.values()
    assert list(frames.offsets) == list(range(0, 1000, 2))
    assert len(frames.reports) == 1500
    assert {refusal.detail for _, refusal in admission.refusals} == {"report 1 of 3 is malformed"}
    assert [offset for offset, _ in admission.refusals] == list(range(1, 1000, 2))


def test_until_is_the_first_pane_that_is_no_longer_counted():
    gate = replace(GATE, definitions={OLD.digest: Versions.of(OLD)})
    assert isinstance(reason_of(encode(OLD.digest, 1990, GRR[2:]), gate=gate), AcceptedFrame)
    assert reason_of(encode(OLD.digest, 2000, GRR[2:]), gate=gate).reason is Reason.EXPIRED


def test_a_retired_digest_still_counts_in_the_panes_before():
    assert isinstance(reason_of(encode(OLD.digest, 1490, GRR[2:])), AcceptedFrame)
    assert reason_of(encode(OLD.digest, 1500, GRR[2:])).reason is Reason.STALE_DIGEST


def test_each_version_judges_its_own_panes_and_none_closes_before_an_earlier_one():
    patient = replace(WEB, lateness=30)
    hasty = replace(WEB, lateness=0, skew=5)
    versions = Versions((Version(990, patient), Version(1010, hasty)))
    gate = replace(GATE, definitions={WEB.digest: versions})
    assert reason_of(web(980), gate=gate).reason is Reason.UNKNOWN_QUERY
    assert isinstance(reason_of(web(1000), 1_040_000, gate=gate), AcceptedFrame)
    assert isinstance(reason_of(web(1010), 1_040_000, gate=gate), AcceptedFrame)
    assert reason_of(web(1010), 1_040_001, gate=gate).reason is Reason.LATE
    assert reason_of(web(1020), 1_014_999, gate=gate).reason is Reason.FUTURE
    assert isinstance(reason_of(web(1000), 940_000, gate=gate), AcceptedFrame)


def test_a_header_counts_only_if_it_fits():
    assert reason_of(header(4_000_000_000, 0, 0)).reports == 1
    assert reason_of(header(5, 1, 4)).reports == 1
    assert reason_of(header(5, 1, 5, magic=b"NOPE")).reports == 1
    assert reason_of(header(0, 1, 0, version=9)).reports == 1


def test_every_record_moves_the_clock_first():
    for data in (b"nonsense", web(), TICK_FRAME, None):
        assert GATE.admit(data, 5_000, 4_000)[1] == 5_000
        assert GATE.admit(data, 3_000, 4_000)[1] == 4_000
    assert reason_of(web(), 1_015_000, NOW).query is WEB
    assert reason_of(web(), 1_015_001, NOW).reason is Reason.LATE, "its own timestamp counts"


def test_under_embedded_only_ticks_move_the_clock():
    gate = replace(GATE, log_has_time=False)
    assert gate.admit(b"nonsense", 9_000_000, None)[1] is None
    frame, clock = gate.admit(web(), 9_000_000, None)
    assert isinstance(frame, AcceptedFrame), "until the first tick nothing is late"
    assert gate.admit(TICK_FRAME, 1_016_000, clock) == (TICK, 1_016_000)
    assert reason_of(web(), 5, 1_016_000, gate).reason is Reason.LATE


def test_under_embedded_a_tick_moves_the_clock_by_a_minute_at_most():
    """Its writer chooses its time, which may lie 115 days ahead."""
    gate = replace(GATE, log_has_time=False)
    day_ahead = NOW + 86_400_000
    run = [(0, day_ahead, TICK_FRAME), (1, 5, web(name=HERE)), (2, day_ahead, TICK_FRAME)]
    assert admit(gate, run, NOW).clock == NOW + 2 * TICK_STEP
    clock = NOW
    for _, timestamp, data in run:
        clock = gate.admit(data, timestamp, clock)[1]
    assert clock == NOW + 2 * TICK_STEP
    assert GATE.admit(TICK_FRAME, day_ahead, NOW) == (TICK, day_ahead), "a broker that stamps records is believed"


def test_under_embedded_a_clock_is_right_again_two_minutes_after_an_hour_of_sleep():
    gate = replace(GATE, log_has_time=False)
    clock, now = NOW, NOW + 3_600_000
    ticks = 0
    while clock != now:
        now += 1_000
        clock = gate.admit(TICK_FRAME, now, clock)[1]
        ticks += 1
    assert ticks <= 120, "one tick a second"


def test_a_duplicate_is_refused_with_the_number_of_its_reports():
    (query, frames), *_ = admit(GATE, [(0, NOW, web(name=HERE))], None).batches.values()
    refusal = duplicate_refusal(query, frames, 0)
    assert refusal.reason == "duplicate"
    assert refusal.query == "web"
    assert refusal.reports == 3


def records(random, length):
    """Return a run with all kinds of records, often with the same header."""
    clock = NOW
    for offset in range(length):
        clock += random.choice([0, 0, 1, 500, -700, 4_000])
        query = random.choice([WEB, WEB, WEB, APP, OLD])
        pane = random.choice([980, 990, 1000, 1000, 1000, 1010, 1070, 1080, 1003, 1500])
        name = random.choice([None, None, HERE, ELSEWHERE, random.randbytes(8), bytes(7) + b"\1"])
        # A frame of 500 reports is larger than the gate takes.
        n = random.choice([0, 1, 1, 1, 3, 3, 7, 500 if random.random() < 0.3 else 2])
        top = 6 if random.random() < 0.1 else 5
        rows = np.array([[random.randrange(top)] + [0] * (query.oracle.width - 1) for _ in range(n)], np.uint8)
        rows = rows.reshape(n, query.oracle.width)
        if query is APP and top == 6:
            rows |= 128
        data = random.choice([encode, encode, encode, encode_json])(query.digest, pane, rows, name)
        kind = random.random()
        if kind < 0.05:
            data = random.choice([TICK_FRAME, None, b"", b"HBB1", data[:-1], data + bytes(400), b"[]", data[:45]])
        yield offset + 7, clock, data


def one_by_one(gate, run, clock):
    acceptance, refusal, clocks = {}, [], {}
    for offset, timestamp, data in run:
        outcome, clock = gate.admit(data, timestamp, clock)
        clocks[offset + 1] = clock
        if isinstance(outcome, Refusal):
            refusal.append((offset, outcome))
        elif isinstance(outcome, AcceptedFrame):
            pile = acceptance.setdefault((outcome.query.digest, outcome.pane), [])
            pile.append((offset, outcome.id, outcome.reports.tobytes()))
    return clocks, acceptance, refusal


def as_run(admission):
    acceptance = {}
    for key, (query, frames) in admission.batches.items():
        ids = [frames.id_at(index) for index in range(len(frames))]
        ends = np.cumsum(frames.sizes)
        assert len(frames.reports) == ends[-1]
        pieces = [frames.reports[end - size : end].tobytes() for end, size in zip(ends, frames.sizes, strict=True)]
        acceptance[key] = list(zip(frames.offsets, ids, pieces, strict=True))
        assert query.digest == key[0]
    return acceptance


@pytest.mark.parametrize("log_has_time", [True, False])
@EXAMPLES
@given(st.integers(0, 1 << 32), st.integers(1, 120), st.sampled_from([None, NOW]))
def test_a_run_has_the_outcomes_of_its_records_one_by_one(log_has_time, seed, length, clock):
    gate = replace(GATE, log_has_time=log_has_time)
    run = list(records(Random(seed), length))
    admission = admit(gate, run, clock)
    clocks, acceptance, refusal = one_by_one(gate, run, clock)
    assert admission.clock == clocks[run[-1][0] + 1]
    assert [(offset, fault.reason, fault.query, fault.reports) for offset, fault in admission.refusals] == [
        (offset, fault.reason, fault.query, fault.reports) for offset, fault in refusal
    ]
    assert as_run(admission) == acceptance
    for _, frames in admission.batches.values():
        assert frames.next_offset > frames.offsets[-1]
        assert frames.clock == clocks[frames.next_offset]


@EXAMPLES
@given(st.integers(0, 1 << 32), st.integers(1, 60), st.sampled_from([None, NOW - 70_000, NOW]))
def test_a_gate_that_has_seen_other_runs_has_the_outcomes_of_a_new_gate(seed, length, clock):
    random = Random(seed)
    gate = replace(GATE)
    for _ in range(3):
        run = list(records(random, length))
        ours, new = (admit(other_gate, run, clock) for other_gate in (gate, replace(GATE)))
        assert ours.clock == new.clock
        assert ours.refusals == new.refusals
        assert as_run(ours) == as_run(new)


def judgements(monkeypatch):
    """Return a list that grows with each record that a gate judges by itself."""
    judge = Gate.judge
    records = []

    def count(self, data, timestamp, clock):
        records.append(data)
        return judge(self, data, timestamp, clock)

    monkeypatch.setattr(Gate, "judge", count)
    return records


def test_frames_of_any_number_of_reports_are_judged_once(monkeypatch):
    gate = replace(GATE)
    rows = np.zeros((360, 1), np.uint8)
    run = [(n, NOW, web(1000, rows[:n])) for n in range(1, 361)]
    judged_records = judgements(monkeypatch)
    for _ in range(2):
        ((_, frames),) = admit(gate, run, NOW).batches.values()
        assert list(frames.sizes) == [*range(1, 361)]
    assert len(judged_records) == 1


def test_late_frames_are_refused_with_the_number_of_their_reports():
    rows = np.zeros((30, 1), np.uint8)
    run = [(n, NOW, web(900, rows[:n])) for n in range(1, 31)]
    refusals = admit(replace(GATE), run, NOW).refusals
    assert [(offset, refusal.reason, refusal.reports) for offset, refusal in refusals] == [
        (n, "late", n) for n in range(1, 31)
    ]


def test_a_frame_that_is_too_large_leaves_the_verdict_to_the_others(monkeypatch):
    run = [(0, NOW, web(1000, np.zeros((500, 1), np.uint8))), *((n, NOW, web()) for n in range(1, 40))]
    judged_records = judgements(monkeypatch)
    admission = admit(replace(GATE), run, NOW)
    assert [refusal.reason for _, refusal in admission.refusals] == ["too_large"]
    assert len(judged_records) == 2


def test_a_gate_remembers_the_kinds_of_all_queries_and_forgets_closed_panes(monkeypatch):
    # Many digests stand for one query here, because to make as many queries would take seconds.
    monkeypatch.setattr(verdict_cache, "LEAST_ROOM", 64)
    digests = [number.to_bytes(8, "little") for number in range(1, 100)]
    gate = Gate(1, 4, dict.fromkeys([WEB.digest, *digests], Versions.of(WEB)))
    run = [(n, NOW, encode(digest, 1000, GRR)) for n, digest in enumerate(digests)]
    admit(gate, run, NOW)
    judged_records = judgements(monkeypatch)
    admit(gate, run, NOW)
    assert judged_records == []

    for pane in range(1000, 1000 + 20 * WEB.pane, WEB.pane):
        admit(gate, [(n, 1000 * pane + 12_000, encode(digest, pane, GRR)) for n, digest in enumerate(digests)], None)
    open_panes = 3
    assert len(gate._verdicts) <= 2 * open_panes * len(digests)


def test_the_partition_of_an_id_is_that_of_the_format():
    for number in range(200):
        name = Random(number).randbytes(8)
        frame = admit(GATE, [(0, NOW, web()), (1, NOW, web(name=name))], None)
        assert (len(frame.refusals) == 0) == (partition_of(name, 4) == 1)


FAR = (1060, 1070, 2000)
"""Panes of a version that begins at 1060."""
LATER_VERSIONS = {
    "retired": Version(1060, WEB, retired=True),
    "ids": Version(1060, replace(WEB, require_id=True)),
    "a longer skew": Version(1060, replace(WEB, skew=WEB.skew + 5)),
}


@pytest.mark.parametrize("version", LATER_VERSIONS.values(), ids=LATER_VERSIONS)
def test_a_refusal_is_the_same_for_readers_that_do_not_know_a_later_version(version):
    """A version is read in time for its own panes, and a replay knows it from the start."""
    earlier_gate = replace(GATE, definitions={WEB.digest: Versions.of(WEB)})
    later_gate = replace(GATE, definitions={WEB.digest: Versions.of(WEB).with_version(version)})
    clock = 1000 * (1060 - version.query.skew) - 1
    outcomes = [gate.admit(web(pane, name=None), clock, None)[0] for gate in (earlier_gate, later_gate) for pane in FAR]
    assert [str(outcome) for outcome in outcomes[: len(FAR)]] == [str(outcome) for outcome in outcomes[len(FAR) :]]
    assert {outcome.reason for outcome in outcomes} == {Reason.FUTURE}
    assert later_gate.admit(web(1060, name=HERE), clock + 1, None)[0] != outcomes[0]


def test_a_definition_that_begins_in_the_future_is_unknown():
    gate = replace(GATE, definitions={WEB.digest: Versions((Version(1060, WEB),))})
    clock = 1000 * (1060 - WEB.skew) - 1
    for pane in FAR:
        assert gate.admit(web(pane), clock, None)[0].detail == f"no query has the digest {WEB.digest.hex()}"
    assert isinstance(gate.admit(web(1060), clock + 1, None)[0], AcceptedFrame)
