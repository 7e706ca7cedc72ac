"""What is said while Kafka is away: each thing once, not forty times a second."""

import sys
import time

from tests.brokers import Tansu, create_topics
from tests.integration.workers import Worker, environment

QUERY = '[queries.page]\ndomain = ["a", "b"]\nepsilon = 1.0\npane = "1s"\nlateness = "1s"\n'
LINES = 20
"""Far above what is new in an outage, far below what libraries would say of it."""


def test_an_outage_is_said_in_a_few_lines_by_all_that_live_through_it(tmp_path):
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
            before = [process.log_text for process in running]
            broker.stop()
            time.sleep(5)  # two hundred lines of aiokafka's own
            for command, process, earlier in zip(commands, running, before, strict=True):
                assert process.running
                lines = process.log_text.removeprefix(earlier).splitlines()
                assert 0 < len(lines) <= LINES, (command, lines)
        finally:
            for process in running:
                process.end()
