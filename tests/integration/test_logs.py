"""The log during an outage of Kafka. It has each event once, not forty times a second."""

import sys
import time

from tests.brokers import Tansu, create_topics
from tests.integration.workers import Worker, environment
from tests.queries import make_text

QUERY = make_text("page", domain=["a", "b"], pane="1s", lateness="1s")
LINES = 20
"""The most lines of an outage. Its events need far fewer, and the messages of libraries would be far more."""


def test_every_command_logs_an_outage_in_a_few_lines(tmp_path):
    file = tmp_path / "hubbub.toml"
    file.write_text(QUERY)
    commands = ("worker", "board", "gateway", "tail", "simulate --clients 20 --rate 10")
    with Tansu() as broker:
        env = environment(create_topics(broker, 2), file)
        running = [Worker([sys.executable, "-m", "hubbub", *c.split()], env, tmp_path, c.split()[0]) for c in commands]
        try:
            worker, board, gateway, _, crowd = running
            for server in worker, board, gateway:
                server.ready()
            assert crowd.address
            texts_before = [process.log_text for process in running]
            broker.stop()
            time.sleep(5)  # two hundred lines of aiokafka's own
            for command, process, earlier in zip(commands, running, texts_before, strict=True):
                assert process.running
                lines = process.log_text.removeprefix(earlier).splitlines()
                assert 0 < len(lines) <= LINES, (command, lines)
        finally:
            for process in running:
                process.end()
