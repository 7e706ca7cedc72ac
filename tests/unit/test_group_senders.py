"""Groups on their way to the log: clients, publishers, and the gateway, which mixes reports of one group only."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import orjson
import pytest

from hubbub.definitions.versions import Version, Versions
from hubbub.http.problem import Problem
from hubbub.kafka import Kafka
from oracles.errors import ParameterError
from oracles.frame import decode, encode, encode_json
from oracles.query.groups import Groups
from producers import Client, HttpPublisher, Publisher
from producers.gateway.access.limits import Quotas
from producers.gateway.access.tokens import Account, Caller
from producers.gateway.intake.active_definitions import ServedDefinitions
from producers.gateway.intake.keyed_frames import frame_id, keyed_frames
from producers.gateway.intake.pipeline import Intake
from producers.gateway.intake.submission import FRAMES, ITEMS, JSON, Reading, read
from producers.publishers.frames import Batches
from producers.publishers.pinned_query import pin_query
from tests.queries import make_queries, make_table

PANE = 1_700_000_000
AT = 1000 * PANE + 4000
TABLE = make_table(domain=5, oracle="grr", budget=1e9)
QUERIES = make_queries(
    {
        "plain": TABLE,
        "screens": TABLE | {"groups": {"platform": ["ios", "android", "web"]}},
        "grown": TABLE | {"groups": {"platform": ["ios", "android"]}},
    }
)
PLAIN, QUERY, GROWN = (QUERIES[name] for name in ("plain", "screens", "grown"))
VERSIONS = {query.digest: Versions.of(query) for query in (PLAIN, QUERY)}
OLDER = replace(GROWN, groups=Groups("platform", ("ios",)))
VERSIONS[GROWN.digest] = Versions.of(OLDER).with_version(Version(PANE + 10, GROWN))
DEFINITIONS = ServedDefinitions(VERSIONS)


def rows(*values):
    return np.array(values, np.uint8).reshape(-1, 1)


@pytest.mark.parametrize(("group", "number"), [("ios", 1), ("web", 3), ("tv", 0), ("(none)", 0), (None, 0)])
def test_a_client_has_the_number_of_its_group(group, number):
    client = Client(QUERY, ":memory:", group=group)
    assert client.group == number
    assert decode(encode(QUERY.digest, PANE, client.answer(2), group=client.group)).group == number
    assert Client(PLAIN, ":memory:", group=group).group == 0, "the query may get groups later"


@pytest.mark.parametrize("group", [1.0, True, b"ios", ["ios"]])
def test_a_group_is_a_text(group):
    with pytest.raises(ParameterError, match="a group must be a value"):
        Client(QUERY, ":memory:", group=group)


def test_a_client_reports_the_same_under_any_group():
    key = bytes(32)
    reports = [Client(QUERY, ":memory:", key=key, group=group).answer(2).tobytes() for group in ("ios", "web", None)]
    assert len(set(reports)) == 1


def test_a_frame_of_a_publisher_is_of_one_group():
    batches = Batches(reports=3)
    frames = [
        frame
        for value, group in enumerate([1, 2, 1, 0, 1, 2])
        for frame in batches.add(QUERY, PANE, rows(value % 5), 9.0, group)
    ]
    frames += batches.rest()
    contents = {(frame.group, tuple(frame.reports[:, 0].tolist())) for frame in (decode(each.data) for each in frames)}
    assert contents == {(1, (0, 2, 4)), (2, (1, 0)), (0, (3,))}


@pytest.mark.parametrize("group", ["android", 2])
def test_publishers_put_reports_of_a_group(group, tmp_path):
    async def run():
        publisher = HttpPublisher("http://127.0.0.1:9", queue=tmp_path)
        await publisher.start()
        await publisher.put(QUERY, rows(1, 2), group=group)
        await publisher.put(PLAIN, rows(1), group=None)
        await publisher.close()
        kafka = Publisher(Kafka("127.0.0.1:9"), reports=2)
        kafka._producer = object()
        kafka._send = sent.append
        await kafka.put(QUERY, rows(1, 2, 3), group=group)
        sent.extend(kafka._batches.rest())

    sent = []
    asyncio.run(run())
    spool = [decode(path.read_bytes()) for path in tmp_path.glob("*.frame")]
    assert sorted((frame.digest, frame.group) for frame in spool) == sorted([(QUERY.digest, 2), (PLAIN.digest, 0)])
    assert [(frame.n, decode(frame.data).group) for frame in sent] == [(2, 2), (1, 2)]


def submissions(body, kind=FRAMES, at=AT):
    return read(body, kind, DEFINITIONS, at, 1 << 20)


def array(*frames):
    return b"[" + b" , ".join(frames) + b"]"


def in_json(group=None, query=QUERY, pane=PANE, value=1):
    return encode_json(query.digest, pane, rows(value), group=group)


@pytest.mark.parametrize("kind", [FRAMES, JSON])
def test_a_body_gives_a_submission_for_each_group(kind):
    platforms = ["web", "ios", "tv", "web", None, "android", "ios", "web"]
    if kind == FRAMES:
        numbers = [9 if platform == "tv" else QUERY.groups.number(platform) for platform in platforms]
        body = b"".join(encode(QUERY.digest, PANE, rows(i % 5), group=group) for i, group in enumerate(numbers))
    else:
        groups = [platform and {"platform": platform} for platform in platforms]
        body = array(*(in_json(group, value=i % 5) for i, group in enumerate(groups)))
    contents = [(submission.group, submission.reports[:, 0].tolist()) for submission in submissions(body, kind)]
    assert contents == [(3, [0, 3, 2]), (1, [1, 1]), (0, [2, 4]), (2, [0])]


def test_one_json_frame_may_have_a_group():
    [submission] = submissions(in_json({"platform": "android"}), JSON)
    assert submission.group == 2
    assert submission.n == 1


@pytest.mark.parametrize("group", [{"platform": "ios"}, {"group": "group"}])
def test_a_json_frame_with_a_group_counts_as_one_frame(group):
    frame = in_json(group)
    for text in (frame, frame.replace(b":{", b": {")):
        assert Reading(array(*[text] * 6000), JSON, DEFINITIONS, AT, 1 << 20).frames == 6000
    with pytest.raises(Problem) as error:
        submissions(array(*[frame] * (ITEMS + 1)), JSON)
    assert error.value.status == 413


def test_a_request_may_have_as_many_json_frames_with_groups_as_without():
    [submission] = submissions(array(*[in_json({"platform": "ios"})] * ITEMS), JSON)
    assert submission.n == ITEMS


def test_the_version_of_the_pane_decides_which_values_exist():
    for pane, number in ((PANE, 0), (PANE + 10, 2)):
        for body, kind in (
            (encode(GROWN.digest, pane, rows(1), group=2), FRAMES),
            (in_json({"platform": "android"}, GROWN, pane), JSON),
        ):
            [submission] = submissions(body, kind, at=AT + 10_000)
            assert submission.group == number


@pytest.mark.parametrize(
    ("wrong_group", "detail"),
    [
        (in_json({"os": "ios"}), "groups by platform"),
        (in_json({"platform": "ios"}, PLAIN), "the query has no groups"),
        (in_json({"platform": "a{b"}), ""),
        (in_json({"platform": "a}b"}), ""),
        (in_json({"platform": "a:b"}), "colons"),
        (in_json({"platform": "ios", "os": "17"}), ""),
        (in_json()[:-1] + b',"group":{"platform":1}}', "must be a string"),
        (in_json()[:-1] + b',"group":"ios"}', "group must be an object"),
        (in_json()[:-1] + b',"group":{}}', ""),
        (in_json()[:-1] + b',"group":null}', ""),
    ],
)
def test_a_wrong_group_in_json_is_malformed_and_names_the_item(wrong_group, detail):
    good_body = in_json({"platform": "ios"})
    for body, index in ((wrong_group, 0), (array(good_body, in_json(), wrong_group, good_body), 2)):
        with pytest.raises(Problem) as error:
            submissions(body, JSON)
        content = orjson.loads(error.value.body)
        assert content["status"] == 400
        assert content["reason"] == "malformed"
        assert content["index"] == index
        assert detail in content["detail"]


def test_a_number_above_255_is_malformed():
    good_frame = encode(QUERY.digest, PANE, rows(1), group=255)
    wrong_group = good_frame[:36] + b"\0\1" + good_frame[38:]
    with pytest.raises(Problem) as error:
        submissions(good_frame + wrong_group)
    assert orjson.loads(error.value.body)["index"] == 1


@pytest.mark.parametrize("body", [b'[{"group":{"a":"b"}]', b'[{"a":{"b":"c"', b"[{}}]", b"[{{}}]", b'[{"a":{}},{]'])
def test_an_array_that_is_cut_or_nested_is_malformed(body):
    with pytest.raises(Problem):
        submissions(body, JSON)


def test_the_array_of_a_frame_may_not_miss_its_last_brace():
    whole_body = in_json({"platform": "ios"})
    assert len(submissions(array(whole_body), JSON)) == 1
    with pytest.raises(Problem):
        submissions(array(whole_body[:-1]), JSON)


def test_a_request_with_a_key_has_ids_for_each_group_and_todays_ids_for_none():
    body = b"".join(encode(QUERY.digest, PANE, rows(1), group=group) for group in (2, 0, 1))
    frames = [decode(frame.data) for _, frame in keyed_frames("app", b"k" * 16, submissions(body))]
    assert [frame.group for frame in frames] == [2, 0, 1]
    assert [frame.id for frame in frames] == [
        frame_id("app", b"k" * 16, QUERY.digest, PANE, 0, group) for group in (2, 0, 1)
    ]
    assert len({frame.id for frame in frames}) == 3
    assert frames[1].id == frame_id("app", b"k" * 16, QUERY.digest, PANE, 0)


def test_a_mixed_frame_is_of_one_group():
    contents = []

    async def append(frames):
        contents.extend(decode(frame.data) for frame in frames)
        return [AT]

    async def nothing():
        pass

    async def run():
        definitions = SimpleNamespace(value=DEFINITIONS, read_lately=nothing)
        intake = Intake(SimpleNamespace(append=append), definitions, 1 << 20, 0.01, lambda: AT / 1000)
        bodies = [
            b"".join(encode(QUERY.digest, PANE, rows(value), group=group) for group in (1, 2)) for value in range(5)
        ]
        await asyncio.gather(*(intake.mix(submissions(body)) for body in bodies))

    asyncio.run(run())
    assert sorted(frame.group for frame in contents) == [1, 2]
    assert all(sorted(frame.reports[:, 0].tolist()) == [0, 1, 2, 3, 4] for frame in contents)


def test_a_quota_is_for_all_groups_together():
    quotas = Quotas()
    caller = Caller(Account("app", quota=3))
    parts = submissions(b"".join(encode(QUERY.digest, PANE, rows(1), group=group) for group in (0, 1, 2)))
    assert len(quotas.take(caller, parts, AT / 1000)) == 3
    with pytest.raises(Problem, match="exhausted"):
        quotas.take(caller, parts[:1], AT / 1000)


def test_queries_list_their_groups_and_a_client_has_them():
    listing = DEFINITIONS.listing(PANE + 5).text
    groups = {query["name"]: query["groups"] for query in orjson.loads(listing)["queries"]}
    assert groups == {"plain": None, "screens": {"platform": ["ios", "android", "web"]}, "grown": {"platform": ["ios"]}}
    later = orjson.loads(DEFINITIONS.listing(PANE + 10).text)["queries"]
    assert next(query for query in later if query["name"] == "grown")["groups"] == {"platform": ["ios", "android"]}
    assert pin_query(listing, "screens", 1.0, "gateway").groups == QUERY.groups
    assert pin_query(listing, "plain", 1.0, "gateway").groups == Groups()
