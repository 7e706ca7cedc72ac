"""Groups in query files, in the topic of definitions, in frames and in batches of frames."""

import asyncio
import dataclasses
from dataclasses import replace
from random import Random
from types import SimpleNamespace

import numpy as np
import pytest

from aggregator.counting.admission.columnar_gate import PaneBatch, admit
from aggregator.counting.admission.gate import AcceptedFrame, Gate
from hubbub.definitions.catalog import TopicRecord, changes, read
from hubbub.definitions.registrar import Registrar
from hubbub.definitions.table import dump, query_of
from hubbub.definitions.versions import Version, Versions
from hubbub.kafka.columns import RecordColumns
from oracles.errors import HubbubError, ParameterError, QueryError
from oracles.frame import MAX_GROUP, TICK, FrameError, blank, decode, encode, encode_json, frames, header, with_id
from oracles.kernels import batches
from oracles.query import File
from oracles.query.groups import Groups
from tests.queries import make_query, make_table

PLATFORMS = ["ios", "android", "web"]
TABLE = make_table(domain=5, oracle="grr", budget=1e9)
GROUPED = TABLE | {"groups": {"platform": PLATFORMS}}
REPORTS = np.array([[1], [4]], np.uint8)


def query(**keys):
    return make_query(TABLE, name="screens", **keys)


def test_groups_have_numbers_from_their_place_in_the_list():
    groups = query(groups={"platform": PLATFORMS}).groups
    assert groups.name == "platform"
    assert groups.values == tuple(PLATFORMS)
    assert groups.count == 4
    assert [groups.number(value) for value in [*PLATFORMS, "tv", "(none)"]] == [1, 2, 3, 0, 0]
    assert [groups.label(number) for number in range(4)] == ["(none)", *PLATFORMS]
    assert not query().groups
    assert query().weights == ()
    with pytest.raises(dataclasses.FrozenInstanceError):
        groups.name = "os"


def test_groups_and_weights_are_not_in_the_digest():
    platforms = query(groups={"platform": PLATFORMS}, weights={"ios": 0.28, "android": 0.72, "web": 0})
    assert platforms.digest == query().digest
    assert platforms != query()
    assert platforms.weights == (0.28, 0.72, 0.0)


def test_a_value_without_a_weight_has_none_of_the_population():
    thirds = {"ios": 0.3333333, "web": 0.6666667}
    assert query(groups={"platform": PLATFORMS}, weights=thirds).weights == (0.3333333, 0.0, 0.6666667)


def test_a_query_has_up_to_255_values():
    values = [f"v{number}" for number in range(255)]
    assert query(groups={"version": values}).groups.number("v254") == MAX_GROUP
    with pytest.raises(QueryError, match=r"groups\.version: must have at most 255 values, got 256"):
        query(groups={"version": [*values, "v255"]})


@pytest.mark.parametrize(
    ("keys", "fault"),
    [
        ({"groups": ["ios"]}, "groups: must be a table"),
        ({"groups": {}}, "groups: must have exactly one name"),
        ({"groups": {"platform": ["ios"], "version": ["1"]}}, "groups: must have exactly one name.*combinations"),
        ({"groups": {"plat form": ["ios"]}}, "a name must be 1 to 64"),
        ({"groups": {"platform": "ios"}}, r"groups\.platform: must be a list"),
        ({"groups": {"platform": []}}, r"groups\.platform: must be a list of one or more"),
        ({"groups": {"platform": ["ios", "ios"]}}, "without repeats, got 'ios' twice"),
        ({"groups": {"platform": ["(none)"]}}, "must be a name of 1 to 64"),
        ({"groups": {"platform": ["i os"]}}, "must be a name of 1 to 64"),
        ({"groups": {"platform": [""]}}, "must be a name of 1 to 64"),
        ({"groups": {"platform": [7]}}, "must be a name of 1 to 64"),
        ({"groups": {"platform": ["x" * 65]}}, "must be a name of 1 to 64"),
        ({"weights": {"ios": 1}}, "weights: must be absent without groups"),
        ({"groups": {"platform": ["ios"]}, "weights": {"web": 1}}, r"weights\.web: unknown key"),
        ({"groups": {"platform": ["ios"]}, "weights": {"(none)": 1}}, "unknown key"),
        ({"groups": {"platform": ["ios", "web"]}, "weights": {"ios": 0.5, "web": 0.4}}, "must sum to 1, got 0.9"),
        (
            {"groups": {"platform": ["ios", "web"]}, "weights": {"ios": 1.5, "web": -0.5}},
            "must be a number from 0 to 1",
        ),
        ({"groups": {"platform": ["ios"]}, "weights": {"ios": True}}, "must be a number from 0 to 1"),
        ({"groups": {"platform": ["ios"]}, "weights": {}}, "must sum to 1, got 0"),
        ({"groups": {"platform": ["ios"]}, "weights": [1]}, "weights: must be a table"),
    ],
)
def test_other_groups_and_weights_are_refused_with_their_place(keys, fault):
    with pytest.raises(QueryError, match=fault):
        query(**keys)


def file(**keys):
    return File({"screens": query(**keys)})


def topic(*files):
    """Return the records of the topic after these files."""
    records = []
    for number, file in enumerate(files):
        update = changes(file, read(records), (), f"{number:016x}")
        assert not update.group_faults
        records += [TopicRecord(key, value, 10**9 + 10**6 * number) for key, value in update.writes]
    return records


def test_a_definition_in_the_topic_holds_groups_and_weights():
    keys = {"groups": {"platform": PLATFORMS}, "weights": {"ios": 1.0}}
    [earlier_values] = read(topic(file(**keys))).active.values()
    assert earlier_values == query(**keys)
    assert query_of("screens", dump(earlier_values)) == earlier_values


def test_a_version_may_append_values_or_begin_with_groups():
    steps = [{}, {"groups": {"platform": ["ios"]}}, {"groups": {"platform": ["ios", "web"]}, "weights": {"web": 1}}]
    [versions] = read(topic(*(file(**keys) for keys in steps))).versions.values()
    assert [version.query.groups.labels for version in versions.versions] == [
        (),
        ("(none)", "ios"),
        ("(none)", "ios", "web"),
    ]
    assert versions.newest.query.weights == (0.0, 1.0)


@pytest.mark.parametrize(
    ("groups", "fault"),
    [
        (None, r"groups must stay; put back \{ platform = \[ios, android, web\] \}"),
        ({"os": PLATFORMS}, "groups must keep the name platform, got os"),
        ({"platform": PLATFORMS[:2]}, "groups.platform must begin with ios, android, web in this order"),
        ({"platform": PLATFORMS[::-1]}, "groups.platform must begin with ios, android, web in this order"),
        ({"platform": ["iphone", *PLATFORMS[1:]]}, "groups.platform must begin with ios, android, web in this order"),
    ],
)
def test_a_version_may_not_remove_reorder_or_rename(groups, fault):
    follower = SimpleNamespace(definitions=read(topic(file(groups={"platform": PLATFORMS}))))
    later_file = file(**({} if groups is None else {"groups": groups}))
    assert not changes(later_file, follower.definitions, (), "b" * 16).writes
    with pytest.raises(HubbubError, match=f"queries.screens: {fault}.*give the query another name") as error:
        asyncio.run(Registrar("hubbub.toml", follower).register(later_file))
    assert error.value.exit_code == 2


def test_a_new_digest_begins_with_any_groups():
    other_file = file(groups={"os": ["web"]}, epsilon=2.0)
    assert len(changes(other_file, read(topic(file(groups={"platform": PLATFORMS}))), (), "b" * 16).writes) == 1


def test_a_retired_query_comes_back_with_its_groups_only():
    earlier_topic = topic(file(groups={"platform": PLATFORMS}))
    site = File({"site": make_query(TABLE, name="site")})
    update = changes(site, read(earlier_topic), ["screens"], "b" * 16)
    retired = read(earlier_topic + [TopicRecord(key, value, 10**10) for key, value in update.writes])
    back = {"site": site.queries["site"], "screens": query()}
    assert list(changes(File(back), retired, (), "c" * 16).group_faults) == ["screens"]


QUERY = query(groups={"platform": PLATFORMS})
DIGEST, PANE = QUERY.digest, 1000


def test_a_binary_frame_has_the_number_of_its_group():
    data = encode(DIGEST, PANE, REPORTS, group=2)
    assert data[36:40] == b"\2\0\0\0"
    assert decode(data).group == 2
    assert header(data).group == 2
    other, reports = blank(DIGEST, PANE, 2, 1, group=2)
    reports[:] = REPORTS
    assert bytes(other) == data
    assert decode(with_id(data, b"12345678")).group == 2
    assert [decode(frame).group for frame in frames(data + encode(DIGEST, PANE, REPORTS) + data)] == [2, 0, 2]


def test_a_frame_of_today_is_of_group_0():
    assert decode(encode(DIGEST, PANE, REPORTS)).group == decode(encode_json(DIGEST, PANE, REPORTS)).group == 0
    assert encode(DIGEST, PANE, REPORTS, group=0) == encode(DIGEST, PANE, REPORTS)
    assert decode(TICK).group == 0


@pytest.mark.parametrize("group", [-1, 256, 1.0, True, "ios", None])
def test_no_frame_is_made_of_a_group_that_no_query_can_have(group):
    with pytest.raises(ParameterError, match="whole number from 0 to 255"):
        encode(DIGEST, PANE, REPORTS, group=group)


@pytest.mark.parametrize("rest", [b"\0\1\0\0", b"\xff\xff\0\0", b"\1\0\1\0", b"\1\0\0\1"])
def test_a_number_above_255_is_malformed(rest):
    data = encode(DIGEST, PANE, REPORTS)
    with pytest.raises(FrameError) as error:
        decode(data[:36] + rest + data[40:])
    assert error.value.reason == "malformed"
    with pytest.raises(FrameError):
        decode(TICK[:36] + rest)


def test_a_tick_has_no_group():
    with pytest.raises(FrameError, match="a tick must have no group"):
        decode(TICK[:36] + b"\1\0\0\0")


@pytest.mark.parametrize(
    ("groups", "group", "number"),
    [
        (QUERY.groups, {"platform": "android"}, 2),
        (QUERY.groups, {"platform": "symbian"}, 0),
        (QUERY.groups, {"platform": "(none)"}, 0),
        (QUERY.groups, {"platform": ""}, 0),
        (QUERY.groups, None, 0),
        (QUERY.groups, {"os": "ios"}, None),
        (Groups(), {"platform": "ios"}, None),
        (Groups(), None, 0),
    ],
)
def test_a_frame_in_json_names_its_group(groups, group, number):
    frame = decode(encode_json(DIGEST, PANE, REPORTS, b"12345678", group=group)).shaped(1)
    if number is None:
        with pytest.raises(FrameError) as error:
            frame.group_in(groups)
        assert error.value.reason == "malformed"
    else:
        assert frame.group_in(groups) == number


def test_a_number_that_the_query_does_not_have_counts_as_none():
    assert [decode(encode(DIGEST, PANE, REPORTS, group=number)).group_in(QUERY.groups) for number in (3, 4, 255)] == [
        3,
        0,
        0,
    ]
    assert decode(encode(DIGEST, PANE, REPORTS, group=1)).group_in(Groups()) == 0


OLDER = replace(QUERY, groups=Groups("platform", ("ios",)))
VERSIONS = Versions.of(OLDER).with_version(Version(2000, QUERY))
GATE = Gate(0, 1, {DIGEST: VERSIONS})


def test_the_version_of_the_pane_decides():
    for pane, expected in ((1000, 0), (2000, 2)):
        for data in (
            encode(DIGEST, pane, REPORTS, group=2),
            encode_json(DIGEST, pane, REPORTS, group={"platform": "android"}),
        ):
            outcome, _ = GATE.admit(data, pane * 1000, None)
            assert isinstance(outcome, AcceptedFrame)
            assert outcome.group == expected


def mixed_records(random, count):
    """Return records of all groups, forms and faults, of panes in which the groups differ."""
    records = []
    for offset in range(count):
        pane = random.choice([1990, 2000])
        group = random.choice([0, 0, 1, 1, 2, 3, 4, 255])
        reports = REPORTS if random.random() < 0.9 else REPORTS + 7
        name = random.choice([None, (offset + 1).to_bytes(8, "little")])
        if random.random() < 0.8:
            data = encode(DIGEST, pane, reports, name, group=group)
        else:
            data = encode_json(DIGEST, pane, reports, name, group={random.choice(["platform"] * 9 + ["os"]): "web"})
        records.append((offset, 2_000_000, data))
    return records


@pytest.mark.skipif(not batches.can_walk(), reason="without compiled kernels there are no columns")
@pytest.mark.parametrize("seed", range(5))
def test_every_frame_of_a_batch_has_its_group(seed):
    records = mixed_records(Random(seed), 300)
    expected = {}
    for offset, time, data in records:
        outcome, _ = GATE.admit(data, time, time)
        if isinstance(outcome, AcceptedFrame):
            expected[outcome.pane, offset] = outcome.group
    assert set(expected.values()) == {0, 1, 2, 3}
    assert {group for (pane, _), group in expected.items() if pane == 1990} == {0, 1}
    for run in (records, RecordColumns.of(records)):
        batches_by_pane = admit(GATE, run, None).batches
        numbers = {
            (pane, int(offset)): int(group)
            for (_, pane), (_, batch) in batches_by_pane.items()
            for offset, group in zip(batch.offsets, batch.group_numbers(), strict=True)
        }
        assert numbers == expected


def test_batches_of_group_0_have_no_array():
    def joined(clock, *groups):
        frames = [AcceptedFrame(QUERY, PANE, None, REPORTS[:1], group) for group in groups]
        return PaneBatch(QUERY, list(enumerate(frames, clock)), clock).join()

    batch = joined(0, 0, 0)
    assert batch.groups is None
    platforms = joined(2, 3, 0)
    assert platforms.groups.tolist() == [3, 0]
    both = platforms.merge(batch)
    assert both.offsets == [0, 1, 2, 3]
    assert both.groups.tolist() == [0, 0, 3, 0]
    assert batch.merge(batch).groups is None
    assert both.select(np.array([True, True, False, True])).groups is None
    assert both.select(np.array([True, False, True, False])).groups.tolist() == [0, 3]
