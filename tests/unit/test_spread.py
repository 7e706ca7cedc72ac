"""The key `spread`: a query lives on some of the partitions, and each pane goes by the version that applies to it."""

import json
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from aggregator.counting.admission.columnar_gate import admit
from aggregator.counting.admission.gate import AcceptedFrame, Gate, Reason, misplaced_reason
from aggregator.counting.partition import SourcePartition
from aggregator.merging.closed_panes import ClosedPanes
from aggregator.merging.merger import Merger
from aggregator.merging.snapshot_partition import SnapshotPartition
from aggregator.plan import check_text, memory
from aggregator.plan.check import compare
from aggregator.plan.fleet import Assumptions, fleet
from aggregator.process.state_limit import worker_bytes
from aggregator.reading.audit.fold import Fold
from aggregator.tallies.clock_book import NO_CLOCK, ClockView
from aggregator.tallies.keys import home
from hubbub.definitions.catalog import Definitions, TopicRecord, read
from hubbub.definitions.catalog import _write as write
from hubbub.definitions.editions import lines_that_keep
from hubbub.definitions.spread_change import NOTICE
from hubbub.definitions.table import dump, query_of
from hubbub.definitions.versions import Version, Versions
from hubbub.kafka.settings import Kafka
from oracles.errors import QueryError
from oracles.frame import TICK, encode, encode_json, partition_of, slots
from oracles.query import File
from producers.errors import DeliveryError
from producers.gateway.intake.active_definitions import ServedDefinitions
from producers.publishers.frames import OutgoingFrame
from producers.publishers.routes import Routes, route
from producers.simulation.delivery.simulated_frames import FrameBuilder
from tests.queries import make_queries, make_query, make_table

PANE = 10
PARTITIONS = 12
TABLE = make_table(domain=5, oracle="grr", budget=1e9, pane=f"{PANE}s", lateness="5s", skew="30s", spread=4)
QUERY = make_query(TABLE)
ROWS = np.array([[1], [4], [0]], np.uint8)


def test_each_edition_has_its_default_and_no_spread_changes_the_digest():
    queries = {edition: make_query(domain=5, edition=edition) for edition in (1, 2, 3)}
    assert [query.spread for query in queries.values()] == [None, None, 8]
    assert {make_query(domain=5, edition=2, spread=spread).digest for spread in (1, 65_535, "all")} == {
        queries[2].digest
    }
    assert make_query(domain=5, edition=3, spread="all").spread is None


def test_a_definition_keeps_its_spread():
    assert "spread" not in dump(make_query(domain=5))
    for query in (make_query(domain=5, edition=3), make_query(domain=5, edition=3, spread="all"), QUERY):
        assert query_of("q", dump(query)).spread == query.spread


@pytest.mark.parametrize("spread", [0, -1, 65_536, True, "some", 2.0, []])
def test_other_spreads_are_refused(spread):
    with pytest.raises(QueryError, match='spread: must be a whole number from 1 to 65535, or "all"'):
        make_query(domain=5, spread=spread)


def definitions_of(*records):
    """Return the versions of queries that were written at these seconds."""
    contents = []
    for number, (second, query, retired) in enumerate(records):
        members = {"retired": retired, "revision": 0, "founds": not number, "edition": 2}
        contents.append(TopicRecord(*write(query, f"{number:016x}", members), 1000 * second))
    return read(contents).versions[QUERY.digest].versions


def test_a_spread_applies_two_minutes_later_than_other_changes():
    other = replace(QUERY, lateness=20, spread=6)
    first, late, spread = definitions_of((0, QUERY, False), (1000, other, False))
    assert first == Version(0, QUERY)
    assert late == Version(1040, replace(other, spread=4))
    assert spread == Version(1000 + 30 + NOTICE + PANE, other)


def test_a_spread_alone_is_one_more_version():
    wider = replace(QUERY, spread=None)
    assert definitions_of((0, QUERY, False), (1000, wider, False)) == (Version(0, QUERY), Version(1160, wider))


@pytest.mark.parametrize("retired", [False, True])
def test_a_later_change_waits_for_a_spread_to_come(retired):
    wider = replace(QUERY, spread=5)
    later = replace(wider, lateness=7)
    versions = definitions_of((0, QUERY, False), (1000, wider, False), (1010, later, retired))
    assert versions == (Version(0, QUERY), Version(1160, later, retired))
    after = definitions_of((0, QUERY, False), (1000, wider, False), (1010, replace(QUERY, spread=3), False))
    assert after == (Version(0, QUERY), Version(1160, wider), Version(1170, replace(QUERY, spread=3)))


def test_a_retirement_keeps_the_spread_and_a_return_may_change_it():
    narrower = replace(QUERY, spread=2)
    versions = definitions_of((0, QUERY, False), (1000, narrower, True))
    assert versions == (Version(0, QUERY), Version(1040, QUERY, retired=True))
    again = definitions_of((0, QUERY, False), (1000, QUERY, True), (2000, narrower, False))
    assert again[2:] == (Version(2040, QUERY), Version(2160, narrower))


VERSIONS = Versions.of(QUERY).with_version(Version(200, replace(QUERY, spread=None)))
VERSIONS = VERSIONS.with_version(Version(400, replace(QUERY, spread=7)))
SPREADS = ((0, 4), (200, None), (400, 7))


def spread_of(pane):
    return [spread for first, spread in SPREADS if pane >= first][-1]


def test_the_versions_tell_the_spread_of_each_pane():
    assert VERSIONS.spreads == SPREADS
    assert all(VERSIONS.spread_at(pane) == spread_of(pane) for pane in range(0, 600, PANE))


@pytest.mark.parametrize("partition", range(PARTITIONS))
def test_each_partition_takes_the_frames_of_its_slots(partition):
    random = Random(partition)
    patient = [version._replace(query=replace(version.query, lateness=300, skew=300)) for version in VERSIONS.versions]
    gate = Gate(partition, PARTITIONS, {QUERY.digest: Versions(tuple(patient))})
    records = []
    expected = []
    for number in range(400):
        pane = random.choice([190, 200, 210, 390, 400])
        name = random.choice([random.randbytes(8), random.randrange(1, 60).to_bytes(8, "little"), None])
        form = encode_json if random.random() < 0.1 else encode
        records.append((number, 0, form(QUERY.digest, pane, ROWS[: random.randint(1, 3)], name)))
        places = slots(QUERY.digest, spread_of(pane), PARTITIONS)
        if name is not None:
            places = [partition_of(name, PARTITIONS, QUERY.digest, spread_of(pane))]
        expected += [number] if partition in places else []

    admission = admit(gate, records, 250_000)
    offsets = [offset for _, frames in admission.batches.values() for offset in np.asarray(frames.offsets).tolist()]
    assert sorted(offsets) == expected
    refusals = dict(admission.refusals)
    assert refusals.keys() == set(range(400)) - set(expected)
    # Runs give the refusals of single records.
    singly = replace(gate)
    assert refusals == {number: singly.admit(records[number][2], 0, 250_000)[0] for number in refusals}
    assert {refusal.reason for refusal in refusals.values()} == {Reason.MISPLACED}


def test_a_refusal_names_the_partitions_where_the_frame_belongs():
    own = slots(QUERY.digest, 4, PARTITIONS)
    elsewhere = next(partition for partition in range(PARTITIONS) if partition not in own)
    gate = Gate(elsewhere, PARTITIONS, {QUERY.digest: Versions.of(QUERY)})
    name = (6).to_bytes(8, "little")
    outcomes = [gate.admit(encode(QUERY.digest, 0, ROWS, identity), 0, 1000)[0] for identity in (name, None)]
    assert [outcome.detail for outcome in outcomes] == [
        f"belongs on partition {own[2]}",
        f"belongs on partitions {', '.join(map(str, own))}",
    ]
    assert all(outcome.reason == "misplaced" and outcome.reports == 3 for outcome in outcomes)


def test_older_formats_call_a_misplaced_frame_malformed():
    assert [misplaced_reason(version) for version in (1, 2, 3)] == ["malformed", "malformed", "misplaced"]


def brute_force(versions, clocks):
    """Return the end of the newest pane such that each pane up to it is closed on all its slots."""
    end = 0
    while True:
        spread = versions.at(end).query.spread
        own = [clocks[partition] for partition in slots(QUERY.digest, spread, len(clocks))]
        if any(clock is None or clock <= versions.closes_after(end) for clock in own):
            return end
        end += PANE


@pytest.mark.parametrize("seed", range(40))
def test_a_pane_waits_for_the_slots_of_its_own_version(seed):
    random = Random(seed)
    versions = Versions.of(replace(QUERY, spread=random.choice([1, 3, 8, None])))
    for first in sorted(random.sample(range(PANE, 900, PANE), random.randrange(4))):
        change = {"spread": random.choice([1, 2, 5, 11, 12, 40, None]), "lateness": random.choice([0, 5, 40])}
        versions = versions.with_version(Version(first, replace(QUERY, **change)))

    closed_panes = ClosedPanes(PARTITIONS)
    clocks = [random.randrange(20_000) for _ in range(PARTITIONS)]
    fold = Fold(Definitions({QUERY.digest: versions}), PARTITIONS, log_has_time=True, limit=1000)
    for _ in range(25):
        clocks = [clock + random.randrange(1, 200_000) * (random.random() < 0.4) for clock in clocks]
        present_clocks = np.array([NO_CLOCK if random.random() < 0.02 else clock for clock in clocks])
        closed_panes.put_clocks(ClockView(present_clocks, np.zeros(PARTITIONS, np.int64), int(present_clocks.min())))
        expected = brute_force(versions, [None if clock == NO_CLOCK else clock for clock in present_clocks.tolist()])
        # Without a clock nothing is said of the first panes.
        assert max(0, closed_panes.end(versions) or 0) == expected
        merger = Merger(versions, PARTITIONS)
        closed_panes.mark(merger)
        assert max(0, merger.closed_through or 0) == expected
        fold._clocks = [None if clock == NO_CLOCK else clock for clock in present_clocks.tolist()]
        assert max(0, fold.through(versions) or 0) == expected


def test_a_window_of_slots_does_not_wait_for_the_other_partitions():
    own = slots(QUERY.digest, 4, PARTITIONS)
    snapshots = SnapshotPartition(home(QUERY.digest, PARTITIONS), PARTITIONS, {QUERY.digest: Versions.of(QUERY)})
    snapshots.load()
    clocks = np.array([16_000 if partition in own else 1000 for partition in range(PARTITIONS)])
    snapshots.put_clocks(ClockView(clocks, np.zeros(PARTITIONS, np.int64), 1000))
    merger = snapshots.queries[QUERY.digest].merger
    assert merger.closed_through == PANE

    # The partition that is furthest behind stays there, and the slots go on.
    later = np.where(clocks == 16_000, 26_000, clocks)
    view = ClockView(later, np.zeros(PARTITIONS, np.int64), 1000)
    assert snapshots.may_close(view)
    snapshots.put_clocks(view)
    assert merger.closed_through == 2 * PANE
    assert not snapshots.may_close(view)


def test_senders_choose_the_slot_of_the_pane():
    versions = {QUERY.digest: VERSIONS}
    for pane in (190, 200, 410):
        builder = FrameBuilder(QUERY, PARTITIONS, 2, spread_at=VERSIONS.spread_at)
        nobody = np.zeros(2, np.int64)
        [simulated] = builder.put(pane, ROWS[:2], nobody, nobody == 0, 1000 * pane)
        frame = OutgoingFrame.of(QUERY.digest, pane, ROWS)
        assert route(frame, PARTITIONS, versions, None) == partition_of(
            frame.id, PARTITIONS, QUERY.digest, spread_of(pane)
        )
        for partition, data in (
            (simulated.partition, simulated.data),
            (route(frame, PARTITIONS, versions, None), frame.data),
        ):
            gate = Gate(partition, PARTITIONS, versions)
            assert isinstance(gate.admit(bytes(data), 0, 1000 * pane)[0], AcceptedFrame)
    # A query that the topic lacks has the spread of the application's own definition.
    unknown = OutgoingFrame.of(b"unknown!", 0, ROWS)
    assert route(unknown, PARTITIONS, versions, 2) in slots(b"unknown!", 2, PARTITIONS)
    assert route(unknown, PARTITIONS, versions, None) == partition_of(unknown.id, PARTITIONS)


@pytest.mark.parametrize(("second", "spread"), [(100, 4), (300, None), (500, 7)])
def test_a_gateway_lists_the_spread_that_applies_now(second, spread):
    listing = json.loads(ServedDefinitions({QUERY.digest: VERSIONS}).listing(second).text)
    assert listing["queries"][0]["spread"] == spread


def test_a_publisher_without_the_right_to_read_definitions_refuses_a_spread():
    with pytest.raises(DeliveryError, match="right to read the topic hubbub"):
        Routes(Kafka(), PARTITIONS, None).note(QUERY)
    Routes(Kafka(), 4, None).note(QUERY)  # all four partitions take its frames
    Routes(Kafka(), PARTITIONS, None).note(replace(QUERY, spread=None))


def test_check_says_that_an_edition_changes_the_spread():
    table = dict(TABLE, noise="each", oracle="grr")
    definitions = Definitions({QUERY.digest: Versions.of(replace(QUERY, spread=None))})
    [query] = make_queries({"q": {key: value for key, value in table.items() if key != "spread"}}, edition=3).values()
    assert query.digest == QUERY.digest
    lines = [*compare(File({"q": query}, 0, (), 3), definitions, 8.0)]
    assert any("its spread changes from all to 8" in line for line in lines)
    assert 'spread = "all"' in lines_that_keep(replace(QUERY, spread=None), 3)
    assert "spread" not in lines_that_keep(replace(QUERY, spread=None), 2)


def test_check_and_plan_count_the_slots_only():
    everywhere = replace(QUERY, spread=None)
    assert [query.slot_count(PARTITIONS) for query in (QUERY, everywhere, replace(QUERY, spread=99))] == [4, 12, 12]
    for count in (worker_bytes, check_text.id_bytes, check_text.checkpoint_rate):
        assert 3 * count(QUERY, PARTITIONS) == count(everywhere, PARTITIONS)
    tallies = [memory.worker([query], PARTITIONS).tallies for query in (QUERY, everywhere)]
    assert 3 * tallies[0] == tallies[1]
    states = [fleet([query], 10**6, Assumptions()).state for query in (QUERY, everywhere)]
    assert states[0] < states[1]
    lines = "\n".join(check_text.lines(QUERY, PARTITIONS))
    assert "on 4 of 12 partitions" in lines
    assert "open panes on each of 4 partitions" in lines


@pytest.mark.parametrize("partition", range(PARTITIONS))
def test_a_loss_flags_panes_on_their_slots_only(partition):
    source = SourcePartition(Gate(partition, PARTITIONS, {QUERY.digest: VERSIONS}), "writer")
    source.take([(0, 150_000, TICK)])
    source.skip(5)
    source.take([(5, 215_000, TICK)])
    panes = {pane for _, pane in [*source.tallies, *source._closing]}
    assert all(partition in slots(QUERY.digest, spread_of(pane), PARTITIONS) for pane in panes)
    # From pane 200 on every partition takes frames.
    assert 210 in panes
    assert (150 in panes) == (partition in slots(QUERY.digest, 4, PARTITIONS))
