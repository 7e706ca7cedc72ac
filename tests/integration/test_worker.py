"""`hubbub worker` on real brokers, with its records, refusals, metrics and log, and a replay by other workers."""

import asyncio
import time
from datetime import date

import orjson
import pytest

from aggregator.topics.command import ensure
from aggregator.topics.layout import layout
from hubbub.kafka.settings import QUERIES, REPORTS
from oracles.frame import encode, encode_json
from tests.integration import queries
from tests.integration.admin import delete
from tests.integration.workers import Place, until
from tests.queries import LIVE, make_text

PAGE = queries.PAGE.replace('skew = "3s"', 'skew = "9s"')
"""A query that takes reports of the next seconds, even if the ticks of a busy worker are late."""
SITE_TIMES = LIVE | {"lateness": "0s", "skew": "3s", "windows": ["2s"]}
SITE = make_text("site", SITE_TIMES, domain=1000, oracle="olh", methods=["calibrate"])
PROFILE_TIMES = LIVE | {"lateness": "1s", "skew": "3s", "windows": ["1s"]}
PROFILE = make_text("profile", PROFILE_TIMES, attributes={"sex": ["f", "m"], "age": 30}, solution="rsfd")
PAST = make_text("past", LIVE, domain=3, until=date(2020, 1, 1))
RETIRED_QUERY = make_text("gone", LIVE, domain=3, skew="0s")
LIMIT = 4096
METRICS = {
    "hubbub_reports_total": {"query"},
    "hubbub_frames_total": {"query"},
    "hubbub_rejected_total": {"query", "reason"},
    "hubbub_lag_records": {"partition"},
    "hubbub_lag_seconds": set(),
    "hubbub_close_to_record_seconds_bucket": {"le"},
    "hubbub_checkpoint_seconds_bucket": {"le"},
    "hubbub_detectable_share": {"query", "attribute"},
    "hubbub_sigma_share": {"query", "attribute"},
    "hubbub_newest_final_age_seconds": {"query"},
    "hubbub_alerts_total": {"query", "kind", "baseline"},
    "hubbub_flags_total": {"query", "flag"},
    "hubbub_build_info": {"version", "kernels"},
    "hubbub_fast_path": {"name"},
}
HASTE = (
    "from aggregator.counting import faust_app, faust_patches\nfaust_patches.LONGEST_RUN = 3\nfaust_app.FETCH = 1000"
)


class Run:
    """The records, metrics and log of a worker that has read frames of all kinds."""

    def __init__(self, place):
        self.place = place
        self.retired_query = self._retired()
        self.worker = place.start("--max-frame", str(LIMIT)).ready()
        place.wait_for_ticks()  # before there is a clock nothing is late
        for turn in range(3):
            place.send(*[(p, frame) for p in range(place.partitions) for frame in self._good(p, turn)])
            if turn == 1:
                self.bad = self._bad()
                self.offsets = place.send(*[(0, data) for _, data in self.bad])
            pane = int(time.time())
            until(lambda pane=pane: time.time() >= pane + 1)  # the next turn is for another pane
        self.verdict = place.verdict(limit=LIMIT)
        self.pages = {path: self.worker.get(path) for path in ("/healthz", "/readyz", "/nothing")}
        self.metrics = self.worker.metrics()
        self.code = self.worker.stop()
        self.records = place.read("estimates")
        self.rejects = {(r.partition, r.offset): r for r in place.read("rejects")}.values()

    def _retired(self):
        """Define a query in the topic and retire it. Return it."""
        self.place.define(PAGE + SITE + PROFILE + PAST + RETIRED_QUERY)
        query = self.place.queries["gone"]
        self.place.define_in_topic(self.place.queries)
        self.place.define(PAGE + SITE + PROFILE + PAST)
        self.place.define_in_topic(self.place.queries, "gone")
        return query

    def _good(self, partition, turn):
        """Yield frames of three queries, with and without ids, in binary and in JSON."""
        place = self.place
        now = int(time.time())
        page = place.queries["page"]
        yield place.frame("page", [0] * 9 + [1] * turn)
        yield place.frame("page", [2, 2], number=(turn + 1) * place.partitions + partition)
        yield place.frame("page", [1], pane=now + 2)
        yield encode_json(page.digest, now, page.oracle.perturb([0, 2]))
        yield place.frame("site", [7] * 20)
        yield place.frame("profile", [[3, 0]] * 5 + [[4, 1]] * 5)

    def _bad(self):
        """Return frames that a worker refuses, with the reason. The frame without a reason precedes its duplicate."""
        place = self.place
        past = self.place.queries["past"]
        end = place.definitions().versions[self.retired_query.digest].retired
        until(lambda: time.time() >= end)
        now = int(time.time())
        name = 1000 * place.partitions
        return [
            ("too_large", b"x" * (LIMIT + 1)),
            ("malformed", b"rubbish " * 100),
            ("misplaced", place.frame("page", [0], number=1001 * place.partitions + 1)),
            ("unknown_query", encode(b"nobody!!", now, past.oracle.perturb([0]))),
            ("stale_digest", encode(self.retired_query.digest, now, self.retired_query.oracle.perturb([0, 1, 2]))),
            ("expired", encode(past.digest, now, past.oracle.perturb([0]))),
            ("late", place.frame("page", [0] * 4, pane=now - 60)),
            ("future", place.frame("page", [0] * 5, pane=now + 60)),
            # Of a later pane, because they must not be late by the time at which a slow machine sends them.
            (None, place.frame("page", [0] * 6, pane=now + 2, number=name)),
            ("duplicate", place.frame("page", [0] * 6, pane=now + 2, number=name)),
        ]


@pytest.fixture(scope="module", params=["tansu", "kafka"])
def ran(request, tmp_path_factory):
    broker = request.getfixturevalue(request.param)
    with Place(broker, tmp_path_factory.mktemp("ran"), PAGE, max_frame=LIMIT) as place:
        yield Run(place)


def test_finals_are_byte_for_byte_those_of_a_fold_over_the_log(ran):
    assert ran.verdict.exact, ran.verdict
    finals = [key for key, value in ran.verdict.expected.items() if orjson.loads(value).get("final")]
    kinds = {tuple(key.decode().split("|")[i] for i in (0, 2, 3, 4)) for key in finals}
    assert kinds == {
        ("page", "tumbling", "1", "1"),
        ("page", "hopping", "3", "1"),
        ("page", "all", "0", "0"),
        ("site", "tumbling", "2", "2"),
        ("profile", "tumbling", "1", "1"),
    }
    assert ran.verdict.reports == sum(value for _, value in ran.metrics["hubbub_reports_total"])


def test_each_refused_frame_is_a_reject_with_its_position_and_reason(ran):

    reasons = {}
    for record in ran.rejects:
        headers = {name: value.decode() for name, value in record.headers}
        if headers["partition"] == "0":
            reasons[int(headers["offset"])] = record, headers
    for offset, (reason, data) in zip(ran.offsets, ran.bad, strict=True):
        if reason is None:
            assert offset not in reasons
            continue
        record, headers = reasons[offset]
        topic = ran.place.kafka.topic("reports")
        assert record.key.decode() == f"{topic}|0|{offset}"
        assert record.value == data[:32]
        detail = headers.pop("detail")
        assert detail
        assert headers == {"topic": topic, "partition": "0", "offset": str(offset), "reason": reason}


def test_refused_reports_are_counted_by_query_and_reason(ran):
    refusals = {(has["query"], has["reason"]): value for has, value in ran.metrics["hubbub_rejected_total"] if value}
    late = {query: refusals.pop((query, "late"), 0) for query in ("page", "site", "profile")}
    assert late["page"] >= 4  # on a slow machine good ones may be late too
    assert refusals == {
        ("", "too_large"): 1,
        ("", "malformed"): 1,
        ("page", "misplaced"): 1,
        ("", "unknown_query"): 1,
        ("gone", "stale_digest"): 3,
        ("past", "expired"): 1,
        ("page", "future"): 5,
        ("page", "duplicate"): 6,
    }


def test_provisional_records_have_keys_of_their_own(ran):
    provisional = [record for record in ran.records if record.key.endswith(b"|p")]
    records = [record for record in provisional if record.value is not None]
    tombstones = {record.key.removesuffix(b"|p") for record in provisional if record.value is None}
    finals = {record.key: orjson.loads(record.value) for record in ran.records if not record.key.endswith(b"|p")}
    assert finals.keys() == tombstones  # whether one was known or not
    for record in records:
        early = orjson.loads(record.value)
        final = finals.get(record.key[:-2])
        assert not early["final"]
        assert early["window"]["start"] < early["window"].pop("through") < early["window"]["end"]
        assert final is None or (final["final"] and early["window"] == final["window"] and early["n"] <= final["n"])


def test_a_worker_serves_its_health_and_the_metrics_of_the_contract(ran):
    assert ran.pages["/healthz"] == (200, "ok\n")
    assert ran.pages["/readyz"] == (200, "ready\n")
    assert ran.pages["/nothing"][0] == 404
    for name, labels in METRICS.items():
        assert ran.metrics[name], name
        assert all(has.keys() == labels for has, _ in ran.metrics[name]), name
    assert {has["partition"] for has, _ in ran.metrics["hubbub_lag_records"]} == {"0", "1"}
    assert {has["attribute"] for has, _ in ran.metrics["hubbub_sigma_share"]} == {"", "age", "sex"}


def test_each_line_of_its_log_is_json(ran):
    events = ran.worker.events()
    assert all({"time", "level", "logger", "message"} <= event.keys() for event in events)
    assert ran.worker.events("recovered")
    assert ran.worker.events("stopping")
    ours = {event["level"] for event in events if event["logger"].startswith("aggregator")}
    assert ours <= {"info", "warning"}


def test_sigterm_is_exit_code_0(ran):
    assert ran.code == 0


@pytest.mark.parametrize("ran", ["kafka", pytest.param("tansu", marks=pytest.mark.long)], indirect=True)
def test_a_replay_by_other_workers_in_other_runs_gives_the_same_bytes(ran):
    place = ran.place
    count_again(place)
    several = [place.start("--max-frame", str(LIMIT), patch=HASTE) for _ in range(2)]
    for one in several:
        one.ready()
    before = {record.key: record.value for record in ran.records if not record.key.endswith(b"|p")}
    until(lambda: before.keys() <= place.finals().keys())
    later_finals = place.finals()  # one may stand there twice: the first worker published it, and handed the query on
    assert {key: {value} for key, value in before.items()} == {key: set(later_finals[key]) for key in before}


def count_again(place):
    """Let the next worker count from nothing, as docs/topics.md says."""
    kafka = place.kafka
    names = {topic.name for topic in layout(kafka.prefix, 1, 1, 1)}
    delete(kafka, names - {kafka.topic(REPORTS), kafka.topic(QUERIES)})
    asyncio.run(ensure(kafka, place.partitions, max_frame=LIMIT))
