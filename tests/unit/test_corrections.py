"""Corrections of the log's time: what they say, whom they concern, and what a recount makes of them."""

from collections import defaultdict
from random import Random

import pytest

from aggregator.counting.clock import Basis, Progress, decode, encode
from aggregator.counting.tally import CORRECTED, decode_snapshot
from hubbub.definitions import TopicRecord, corrections, read
from hubbub.definitions.corrections import UNTRUSTED, Correction, parse
from oracles.errors import ParameterError, ReportError
from oracles.frame import TICK
from oracles.frame import encode as frame
from tests.fold import fold
from tests.logs import LIMIT, POOL, QUERIES, START, VERSIONS
from tests.owners import Merge, Owner, Topics, settle

SECOND = 1000
AHEAD = 600


def test_a_correction_is_read_as_it_was_written():
    for clock in (None, 12_345):
        one = Correction(3, 10, 20, clock, 99)
        assert corrections.decode(*one.encode()) == one
    assert read([TopicRecord(*one.encode(), 0)]).corrections == (one,)
    assert len({Correction(3, 10, 20, clock, 99).name for clock in (None, 1, 2)}) == 3


@pytest.mark.parametrize(
    ("text", "clock"),
    [("none", None), ("1700000000000", 1_700_000_000_000), ("2023-11-14T22:13:20Z", 1_700_000_000_000)],
)
def test_it_is_asked_for_by_partition_offsets_and_time(text, clock):
    assert parse(f"3:10:20={text}") == Correction(3, 10, 20, clock, 0)


@pytest.mark.parametrize("text", ["", "3:10:20", "3:20:10=none", "3:10:20=noon", "-1:0:1=none"])
def test_another_form_is_told(text):
    with pytest.raises(ParameterError):
        parse(text)


@pytest.mark.parametrize("value", [b"{", b"[]", b"{}", b'{"clock": "x", "wrong": 1}'])
def test_one_that_cannot_be_read_is_passed_over(value):
    found = read([TopicRecord(b"correction|0|1|2", value, 0)])
    assert (found.corrections, len(found.unread)) == ((), 1)


def test_progress_says_what_was_counted_and_that_of_before_says_nothing():
    basis = Basis(b"r" * 16, b"s" * 15, frozenset([b"12345678", b"abcdefgh"]))
    one = Progress(5, 6, {b"digest!!": 7}, basis)
    assert decode(encode(one)) == one
    assert encode(Progress(5, 6))[0] == 1
    for length in range(len(encode(one))):
        with pytest.raises(ReportError):
            decode(encode(one)[:length])


def log():
    """A partition whose leader was far ahead for one record: good frames, then the jump, then good frames."""
    query, records = QUERIES["web"], []
    for second in range(120):
        pane = (START + second) // 10 * 10
        records.append(
            (len(records), (START + second) * SECOND, frame(query.digest, pane, POOL["web"][second % 40][None]))
        )
        if second == 60:
            records.append((len(records), (START + second + AHEAD) * SECOND, TICK))
    records.append((len(records), (START + 2 * AHEAD) * SECOND, TICK))
    return [records]


JUMP = Correction(0, 61, 62, None, (START + 60 + AHEAD) * SECOND)


def counted(found=(), topics=None):
    """The finals of a worker that knows of these corrections from the start, by kind and end."""
    topics = topics or Topics(1)
    owner = Owner(topics, log(), 0, "one")
    assert owner.source.correct(found) is None
    owner.read(1000)
    settle(owner)
    finals = defaultdict(set)
    Merge(topics, 0, 1).step(Random(1), finals)
    cells = QUERIES["web"].oracle.state_size
    return {key: [decode_snapshot(value, cells) for value in values] for key, values in finals.items()}


def test_a_clock_far_ahead_makes_good_reports_late_and_a_correction_brings_them_back_flagged():
    before, after = counted(), counted([JUMP])
    short = QUERIES["web"].windows[0]
    kept = {end: snapshots[0].n for (_, window, end), snapshots in before.items() if window == short}
    whole = {end: snapshots[0] for (_, window, end), snapshots in after.items() if window == short}
    assert sum(kept.values()) < sum(snapshot.n for snapshot in whole.values())
    changed = {end for end, snapshot in whole.items() if snapshot.n != kept.get(end)}
    assert changed == {end for end, snapshot in whole.items() if snapshot.flags & CORRECTED}
    truth = fold(log(), VERSIONS.values(), corrections=[JUMP], limit=LIMIT)
    assert {key: (s.n, s.flags) for key, s in truth.items()} == {key: (s.n, s.flags) for key, (s,) in after.items()}


def test_one_about_what_is_counted_is_given_back_and_followed_above_it():
    topics = Topics(1)
    owner = Owner(topics, log(), 0, "one")
    owner.read(50)
    settle(owner)
    assert owner.source.correct([Correction(0, 49, 60, None, 0)]) is not None
    assert owner.source.correct([Correction(1, 0, 60, None, 0)]) is None
    assert owner.source.correct([JUMP]) is None
    assert owner.source.behind, "the changelog has to say so first"
    settle(owner)
    owner.read(1000)
    settle(owner)
    again = Owner(topics, log(), 0, "two")
    assert again.source.correct([JUMP]) is None
    assert again.source.correct([JUMP, Correction(0, 5, 6, None, 0)]) is not None


def test_a_time_that_is_not_the_logs_own_is_found_where_no_correction_covers_it():
    source = Owner(Topics(1), log(), 0, "one").source
    run = [(0, 1000, b""), (1, UNTRUSTED, b""), (2, UNTRUSTED, b"")]
    assert source.untrusted(run) == 1
    source.correct([Correction(0, 1, 2, None, 0)])
    assert source.untrusted(run) == 2
    assert source.untrusted(run[:2]) is None
