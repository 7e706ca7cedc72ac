"""The log during an outage of Kafka. It has each event once, not forty times a second."""

import sys

from tests.brokers import Tansu, create_topics
from tests.integration.workers import Worker, environment, until
from tests.queries import make_text

ATTEMPTS = 20
"""Attempts of each command to reach Kafka during the outage. aiokafka logs each of them, more than once."""
COUNTS = """
import os, sys
from aiokafka.conn import AIOKafkaConnection
from hubbub.__main__ import main
connect = AIOKafkaConnection.connect
async def counted(connection):
    with open(os.environ["ATTEMPTS"], "ab") as file:
        file.write(b"x")
    return await connect(connection)
AIOKafkaConnection.connect = counted
sys.exit(main(sys.argv[1:]))
"""
QUERY = make_text("page", domain=["a", "b"], pane="1s", lateness="1s")
LINES = 20
"""The most lines of an outage. Its events need far fewer, and the messages of libraries would be far more."""


def start(command, env, folder):
    """Start a command that counts its attempts to reach a broker."""
    name = command.split()[0]
    file = folder / f"{name}.attempts"
    process = Worker([sys.executable, "-c", COUNTS, *command.split()], {**env, "ATTEMPTS": str(file)}, folder, name)
    process.attempts = lambda: file.stat().st_size
    return process


def test_every_command_logs_an_outage_in_a_few_lines(tmp_path):
    file = tmp_path / "hubbub.toml"
    file.write_text(QUERY)
    commands = ("worker", "board", "gateway", "tail", "simulate --clients 20 --rate 10")
    with Tansu() as broker:
        env = environment(create_topics(broker, 2), file)
        running = [start(command, env, tmp_path) for command in commands]
        try:
            worker, board, gateway, _, crowd = running
            for server in worker, board, gateway:
                server.ready()
            assert crowd.address
            texts_before = [process.log_text for process in running]
            attempts = [process.attempts() for process in running]
            broker.stop()
            for process, earlier in zip(running, attempts, strict=True):
                until(lambda process=process, earlier=earlier: process.attempts() >= earlier + ATTEMPTS)
            for command, process, earlier in zip(commands, running, texts_before, strict=True):
                assert process.running
                lines = process.log_text.removeprefix(earlier).splitlines()
                assert 0 < len(lines) <= LINES, (command, lines)
        finally:
            for process in running:
                process.end()
