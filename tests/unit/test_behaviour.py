"""The recipes of docs/behaviour.md, each from the notes of devices to estimates: the truth of the crowd is in them.

The bound of an error is Z standard errors: one false alarm in a million. The seeds are fixed.
"""

import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

from oracles.mechanisms.entropy import Seeded
from oracles.query import parse
from producers.client.note_rules import NoteRules
from producers.client.respondents import Respondents

PAGE = (Path(__file__).parents[2] / "docs" / "behaviour.md").read_text()
CODE = re.search(r"```python\n(def return_rate.*?)```", PAGE, re.DOTALL)[1]
DAY = 86_400
Z = 4.9
PEOPLE = 2_500


def query_of(name):
    (text,) = [block for block in re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL) if f"[queries.{name}]" in block]
    return parse(tomllib.loads(text), "docs/behaviour.md", None)[name]


def lives(query, notes, periods):
    """Yield the positions that devices answer in each period. `notes` gives those of a device and a period.

    The notes of a device are None while it is not used, or a list of offsets in seconds and values.
    """
    rules = NoteRules(query.recorder, query.domain)
    states = [None] * PEOPLE
    for period in range(periods):
        positions = np.full(PEOPLE, -1)
        for device in range(PEOPLE):
            own_notes = notes(device, period)
            if own_notes is None:
                continue
            states[device] = rules.turn(states[device], period)
            if rules.wait(states[device], period) is None:
                positions[device] = rules.answer(states[device])
            for offset, value in own_notes:
                time_s = period * query.period + offset
                states[device] = rules.add(states[device], rules.amount_of(value), time_s)
        yield positions


class Crowd:
    """The devices of a query, which answer with noise of their own."""

    def __init__(self, query, seed):
        noise = np.random.default_rng(seed)
        self.query = query
        self.respondents = Respondents(query.oracle, PEOPLE, lambda *_: Seeded(noise))

    def estimate(self, positions):
        """Return the estimate of the reports of a period. A position below 0 stands for silence."""
        tally = self.query.tally()
        # All rows are drawn, and the silent ones are left out, because a part of respondents is a slice.
        reports = self.respondents.reports(np.maximum(positions, 0))[positions >= 0]
        tally.add(reports)
        return tally.estimate()


def check(share, stderr, truth):
    assert abs(share - truth) <= Z * stderr
    assert stderr < 0.1


def check_all(estimate, truths):
    for position, truth in enumerate(truths):
        check(estimate.shares[position], estimate.stderr[position], truth)


def test_a_funnel_shows_how_far_people_come():
    query = query_of("checkout")
    furthest = np.random.default_rng(1).choice(4, PEOPLE, p=[0.5, 0.25, 0.15, 0.1])
    steps = query.domain.values

    def notes(device, _):
        # People go back and forth between the steps.
        return [(60 * step, steps[step]) for step in (*range(furthest[device], 0, -1), *range(1, furthest[device]))]

    *_, positions = lives(query, notes, 2)
    estimate = Crowd(query, 2).estimate(positions)
    check_all(estimate, [np.mean(furthest == step) for step in range(4)])
    for _, members in query.sets:
        share, stderr, low, high = estimate.of_set(members)
        truth = np.mean(np.isin(furthest, members))
        check(share, stderr, truth)
        assert low < share < high


def test_return_on_day_7_is_a_ratio_with_fiellers_interval():
    query = query_of("returns")
    rng = np.random.default_rng(3)
    starts = rng.integers(0, 3, PEOPLE)
    is_used = rng.random((PEOPLE, 9)) < 0.4
    is_used[np.arange(PEOPLE), starts] = True

    def notes(device, day):
        return [] if day >= starts[device] and is_used[device, day] else None

    days = [*lives(query, notes, 9)]
    crowd = Crowd(query, 4)
    # Each device of the page's query keeps its noise, so one crowd answers on all days.
    early, late = crowd.estimate(days[1]), crowd.estimate(days[8])
    namespace = {}
    exec(CODE, namespace)  # noqa: S102 - the code of the page
    rate, low, high = namespace["return_rate"](
        late.shares[7] * late.n, late.stderr[7] * late.n, early.shares[0] * early.n, early.stderr[0] * early.n, z=Z
    )
    truth = np.mean(is_used[starts == 1, 8])
    assert low <= truth <= high
    assert low < rate < high
    assert high - low < 1.0


@pytest.mark.parametrize("counts", [(0.0, 1.0, 1.0, 2.0), (5.0, 1.0, 3.0, 2.0)])
def test_a_ratio_of_too_few_people_has_no_interval(counts):
    namespace = {}
    exec(CODE, namespace)  # noqa: S102 - the code of the page
    _, low, high = namespace["return_rate"](*counts)
    assert (low, high) == (0.0, 1.0)


def test_fiellers_interval_covers_the_truth_as_often_as_it_says():
    """In 4,000 experiments of 95% at most 1 in a million have fewer than 3,734 hits."""
    namespace = {}
    exec(CODE, namespace)  # noqa: S102 - the code of the page
    rng = np.random.default_rng(5)
    returned, began = 300 + 60 * rng.standard_normal(4_000), 1_000 + 100 * rng.standard_normal(4_000)
    intervals = [
        namespace["return_rate"](count, 60.0, whole, 100.0) for count, whole in zip(returned, began, strict=True)
    ]
    assert sum(low <= 0.3 <= high for _, low, high in intervals) >= 3_734


def test_days_used_in_a_week_are_counted_once_each():
    query = query_of("use")
    rng = np.random.default_rng(6)
    days = rng.random((PEOPLE, 7)) < rng.random((PEOPLE, 1))

    def notes(device, _):
        return [(day * DAY + 3600 * hour, None) for day in np.flatnonzero(days[device]) for hour in (1, 5)]

    *_, positions = lives(query, notes, 2)
    check_all(Crowd(query, 7).estimate(positions), np.bincount(days.sum(axis=1), minlength=8) / PEOPLE)


def test_the_time_since_the_last_use_counts_the_day_of_return():
    query = query_of("absence")
    gaps = np.random.default_rng(8).choice([1, 2, 3, 5, 9], PEOPLE)

    def notes(device, day):
        return [(0, None)] if day in (10 - gaps[device], 10) else None

    *_, positions = lives(query, notes, 11)
    truths = [np.mean(gaps == 1), np.mean((gaps == 2) | (gaps == 3)), np.mean(gaps == 5), np.mean(gaps == 9)]
    check_all(Crowd(query, 9).estimate(positions), truths)
