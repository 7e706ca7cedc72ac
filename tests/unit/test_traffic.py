"""The way from answers to frames. The same run makes the same bytes, and each frame has its time and partition."""

from collections import Counter
from itertools import pairwise

import numpy as np
import orjson
import pytest

from oracles.errors import ParameterError
from oracles.frame import decode, partition_of
from producers.simulation.crowd.distribution import read_crowd
from producers.simulation.crowd.population import Population
from producers.simulation.crowd.scenario import Attack, Conduct, Course, Scenario, Surge
from producers.simulation.delivery.schedule import STEP
from producers.simulation.delivery.simulated_frames import FrameBuilder
from producers.simulation.delivery.true_answers import TrueAnswers, in_time
from producers.simulation.traffic import Traffic
from tests.queries import make_query

START = 1_700_000_000
PARTITIONS = 12


def query(**more):
    return make_query(
        {"domain": 8, "budget": 1e9, "pane": "2s", "lateness": "3s", "skew": "20s", "oracle": "grr"}, **more
    )


def traffic(scenario=None, seed=1, start=START, most=100, q=None, clients=5000):
    q = q or query()
    population = Population(q, read_crowd(["zipf:1"], q), clients, seed, scenario or Scenario())
    return Traffic(population, start, PARTITIONS, most)


def simulate(traffic, seconds, rate=1000):
    """Return the time of each frame, in milliseconds since the start, and the frame."""
    frames = []
    for number in range(0, 1000 * seconds, STEP):
        frames += [(number, s) for s in traffic.step(1000 * traffic.start + number, rate * STEP // 1000)]
    return frames + [(1000 * seconds, s) for s in traffic.rest()]


ROUGH = Scenario(
    changes=(Surge(Course(0.1, 2), 0, 7), Attack(Course(0.1), "maximal_gain", ((5,),))),
    conducts=(Conduct(0.05, late=1), Conduct(0.05, clock=-60)),
    duplicates=0.1,
)


def wire(traffic, seconds=8):
    return [(moment, s.partition, s.data) for moment, s in simulate(traffic, seconds)]


def test_a_seeded_run_is_the_same_byte_for_byte():
    assert wire(traffic(ROUGH)) == wire(traffic(ROUGH))


@pytest.mark.parametrize("other", [{"seed": 2}, {"start": START + 1}])
def test_another_seed_or_start_has_other_ids(other):
    ids = [{frame[24:32] for _, _, frame in wire(run)} for run in (traffic(ROUGH), traffic(ROUGH, **other))]
    assert not ids[0] & ids[1]


def test_each_answer_is_sent_once_in_the_pane_of_its_time():
    frames = simulate(traffic(), 6)
    assert Counter(s.pane - START for _, s in frames for _ in range(s.n)) == {0: 2000, 2: 2000, 4: 2000}
    for moment, s in frames:
        frame = decode(s.data)
        assert frame.pane == s.pane
        assert frame.n == s.n
        assert frame.digest == query().digest
        assert len(s.values) == s.n
        assert moment <= 1000 * (s.pane + 2 - START)
    assert len({decode(s.data).id for _, s in frames}) == len(frames)


def test_each_report_stays_with_its_value():
    frames = simulate(traffic(), 6)
    reports = np.concatenate([decode(s.data).reports[:, 0] for _, s in frames])
    values = np.concatenate([s.values for _, s in frames])
    assert abs(np.mean(reports == values) - query().oracle.p) < 6 * 0.5 / 6000**0.5  # false once in 5e8 seeds


def test_a_frame_goes_to_the_partition_of_its_id():
    frames = simulate(traffic(ROUGH), 6)
    assert all(s.partition == partition_of(decode(s.data).id, PARTITIONS) for _, s in frames)
    assert {s.partition for _, s in frames} == set(range(PARTITIONS))


def test_frames_are_filled_up_to_their_limit():
    assert {s.n for _, s in simulate(traffic(most=70), 2)} == {70, 2000 % 70}
    assert all(s.n == 1 for _, s in simulate(traffic(most=1), 1))


def test_a_frame_waits_a_second_at_most_and_not_beyond_its_pane():
    alone = simulate(traffic(most=1000), 4, rate=10)
    assert [(moment, s.n) for moment, s in alone] == [(900, 10), (1900, 10), (2900, 10), (3900, 10)]
    crowd = traffic(most=1000)
    late = [(moment, s) for moment in (1500, 1600, 1900) for s in crowd.step(1000 * START + moment, 1)]
    assert [(moment, s.n) for moment, s in late] == [(1900, 3)]


def test_a_frame_stays_below_the_limit_of_bytes():
    wide_query = query(domain=8192, oracle="oue")
    assert FrameBuilder(wide_query, 1, 1000).most == (128 * 1024 - 40) // 1024
    with pytest.raises(ParameterError, match="at least 1 report"):
        FrameBuilder(wide_query, 1, 0)


def test_late_clients_send_after_their_pane_is_closed():
    frames = simulate(traffic(Scenario(conducts=(Conduct(0.1, late=4),))), 20)
    late = [(moment, s) for moment, s in frames if not in_time(query(), s.pane, 1000 * START + moment)]
    assert all(moment == 1000 * (s.pane + 2 + 3 + 4 - START) for moment, s in late)
    count = sum(s.n for _, s in late)
    answers = 12_000  # in the panes with late frames that are sent by now
    assert abs(count - 0.1 * answers) < 6 * (answers * 0.09) ** 0.5  # false once in 5e8 seeds


def test_a_wrong_clock_names_another_pane():
    off = (Conduct(0.1, clock=-60), Conduct(0.1, clock=14))
    frames = simulate(traffic(Scenario(conducts=off)), 6)
    panes = Counter(s.pane - START for _, s in frames for _ in range(s.n))
    assert set(panes) == {0, 2, 4, -60, -58, -56, 14, 16, 18}
    assert all(abs(panes[p] - 200) < 90 for p in (-60, -58, -56, 14, 16, 18))
    assert sum(panes.values()) == 6000


def test_a_frame_sent_twice_is_the_same_frame_and_counts_once():
    frames = [s for _, s in simulate(traffic(Scenario(duplicates=0.3), most=20), 8)]
    repeats = [(frame, next_frame) for frame, next_frame in pairwise(frames) if frame.data == next_frame.data]
    distinct = len({s.data for s in frames})
    assert distinct + len(repeats) == len(frames)
    assert abs(len(repeats) - 0.3 * distinct) < 6 * (distinct * 0.21) ** 0.5  # false once in 5e8 seeds
    assert all(len(frame.values) == frame.n and len(next_frame.values) == 0 for frame, next_frame in repeats)
    assert all(frame.partition == next_frame.partition for frame, next_frame in repeats)


def test_the_answers_of_attackers_are_not_in_the_truth():
    frames = simulate(traffic(Scenario((Attack(Course(0.2), "random_value", ((5,),)),))), 6)
    honest = sum(len(s.values) for _, s in frames)
    assert abs(honest - 0.8 * 6000) < 6 * (6000 * 0.16) ** 0.5  # false once in 5e8 seeds


def publish(truth, moment):
    """Return the records that are due, by their pane. All of them arrive."""
    records = {}
    for pane in truth.due_panes(moment):
        key, record = truth.start_record(pane)
        truth.end_record(pane, success=True)
        records[pane] = orjson.loads(record)
        assert key == f"q|{pane}|me".encode()
    return records


@pytest.fixture
def truth():
    return TrueAnswers(query(), "me")


def send(truth, pane, values, moment):
    truth.expect(pane)
    truth.count(pane, np.array(values), moment)


def test_the_truth_is_published_when_a_pane_is_over(truth):
    send(truth, START, [1, 1, 2], 1000 * START)
    assert publish(truth, START + 1.9) == {}
    record = {"query": "q", "digest": query().digest.hex(), "pane": START, "source": "me"}
    assert publish(truth, START + 2) == {START: {**record, "counts": [0, 2, 1, 0, 0, 0, 0, 0]}}
    assert publish(truth, START + 3) == {}


def test_a_later_frame_brings_a_new_record(truth):
    send(truth, START, [1, 1, 2], 1000 * START)
    publish(truth, START + 2)
    send(truth, START, [7], 1000 * (START + 2))
    assert publish(truth, START + 3)[START]["counts"] == [0, 2, 1, 0, 0, 0, 0, 1]


def test_the_truth_waits_for_pending_frames(truth):
    send(truth, START, [1], 1000 * START)
    truth.expect(START)
    assert publish(truth, START + 9) == {}
    truth.count(START, np.array([2]), 1000 * START)
    assert publish(truth, START + 9)[START]["counts"] == [0, 1, 1, 0, 0, 0, 0, 0]


def test_a_lost_record_is_due_again(truth):
    send(truth, START, [1], 1000 * START)
    truth.start_record(START)
    assert truth.due_panes(START + 2) == []
    truth.end_record(START, success=False)
    assert truth.due_panes(START + 2) == [START]


def test_late_and_future_answers_are_not_in_the_truth(truth):
    end = 1000 * (START + 2 + 3)
    send(truth, START, [1], end)
    send(truth, START, [2], end + 1)
    send(truth, START + 24, [3], 1000 * (START + 4))
    send(truth, START + 26, [4], 1000 * (START + 4))
    records = publish(truth, START + 99)
    assert {pane: np.flatnonzero(record["counts"]).tolist() for pane, record in records.items()} == {
        START: [1],
        START + 24: [3],
    }


def test_expired_panes_have_no_truth():
    bounds = query(
        **{"from": np.datetime64("2023-11-14T22:13:20").item(), "until": np.datetime64("2023-11-14T22:13:24").item()}
    )
    assert [in_time(bounds, START + pane, 1000 * START) for pane in (-2, 0, 2, 4)] == [False, True, True, False]


def test_closed_panes_are_forgotten(truth):
    for pane in range(START, START + 1000, 2):
        send(truth, pane, [1], 1000 * pane)
        publish(truth, pane)
    assert len(truth._counts) <= 5


def test_a_pane_with_pending_frames_is_not_forgotten(truth):
    send(truth, START, [1], 1000 * START)
    publish(truth, START + 2)
    truth.expect(START)
    assert publish(truth, START + 99) == {}
    truth.count(START, np.array([2]), 1000 * START)
    assert publish(truth, START + 99)[START]["counts"] == [0, 1, 1, 0, 0, 0, 0, 0]


def test_several_attributes_have_a_list_of_counts_each_sorted_by_name():
    truth = TrueAnswers(make_query(attributes={"b": 2, "a": 3}, budget=1e9, pane="2s"), "me")
    send(truth, START, [[0, 1], [2, 1]], 1000 * START)
    assert publish(truth, START + 2)[START]["counts"] == [[1, 0, 1], [0, 2]]
