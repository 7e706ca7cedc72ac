"""Messages that name the cause. Each row of a table has what happens to a command, its exit code and its words."""

import signal
from datetime import UTC, datetime, timedelta

import pytest
import trustme

from hubbub.kafka import settings
from tests.commands import run_worker
from tests.integration.gateways import Gateway
from tests.integration.queries import PAGE
from tests.integration.test_sigterm import wait_for_work
from tests.integration.workers import Place, until

CLOCK = """\
import time
from hubbub import outside
wall = time.time
outside.wall = time.time = lambda: wall() + {seconds}
"""
"""A patch for a machine whose clock is wrong."""
PROTOCOL = settings.SECURITY


@pytest.fixture
def place(kafka, tmp_path):
    with Place(kafka, tmp_path, PAGE) as place:
        yield place


@pytest.fixture
def wide_place(cluster, tmp_path):
    """Return a place on three brokers."""
    with Place(cluster, tmp_path, PAGE) as place:
        yield place


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-3600, "the clock of this machine is 3,600 s behind the brokers'"),
        (3600, "the clock of this machine is 3,600 s ahead of the brokers'"),
    ],
)
def test_a_wrong_clock_of_the_own_machine_is_one_warning(place, seconds, words):
    worker = place.start(patch=CLOCK.format(seconds=seconds)).ready()
    until(lambda: worker.running and words in worker.log_text)
    # A tick can take a while on a busy machine, and only what is certain counts.
    [(_, offset)] = worker.metrics()["hubbub_clock_offset_seconds"]
    assert offset == pytest.approx(seconds, abs=30)
    assert all(ahead < 2 for _, ahead in worker.metrics()["hubbub_clock_ahead_seconds"])
    assert worker.stop() == 0
    assert not worker.events_of("critical")
    assert len([event for event in worker.events_of("warning") if words in event["message"]]) == 1


PROTOCOLS = [
    ("scram", {PROTOCOL: "PLAINTEXT"}, "speaks TLS, so HUBBUB_KAFKA_SECURITY_PROTOCOL is probably SSL or SASL_SSL"),
    ("mutual", {PROTOCOL: "PLAINTEXT"}, "speaks TLS, so HUBBUB_KAFKA_SECURITY_PROTOCOL is probably SSL or SASL_SSL"),
    (
        "scram",
        {PROTOCOL: "SASL_PLAINTEXT"},
        "speaks TLS, so HUBBUB_KAFKA_SECURITY_PROTOCOL is probably SSL or SASL_SSL",
    ),
    ("scram", {"HUBBUB_KAFKA": None}, "does not speak TLS, so HUBBUB_KAFKA_SECURITY_PROTOCOL is probably PLAINTEXT"),
    ("mutual", {"HUBBUB_KAFKA": None}, "does not speak TLS, so HUBBUB_KAFKA_SECURITY_PROTOCOL is probably PLAINTEXT"),
    (
        "scram",
        {"HUBBUB_KAFKA": None, PROTOCOL: "SASL_PLAINTEXT"},
        "takes no login, so HUBBUB_KAFKA_SECURITY_PROTOCOL is probably PLAINTEXT, not SASL_PLAINTEXT",
    ),
    (
        "scram",
        {PROTOCOL: "SSL"},
        "HUBBUB_KAFKA_SECURITY_PROTOCOL is probably SASL_SSL, or the broker asks for a certificate",
    ),
]
"""A login, the variables that are wrong, and the words. The address None is the plain port."""
LOGIN = {settings.MECHANISM, settings.USERNAME, settings.PASSWORD_FILE}
FILES = {settings.CA_FILE, settings.CERT_FILE, settings.KEY_FILE}


@pytest.mark.parametrize(("how", "wrong", "words"), PROTOCOLS)
def test_a_wrong_protocol_names_the_likely_one(secured_kafka, tmp_path, monkeypatch, capsys, how, wrong, words):
    environment = secured_kafka.login(how) | wrong
    environment["HUBBUB_KAFKA"] = environment["HUBBUB_KAFKA"] or secured_kafka.bootstrap
    protocol = environment[PROTOCOL]
    # A setting that the protocol does not use is another error.
    other_names = (set() if "SASL" in protocol else LOGIN) | (set() if protocol.endswith("SSL") else FILES)
    for name in environment.keys() - other_names:
        monkeypatch.setenv(name, environment[name])

    file = tmp_path / "hubbub.toml"
    file.write_text(PAGE)
    assert run_worker(monkeypatch, "--queries", file, "--port", 0) == 3
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=pytest.mark.long)])
def test_a_worker_starts_without_one_broker_of_three(cluster, wide_place, number):
    """A frozen broker accepts connections and never answers, so it costs the start half a minute."""
    (cluster.kill if number == signal.SIGKILL else cluster.freeze)(0)
    absent = cluster.nodes[0].bootstrap
    worker = wide_place.start()
    until(lambda: worker.running and worker.get("/readyz")[0] == 200, 120)
    if number == signal.SIGSTOP:
        [event] = [event for event in worker.events_of("warning") if "a broker is missing" in event["message"]]
        assert f"no answer from {absent}, but from " in event["message"]
    assert worker.stop() == 0


def test_a_second_process_of_one_name_ends_with_one_critical_line(place):
    older_worker = place.start(HUBBUB_INSTANCE="one").ready()
    newer_worker = place.start(HUBBUB_INSTANCE="one").ready()
    assert older_worker.wait() == 4
    [event] = older_worker.events_of("critical")
    assert "another process has started with the name 'one' (HUBBUB_INSTANCE)" in event["message"]
    assert older_worker.events()[-1] == event
    assert "Traceback" not in older_worker.log_text
    assert newer_worker.running


@pytest.mark.parametrize("seconds", [0.1, 0.3, 0.6, 1.0])
def test_sigterm_in_the_first_second_is_an_orderly_end(place, seconds):
    worker = place.start()
    wait_for_work(worker.process, seconds)
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0
    assert "Traceback" not in worker.log_text


@pytest.mark.parametrize(("days", "words"), [(-1, "has ended at "), (3, "ends at "), (90, None)])
def test_a_gateway_warns_of_its_certificate(place, days, words):
    end = datetime.now(UTC) + timedelta(days=days)
    pair = trustme.CA().issue_cert("127.0.0.1", not_after=end)
    for name, blob in (("cert", pair.cert_chain_pems[0]), ("key", pair.private_key_pem)):
        blob.write_to_path(place.folder / f"{name}.pem")

    files = ("--tls-cert", str(place.folder / "cert.pem"), "--tls-key", str(place.folder / "key.pem"))
    with Gateway(place, "--port", "0", *files) as gateway:
        if words is not None:
            until(lambda: words in gateway.log_text)
        assert gateway.stop() == 0
    assert ("the certificate in" in gateway.log_text) == (words is not None)
    assert "Traceback" not in gateway.log_text
