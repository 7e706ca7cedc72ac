"""`hubbub simulate` and `hubbub replay` on real brokers, with the records in the log and their true counts."""

import asyncio
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
import uuid
from collections import Counter
from itertools import chain

import numpy as np
import orjson
import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from hubbub.kafka.clients import client_arguments, started
from oracles.frame import decode, partition_of
from oracles.query import load
from producers.simulation import replay, simulate
from producers.simulation.delivery.true_answers import in_time
from tests import forks
from tests.integration.workers import until
from tests.queries import LIVE, make_text
from tests.slowness import patience, slowness

PARTITIONS = 3
LATE = 3.0
"""Seconds after which an answer of the query `site` is late: a pane, its lateness, and a second more."""
QUERIES = make_text("site", LIVE, domain=["a", "b", "c", "d"], oracle="grr", lateness="1s", period="2s") + make_text(
    "profile", LIVE, attributes={"age": 5, "sex": ["f", "m"]}, solution="smp"
)


class Place:
    """A prefix of its own on a broker, with the topics of the reports and the truth, and a query file."""

    def __init__(self, broker, folder):
        self.kafka = broker.kafka(f"t{uuid.uuid4().hex[:8]}.")
        self.file = folder / "hubbub.toml"
        self.file.write_text(QUERIES)
        self.queries = load(self.file)
        asyncio.run(self._create())

    async def _create(self):
        # Whether a frame is in time depends on the log's clock, not on the sender's.
        configs = {"message.timestamp.type": "LogAppendTime"}
        async with started(AIOKafkaAdminClient(**client_arguments(self.kafka)), self.kafka) as admin:
            await admin.create_topics(
                [
                    NewTopic(self.kafka.topic("reports"), PARTITIONS, 1, topic_configs=configs),
                    NewTopic(self.kafka.topic("truth"), PARTITIONS, 1, topic_configs={"cleanup.policy": "compact"}),
                ]
            )

    def options(self, *more):
        address = ["--kafka", self.kafka.servers, "--prefix", self.kafka.prefix, "--queries", str(self.file)]
        return [*address, "--port", "0", *more]

    def read(self, topic, least=None):
        """Return all records of a topic by partition, or at least `least` records of a running stream."""
        return asyncio.run(self._read(self.kafka.topic(topic), least))

    async def _read(self, topic, minimum):
        consumer = AIOKafkaConsumer(**client_arguments(self.kafka), max_partition_fetch_bytes=4 << 20)
        async with started(consumer, self.kafka), asyncio.timeout(patience(30)):
            consumer.assign([TopicPartition(topic, partition) for partition in range(PARTITIONS)])
            await consumer.seek_to_beginning()
            result, quiet = [], False
            while not quiet if minimum is None else len(result) < minimum:
                records = await consumer.getmany(timeout_ms=int(1000 * patience(0.5)))
                quiet = not records
                result += [*chain.from_iterable(records.values())]
            return sorted(result, key=lambda record: (record.partition, record.offset))

    def truth(self):
        """Return the newest record of each pane and source."""
        return {record.key: orjson.loads(record.value) for record in self.read("truth")}


@pytest.fixture
def place(broker, tmp_path):
    return Place(broker, tmp_path)


def admit(query, records):
    """Return the reports that a worker counts, by pane. These are the frames in time, each frame once."""
    reports = {}
    ids = set()
    for record in records:
        frame = decode(record.value).shaped(query.oracle.width)
        assert record.partition == partition_of(frame.id, PARTITIONS)
        if (frame.pane, frame.id) in ids or not in_time(query, frame.pane, record.timestamp):
            continue
        ids.add((frame.pane, frame.id))
        reports.setdefault(frame.pane, []).append(frame.reports)
    return {pane: np.concatenate(pieces) for pane, pieces in reports.items()}


def agree(query, records, truth):
    """Check that the truth has the number of admitted reports, and agrees with their estimate."""
    by_pane = admit(query, records)
    answers = Counter()
    for record in truth.values():
        answers[record["pane"]] += sum(record["counts"])
    assert answers == {pane: len(reports) for pane, reports in by_pane.items()}
    state = query.oracle.zeros()
    reports = np.concatenate(list(by_pane.values()))
    query.oracle.add(state, reports)
    # At most so many aligned periods are touched, because the first and the last one may be cut.
    repeats = (max(by_pane) - min(by_pane)) // query.period + 2
    estimate = query.oracle.estimate(state, len(reports), len(reports) // repeats)
    true = sum(np.array(record["counts"]) for record in truth.values()) / len(reports)
    # A client repeats its report `repeats` times at most. False once in 1e8 runs.
    assert (np.abs(estimate.shares - true) < 6 * estimate.stderr).all()


def test_the_truth_agrees_with_the_log(place, tmp_path):
    (tmp_path / "rough.toml").write_text(
        'late = { share = 0.1, by = "1s" }\nduplicate = { share = 0.2 }\n'
        'clock = [{ share = 0.05, by = "-1h" }]\nsurge = [{ value = "d", share = 0.2, begins = "2s" }]\n'
    )
    crowd = ["--query", "site", "--clients", "8000", "--values", "zipf:1", "--seed", "5", "--frame", "50"]
    rough = ["--seconds", "5", "--scenario", str(tmp_path / "rough.toml")]
    assert simulate.main(place.options(*crowd, *rough)) == 0
    records = place.read("reports")
    query = place.queries["site"]
    agree(query, records, place.truth())
    frames = [decode(record.value) for record in records]
    assert len({frame.id for frame in frames}) < len(frames)
    assert any(frame.pane < time.time() - 1800 for frame in frames)
    assert max(sum(record["counts"]) for record in place.truth().values()) > 2000


def test_several_attributes_have_a_truth_each(place):
    assert simulate.main(place.options("--query", "profile", "--rate", "1000", "--seconds", "2", "--seed", "1")) == 0
    answers = sum(decode(record.value).n for record in place.read("reports"))
    ages, sexes = (sum(np.array(record["counts"][j]) for record in place.truth().values()) for j in range(2))
    assert ages.sum() == sexes.sum() == answers == 2000
    assert len(ages) == 5
    assert len(sexes) == 3


def test_a_seeded_run_on_a_virtual_clock_is_the_same_byte_for_byte(broker, tmp_path):
    runs = []
    for _ in range(2):
        place = Place(broker, tmp_path)
        crowd = ["--query", "site", "--clients", "3000", "--seed", "7", "--start", "1700000000", "--seconds", "5"]
        assert simulate.main(place.options(*crowd)) == 0
        runs.append([(record.partition, record.value) for record in place.read("reports")])
    assert runs[0] == runs[1]
    assert sum(decode(value).n for _, value in runs[0]) == 7500


def test_the_highest_rate_sends_more(place, capsys):
    assert simulate.main(place.options("--query", "site", "--rate", "max", "--seconds", "1")) == 0
    assert "as fast as possible" in capsys.readouterr().out
    assert sum(decode(record.value).n for record in place.read("reports")) > 50_000 / slowness()


class Running:
    """A command in its own process."""

    def __init__(self, command, arguments):
        run = f"import sys; from producers.simulation.{command} import main; sys.exit(main(sys.argv[1:]))"
        self.process = forks.start(
            [sys.executable, "-c", run, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.lines = []
        self.reader = threading.Thread(target=lambda: self.lines.extend(iter(self.process.stdout.readline, "")))
        self.reader.start()

    def wait_for(self, pattern):
        deadline = time.monotonic() + patience(30)
        while time.monotonic() < deadline:
            match = re.search(pattern, "".join(self.lines))
            if match:
                return match
            time.sleep(0.05)
        raise AssertionError(f"{pattern} is not in the output: {self.lines}")

    def end(self, number):
        self.process.send_signal(number)
        assert self.process.wait(patience(30)) == 0
        self.reader.join()
        return self.process.stderr.read()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.reader.join()
        self.process.stdout.close()
        self.process.stderr.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_sends_the_waiting_frames_and_publishes_the_truth(tansu, tmp_path, number):
    place = Place(tansu, tmp_path)
    with Running("simulate", place.options("--query", "site", "--clients", "2000", "--frame", "20")) as running:
        running.wait_for("/metrics")
        place.read("reports", least=20)
        assert running.end(number) == ""
        running.wait_for(r"s in all: [0-9,]+ reports")
    agree(place.queries["site"], place.read("reports"), place.truth())


def metrics(address):
    with urllib.request.urlopen(address, timeout=patience(10)) as answer:  # noqa: S310 - the address of the command
        text = answer.read().decode()
    return dict(re.findall(r"^(hubbub_\w+)\{query=\"site\"\} (\S+)$", text, re.MULTILINE))


def test_metrics_count_the_acknowledged_reports(tansu, tmp_path):
    place = Place(tansu, tmp_path)
    with Running("simulate", place.options("--query", "site", "--clients", "2000", "--frame", "20")) as running:
        address = running.wait_for(r"http://\S+/metrics")[0]
        answers = sum(decode(record.value).n for record in place.read("reports", least=5))
        samples = metrics(address)
        until(lambda: float(metrics(address)["hubbub_simulated_reports_total"]) >= answers)
        samples = metrics(address)
        running.end(signal.SIGINT)
    assert float(samples["hubbub_simulated_reports_total"]) >= answers >= 5
    assert {"hubbub_simulated_errors_total", "hubbub_simulated_lost_total"} < samples.keys()
    assert float(samples["hubbub_simulated_lag_seconds"]) >= 0


def test_a_silent_broker_delays_frames_and_loses_none(kafka, tmp_path):
    place = Place(kafka, tmp_path)
    with Running("simulate", place.options("--query", "site", "--clients", "2000", "--frame", "20")) as running:
        place.read("reports", least=20)
        address = running.wait_for(r"http://\S+/metrics")[0]
        kafka.freeze(0)
        try:
            until(lambda: float(metrics(address)["hubbub_simulated_lag_seconds"]) > LATE)
        finally:
            kafka.resume(0)
        reports = float(metrics(address)["hubbub_simulated_reports_total"])
        until(lambda: float(metrics(address)["hubbub_simulated_reports_total"]) > reports)
        running.end(signal.SIGINT)
        running.wait_for("0 errors")
    records = place.read("reports")
    agree(place.queries["site"], records, place.truth())
    late_records = [r for r in records if not in_time(place.queries["site"], decode(r.value).pane, r.timestamp)]
    assert late_records, "answers during the silence came late"


def test_a_file_is_replayed_row_by_row(place, tmp_path, capsys):
    rows = ["a,x"] * 500 + ["b,x"] * 300 + [",x"] * 7 + ["elsewhere,x"] * 200
    (tmp_path / "visits.csv").write_text("site,other\n" + "\n".join(rows) + "\n")
    options = ["--query", "site", "--column", "site", "--truth", "--rate", "2000", "--frame", "100"]
    assert replay.main(place.options(str(tmp_path / "visits.csv"), *options)) == 0
    records = place.read("reports")
    assert sum(decode(record.value).n for record in records) == 1000
    agree(place.queries["site"], records, place.truth())
    assert sum(np.array(record["counts"]) for record in place.truth().values()).tolist() == [500, 300, 0, 0, 200]
    errors = capsys.readouterr().err
    assert "skipped 7 rows" in errors
    assert "another row of the same person, or the same file again, spends it again" in errors


def test_a_replay_without_the_option_publishes_no_truth(tansu, tmp_path):
    place = Place(tansu, tmp_path)
    (tmp_path / "people.csv").write_text("sex,age\nf,1\nm,4\nm,9\n")
    assert replay.main(place.options(str(tmp_path / "people.csv"), "--query", "profile")) == 0
    assert sum(decode(record.value).n for record in place.read("reports")) == 2
    assert place.read("truth") == []


def test_the_error_names_a_missing_topic(tansu, tmp_path, capsys):
    place = Place(tansu, tmp_path)
    options = [*place.options("--query", "site"), "--prefix", "nowhere."]
    assert simulate.main(options) == 4
    assert "nowhere.reports: there is no such topic; run `hubbub topics`" in capsys.readouterr().err


def test_a_crowd_too_small_for_its_rate_brings_a_warning(tansu, tmp_path, capsys):
    place = Place(tansu, tmp_path)
    small = ["--query", "site", "--rate", "1000", "--clients", "500", "--seconds", "1"]
    assert simulate.main(place.options(*small)) == 0
    assert "each client answers every 0.5 s, sooner than the period of 2 s" in capsys.readouterr().err
