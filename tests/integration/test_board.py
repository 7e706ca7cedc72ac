"""`hubbub board` on real brokers, with its answers, events and refusals, its start and its end."""

import csv
import io
import os
import re
import sys
import threading
import time
from contextlib import closing
from http.client import HTTPConnection
from itertools import chain

import orjson
import pytest
from jsonschema import Draft202012Validator

from aggregator.board.command import main
from aggregator.demo.broker import free_port
from tests import boards, forks
from tests.boards import HOMEPAGE, PANE, START, Board, Crowd, definition_messages, publish
from tests.brokers import create_topics
from tests.deploy.containers import ROOT
from tests.slowness import patience

OF = "api/v1/queries/homepage"
WORD = "sesame-and-a-half"


@pytest.fixture(scope="module")
def crowd():
    crowd = Crowd(HOMEPAGE, clients=40_000, surge=7)
    crowd.messages = [*chain.from_iterable(crowd.next() for _ in range(9))]
    return crowd


@pytest.fixture
def place(broker, crowd):
    """Return topics with the published records of a crowd."""
    kafka = create_topics(broker)
    publish(kafka, [*definition_messages(), *crowd.messages])
    return kafka


@pytest.fixture
def tansu_place(tansu, crowd):
    kafka = create_topics(tansu)
    publish(kafka, [*definition_messages(), *crowd.messages])
    return kafka


class Ear:
    """Read the events of a board in a thread."""

    def __init__(self, board, **headers):
        self.heard = []
        self._connection = HTTPConnection("127.0.0.1", board.port, timeout=patience(30))
        self._connection.request("GET", "/api/v1/events", headers=headers)
        self.response = self._connection.getresponse()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        block = {}
        try:
            for raw in self.response:
                name, _, text = raw.decode().rstrip("\n").partition(": ")
                if name:
                    block[name] = text
                elif "event" in block:
                    self.heard.append((block["event"], orjson.loads(block["data"])))
                    block = {}
        except (OSError, ValueError, AttributeError):
            pass  # closed

    def of(self, event):
        return [data for name, data in self.heard if name == event]

    def close(self):
        self._connection.close()


def record(crowd, kind, end):
    """Return the published record of a window."""
    key = f"{HOMEPAGE.name}|{HOMEPAGE.digest.hex()}|{kind}|{end}".encode()
    return orjson.loads(next(value for topic, name, value in crowd.messages if topic == "estimates" and name == key))


def test_it_answers_with_the_numbers_of_the_records(place, crowd):
    end = START + 9 * PANE
    with Board(place) as board:
        board.ready()
        for kind, option in (("tumbling|10|10", ""), ("hopping|60|10", "&kind=hopping"), ("all|0|0", "&kind=all")):
            answer = board.json(f"{OF}/estimate?method=unbiased{option}")
            published = record(crowd, kind, end)
            rows = {row["value"]: row for row in answer["values"]}
            assert set(rows) == set(published["values"])
            for at, value in enumerate(published["values"]):
                assert rows[value]["share"] == published["shares"]["unbiased"][at]
                assert rows[value]["low"] == published["low"][at]
                assert rows[value]["high"] == published["high"][at]
            assert answer["error"]["values"] == 22
        windows = board.json(f"{OF}/windows")["windows"]
        assert [window["end"] for window in windows] == [START + PANE * pane for pane in range(1, 10)]
        alerts = board.json("api/v1/alerts")["alerts"]
        assert alerts[0]["value"] == "books.example"
        assert {alert["id"] for alert in alerts} == {
            orjson.loads(value)["id"] for topic, _, value in crowd.messages if topic == "alerts"
        }
        assert board.stop() == (0, "")


def test_a_start_reads_what_the_retention_may_keep_and_late_finals_too(kafka, crowd):
    """The time of a final is the end of its window. The sixth window was published last, after newer ones.

    The embedded broker has no index of times, so a board reads all there.
    """
    place = create_topics(kafka)
    days_ago = round(1000 * (time.time() - 3 * 86_400))
    names = [
        f"{HOMEPAGE.name}|{HOMEPAGE.digest.hex()}|tumbling|10|10|{START + PANE * pane}".encode() for pane in range(10)
    ]
    finals = {key: (topic, key, value) for topic, key, value in crowd.messages if key in names}
    old = [(*finals[name], days_ago) for name in names[1:6]]
    publish(place, [*definition_messages(), *old, *(finals[name] for name in (*names[7:], names[6]))], partition=0)

    with Board(place) as board:
        windows = board.ready().json(f"{OF}/windows")["windows"]
        assert [window["end"] for window in windows] == [START + PANE * pane for pane in range(6, 10)]
        assert 'hubbub_board_read_total{topic="estimates"} 4.0' in board.get("metrics").body.decode()
    with Board(place, "--retention", "7d") as board:
        assert len(board.ready().json(f"{OF}/windows")["windows"]) == 9


def test_another_board_gives_the_same_answers(place):
    paths = (f"{OF}/estimate", f"{OF}/history?value=a,b", f"{OF}/windows?kind=all", "api/v1/alerts")
    with Board(place) as board:
        before = [board.ready().get(path).headers["ETag"] for path in paths]
    with Board(place) as board:
        assert [board.ready().get(path).headers["ETag"] for path in paths] == before


def test_new_records_cause_events(place, crowd):
    # The same seed and the same panes, so its next pane follows on those in the topics.
    later = Crowd(HOMEPAGE, clients=40_000, surge=7)
    for _ in range(9):
        list(later.next())
    with Board(place) as board:
        ear = Ear(board.ready())
        assert ear.response.headers["Content-Type"] == "text/event-stream"
        board.until(lambda: ear.of("beat"))
        beat = ear.of("beat")[0]
        assert beat["ready"] is True
        assert beat["problem"] is None
        assert abs(beat["now"] - time.time()) < 60
        assert not ear.of("record"), "what was there before is not new"
        alert = orjson.loads(next(value for topic, _, value in crowd.messages if topic == "alerts"))
        new = {**alert, "id": "0" * 32}
        publish(place, [*later.next(), later.provisional(), ("alerts", b"new", orjson.dumps(new)), crowd.messages[1]])
        board.until(lambda: len(ear.of("record")) >= 4 and new in ear.of("alert"))
        events = ear.of("record")
        end = START + 10 * PANE
        assert {(event["window"]["kind"], event["final"]) for event in events if event["window"]["end"] == end} == {
            ("tumbling", True),
            ("hopping", True),
            ("all", True),
        }
        assert [event["n"] for event in events if not event["final"]] == [later.snapshots[-1].n]
        assert board.json(f"{OF}/estimate")["window"]["end"] == end
        ear.close()


def test_a_table_is_csv_and_unchanged_answers_are_not_sent(tansu_place):
    with Board(tansu_place) as board:
        board.ready()
        for table in (board.get(f"{OF}/estimate?format=csv"), board.get(f"{OF}/estimate", Accept="text/csv")):
            assert table.headers["Content-Type"] == "text/csv; charset=utf-8"
            rows = list(csv.DictReader(io.StringIO(table.body.decode())))
            values = board.json(f"{OF}/estimate")["values"]
            assert [(row["value"], float(row["share"]), row["decided"]) for row in rows] == [
                (row["value"], row["share"], str(row["decided"]).lower()) for row in values
            ]
        assert board.get(f"{OF}/estimate", Accept="text/html,*/*").headers["Content-Type"] == "application/json"
        tag = board.get(f"{OF}/windows").headers["ETag"]
        again = board.get(f"{OF}/windows", If_None_Match=f'"other", W/{tag}')
        assert again.status == 304
        assert again.body == b""
        later_crowd = Crowd(HOMEPAGE, clients=100, start=START + 9 * PANE)
        publish(tansu_place, later_crowd.next())
        board.until(lambda: board.get(f"{OF}/windows", If_None_Match=tag).status == 200)


def test_a_refusal_is_a_problem(tansu_place):
    with Board(tansu_place) as board:
        board.ready()
        validator = Draft202012Validator(board.json("openapi.json")["components"]["schemas"]["problem"])
        for status, path, method in (
            (404, "api/v1/queries/nobody/estimate", "GET"),
            (404, f"{OF}/estimate?window=1", "GET"),
            (400, f"{OF}/estimate?kind=sliding", "GET"),
            (400, f"{OF}/estimate?format=xml", "GET"),
            (404, "api/v2/queries", "GET"),
            (404, "static/../api.py", "GET"),
            (404, "static/nothing.js", "GET"),
            (405, f"{OF}/estimate", "POST"),
        ):
            answer = board.get(path, method)
            assert answer.status == status
            assert answer.headers["Content-Type"] == "application/problem+json"
            problem = orjson.loads(answer.body)
            validator.validate(problem)
            assert problem["status"] == status
        assert "homepage, profile" in board.json("api/v1/queries/nobody/estimate")["detail"]
        assert board.get(f"{OF}/estimate", "HEAD").status == 200
        assert board.stop() == (0, "")


def test_every_response_has_the_security_headers(tansu_place):
    with Board(tansu_place) as board:
        board.ready()
        for path in (
            "",
            "static/page.js",
            "static/vendor/uPlot.js",
            "api/v1/queries",
            "api/v1/nothing",
            "openapi.json",
        ):
            headers = board.get(path).headers
            assert headers["X-Content-Type-Options"] == "nosniff"
            policy = dict(part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";"))
            assert policy["default-src"] == "'none'"
            assert policy["script-src"] == policy["style-src"] == "'self'"
        page = board.get("").body.decode()
        assert not re.search(r"<script(?![^>]*\bsrc=)", page)
        assert not re.search(r"\bon\w+=|style=|https?://", page)


def test_the_runbooks_need_no_token(tansu_place):
    """An alert links to them, and they hold no estimates."""
    with Board(tansu_place, env=os.environ | {"HUBBUB_TOKEN": WORD}) as board:
        board.ready()
        for file in sorted((ROOT / "deploy" / "runbooks").glob("*.md")):
            answer = board.get(f"runbooks/{file.name}")
            assert answer.status == 200
            assert answer.body == file.read_bytes()
            assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
        assert board.get("runbooks/nothing.md").status == 404


def test_the_api_requires_the_token(tansu_place):
    with Board(tansu_place, env=os.environ | {"HUBBUB_TOKEN": WORD}) as board:
        board.ready()
        for headers in (
            {},
            {"Authorization": f"Bearer {WORD}x"},
            {"Authorization": WORD},
            {"Authorization": "Bearer é"},
        ):
            refused = board.get("api/v1/queries", **headers)
            assert refused.status == 401
            assert refused.headers["WWW-Authenticate"] == 'Bearer realm="hubbub"'
            assert b"homepage" not in refused.body
        assert board.get("api/v1/events").status == 401
        assert board.get("api/v1/queries", Authorization=f"bearer {WORD}").status == 200
        assert [board.get(path).status for path in ("", "healthz", "readyz", "metrics", "openapi.json")] == [200] * 5
        assert board.json("openapi.json")["security"] == [{"token": []}]
        assert b"hubbub_top_share" not in board.get("metrics").body
        assert b"hubbub_top_share" in board.get("metrics", Authorization=f"Bearer {WORD}").body


def test_unreadable_records_are_counted_and_do_no_harm(tansu_place, crowd):
    estimate = next(value for topic, _, value in crowd.messages if topic == "estimates")
    alert = next(value for topic, _, value in crowd.messages if topic == "alerts")
    strange = [
        ("estimates", b"x", b"\xff"),
        ("estimates", b"x", b"[]"),
        ("estimates", b"x", b"{}"),
        ("estimates", b"x", b'{"version": 2}'),
        ("estimates", b"x", estimate.replace(b'"low":[', b'"low":["x",')),
        ("estimates", b"x", b'{"version": 1, "attributes": [1]}'),
        ("estimates", b"x", estimate.replace(b'"n":', b'"n":1e300,"m":')),
        ("alerts", b"x", b"null"),
        ("alerts", b"x", alert.replace(b'"end":', b'"end":9007199254740992,"begin":')),
        ("truth", b"x", b'{"query": "homepage", "digest": "00", "pane": 1, "source": "", "counts": []}'),
        ("status", b"x|00", b'{"query": "x", "digest": "00", "closed_through": 1, "newest_report": null}'),
        ("queries", b"x|0", b"{}"),
        ("queries", b"00|y", b"{}"),
    ]
    publish(tansu_place, [*strange, *((topic, key, None) for topic, key, _ in crowd.messages[:3])])
    with Board(tansu_place) as board:
        board.ready()
        assert board.json(f"{OF}/windows")["windows"][-1]["end"] == START + 9 * PANE
        assert board.get("api/v1/alerts").status == 200
        assert board.get("api/v1/alerts", Host="evil.example").status == 403
        assert "Server" not in board.get("").headers
        metrics = board.get("metrics").body.decode()
        prefix = re.escape(tansu_place.prefix)
        unreadable = dict(re.findall(r'hubbub_board_unreadable_total\{topic="(\w+)"\} (\d+)', metrics))
        assert unreadable == {"estimates": "7", "alerts": "2", "truth": "1", "status": "1", "queries": "2", "maps": "0"}
        assert 'hubbub_board_requests_total{route="/api/v1/queries/{query}/windows",status="200"} 1' in metrics
        assert re.search(r"hubbub_board_windows \d\d\.0", metrics)
        code, output = board.stop()
        assert code == 0
        assert re.search(rf"{prefix}estimates, partition \d, offset \d+: unreadable record skipped", output)


def test_retention_and_memory_are_options(tansu_place):
    with Board(tansu_place, "--retention", "30s") as board:
        board.ready()
        assert [window["end"] - START for window in board.json(f"{OF}/windows")["windows"]] == [70, 80, 90]
    with Board(tansu_place, "--memory", "32KiB") as board:
        board.ready()
        size = float(re.search(r"\nhubbub_board_kept_bytes (\S+)", board.get("metrics").body.decode())[1])
        assert 0 < size < 32_768
        assert board.json(f"{OF}/windows")["windows"][-1]["end"] == START + 90


def ends(*options, **environment):
    """Return the exit code and the output of a board that cannot start."""
    command = [sys.executable, "-c", boards.COMMAND, "--port", "0", *options]
    env = os.environ | environment
    process = forks.run(command, env=env, timeout=patience(60))
    return process.returncode, process.stderr


def test_it_does_not_start_without_kafka_or_topics(tansu):
    nowhere = f"127.0.0.1:{free_port()}"
    code, output = ends("--kafka", nowhere)
    assert code == 3
    assert nowhere in output
    code, output = ends("--kafka", tansu.bootstrap, "--prefix", "nothing.")
    assert code == 4
    assert "nothing.estimates: there is no such topic; run `hubbub topics`" in output


def test_invalid_options_are_refused(tansu_place, capsys):
    with Board(tansu_place) as board:
        code, output = ends("--kafka", tansu_place.servers, "--port", str(board.port))
        assert code == 2
        assert "cannot be listened on" in output
    code, output = ends("--kafka", tansu_place.servers, HUBBUB_LOG_LEVEL="loud")
    assert code == 2
    assert "must be one of debug, info, warning, error, got 'loud'" in output
    for option, wrong in (("--retention", "soon"), ("--memory", "much"), ("--port", "x"), ("--kafka", "here")):
        with pytest.raises(SystemExit) as ending:
            main([option, wrong])
        assert ending.value.code == 2
        assert option in capsys.readouterr().err


def test_a_silent_kafka_is_reported(kafka, crowd):
    place = create_topics(kafka)
    publish(place, [*definition_messages(), *crowd.messages])
    with Board(place) as board:
        ear = Ear(board.ready())
        # All connections stay open, so only the missing answers tell.
        kafka.freeze(0)
        try:
            board.until(lambda: board.get("readyz").status == 503)
            assert board.get("readyz").body.decode() == f"Kafka at {place.servers} does not answer\n"
            board.until(lambda: any(beat["problem"] for beat in ear.of("beat")))
            assert board.get(f"{OF}/estimate").status == 200, "what is known is told"
            assert board.get("healthz").status == 200
        finally:
            kafka.resume(0)
        board.until(lambda: board.get("readyz").status == 200)
        board.until(lambda: ear.of("beat")[-1]["problem"] is None)
        later_crowd = Crowd(HOMEPAGE, clients=100, start=START + 9 * PANE)
        publish(place, later_crowd.next())
        board.until(lambda: board.json(f"{OF}/estimate")["window"]["end"] == START + 10 * PANE)
        ear.close()


def test_listeners_do_not_delay_the_end(tansu_place):
    with Board(tansu_place) as board:
        ear = Ear(board.ready())
        board.until(lambda: ear.heard)
        assert board.stop() == (0, "")
        ear.close()


def test_health_and_metrics_have_a_port_of_their_own(tansu_place):
    """The shares need the token there too."""
    health = free_port()
    environment = {**os.environ, "HUBBUB_TOKEN": WORD, "HUBBUB_HEALTH_PORT": str(health)}
    with Board(tansu_place, env=environment) as board:
        assert board.process.stdout.readline().split()[-1] == f"http://127.0.0.1:{health}/"

        def probe(path, **headers):
            with closing(HTTPConnection("127.0.0.1", health, timeout=patience(20))) as connection:
                connection.request("GET", path, headers=headers)
                answer = connection.getresponse()
                return answer.status, answer.read()

        board.until(lambda: probe("/readyz") == (200, b"ready\n"))
        for path in ("healthz", "readyz", "metrics"):
            assert board.get(path).status == 404
        assert probe("/healthz") == (200, b"ok\n")
        assert b"hubbub_board_windows" in probe("/metrics")[1]
        assert b"hubbub_top_share{" not in probe("/metrics")[1]
        assert b"hubbub_top_share{" in probe("/metrics", Authorization=f"Bearer {WORD}")[1]
        assert probe("/api/v1/queries")[0] == 404
        assert probe("/")[0] == 404
