"""`hubbub gateway` on real brokers, with all its answers. Accepted reports are in the log."""

import asyncio
import gzip
import socket
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import date

import numpy as np
import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from hubbub.definitions.follower import Follower
from hubbub.definitions.registrar import Registrar
from hubbub.kafka.clients import client_arguments, started
from hubbub.kafka.settings import Kafka
from oracles.frame import encode, encode_json, partition_of
from oracles.query import load_file
from producers.gateway.access.tokens import short_lived
from producers.gateway.intake.keyed_frames import frame_id
from tests.brokers import frozen
from tests.integration.gateways import JSON, KEY, NUMBERS, OTHER, TOKEN, Gateway, Site, now
from tests.integration.workers import EITHER, until
from tests.queries import make_text
from tests.slowness import patience

SHORT = {"crowd": 1, "pane": "1s", "lateness": "0s", "skew": "2s"}
QUERIES = (
    f"{NUMBERS}max_ids = 160\n"
    + make_text("short", SHORT, domain=60000, answers="once", oracle="grr")
    + make_text("past", crowd=1, domain=3, oracle="grr", pane="60s", until=date(2020, 1, 1))
)


@pytest.fixture
def site(broker, tmp_path):
    with Site(broker, tmp_path, QUERIES) as site:
        yield site


def contents(site):
    """Return how often each number is in the log."""
    return Counter(
        number for _, frame in site.frames() for number in np.frombuffer(frame.reports.tobytes(), "<u2").tolist()
    )


def test_accepted_reports_of_every_form_are_in_the_log_once(site):
    pane = now()
    parts = np.split(site.reports("numbers", 2400), 12)
    frames = [site.frame_of("numbers", part, pane) for part in parts]
    digest = site.queries["numbers"].digest
    texts = [encode_json(digest, pane, part, b"theirown") for part in parts]
    with site.gateway_with_tokens() as gateway:
        key = "a key of sixteen or more"
        bodies = [
            (frames[0] + frames[1], {}),
            (gzip.compress(frames[2]), {"Content_Encoding": "gzip"}),
            (texts[3], {"kind": JSON}),
            (b"[" + b", ".join(texts[4:6]) + b"]", {"kind": f"{JSON}; charset=utf-8"}),
            (gzip.compress(b"[" + texts[6] + b"]"), {"kind": JSON, "Content_Encoding": "gzip"}),
            (iter([frames[7][:50], frames[7][50:]]), {}),
            (frames[8] + frames[9], {"key": key}),
            (b"[" + b",".join(texts[10:]) + b"]", {"kind": JSON, "key": key + "!"}),
        ]
        with ThreadPoolExecutor(len(bodies)) as pool:
            answers = list(pool.map(lambda body: gateway.post(body[0], TOKEN, **body[1]), bodies))
        assert [answer.status for answer in answers] == [202] * len(bodies)
        assert [answer.body for answer in answers] == [
            {"accepted": n} for n in (400, 200, 200, 400, 200, 200, 400, 400)
        ]
        assert contents(site) == Counter(range(2400))
        for record, frame in site.frames():
            assert frame.digest == digest
            assert frame.pane == pane
            assert record.partition == partition_of(frame.id, site.partitions)
            assert record.key is None
            assert record.headers == ()
            if site.kafka.embedded:
                assert record.timestamp == 1000 * pane  # no finer time than the pane's
        by_id = {frame.id: frame.reports.tobytes() for _, frame in site.frames()}
        assert by_id[frame_id("app", key.encode(), digest, pane, 0)] == b"".join(p.tobytes() for p in parts[8:10])
        assert b"theirown" not in by_id
        assert gateway.metric("hubbub_gateway_reports_total", query="numbers") == 2400
        assert gateway.metric("hubbub_gateway_held_bytes") == 0


@EITHER
def test_reports_of_many_requests_are_mixed(site):
    pane = now()
    rows = site.reports("numbers", 600)
    bodies = [site.frame_of("numbers", part, pane) for part in np.split(rows, 20)]
    with site.gateway("--linger", "1000") as gateway, ThreadPoolExecutor(20) as pool:
        assert {answer.status for answer in pool.map(gateway.post, bodies)} == {202}
    [(_, frame), *more] = site.frames()
    values = np.frombuffer(frame.reports.tobytes(), "<u2")
    assert len(values) + sum(other.n for _, other in more) == 600
    if not more:  # all twenty came within a second: neither request nor order can be told
        neighbours = np.abs(np.diff(values.astype(int))) == 1
        assert neighbours.sum() < 30  # about 2 of 599 by chance; in order 599


def test_a_refusal_has_the_status_of_its_reason(site):
    pane = now()
    good = site.frame_of("numbers", site.reports("numbers", 2), pane)
    with site.gateway_with_tokens("--max-body", "4KiB", "--origins", "https://a.example") as gateway:

        def refused(status, body=good, **how):
            answer = gateway.post(body, **{"token": TOKEN, **how})
            assert answer.status == status, answer.body
            assert answer.headers["Content-Type"] == "application/problem+json"
            assert answer.body.keys() >= {"status", "title", "detail"}
            assert answer.body["status"] == status
            assert "Server" not in answer.headers
            return answer

        past, short_frames = (
            site.frame_of(name, site.reports(name, 1), at) for name, at in (("past", pane), ("short", now(1)))
        )
        late_frame = site.frame_of("numbers", site.reports("numbers", 1), pane - 600)
        assert refused(400, good + good[:-1]).body["index"] == 1
        assert refused(400, good.replace(good[8:16], b"nobody!!")).body["reason"] == "unknown_query"
        assert refused(400, key="15 bytes, no mo").body["reason"] == "malformed"
        refused(400, key="x" * 257)
        refused(400, b"no gzip", Content_Encoding="gzip")
        for wrong_value in (None, "wrong", TOKEN + "x", "hbs1.site.9999999999.aa.bb"):
            assert refused(401, token=wrong_value).headers["WWW-Authenticate"].startswith("Bearer")
        assert refused(409, good + late_frame).body | {"detail": ""} == {
            "status": 409,
            "title": "The reports do not count",
            "detail": "",
            "reason": "late",
            "index": 1,
            "counted": "none",
        }
        assert refused(409, late_frame, key="k" * 16).body["counted"] == "unknown"
        assert refused(409, past).body["reason"] == "expired"
        future = site.frame_of("short", site.reports("short", 1), now(1) + 30)
        assert refused(409, future).body["reason"] == "future"
        assert refused(413, good * 100).body["reason"] == "too_large"
        assert refused(413, iter([good] * 100)).body["reason"] == "too_large"
        assert refused(413, gzip.compress(bytes(5000)), Content_Encoding="gzip").body["reason"] == "too_large"
        refused(415, kind="text/plain")
        refused(415, kind="")
        refused(415, Content_Encoding="br")
        eleven = site.frame_of("numbers", site.reports("numbers", 11), pane)
        full = refused(429, eleven, token=OTHER)
        assert full.body["reason"] == "quota"
        assert full.body["counted"] == "none"
        assert full.headers["Retry-After"] is None
        assert gateway.post(short_frames, TOKEN).status in (202, 409)  # its pane ends within a second
        for method, path, status in [
            ("GET", "/v1/reports", 405),
            ("POST", "/v1/queries", 405),
            ("DELETE", "/v1/reports", 405),
            ("OPTIONS", "/v1/reports", 405),
            ("GET", "/", 404),
            ("GET", "/v1/nothing", 404),
            ("GET", "/v1/queries", 401),
        ]:
            answer = gateway.ask(method, path)
            assert answer.status == status
            assert answer.headers["Content-Type"] == "application/problem+json"
        asks = {"Access_Control_Request_Method": "POST", "Access_Control_Request_Headers": "authorization"}
        assert gateway.ask("OPTIONS", "/v1/reports", Origin="https://evil.example", **asks).status == 403
        preflight = gateway.ask("OPTIONS", "/v1/reports", Origin="https://a.example", **asks)
        assert preflight.status == 204
        assert preflight.headers["Access-Control-Allow-Origin"] == "https://a.example"
        assert int(preflight.headers["Access-Control-Max-Age"]) > 0
        assert gateway.post(good, TOKEN, Origin="https://a.example").headers["Access-Control-Allow-Origin"]
        assert refused(401, token=None, Origin="https://a.example").headers["Access-Control-Allow-Origin"]
        assert "Access-Control-Allow-Origin" not in gateway.post(good, TOKEN, Origin="https://evil.example").headers
        assert [gateway.ask("GET", path).status for path in ("/healthz", "/readyz", "/metrics", "/openapi.json")] == [
            200
        ] * 4
        assert gateway.metric("hubbub_gateway_refused_total", reason="too_large") == 3
        assert gateway.metric("hubbub_gateway_held_bytes") == 0
    count = sum(n for number, n in contents(site).items() if number < 2)
    assert count in (4, 5)  # twice good, and perhaps the short one: nothing of what was refused


def test_a_request_with_a_key_counts_once_even_if_another_gateway_gets_the_repeat(site):
    pane = now()
    rows = site.reports("numbers", 2500)
    whole_frame = site.frame_of("numbers", rows, pane)
    halves = site.frame_of("numbers", rows[:1200], pane) + site.frame_of("numbers", rows[1200:], pane)
    with site.gateway_with_tokens() as one, site.gateway_with_tokens() as two:
        for gateway, body in ((one, whole_frame), (two, whole_frame), (two, halves), (one, gzip.compress(whole_frame))):
            more = {"Content_Encoding": "gzip"} if body.startswith(b"\x1f") else {}
            assert gateway.post(body, TOKEN, "one key, many tries", **more).status == 202
        frames = [frame for _, frame in site.frames()]
        assert len(frames) == 12
        assert len({(frame.id, frame.reports.tobytes()) for frame in frames}) == 3
        assert two.post(whole_frame, TOKEN, "another key for this").status == 202
        assert len({frame.id for _, frame in site.frames()}) == 6


@EITHER
def test_short_lived_tokens_have_a_quota_each_and_their_keys_name_in_ids(site):
    first, second = (short_lived("site", bytes.fromhex(KEY), int(time.time()) + 60) for _ in range(2))
    pane = now()
    three = site.frame_of("numbers", site.reports("numbers", 3), pane)
    with site.gateway_with_tokens() as gateway:
        assert gateway.post(three, first, "a key that is long").status == 202
        assert gateway.post(three, first).status == 429
        assert gateway.post(three, second, "a key that is long").status == 202
        expected = frame_id("site", b"a key that is long", site.queries["numbers"].digest, pane, 0)
        assert {frame.id for _, frame in site.frames()} == {expected}


def test_a_partition_accepts_a_bounded_number_of_client_ids(tansu, tmp_path):
    with Site(tansu, tmp_path, QUERIES) as site, site.gateway() as gateway:
        body = site.frame_of("numbers", site.reports("numbers", 1), now())
        statuses = Counter(gateway.post(body, key=f"a key of its own {i}").status for i in range(40))
        assert statuses == {202: 20, 429: 20}
        assert gateway.post(body).status == 202


def test_an_address_with_too_many_requests_waits_even_behind_a_proxy(tansu, tmp_path):
    with Site(tansu, tmp_path, QUERIES) as site:
        options = ("--rate", "0.05", "--trusted-proxies", "127.0.0.3/32")
        with Gateway(site, *options) as gateway:

            def asked(source, **headers):
                return gateway.ask("GET", "/v1/queries", source=source, **headers)

            assert asked("127.0.0.1").status == 200
            refusal = asked("127.0.0.1", X_Forwarded_For="198.51.100.1")
            assert refusal.status == 429
            assert int(refusal.headers["Retry-After"]) > 10
            assert asked("127.0.0.2").status == 200
            assert asked("127.0.0.3", X_Forwarded_For="198.51.100.1").status == 200
            assert asked("127.0.0.3", X_Forwarded_For="6.6.6.6, 198.51.100.1").status == 429
            assert asked("127.0.0.3", X_Forwarded_For="198.51.100.2").status == 200


def test_without_tokens_it_answers_only_under_its_own_name(tansu, tmp_path):
    with Site(tansu, tmp_path, QUERIES) as site, site.gateway() as gateway:
        for own in ("localhost", "LocalHost:8802", "127.0.0.1", f"127.0.0.1:{gateway.port}", "[::1]", "[::1]:80"):
            assert gateway.ask("GET", "/v1/queries", Host=own).status == 200
        for other_value in ("rebound.example:80", "rebound.example", "localhost.evil.example", "::1", "[::2]"):
            assert gateway.ask("GET", "/v1/queries", Host=other_value).status == 403


@EITHER
def test_a_gateway_that_stops_answers_its_accepted_requests(site):
    body = site.frame_of("numbers", site.reports("numbers", 10), now())
    with site.gateway("--linger", "9000") as gateway, ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(gateway.post, body) for _ in range(4)]
        until(lambda: gateway.metric("hubbub_gateway_held_bytes") == 4 * len(body))
        assert gateway.stop() == 0
        assert [answer.result().status for answer in waiting] == [202] * 4
    assert contents(site) == Counter(dict.fromkeys(range(10), 4))


@EITHER
def test_during_an_outage_nothing_is_accepted_and_acknowledged_reports_remain(broker, site):
    pane = now()
    answers = []
    with site.gateway() as gateway:
        gateway.ready()

        def client(number):
            for i in range(4):
                body = site.frame_of("numbers", site.reports("numbers", 5, 1000 * number + 5 * i), pane)
                answers.append((1000 * number + 5 * i, gateway.post(body), time.monotonic()))

        assert gateway.post(site.frame_of("numbers", site.reports("numbers", 1, 59_000), pane)).status == 202
        with ThreadPoolExecutor(6) as pool, frozen(broker):
            for number in range(6):
                pool.submit(client, number)
            until(lambda: gateway.ask("GET", "/readyz").status == 503)
            refused = gateway.post(site.frame_of("numbers", site.reports("numbers", 1, 58_000), pane))
            assert refused.status == 503
            assert refused.body["counted"] == "none"
            assert int(refused.headers["Retry-After"]) >= 1
            until(lambda: len(answers) == 24, 40)
        assert {answer.status for _, answer, _ in answers} == {503}
        gateway.ready()
        until(lambda: gateway.post(site.frame_of("numbers", site.reports("numbers", 1, 57_000), pane)).status == 202)
        until(lambda: gateway.metric("hubbub_gateway_unacknowledged_bytes") == 0)
        counts = contents(site)
        assert counts[59_000] == 1
        assert counts[57_000] >= 1
        assert counts[58_000] == 0
        for first, answer, _ in answers:  # said to be unknown, or not to be there
            assert counts[first] <= (answer.body["counted"] == "unknown")
        assert gateway.stop() == 0
    assert gateway.process.returncode == 0


@pytest.mark.long
def test_a_gateway_can_stop_during_an_outage(tansu, tmp_path):
    with Site(tansu, tmp_path, QUERIES) as site, site.gateway() as gateway, ThreadPoolExecutor(2) as pool:
        body = site.frame_of("numbers", site.reports("numbers", 10), now())
        gateway.ready()
        with frozen(tansu):
            waiting = [pool.submit(gateway.post, body) for _ in range(2)]
            until(lambda: gateway.metric("hubbub_gateway_unacknowledged_bytes") > 0)
            assert gateway.stop() == 0
        assert [answer.result().status for answer in waiting] == [503, 503]


def test_the_definitions_of_the_topic_replace_those_of_the_file(kafka, tmp_path):
    """A retired definition counts until its last pane starts, and the next one from its first pane on."""
    with Site(kafka, tmp_path, QUERIES) as site:
        follow(site)


def follow(site):
    register(site)
    was = {name: query.digest for name, query in site.queries.items()}
    with site.gateway() as gateway:

        def told():
            listed = gateway.ask("GET", "/v1/queries").body["queries"]
            return {query["name"]: query["digest"] for query in listed}

        assert told() == {name: digest.hex() for name, digest in was.items()}
        site.define(QUERIES.replace("60000", "50000"))
        old = was["short"]
        new_digest = site.queries["short"].digest
        assert told()["short"] == old.hex()  # the file alone changes nothing
        register(site)
        until(lambda: told()["short"] == new_digest.hex())

        def sent(digest):
            answer = gateway.post(encode(digest, now(1), site.reports("short", 1)))
            return answer.status, answer.body.get("reason")

        assert sent(old) == (409, "stale_digest")
        until(lambda: sent(new_digest)[0] == 202)


def register(site):
    """Append the definitions of the file, like a worker."""

    async def done():
        async with Follower(site.kafka) as follower:
            await Registrar(site.file, follower).register(load_file(site.file))

    asyncio.run(done())


def test_a_gateway_does_not_start_with_wrong_topics_or_options(kafka, tmp_path):
    with Site(kafka, tmp_path, QUERIES) as site:

        def ends(code, *words, place=site, options=(), **env):
            gateway = Gateway(place, *options, **env)
            assert gateway.process.wait(patience(60)) == code, gateway.log_text
            gateway.process.stdout.close()
            assert all(word in gateway.log_text for word in words), gateway.log_text

        ends(3, "cannot be reached", HUBBUB_KAFKA="127.0.0.1:9")
        ends(4, "hubbub topics", HUBBUB_PREFIX="nobody.")


def test_a_topic_with_the_time_of_senders_stops_the_gateway(kafka, tmp_path):
    with Site(kafka, tmp_path, QUERIES) as site:
        site.kafka = Kafka(kafka.bootstrap, f"{site.kafka.prefix}own.")

        async def create():
            async with started(AIOKafkaAdminClient(**client_arguments(site.kafka)), site.kafka) as admin:
                names = map(site.kafka.topic, ("reports", "queries"))
                await admin.create_topics([NewTopic(name, 2, 1) for name in names])

        asyncio.run(create())
        with site.gateway() as gateway:
            body = site.frame_of("numbers", site.reports("numbers", 1), now())
            with ThreadPoolExecutor(2) as pool:
                answers = pool.map(lambda key: gateway.post(body, key=key), (None, "a key of sixteen"))
                assert [answer.status for answer in answers] == [503, 503]
            assert gateway.process.wait(patience(30)) == 4
            assert "LogAppendTime" in gateway.log_text
            assert "Traceback" not in gateway.log_text


def test_reports_that_enter_the_log_too_late_are_not_accepted(kafka, tmp_path):
    """The clock of this gateway is behind. Only the time of the log decides."""
    behind = "import time\nnow = time.time\ntime.time = lambda: now() - 300"
    with Site(kafka, tmp_path, QUERIES) as site, site.gateway(patch=behind) as gateway:
        body = site.frame_of("numbers", site.reports("numbers", 1), now() - 300)
        for key in (None, "a key of sixteen"):
            answer = gateway.post(body, key=key)
            assert answer.status == 409
            assert answer.body["reason"] == "late"
            assert answer.body["counted"] == "unknown"
        assert len(site.frames()) == 2


@EITHER
def test_no_address_token_or_key_is_written_anywhere(site):
    body = site.frame_of("numbers", site.reports("numbers", 1), now())
    with site.gateway_with_tokens() as gateway:
        assert gateway.post(body, TOKEN, "a very secret key", source="127.0.0.77").status == 202
        assert gateway.post(body, "a wrong secret", source="127.0.0.77").status == 401
        assert gateway.post(b"rubbish", TOKEN, source="127.0.0.77").status == 400
        for rude in (
            b"\x16\x03\x01 no http",
            b"GET /\x00 HTTP/1.1\r\n\r\n",
            b"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        ):
            with socket.create_connection(("127.0.0.1", gateway.port), source_address=("127.0.0.77", 0)) as connection:
                connection.sendall(rude)
                connection.recv(1000)
        assert gateway.ask("GET", "/v1/queries", Authorization=f"Bearer {TOKEN}").status == 200
        metrics = gateway.ask("GET", "/metrics").body.decode()
        assert gateway.stop() == 0
    text = gateway.log_text + metrics + "".join(str(record) for record, _ in site.frames())
    for secret in ("127.0.0.77", TOKEN, "very secret", "wrong secret", "rubbish"):
        assert secret not in text
