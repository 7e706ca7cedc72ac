"""The decisions of a gateway, without a port and without Kafka. The tests set the time."""

import asyncio
import gzip
import hmac
import struct
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from datetime import date
from hashlib import sha256
from importlib.util import find_spec
from itertools import chain, count
from math import inf
from types import SimpleNamespace

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from hubbub.definitions import catalog
from hubbub.definitions.versions import Version, Versions
from hubbub.file_watch import FileWatch
from hubbub.http.addresses import client, network_path, networks
from hubbub.http.cpu_turns import CpuTurns
from hubbub.http.problem import Problem
from hubbub.http.rates import NetworkRates, Rates
from oracles.errors import ParameterError, QueryError
from oracles.frame import TICK, decode, encode, encode_json, frames
from oracles.query import File
from producers.errors import NotAllowed
from producers.gateway import command, metrics
from producers.gateway.access import token_command as token
from producers.gateway.access.limits import SHARE, Quotas, Work
from producers.gateway.access.origins import cors_headers, origins, preflight
from producers.gateway.access.tokens import ANYBODY, Account, Caller, Tokens, short_lived
from producers.gateway.body_decoder import BodyDecoder
from producers.gateway.intake import active_definitions, mix_buffer
from producers.gateway.intake.active_definitions import ActiveDefinitions, ServedDefinitions
from producers.gateway.intake.keyed_frames import frame_id, keyed_frames
from producers.gateway.intake.mix_buffer import MixBuffer, shuffle
from producers.gateway.intake.pipeline import Intake
from producers.gateway.intake.submission import FRAMES, ITEMS, JSON, Submission, inflate, read
from producers.gateway.intake.timeliness import EXPIRED, FUTURE, LATE, STALE, UNKNOWN, untimely
from producers.gateway.openapi import ROUTES, describe
from producers.publishers.pinned_query import pin_query
from tests.queries import make_queries, make_query, make_table, make_text

PANE = 1_700_000_000
AT = 1000 * PANE + 3000
SCREENS_GROUPS = {"groups": {"platform": ["ios", "android", "web"]}, "weights": {"ios": 0.28, "android": 0.72}}
APP_TIMES = {"from": date(2023, 11, 1), "until": date(2023, 12, 1)}
QUERIES = make_queries(
    {
        "web": make_table(domain=["a", "b", "c"], other=False, oracle="grr", max_ids=640),
        "app": make_table(APP_TIMES, domain=1024, answers="once", oracle="oue"),
        "screens": make_table(SCREENS_GROUPS, domain=1024, oracle="olh", epsilon=2.0, buckets=2, renew="30d"),
        "both": make_table(attributes={"a": 500, "b": 600}, oracle="olh", epsilon=1.5, buckets=2),
        "profile": make_table(answers="once", attributes={"age": 74, "sex": ["f", "m"]}),
    }
)
WEB, APP = QUERIES["web"], QUERIES["app"]
DEFINITIONS = ServedDefinitions.of(QUERIES)


def submission(n, pane=PANE, query=WEB):
    """Return a submission of `n` reports of a pane."""
    return bare(query, pane, wide(n) if query is APP else numbered(n))


def bare(query, pane, rows):
    return Submission(query, pane, rows, Versions.of(query).closes_after(pane))


def reports(query, n, seed=1):
    size = (n, len(query.attributes)) if query.attributes else n
    return query.oracle.perturb(np.zeros(size, int), np.random.default_rng(seed))


def numbered(n):
    """Return reports of `web` that all differ."""
    return (np.arange(n) % 3).astype(np.uint8).reshape(-1, 1)


def wide(n):
    """Return reports of `app` that all differ."""
    return np.random.default_rng(5).integers(0, 256, (n, APP.oracle.width)).astype(np.uint8)


def submissions_of(body, kind=FRAMES, at=AT, limit=1 << 20):
    return read(body, kind, DEFINITIONS, at, limit)


def refusal(body, kind=FRAMES, at=AT, limit=1 << 20):
    with pytest.raises(Problem) as error:
        submissions_of(body, kind, at, limit)
    return error.value


# A submission


@given(st.lists(st.tuples(st.sampled_from(sorted(QUERIES)), st.integers(-1, 2), st.integers(1, 5)), min_size=1))
def test_bodies_of_frames_and_of_json_give_the_same_submissions_in_order(items):
    batches = [(QUERIES[name], PANE + 10 * pane, reports(QUERIES[name], n, n)) for name, pane, n in items]
    binary = b"".join(encode(query.digest, pane, rows) for query, pane, rows in batches)
    array = b"[" + b" ,\n".join(encode_json(query.digest, pane, rows) for query, pane, rows in batches) + b"]"
    expected = {}
    for query, pane, rows in batches:
        expected.setdefault((query.name, pane), []).append(rows)
    for body, kind in ((binary, FRAMES), (array, JSON)):
        by_pane = {(each.query.name, each.pane): each.reports.tobytes() for each in submissions_of(body, kind)}
        assert by_pane == {key: np.concatenate(rows).tobytes() for key, rows in expected.items()}
        assert list(by_pane) == list(expected)


def test_one_json_frame_needs_no_array_and_ids_are_not_used():
    [only] = submissions_of(b" " + encode_json(WEB.digest, PANE, numbered(3), b"12345678") + b"\n", JSON)
    assert only.query.name == "web"
    assert only.pane == PANE
    assert only.n == 3


GOOD = encode(WEB.digest, PANE, numbered(2))
TEXT = encode_json(WEB.digest, PANE, numbered(2))


@pytest.mark.parametrize(
    ("body", "kind", "status", "reason", "index"),
    [
        (b"", FRAMES, 400, "malformed", None),
        (b"", JSON, 400, "malformed", None),
        (b"[]", JSON, 400, "malformed", None),
        (GOOD + GOOD[:-1], FRAMES, 400, "malformed", 1),
        (GOOD + b"x", FRAMES, 400, "malformed", 1),
        (GOOD + TICK, FRAMES, 400, "malformed", 1),
        (encode(WEB.digest, PANE, numbered(0)), FRAMES, 400, "malformed", 0),
        (GOOD + encode(b"nobody!!", PANE, numbered(1)), FRAMES, 400, "unknown_query", 1),
        (encode(WEB.digest, PANE + 1, numbered(1)), FRAMES, 400, "malformed", 0),
        (encode(WEB.digest, PANE, np.full((1, 1), 3, np.uint8)), FRAMES, 400, "malformed", 0),
        (encode(WEB.digest, PANE, np.zeros((1, 2), np.uint8)), FRAMES, 400, "malformed", 0),
        pytest.param(GOOD + encode(APP.digest, PANE, reports(APP, 90)), FRAMES, 413, "too_large", 1, id="a long frame"),
        pytest.param(GOOD * (ITEMS + 1), FRAMES, 413, "too_large", ITEMS, id="too many frames"),
        pytest.param(b"[" + b",".join([TEXT] * (ITEMS + 1)) + b"]", JSON, 413, "too_large", ITEMS, id="a long array"),
        (b"[" + TEXT + b"," + TEXT, JSON, 400, "malformed", 0),
        (b"[" + TEXT + TEXT + b"]", JSON, 400, "malformed", 1),
        (b"[" + TEXT + b",]", JSON, 400, "malformed", 1),
        (b"[," + TEXT + b"]", JSON, 400, "malformed", 0),
        (b"[" + TEXT + b",{}]", JSON, 400, "malformed", 1),
        (b"[[" + TEXT + b"]]", JSON, 400, "malformed", 1),
        (b"[[" + TEXT + b",{}]]", JSON, 400, "malformed", 2),
        (b'"text"', JSON, 400, "malformed", 0),
        (TEXT + b"x", JSON, 400, "malformed", 0),
        (encode(WEB.digest, PANE - 20, numbered(1)), FRAMES, 409, "late", 0),
        (GOOD + encode(WEB.digest, PANE + 70, numbered(1)), FRAMES, 409, "future", 1),
        (encode(APP.digest, 1_701_388_800, reports(APP, 1)), FRAMES, 409, "expired", 0),
    ],
)
def test_a_refusal_has_its_reason_and_the_item_at_fault(body, kind, status, reason, index):
    problem = refusal(body, kind, limit=10_000)
    assert problem.status == status
    assert problem.more["reason"] == reason
    assert problem.more.get("index") == index
    assert orjson.loads(problem.body).keys() >= {"status", "title", "detail", "reason"}


@pytest.mark.parametrize("kind", [FRAMES, JSON])
def test_a_bad_report_among_many_frames_is_named_by_its_frame_and_place(kind):
    def body(*frames):
        items = [(encode if kind == FRAMES else encode_json)(WEB.digest, PANE, rows) for rows in frames]
        return b"".join(items) if kind == FRAMES else b"[" + b",".join(items) + b"]"

    bad_frame = numbered(4)
    bad_frame[2] = 3
    good = [numbered(1)] * 500
    problem = refusal(body(*good, bad_frame, numbered(4), *good), kind)
    assert problem.status == 400
    assert problem.more["index"] == 500
    assert problem.detail.startswith("Report 2 ")
    assert [submission.n for submission in submissions_of(body(*good, numbered(4), *good), kind)] == [1004]


def test_equal_headers_save_no_check_of_length_digest_or_pane():
    first_frame = encode(WEB.digest, PANE, numbered(1))
    for other, status in (
        (first_frame + b"x", 400),
        (first_frame[:-1], 400),
        (encode(WEB.digest, PANE - 20, numbered(1)), 409),
        (encode(b"nobody!!", PANE, numbered(1)), 400),
        (first_frame[:38] + b"\1" + first_frame[39:], 400),  # the last field of the header
    ):
        problem = refusal(first_frame * 3 + other)
        assert problem.status == status
        assert problem.more["index"] == (4 if len(other) > len(first_frame) else 3)


@given(st.binary(max_size=300), st.sampled_from([FRAMES, JSON]))
def test_any_body_is_read_or_refused(body, kind):
    assert refusal(body, kind).status == 400
    try:
        submissions = submissions_of(GOOD + body if kind == FRAMES else b"[" + TEXT + body, kind)
    except Problem:
        refusal(GOOD + body if kind == FRAMES else b"[" + TEXT + body, kind)
    else:
        assert [submission.n for submission in submissions] == [2]


@given(st.lists(st.integers(0, 4), max_size=4), st.binary(max_size=60))
def test_frames_are_split_by_the_lengths_in_their_headers(sizes, rest):
    originals = [encode(WEB.digest, PANE, numbered(n)) for n in sizes]
    body = b"".join(originals) + (rest if not rest.startswith(b"HBB1") else b"")
    parts = [bytes(item) for item in frames(body)]
    assert parts[: len(originals)] == originals
    assert b"".join(parts) == body
    assert len(parts) <= len(originals) + 1


def reason(versions, pane, moment):
    text = untimely(versions, pane, moment)
    return text and text[0]


def test_the_gateway_and_the_log_agree_on_late_and_future_reports():
    web, app = Versions.of(WEB), Versions.of(APP)
    last_moment = 1000 * (PANE + 10 + WEB.lateness)
    assert untimely(web, PANE, last_moment) is None
    assert reason(web, PANE, last_moment + 1) == LATE
    assert untimely(web, PANE, 1000 * (PANE - WEB.skew)) is None
    assert reason(web, PANE, 1000 * (PANE - WEB.skew) - 1) == FUTURE
    assert untimely(app, APP.starts, 1000 * APP.starts) is None
    assert reason(app, APP.starts - 10, 1000 * APP.starts) == EXPIRED
    assert reason(app, APP.until, 1000 * APP.until) == EXPIRED


# Definitions


def test_each_pane_is_judged_by_the_version_that_applies_to_it():
    patient = replace(WEB, lateness=60)
    first_pane, end = PANE + 100, PANE + 200
    versions = Versions((Version(PANE, WEB), Version(first_pane, patient), Version(end, patient, retired=True)))
    assert reason(versions, PANE - 10, AT) == UNKNOWN
    assert untimely(versions, first_pane - 10, 1000 * (first_pane + WEB.lateness)) is None
    assert reason(versions, first_pane - 10, 1000 * (first_pane + WEB.lateness) + 1) == LATE
    assert untimely(versions, first_pane, 1000 * (first_pane + 70)) is None
    assert reason(versions, first_pane, 1000 * (first_pane + 70) + 1) == LATE
    assert untimely(versions, end - 10, 1000 * end) is None
    assert reason(versions, end, 1000 * end) == STALE
    assert reason(None, PANE, AT) == UNKNOWN

    definitions = ServedDefinitions({WEB.digest: versions})
    for pane, status, cause in ((end, 409, STALE), (PANE - 10, 409, UNKNOWN)):
        body = encode(WEB.digest, pane, numbered(1))
        with pytest.raises(Problem) as error:
            read(body, FRAMES, definitions, 1000 * pane, 1 << 20)
        assert error.value.status == status
        assert error.value.more == {"reason": cause, "index": 0}
    [batch] = read(encode(WEB.digest, first_pane, numbered(1)), FRAMES, definitions, 1000 * first_pane, 1 << 20)
    assert batch.query == patient
    assert batch.closes == 1000 * (first_pane + 70)


def names(definitions, moment):
    return [(query["name"], query["digest"]) for query in orjson.loads(definitions.listing(moment).text)["queries"]]


class Topic:
    """A follower of a topic with the records of a test."""

    def __init__(self):
        self.on_change, self.age, self.records = [], 0.0, []

    def append(self, moment, retire=(), **queries):
        writes = catalog.changes(File(queries), catalog.read(self.records), retire, f"{len(self.records):016x}")
        self.say(*(catalog.TopicRecord(key, value, 1000 * moment) for key, value in writes.writes))

    def say(self, *records):
        self.records += records
        for tell in self.on_change:
            tell(catalog.read(self.records))


def test_the_file_applies_only_while_the_topic_is_empty(tmp_path):
    path = tmp_path / "hubbub.toml"
    path.write_text(make_text("filed", domain=3))
    topic = Topic()
    active = ActiveDefinitions(FileWatch((path,), lambda: ServedDefinitions.read(path)), topic)
    assert active.value.names() == ["filed"]
    topic.append(PANE, web=WEB)
    assert names(active.value, PANE) == [("web", WEB.digest.hex())]

    larger = make_query(name="web", domain=4, oracle="grr")
    topic.append(PANE + 100, web=larger)
    first_pane = active.value.versions[larger.digest].first
    assert first_pane > PANE + 100
    assert names(active.value, first_pane - 1) == [("web", WEB.digest.hex())]
    assert names(active.value, first_pane) == [("web", larger.digest.hex())]
    assert set(active.value.versions) == {WEB.digest, larger.digest}  # earlier panes of the old one still come

    topic.append(PANE + 900, retire=["web"], app=APP)
    end = active.value.versions[larger.digest].retired
    assert {name for name, _ in names(active.value, end - 1)} >= {"web"}
    assert {name for name, _ in names(active.value, end + 100)} == {"app"}

    correction = b"correction|0|5|9", b'{"clock": null, "wrong": 0}'
    topic.say(catalog.TopicRecord(*correction, 1000 * PANE), catalog.TopicRecord(b"rubbish", b"{", 1000 * PANE))
    assert {name for name, _ in names(active.value, end + 100)} == {"app"}
    topic.say(*(record._replace(value=None) for record in topic.records))
    assert active.value.names() == ["filed"]


def test_nothing_is_accepted_without_current_definitions(tmp_path):
    topic = Topic()
    active = ActiveDefinitions(None, topic)
    assert active.missing is None
    topic.age = 60.0
    assert "definitions" in active.missing


def test_an_answer_waits_for_the_definitions_only_if_they_are_old(monkeypatch):
    monkeypatch.setattr(active_definitions, "PATIENCE", 0.01)
    reads = []

    async def within(seconds):
        reads.append(seconds)
        await asyncio.sleep(60)

    async def run():
        topic = Topic()
        topic.within = within
        active = ActiveDefinitions(None, topic)
        topic.age = active_definitions.LATELY
        await active.read_lately()
        assert not reads
        topic.age += 0.1
        with pytest.raises(TimeoutError):
            await active.read_lately()
        assert reads == [active_definitions.LATELY]

    asyncio.run(run())


# Compression


@given(st.binary(max_size=5000), st.integers(0, 5000))
def test_a_compressed_body_is_read_if_it_fits_and_refused_otherwise(body, maximum):
    data = gzip.compress(body)
    if len(body) <= maximum:
        assert inflate(data, maximum) == body
    else:
        with pytest.raises(Problem) as error:
            inflate(data, maximum)
        assert error.value.status == 413


def test_a_bomb_is_refused_before_it_is_inflated():
    import tracemalloc

    bomb = gzip.compress(bytes(64 << 20), 9)
    tracemalloc.start()
    with pytest.raises(Problem, match="more than"):
        inflate(bomb, 1 << 20)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20


GZIP = gzip.compress(b"abc", mtime=0)  # without the time, that every process collects the same cases


@pytest.mark.parametrize("body", [b"", b"no gzip", GZIP[:-1], GZIP + b"x"])
def test_an_incomplete_or_longer_stream_is_refused(body):
    with pytest.raises(Problem) as error:
        inflate(body, 1000)
    assert error.value.status == 400


# Keyed frames and mix buffers


def test_the_id_of_a_part_is_the_hash_of_its_fields_with_their_lengths():
    fields = ["näme".encode(), b"key key key key!", WEB.digest, struct.pack("<q", PANE), struct.pack("<I", 7)]
    data = b"".join(struct.pack("<I", len(field)) + field for field in fields)
    assert frame_id("näme", b"key key key key!", WEB.digest, PANE, 7) == sha256(data).digest()[:8]
    assert frame_id("ab", b"c", WEB.digest, PANE, 0) != frame_id("a", b"bc", WEB.digest, PANE, 0)


def test_a_keyed_request_gives_the_same_parts_for_any_frames():
    rows, other = numbered(2500), reports(APP, 2)
    submissions = [bare(WEB, PANE, rows), bare(WEB, PANE + 10, rows[:1]), bare(APP, PANE, other)]
    parts = [(decode(frame.data), submission) for submission, frame in keyed_frames("app", b"k" * 16, submissions)]
    assert [frame.n for frame, _ in parts] == [1000, 1000, 500, 1, 2]
    assert b"".join(frame.reports.tobytes() for frame, _ in parts[:3]) == rows.tobytes()
    assert [frame.id for frame, _ in parts] == [
        frame_id("app", b"k" * 16, submission.query.digest, submission.pane, part)
        for (_, submission), part in zip(parts, [0, 1, 2, 0, 0], strict=True)
    ]
    cut = [encode(WEB.digest, PANE, rows[:7]), encode(APP.digest, PANE, other), encode(WEB.digest, PANE, rows[7:])]
    again = [frame.data for _, frame in keyed_frames("app", b"k" * 16, submissions_of(b"".join(cut)))]
    assert again == [frame.data for _, frame in keyed_frames("app", b"k" * 16, [submissions[0], submissions[2]])]


def test_a_part_has_fewer_wide_reports():
    frames = [frame for _, frame in keyed_frames("", b"k" * 16, [submission(3000, query=APP)])]
    assert max(len(frame.data) for frame in frames) <= 128 << 10
    assert {frame.n for frame in frames} == {1000}  # 128 bytes each: just fits
    assert len({frame.id for frame in frames}) == 3


@pytest.mark.parametrize("limit", [1 << 20, 50_000])
def test_a_buffer_becomes_frames_with_each_report_once_within_the_limit(limit):
    rows = wide(2000)
    buffer = MixBuffer(submission(1, query=APP))
    for start in range(0, 2000, 300):
        assert not buffer.full
        buffer.add(rows[start : start + 300])
    frames = [decode(frame.data) for frame in buffer.frames(limit)]
    assert Counter(row.tobytes() for frame in frames for row in frame.reports) == Counter(map(bytes, rows))
    assert all(frame.pane == PANE and frame.digest == APP.digest for frame in frames)
    assert len({frame.id for frame in frames}) == len(frames)
    assert max(40 + frame.reports.nbytes for frame in frames) <= limit


def shuffle_rows(rows):
    result = np.empty_like(rows)
    shuffle([rows[:2], rows[2:]], result)
    return result


def test_short_reports_are_sorted_by_value_and_all_orders_of_values_have_the_same_probability():
    """A chi-square test of the 24 orders of four values. It fails once in a million runs of a correct gateway."""
    from scipy.stats import chi2

    words = np.array([5, 300, 0, 5, 65_535, 5], "<u2")
    n = 6_000
    counts = Counter()
    for _ in range(n):
        result = shuffle_rows(words.view(np.uint8).reshape(-1, 2)).view("<u2").ravel().tolist()
        order = tuple(dict.fromkeys(result))
        assert result == [value for value in order for _ in range(words.tolist().count(value))]
        counts[order] += 1
    assert len(counts) == 24
    assert sum((count - n / 24) ** 2 / (n / 24) for count in counts.values()) < chi2.isf(1e-6, 23)


@pytest.mark.parametrize("width", [1, 2, 3, 4, 5])
def test_a_shuffle_keeps_reports_of_every_width(width):
    rows = np.random.default_rng(width).integers(0, 256, (500, width)).astype(np.uint8)
    result = shuffle_rows(rows)
    assert Counter(map(bytes, result)) == Counter(map(bytes, rows))
    orders = {shuffle_rows(rows).tobytes() for _ in range(5)}
    assert len(orders) == 5
    assert rows.tobytes() not in orders


def test_the_frames_of_a_full_buffer_are_samples_of_it(monkeypatch):
    monkeypatch.setattr(mix_buffer, "FULL_BUFFER", 1000)  # of 3,000 bytes at hand
    buffer = MixBuffer(submission(1))
    buffer.add(numbered(3000))
    assert buffer.full
    frames = [decode(frame.data) for frame in buffer.frames(1000)]
    assert [frame.n for frame in frames] == [750] * 4
    assert all(np.bincount(frame.reports.ravel()).tolist() == [250] * 3 for frame in frames)


def test_all_orders_of_wide_reports_have_the_same_probability():
    """A chi-square test of the 24 orders of four reports. It fails once in a million runs of a correct gateway."""
    from scipy.stats import chi2

    rows, n = wide(4), 6_000
    names = {row.tobytes(): index for index, row in enumerate(rows)}
    counts = Counter()
    for _ in range(n):
        buffer = MixBuffer(submission(1, query=APP))
        buffer.add(rows[:2])
        buffer.add(rows[2:])
        [frame] = buffer.frames(1 << 20)
        counts[tuple(names[row.tobytes()] for row in decode(frame.data).reports)] += 1
    assert len(counts) == 24
    assert sum((count - n / 24) ** 2 / (n / 24) for count in counts.values()) < chi2.isf(1e-6, 23)


# Waiting for the least number of reports


class Waits:
    """An intake on a loop whose time a test sets. `sent` has the sizes of the buffers and the times of sending."""

    def __init__(self, minimum, lateness=30, linger=0.05, now=PANE + 1.0):
        self.query = replace(WEB, lateness=lateness)
        self.began, self.now, self.sent, self.small = now, now, [], 0
        self.timers = []
        loop = asyncio.get_running_loop()
        intake_loop = SimpleNamespace(
            call_later=lambda wait, work, *arguments_of_call: self.call_at(self.now + wait, work, *arguments_of_call),
            call_at=self.call_at,
            time=lambda: self.now,
            create_future=loop.create_future,
            create_task=loop.create_task,
        )
        definitions = SimpleNamespace(
            value=ServedDefinitions({WEB.digest: Versions.of(self.query)}), read_lately=self.nothing
        )
        self.intake = Intake(self, definitions, 1 << 20, linger, lambda: self.now, minimum)
        self.intake._loop = intake_loop
        self.intake.on_small_mix = self.count_small

    def call_at(self, moment, work, *arguments):
        timer = SimpleNamespace(at=moment, run=lambda: work(*arguments), cancel=lambda: self.timers.remove(timer))
        self.timers.append(timer)
        return timer

    async def nothing(self):
        pass

    def count_small(self):
        self.small += 1

    async def append(self, frames):
        n = sum(frame.n for frame in frames)
        self.sent.append((n, round(self.now - self.began, 3)))
        return [int(1000 * self.now)]

    async def until(self, seconds):
        while due := [timer for timer in self.timers if timer.at <= self.began + seconds]:
            first_timer = min(due, key=lambda timer: timer.at)
            self.now = first_timer.at
            self.timers.remove(first_timer)
            self.timers.append(first_timer)  # as a timer that runs may still be cancelled
            first_timer.run()
            if first_timer in self.timers:
                self.timers.remove(first_timer)
            await self.work()
        self.now = self.began + seconds
        await self.work()

    async def work(self):
        for _ in range(10):
            await asyncio.sleep(0)

    async def send(self, n, moment):
        await self.until(moment)
        rows = (np.arange(n) % 3).astype(np.uint8).reshape(-1, 1)
        closes = Versions.of(self.query).closes_after(PANE)
        task = asyncio.create_task(self.intake.mix([Submission(self.query, PANE, rows, closes)]))
        await self.work()
        return task


@pytest.mark.parametrize(
    ("minimum", "lateness", "arrivals", "sent", "small"),
    [
        (1, 30, [(1, 0), (1, 0.03), (1, 1)], [(2, 0.05), (1, 1.05)], 0),
        (3, 30, [(1, 0), (1, 1), (1, 2), (1, 2.01)], [(3, 2), (1, 12.01)], 1),
        (3, 30, [(3, 0), (1, 0.03)], [(4, 0.05)], 0),  # it lingers even if it has enough
        (3, 30, [(1, 0), (1, 9)], [(2, 10)], 1),
        (3, 6, [(1, 0), (1, 2.9), (1, 3.1)], [(2, 3), (1, 6.1)], 2),
        (3, 0, [(1, 0)], [(1, 0.05)], 1),
        (3, 6, [(1, 11)], [(1, 13)], 1),  # the pane closes at 15, so half of the rest
    ],
)
def test_a_buffer_waits_for_its_least_number_of_reports_within_limits(minimum, lateness, arrivals, sent, small):
    async def run():
        waits = Waits(minimum, lateness)
        tasks = [await waits.send(n, moment) for n, moment in arrivals]
        await waits.until(40)
        await asyncio.gather(*tasks)
        assert waits.sent == sent
        assert waits.small == small

    asyncio.run(run())


def test_a_gateway_that_ends_sends_buffers_that_wait_and_counts_them():
    async def run():
        waits = Waits(5)
        tasks = [await waits.send(1, 0), await waits.send(2, 1)]
        waits.intake.flush()
        tasks.append(await waits.send(1, 1))
        await waits.until(1)
        await asyncio.gather(*tasks)
        assert waits.sent == [(3, 1), (1, 1)]
        assert waits.small == 2

    asyncio.run(run())


# Tokens


def file(tmp_path, text):
    path = tmp_path / "tokens.toml"
    path.write_text(text)
    return Tokens.read(path)


def digest(token):
    return sha256(token.encode()).hexdigest()


OLD, NEW, KEYS = "old-token", "new-token", ["11" * 32, "22" * 32]


@pytest.fixture
def tokens(tmp_path):
    return file(
        tmp_path,
        f"""
        [tokens.app]
        sha256 = ["{digest(OLD)}", "{digest(NEW)}"]
        quota = 1000
        [tokens."my.site"]
        keys = {KEYS}
        quota = 50
        each = 2
        """,
    )


def test_two_tokens_of_a_name_are_valid_at_the_same_time_with_one_quota(tokens):
    assert tokens.caller(f"Bearer {OLD}", 0) == tokens.caller(f"bearer  {NEW} ", 0)
    assert tokens.caller(f"Bearer {OLD}", 0).account.quota == 1000


@pytest.mark.parametrize(
    "header",
    [None, "", "Bearer", "Bearer ", f"Basic {OLD}", f"Bearer {OLD}x", "Bearer wrong", "Bearer \udce9", OLD],
)
def test_other_tokens_are_refused(tokens, header):
    with pytest.raises(Problem) as error:
        tokens.caller(header, 0)
    assert error.value.status == 401
    assert error.value.headers["WWW-Authenticate"].startswith("Bearer")


def test_a_short_lived_token_is_valid_until_it_expires_and_counts_for_the_name_of_its_key(tokens):
    callers = []
    for key in KEYS:
        token = short_lived("my.site", bytes.fromhex(key), 100)
        callers.append(tokens.caller(f"Bearer {token}", 99.9))
        assert callers[-1].account.name == "my.site"
        with pytest.raises(Problem, match="expired"):
            tokens.caller(f"Bearer {token}", 100)
    assert callers[0].salt != callers[1].salt


@given(st.data())
def test_a_short_lived_token_with_a_changed_byte_is_refused(data):
    account = Account("my.site", keys=(bytes.fromhex(KEYS[0]),))
    tokens = Tokens({"my.site": account, "app": Account("app", hashes=(bytes(32),))})
    line = f"hbs1.my.site.100.{'ab' * 16}"
    token = f"{line}.{hmac.new(account.keys[0], line.encode(), sha256).hexdigest()}"
    assert tokens.caller(f"Bearer {token}", 0).account is account
    position = data.draw(st.integers(0, len(token) - 1))
    character = data.draw(st.characters(codec="ascii", exclude_characters=token[position] + " \r\n\t"))
    with pytest.raises(Problem) as error:
        tokens.caller(f"Bearer {token[:position]}{character}{token[position + 1 :]}", 0)
    assert error.value.status == 401


@pytest.mark.parametrize(
    "token", ["hbs1.", "hbs1....", "hbs1.my.site.99..", "hbs1.app.99.aa.bb", "hbs1.my.site.x.y.z", "hbs1.é.1.2.3"]
)
def test_malformed_short_lived_tokens_are_refused(tokens, token):
    with pytest.raises(Problem) as error:
        tokens.caller(f"Bearer {token}", 0)
    assert error.value.status == 401


def signed(expiry, salt="ab" * 16):
    """A header with a token of the right signature, as an application's server may make it by mistake."""
    text = f"hbs1.my.site.{expiry}.{salt}"
    return f"Bearer {text}.{hmac.new(bytes.fromhex(KEYS[0]), text.encode(), sha256).hexdigest()}"


@pytest.mark.parametrize("expiry", ["soon", "", "-1", "1" + "0" * 14, "1" + "0" * 10, "1700000000000", "١٢"])
def test_an_expiry_that_is_signed_but_no_time_in_seconds_is_refused(tokens, expiry):
    assert tokens.caller(signed("9999999999"), PANE).account.name == "my.site"
    with pytest.raises(Problem, match="expiry") as error:
        tokens.caller(signed(expiry), 0)
    assert error.value.status == 401


@pytest.mark.parametrize("salt", ["", "ab", "ab" * 17, "x" * 32, "ab" * 15 + "a\u0663"])
def test_a_signed_token_without_a_whole_salt_is_refused(tokens, salt):
    """The salt names the quota of the token, so that one without would have none."""
    assert tokens.caller(signed("99", "AB" * 16), 0).salt
    with pytest.raises(Problem, match="salt") as error:
        tokens.caller(signed("99", salt), 0)
    assert error.value.status == 401


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "tokens: must be 1 to"),
        ("x = 1", "x: unknown key"),
        ("[tokens.app]", "tokens.app: needs sha256"),
        ("[tokens.app]\nsha256 = ['zz']", "tokens.app.sha256: must be 64 hex digits"),
        (f"[tokens.app]\nsha256 = ['{'0' * 64}', '{'1' * 64}', '{'2' * 64}']", "at most 2"),
        (f"[tokens.app]\nsha256 = ['{'0' * 64}']\nquota = -1", "tokens.app.quota: must be"),
        (f"[tokens.app]\nsha256 = ['{'0' * 64}']\neach = 1", "tokens.app.each: works only with short-lived"),
        ("[tokens", "must be TOML"),
    ],
)
def test_the_error_of_a_wrong_token_file_names_the_place_and_the_reason(tmp_path, text, message):
    with pytest.raises(QueryError, match="tokens") as error:
        file(tmp_path, text)
    assert message in str(error.value)


def test_the_command_makes_tokens_keys_and_short_lived_tokens_that_the_gateway_knows(tmp_path, capsys):
    """This runs the example of its help."""

    def made(*arguments):
        assert token.main([*arguments]) == 0
        return capsys.readouterr()

    plain = made("--name", "app", "--quota", "1e5")
    key = made("--name", "my.site", "--key", "--quota", "unlimited", "--each", "5")
    assert plain.out.splitlines()[2:] == ["quota = 100000"]
    assert key.err.splitlines()[2:] == ['quota = "unlimited"', "each = 5"]
    tokens = file(tmp_path, plain.out + key.err)
    assert tokens.caller(f"Bearer {plain.err.strip()}", 0).account.name == "app"
    (tmp_path / "site.key").write_text(key.out)
    short = made("--name", "my.site", "--sign", str(tmp_path / "site.key"), "--for", "1m").out.strip()
    assert tokens.caller(f"Bearer {short}", time.time()).account.name == "my.site"
    with pytest.raises(Problem, match="expired"):
        tokens.caller(f"Bearer {short}", time.time() + 61)
    assert token.main(["--name", "app", "--sign", str(tmp_path / "tokens.toml")]) == 2
    assert "has no key" in capsys.readouterr().err
    for wrong_value in (["--name", "a b"], ["--name", "app", "--for", "soon"], []):
        with pytest.raises(SystemExit) as ending:
            token.main([*wrong_value, "--quota", "9"])
        assert ending.value.code == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "--quota N, the limit of reports a pane, or --quota unlimited"),
        (["--key", "--quota", "9"], "--each N, the limit of reports a pane, or --each unlimited"),
        (["--quota", "0"], "at least 1"),
        (["--quota", "max"], "max"),
        (["--quota", "9", "--each", "1"], "--key"),
        (["--sign", "site.key", "--quota", "9"], "--quota"),
    ],
)
def test_the_command_asks_for_a_quota_in_words(options, message, capsys):
    with pytest.raises(SystemExit) as ending:
        token.main(["--name", "app", *options])
    assert ending.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "is_undecided"),
    [("", True), ("quota = 0", True), ("quota = 5", False), ('quota = "unlimited"', False)],
)
def test_a_file_says_in_words_that_a_name_has_no_quota(line, is_undecided, tmp_path, caplog):
    tokens = file(tmp_path, f"[tokens.app]\nsha256 = ['{'0' * 64}']\n{line}")
    tokens.warn_of_undecided()
    assert tokens.undecided == ("app",) * is_undecided
    assert caplog.text.count("Token 'app' has no quota") == is_undecided


@pytest.mark.parametrize(("mode", "readable"), [(0o644, True), (0o640, True), (0o600, False)])
def test_the_command_warns_of_a_secret_in_a_file_that_others_can_read(mode, readable, tmp_path):
    """As in `hubbub gateway token --name site --key > site.key 2> tokens.toml`."""
    key = tmp_path / "site.key"
    lines = tmp_path / "tokens.toml"
    for path in (key, lines):
        path.touch()
        path.chmod(mode)
    run = [sys.executable, "-m", "hubbub", "gateway", "token", "--name", "my.site", "--quota", "9"]

    def made(*more):
        with key.open("w") as out, lines.open("w") as err:
            subprocess.run([*run, *more], stdout=out, stderr=err, check=True)
        return lines.read_text()

    assert made("--key", "--each", "1").count("chmod 600") == 2 * readable
    assert Tokens.read(lines).caller(f"Bearer {short_lived('my.site', token._read(key), 100)}", 0)
    key.chmod(0o600)
    assert made().count("chmod 600") == readable
    piped = subprocess.run([*run, "--key", "--each", "1"], capture_output=True, text=True, check=True)
    assert "chmod" not in piped.stdout + piped.stderr


@pytest.mark.parametrize(
    ("options", "variables", "message"),
    [
        (["--host", "192.0.2.1"], {}, "--tokens"),
        (["--host", "gateway.example"], {}, "--tokens"),
        (["--tls-cert", "cert.pem"], {}, "--tls-key"),
        ([], {"HUBBUB_GATEWAY_TOKENS": "a", "HUBBUB_GATEWAY_TOKENS_FILE": "b"}, "both set"),
        (["--origins", "*"], {}, "origin"),
        ([], {"HUBBUB_GATEWAY_TRUSTED_PROXIES": "everybody"}, "networks"),
        (["--rate", "0"], {}, "--rate"),
        ([], {"HUBBUB_GATEWAY_MAX_BODY": "big"}, "--max-body"),
    ],
)
def test_impossible_options_are_exit_code_2(options, variables, message, monkeypatch, capsys):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as ending:
        command.main(options)
    assert ending.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--queries", "--tokens"])
def test_a_file_that_cannot_be_read_ends_the_command(option, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hubbub.toml").write_text(make_text("q", domain=3))
    assert command.main([option, "/nowhere.toml"]) == 2
    assert "/nowhere.toml" in capsys.readouterr().err


@pytest.mark.parametrize("has_libuv", [True, False])
@pytest.mark.parametrize("has_tls", [True, False])
def test_it_runs_on_libuv_if_that_is_installed_and_a_proxy_ends_tls(has_libuv, has_tls, monkeypatch):
    loops = []

    async def serve(*_):
        loops.append(type(asyncio.get_running_loop()).__module__.split(".")[0])
        return 0

    monkeypatch.setattr(command, "_run", serve)
    monkeypatch.setattr(command, "find_spec", find_spec if has_libuv else lambda _: None)
    assert command.main(["--tls-cert", "cert.pem", "--tls-key", "key.pem"] if has_tls else []) == 0
    assert loops == ["uvloop" if has_libuv and not has_tls and find_spec("uvloop") else "asyncio"]


# Quotas, rates, addresses, origins


def test_a_quota_is_for_a_name_and_a_pane_and_refunds_unacknowledged_reports():
    quotas = Quotas()
    caller = Caller(Account("app", quota=10))
    first_receipt = quotas.take(caller, [submission(6)], PANE)
    with pytest.raises(Problem) as error:
        quotas.take(caller, [submission(2, PANE + 10), submission(5)], PANE + 4)
    assert error.value.status == 429
    assert error.value.more["reason"] == "quota"
    assert "Retry-After" not in error.value.headers  # waiting never helps a pane
    assert error.value.more["counted"] == "none"
    assert "next pane has room" in error.value.detail
    quotas.take(caller, [submission(10, PANE + 10)], PANE)
    quotas.take(caller, [submission(4)], PANE)
    quotas.give_back(first_receipt)
    quotas.take(caller, [submission(6)], PANE)
    quotas.take(Caller(Account("another", quota=10)), [submission(10)], PANE)
    quotas.take(Caller(ANYBODY), [submission(1000)], PANE)


def test_a_short_lived_token_has_a_quota_of_its_own_within_that_of_its_key():
    quotas = Quotas()
    account = Account("site", keys=(b"",), quota=5, each=2)
    for salt in ("one", "two"):
        quotas.take(Caller(account, salt), [submission(2)], PANE)
        with pytest.raises(Problem, match="of this token"):
            quotas.take(Caller(account, salt), [submission(1)], PANE)
    quotas.take(Caller(account, "three"), [submission(1)], PANE)
    with pytest.raises(Problem, match="of 'site'"):
        quotas.take(Caller(account, "four"), [submission(1)], PANE)


def open_panes(moment, queries=DEFINITIONS):
    return queries.open_panes(moment)


def test_the_open_panes_are_those_whose_reports_count_now():
    for moment in (PANE, PANE + 3.5, PANE + 9.999, APP.until - 15, APP.until + WEB.lateness):
        expected = {
            (query.digest, pane)
            for query in QUERIES.values()
            for pane in range(int(moment) // 10 * 10 - 600, int(moment) + 600, 10)
            if untimely(Versions.of(query), pane, int(1000 * moment)) is None
        }
        assert set(DEFINITIONS.open_panes(moment)) == expected
        assert len(list(DEFINITIONS.open_panes(moment))) == len(expected)


def test_a_caller_without_room_in_any_open_pane_is_known_before_its_body_is_read():
    only = ServedDefinitions.of({"web": WEB})
    quotas = Quotas()
    account = Account("site", keys=(b"",), quota=1000, each=3)
    greedy, honest, free = Caller(account, "one"), Caller(account, "two"), Caller(Account("free"))
    panes = [pane for _, pane in open_panes(PANE, only)]
    for pane in panes[1:]:
        quotas.take(greedy, [submission(3, pane)], PANE)
    quotas.check_room(greedy, open_panes(PANE, only), PANE)
    last_receipt = quotas.take(greedy, [submission(3, panes[0])], PANE)
    with pytest.raises(Problem):
        quotas.check_room(greedy, open_panes(PANE, only), PANE)
    for _ in range(2):
        with pytest.raises(Problem, match="next pane has room") as error:
            quotas.check_room(greedy, open_panes(PANE + 1, only), PANE + 1)
        assert error.value.status == 429
        assert error.value.more == {"reason": "quota", "counted": "none"}
        for caller in (honest, free):
            quotas.check_room(caller, open_panes(PANE + 1, only), PANE + 1)
    quotas.give_back(last_receipt)
    quotas.check_room(greedy, open_panes(PANE + 1, only), PANE + 1)
    quotas.take(greedy, [submission(3, panes[0])], PANE + 1)
    opens = panes[-1] + WEB.pane - WEB.skew
    with pytest.raises(Problem):
        quotas.check_room(greedy, open_panes(opens - 0.5, only), opens - 0.5)
    quotas.check_room(greedy, open_panes(opens, only), opens)


def test_a_name_without_room_stops_all_its_short_lived_tokens():
    quotas = Quotas()
    account = Account("site", keys=(b"",), quota=4)
    quotas.take(Caller(account, "one"), [submission(4)], PANE)
    with pytest.raises(Problem, match="quota"):
        quotas.check_room(Caller(account, "two"), [(WEB.digest, PANE)], PANE)


def test_refused_quotas_are_counted_by_token_and_query_in_bounded_series(monkeypatch):
    monkeypatch.setattr(metrics, "QUOTAS", 2)
    table = metrics.GatewayMetrics({}, [])
    quotas = Quotas(table.count_full_quota)
    for name in ("a", "b", "b", "c", "d"):
        with pytest.raises(Problem):
            quotas.take(Caller(Account(name, quota=1)), [submission(2)], PANE)
    counts = {
        sample.labels["token"]: (sample.labels["query"], sample.value)
        for sample in next(m for m in table.registry.collect() if m.name == "hubbub_quota_refused").samples
    }
    assert counts == {"a": ("web", 1), "b": ("web", 2), "(other)": ("(other)", 2)}


def test_work_is_paid_for_by_the_second_and_one_body_may_take_more():
    moment = [0.0]
    work = Work(100, lambda: moment[0])
    first_caller = Caller(Account("site"), "one")
    second_caller = Caller(Account("site"), "two")
    work.check(first_caller)
    work.charge(first_caller, 300)
    with pytest.raises(Problem) as error:
        work.check(first_caller)
    assert error.value.status == 429
    assert error.value.more["reason"] == "work"
    assert error.value.headers["Retry-After"] == "3"
    work.check(second_caller)
    moment[0] = 2.0
    with pytest.raises(Problem):
        work.check(first_caller)
    moment[0] = 2.1
    work.check(first_caller)


class Turns:
    """A decoder whose clock passes a slice at each look."""

    def __init__(self, rate=inf):
        seconds = count()
        self.work = Work(rate, lambda: 0.0)
        definitions = SimpleNamespace(value=DEFINITIONS)
        self.decoder = BodyDecoder(definitions, 1 << 20, self.work, CpuTurns(), lambda: float(next(seconds)))

    async def decode(self, n, salt="", order=None):
        caller = Caller(Account("site"), salt)
        self.work.check(caller)
        submissions = await self.decoder.submissions(
            encode(WEB.digest, PANE, numbered(1)) * n, FRAMES, caller, AT / 1000
        )
        if order is not None:
            order.append(n)
        return submissions


def test_long_bodies_are_decoded_in_slices_that_let_others_in():
    async def run():
        turns, order, ticks = Turns(), [], []

        async def tick():
            while len(order) < 3:
                ticks.append(len(order))
                await asyncio.sleep(0)

        long = [asyncio.create_task(turns.decode(n, order=order)) for n in (900, 300)]
        await asyncio.gather(asyncio.create_task(turns.decode(3, order=order)), *long, asyncio.create_task(tick()))
        assert order == [3, 300, 900]  # the short one at once, the others in turn
        assert ticks.count(1) >= 300
        assert ticks.count(2) >= 300
        [only] = long[0].result()
        assert only.reports.tobytes() == bytes(900)

    asyncio.run(run())


def test_a_caller_who_spends_its_work_stops_nobody_else():
    async def run():
        turns = Turns(rate=1000)
        answers = await asyncio.gather(*(turns.decode(900, "greedy") for _ in range(20)), return_exceptions=True)
        refusals = [answer for answer in answers if isinstance(answer, Problem)]
        assert 17 <= len(refusals) < 20
        assert {problem.more["reason"] for problem in refusals} == {"work"}
        assert [submission.n for submission in await turns.decode(900, "honest")] == [900]

    asyncio.run(run())


def test_work_is_charged_for_bodies_that_are_refused_too():
    async def run():
        turns = Turns(rate=1000)
        caller = Caller(Account("app"))
        body = b"[" + b"{}," * 3000 + b"{}]"
        with pytest.raises(Problem, match="keys"):
            await turns.decoder.submissions(body, JSON, caller, AT / 1000)
        with pytest.raises(Problem, match="too much decoding"):
            turns.work.check(caller)

    asyncio.run(run())


def test_counts_of_closed_panes_are_forgotten():
    quotas = Quotas()
    caller = Caller(Account("app", quota=10))
    for pane in range(PANE, PANE + 10_000, 10):
        quotas.take(caller, [submission(10, pane)], pane)
        quotas.take_ids(NETWORK, [(submission(1, pane), 0)])
    assert len(quotas._reports) == len(quotas._ids) <= 5
    assert len(quotas._group_ids) <= 2 * 5


NETWORK = ("192.0.2.0/24", "192.0.2.1")


def keyed(entry, *partitions):
    return [(entry, partition) for partition in partitions]


ROOM = WEB.max_ids // SHARE


def test_a_caller_takes_at_most_half_of_the_ids_on_each_partition():
    quotas = Quotas()
    quotas.take_ids(NETWORK, keyed(submission(1), *[0] * (ROOM // 2), *[1] * (ROOM // 2 - 1)))
    with pytest.raises(Problem) as error:
        quotas.take_ids(NETWORK, keyed(submission(1), 1, 0))
    assert error.value.status == 429
    quotas.take_ids(NETWORK, keyed(submission(1), 1))
    quotas.take_ids(NETWORK, keyed(submission(1, PANE + 10), 0))


@pytest.mark.parametrize("count", [1, 2, 5, 50])
def test_greedy_callers_leave_a_part_of_the_ids_to_one_that_comes_later(count):
    quotas = Quotas()
    networks = [(f"network {i}", "one") for i in range(count)]
    refused = 0
    while refused < count:
        refused = 0
        for network in networks:
            try:
                quotas.take_ids(network, keyed(submission(1), 0))
            except Problem:
                refused += 1
    free = ROOM - quotas._ids[WEB.digest, PANE, 0]
    assert ROOM // (count + 1) <= free <= ROOM // (count + 1) + count
    quotas.take_ids(("late", "one"), keyed(submission(1), *[0] * (free // 2)))


def test_one_address_leaves_ids_to_the_others_of_its_network():
    quotas = Quotas()
    for _ in range(ROOM // 2):
        quotas.take_ids(NETWORK, keyed(submission(1), 0))
    with pytest.raises(Problem):
        quotas.take_ids((NETWORK[0], "another"), keyed(submission(1), 0))
    quotas.take_ids(("another", "one"), keyed(submission(1), 0))


def test_a_pane_has_room_for_the_ids_of_two_requests_at_least():
    quotas = Quotas()
    query = SimpleNamespace(digest=WEB.digest, name="web", max_ids=1)
    entry = SimpleNamespace(query=query, pane=PANE, closes=1000 * PANE)
    quotas.take_ids(NETWORK, [(entry, 0)])
    with pytest.raises(Problem):
        quotas.take_ids(NETWORK, [(entry, 0)])


def test_a_request_that_has_too_many_ids_for_one_pane_takes_none_of_another():
    quotas = Quotas()
    quotas.take_ids(NETWORK, keyed(submission(1, PANE + 10), *[0] * (ROOM // 2)))
    with pytest.raises(Problem):
        quotas.take_ids(NETWORK, keyed(submission(1), 0) + keyed(submission(1, PANE + 10), 0))
    quotas.take_ids(NETWORK, keyed(submission(1), *[0] * (ROOM // 2)))


def test_an_address_has_a_rate_of_requests_and_waits_after_it():
    rates = Rates(4)
    assert [rates.take("a", 0.0) for _ in range(5)] == [0, 0, 0, 0, 0.25]
    assert rates.take("b", 0.0) == 0
    assert rates.take("a", 0.3) == 0
    assert rates.take("a", 0.3) > 0
    assert [rates.take("a", 100.0) for _ in range(5)] == [0, 0, 0, 0, 0.25]
    assert not any(Rates(inf).take("a", 0.0) for _ in range(1000))


def test_a_clock_that_is_set_back_stops_no_address():
    rates = Rates(4)
    assert [rates.take("a", 3600.0) for _ in range(5)] == [0, 0, 0, 0, 0.25]
    assert rates.take("b", 0.0) == 0
    assert rates.take("a", 0.0) == 0.25
    assert rates.take("a", 0.25) == 0
    assert rates.wait("a", 0.25) == 0.25


def test_a_clock_that_is_set_back_forgets_closed_panes_as_before():
    quotas = Quotas()
    caller = Caller(Account("app", quota=10))
    quotas.take(caller, [submission(10, PANE + 36_000)], PANE + 36_000)
    for pane in range(PANE, PANE + 10_000, 10):
        quotas.take(caller, [submission(10, pane)], pane)
    assert len(quotas._reports) <= 6


@pytest.mark.parametrize(
    ("networks", "times"),
    [
        (["192.0.2.1"], 1),
        ([f"192.0.2.{i}" for i in range(256)], 64),
        ([f"2001:db8::{i:x}" for i in range(8)], 1),
        ([f"2001:db8:0:{i:x}::1" for i in range(256)], 4),
        ([f"2001:db8:0:{i:x}00::1" for i in range(256)], 16),
        ([f"2001:db8:{i:x}::1" for i in range(512)], 64),
    ],
    ids=["an address", "a /24", "a /64", "a /56", "a /48", "a /32"],
)
def test_a_network_has_times_the_rate_of_an_address(networks, times):
    rates = NetworkRates(3)
    paths = [network_path(address) for address in networks]
    assert sum(not rates.take(path, 0.0) for path in 4 * paths) == 3 * times
    assert rates.take(paths[0], 0.0) > 0
    assert not rates.take(network_path("198.51.100.1"), 0.0)


def test_the_number_of_remembered_addresses_is_bounded():
    rates = Rates(1, most=3)
    for address in "abcabd":
        rates.take(address, 0.0)
    assert list(rates._levels) == ["a", "b", "d"]


@pytest.mark.parametrize(
    ("peer", "header", "address"),
    [
        ("203.0.113.9", [], "203.0.113.9"),
        ("203.0.113.9", ["198.51.100.1"], "203.0.113.9"),  # not from a proxy: not believed
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["6.6.6.6, 198.51.100.1"], "198.51.100.1"),  # the first is what the client wrote
        ("10.0.0.1", ["6.6.6.6", "198.51.100.1:443, 10.9.9.9"], "198.51.100.1"),
        ("10.0.0.1", ["10.2.2.2"], "10.2.2.2"),
        ("10.0.0.1", ["nonsense"], "10.0.0.1"),
        ("10.0.0.1", ["198.51.100.1, unknown"], "10.0.0.1"),
        ("::ffff:10.0.0.1", ["198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["[2001:db8:1:2:3:4:5:6]:77"], "2001:db8:1:2::"),
        ("2001:db8:1:2:ffff::1", [], "2001:db8:1:2::"),
        ("fd00::1", ["2001:db8::1"], "2001:db8::"),
        ("", [], ""),
    ],
)
def test_behind_trusted_proxies_the_last_untrusted_address_counts(peer, header, address):
    assert client(peer, header, networks("10.0.0.0/8, fd00::/8")) == address


def test_options_with_invalid_networks_or_origins_are_refused():
    assert networks("") == ()
    for text in ("10.0.0.0/33", "proxy.example"):
        with pytest.raises(ParameterError):
            networks(text)
    for text in ("*", "null", "a.example", "https://a.example/", "https://A.example", "ftp://a.example"):
        with pytest.raises(ParameterError):
            origins(text)


def test_only_listed_origins_may_send_and_browsers_store_the_preflight():
    allowed_origins = origins("https://a.example, http://localhost:8080,https://[::1]:4")
    headers = preflight("https://a.example", allowed_origins, "POST")
    assert headers["Access-Control-Allow-Origin"] == "https://a.example"
    assert int(headers["Access-Control-Max-Age"]) > 0
    assert preflight("https://evil.example", allowed_origins, "POST") is None
    assert preflight(None, allowed_origins, "POST") is None
    assert cors_headers("https://evil.example", allowed_origins) == {"Vary": "Origin"}
    assert cors_headers("https://a.example", frozenset()) == {}


# What is told to clients


def test_a_client_can_compute_the_digest_of_a_listed_query():
    listed = orjson.loads(DEFINITIONS.listing(AT / 1000).text)["queries"]
    assert [query["name"] for query in listed] == ["app", "both", "profile", "screens", "web"]
    for query in listed:
        keys = ["name", "epsilon", "pane", "oracle", "domain", "attributes"]
        keys += [key for key in ("solution", "buckets") if query[key]]
        meaning = {key: query[key] for key in keys if key in query} | {"format": 1}
        if "domain" in query:
            meaning["other"] = query["other"]
        text = orjson.dumps(meaning, option=orjson.OPT_SORT_KEYS)
        assert sha256(text).hexdigest()[:16] == query["digest"]
        assert query["width"] == QUERIES[query["name"]].oracle.width


def test_every_listed_query_fits_the_description():
    schemas = describe("1", ROUTES, needs_token=True)["components"]["schemas"]
    validator = Draft202012Validator({"$ref": "#/components/schemas/queries", "components": {"schemas": schemas}})
    listing = orjson.loads(DEFINITIONS.listing(AT / 1000).text)
    validator.validate(listing)
    properties = schemas["query"]["properties"].keys()
    # test_pairs lists a query with pairs, test_purpose_keys one with texts, test_recorder_key one with a recorder, and
    # the vectors have listings of sub.
    usual = properties - {"pairs", "subset", "rows", "recorder", "about", "purpose", "contact"}
    assert set(chain.from_iterable(listing["queries"])) == usual


@pytest.mark.parametrize("name", sorted(QUERIES))
def test_a_client_gets_the_query_of_the_file_from_a_gateway(name):
    query = QUERIES[name]
    pinned_query = pin_query(DEFINITIONS.listing(AT / 1000).text, name, query.record_epsilon, "gateway")
    times = ("period", "pane", "lateness", "skew", "starts", "until", "renew")
    for key in ("name", "digest", "canonical", "groups", "answers", "budget", "charge", "charges", "classes", *times):
        assert getattr(pinned_query, key) == getattr(query, key)
    assert pinned_query.oracle.width == query.oracle.width


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda entry: entry.update(name="another"), NotAllowed, "no query 'app'"),
        (lambda entry: entry.update(epsilon=2.0), QueryError, "does not match the definition"),
        (lambda entry: entry.update(domain=5), QueryError, "does not match the definition"),
        (lambda entry: entry.update(width=5), QueryError, "does not match the definition"),
        (lambda entry: entry.update(pane="10s"), NotAllowed, "pane must be whole seconds"),
        (lambda entry: entry.update(domain="/etc/passwd"), QueryError, "domain"),
        (lambda entry: entry.update(domain={"file": "/etc/passwd"}), QueryError, "must not name a file"),
        (lambda entry: entry.update({"from": 1e300}), QueryError, "not a valid list of queries"),
        (lambda entry: entry.clear(), QueryError, "not a valid list of queries"),
    ],
)
def test_a_client_refuses_a_gateway_that_contradicts_itself(change, error, message):
    listing = orjson.loads(DEFINITIONS.listing(AT / 1000).text)
    change(next(entry for entry in listing["queries"] if entry["name"] == "app"))
    with pytest.raises(error, match=message):
        pin_query(orjson.dumps(listing), "app", 8.0, "gateway")


def test_a_client_refuses_a_query_with_more_epsilon_than_it_pinned():
    assert pin_query(DEFINITIONS.listing(AT / 1000).text, "app", 1.0, "gateway").epsilon == 1.0
    with pytest.raises(NotAllowed, match=r"reveals epsilon 1, and this application allows 0\.99"):
        pin_query(DEFINITIONS.listing(AT / 1000).text, "app", 0.99, "gateway")


@given(st.binary(max_size=200))
def test_any_list_of_queries_is_read_or_refused(listing):
    with pytest.raises((QueryError, NotAllowed)):
        pin_query(listing, "app", 8.0, "gateway")
