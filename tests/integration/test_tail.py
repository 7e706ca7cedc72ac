"""`hubbub tail` on real brokers. It shows the published records and ends cleanly."""

import asyncio
import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from contextlib import contextmanager

import pytest
from aiokafka import AIOKafkaProducer

from aggregator.reading.tail import command as tail
from hubbub.kafka.clients import client_arguments, started
from hubbub.kafka.settings import ALERTS, ESTIMATES
from tests import forks
from tests.brokers import create_topics
from tests.slowness import patience

START = 1_700_000_000
WAIT = 30
COMMAND = (sys.executable, "-m", "hubbub", "tail")


HITTER = {"value": "a", "share": 0.4, "decided": True, "p_value": 1e-9, "probability": None, "ranks": [2, 2]}


def record(query="visits", end=10, *, final=True):
    return {
        "version": 2,
        "query": query,
        "attribute": None,
        "digest": "0123456789abcdef",
        "window": {"kind": "tumbling", "start": START + end - 10, "end": START + end, "size": 10, "step": 10},
        "final": final,
        "refused": {"duplicate": 0, "implausible": 0},
        "n": 1000,
        "n_independent": 1000,
        "oracle": {"name": "grr", "p": 0.75, "q": 0.25, "epsilon": 1.1, "record_epsilon": 1.1},
        "sigma": 0.01,
        "detectable": 0.04,
        "shift_per_fake": 0.001,
        "values": ["b\x1b[2J", "a"],
        "shares": {"unbiased": [0.6, 0.4], "norm_sub": [0.6, 0.4]},
        "stderr": [0.01, 0.01],
        "low": [0.58, 0.38],
        "high": [0.62, 0.42],
        "hitters": {"unbiased": [], "norm_sub": [HITTER]},
        "sets": {},
        "quality": {"flags": []},
    }


def alert(query="visits"):
    window = record()["window"]
    event = {
        "version": 1,
        "id": "0" * 32,
        "kind": "surge",
        "query": query,
        "digest": "0123456789abcdef",
        "attribute": None,
    }
    return event | {
        "value": "a",
        "window": window,
        "share": 0.4,
        "low": 0.38,
        "high": 0.42,
        "before": 0.1,
        "probability": None,
    }


def line(message):
    return tail.line(json.dumps(message).encode())


def publish(kafka, *messages):
    async def send():
        async with started(AIOKafkaProducer(**client_arguments(kafka)), kafka) as producer:
            for message in messages:
                topic = kafka.topic(ALERTS if message.get("kind") else ESTIMATES)
                value = json.dumps(message).encode()
                await producer.send_and_wait(topic, value, key=value)  # a compacted topic wants a key

    asyncio.run(send())


@pytest.fixture
def kafka(broker):
    return create_topics(broker, 2)


@contextmanager
def tailing(kafka, *options):
    where = ("--kafka", kafka.servers, "--prefix", kafka.prefix)
    command = forks.start((*COMMAND, *where, *options), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield command
    finally:
        command.kill()
        command.communicate()


def read(command, count):
    return [command.stdout.readline() for _ in range(count)]


def test_json_has_a_line_for_each_final_and_alert_and_ends_on_a_signal(kafka):
    publish(kafka, record(), record(final=False), record("clicks"), alert("clicks"), {"final": True}, alert())
    with tailing(kafka, "visits", "--json") as command:
        assert sorted(read(command, 2)) == sorted(map(line, (record(), alert())))
        publish(kafka, record(end=20))
        assert read(command, 1) == [line(record(end=20))]
        command.send_signal(signal.SIGINT)
        assert command.communicate(timeout=patience(WAIT)) == ("", "")
        assert command.returncode == 0


def test_without_a_terminal_it_prints_lines(kafka):
    publish(kafka, record(), alert())
    with tailing(kafka) as command:
        output = "".join(sorted(read(command, 2)))
        assert r"visits 10s: 1,000 reports, 1 frequent (1 proved), standard error 1.0%" in output
        assert r"b\x1b[2J 60.0% (58.0% to 62.0%), a 40.0% (38.0% to 42.0%)" in output
        assert "visits 10s: ALERT surge: a has risen to 40.0% (38.0% to 42.0%), before 10.0%" in output
        command.send_signal(signal.SIGTERM)
        assert command.communicate(timeout=patience(WAIT)) == ("", "")
        assert command.returncode == 0


def test_it_starts_at_the_requested_records(tansu):
    kafka = create_topics(tansu, 1)
    publish(kafka, *(record(end=end) for end in range(10, 60, 10)))
    with tailing(kafka, "--json", "--last", "2") as command:
        ends = [json.loads(text)["window"]["end"] - START for text in read(command, 2)]
    assert ends[-1] == 50 or ends == [40, 50]  # the embedded broker may name an end that is one too low


def test_the_end_of_a_pipe_ends_it(tansu):
    kafka = create_topics(tansu, 1)
    publish(kafka, record())
    with tailing(kafka, "--json") as command:
        read(command, 1)
        command.stdout.close()
        publish(kafka, record(end=20))
        assert command.wait(patience(WAIT)) == 0
        assert command.stderr.read() == ""


def test_one_key_leads_to_each_page_of_a_terminal(tansu):
    kafka = create_topics(tansu, 2)
    publish(kafka, record(), record("clicks"))
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    where = ("--kafka", kafka.servers, "--prefix", kafka.prefix)
    environment = os.environ | {"TERM": "xterm"}
    before = termios.tcgetattr(theirs)
    command = subprocess.Popen((*COMMAND, *where), stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    try:
        for key, text in (
            ("", "keys: 1 to 2"),
            ("2", "visits 10s, to"),
            ("0", "keys: 1 to 2"),
            ("1", "clicks 10s, to"),
        ):
            os.write(ours, key.encode())
            assert text in until_shown(ours, text)
        os.write(ours, b"q")
        until_shown(ours, None)
        assert command.wait(patience(WAIT)) == 0
        assert termios.tcgetattr(theirs) == before, "the terminal is as it was"
    finally:
        command.kill()
        command.wait()


def until_shown(terminal, text):
    """Return what the terminal shows until a text comes, or for two seconds."""
    output = ""
    end = time.monotonic() + (2 if text is None else patience(WAIT))
    while time.monotonic() < end and (text is None or text not in output):
        if select.select([terminal], [], [], 0.2)[0]:
            output += os.read(terminal, 65_536).decode(errors="replace")
    return output


def test_missing_topics_are_reported(tansu, capsys):
    assert tail.main(["--kafka", "127.0.0.1:1"]) == 3
    assert "Kafka at 127.0.0.1:1 cannot be reached" in capsys.readouterr().err
    assert tail.main(["--kafka", tansu.bootstrap, "--prefix", "nobody."]) == 4
    assert capsys.readouterr().err.startswith(
        "hubbub tail: nobody.estimates: there is no such topic; run `hubbub topics`"
    )
