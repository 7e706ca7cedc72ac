"""SIGTERM at several moments of the start, with many definitions: each command ends in order."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from tests.integration.workers import HUBBUB, Place, environment
from tests.queries import make_text
from tests.slowness import patience

DEFINITIONS = 300
MOMENTS = (0.4, 0.8, 1.2, 2.0)
"""Seconds of CPU that a process has used when SIGTERM comes. On a busy machine they come later."""
BOUND = 60.0
"""Seconds after which a process that must end counts as hung."""
BEFORE_PYTHON = -15
"""The exit code of a process whose Python has not started yet."""


@pytest.fixture(scope="module")
def place(kafka, tmp_path_factory):
    text = "".join(make_text(f"q{number}", domain=4) for number in range(DEFINITIONS))
    with Place(kafka, tmp_path_factory.mktemp("sigterm"), text) as place:
        assert place.start().ready().stop() == 0
        yield place


def wait_for_work(process, seconds):
    """Wait until a process has used these seconds of CPU, has ended, or waits for a broker instead."""
    end = time.monotonic() + patience(seconds)
    while process.poll() is None and cpu_seconds(process.pid) < seconds and time.monotonic() < end:
        time.sleep(0.02)


def cpu_seconds(pid):
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return float("inf")  # it has ended since
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("name", ["worker", "gateway", "board", "tail", "check"])
def test_a_command_obeys_at_any_moment(place, name, tmp_path):
    env = environment(place.kafka, place.file)
    log = tmp_path / "log"
    for moment in MOMENTS:
        with (tmp_path / "output").open("wb") as output, log.open("wb") as errors:
            process = subprocess.Popen([HUBBUB, name], env=env, stdout=output, stderr=errors)
        try:
            wait_for_work(process, moment)
            process.terminate()
            assert process.wait(patience(BOUND)) in (0, BEFORE_PYTHON)
            assert b"Traceback" not in log.read_bytes()
        finally:
            process.kill()
            process.wait()
