"""SIGTERM at several moments of the start, with many definitions: each command ends in order."""

import subprocess
import time

import pytest

from tests.integration.workers import HUBBUB, Place, environment
from tests.queries import make_text

DEFINITIONS = 300
MOMENTS = (0.4, 0.8, 1.2, 2.0)
"""Seconds from the start of a process to its SIGTERM."""
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


@pytest.mark.parametrize("name", ["worker", "gateway", "board", "tail", "check"])
def test_a_command_obeys_at_any_moment(place, name, tmp_path):
    env = environment(place.kafka, place.file)
    log = tmp_path / "log"
    for moment in MOMENTS:
        with (tmp_path / "output").open("wb") as output, log.open("wb") as errors:
            process = subprocess.Popen([HUBBUB, name], env=env, stdout=output, stderr=errors)
        try:
            time.sleep(moment)
            process.terminate()
            assert process.wait(BOUND) in (0, BEFORE_PYTHON)
            assert b"Traceback" not in log.read_bytes()
        finally:
            process.kill()
            process.wait()
