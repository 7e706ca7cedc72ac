"""`hubbub stop` and `hubbub resume` on a broker: a gateway refuses, and takes reports again."""

import os
import subprocess
import sys

import pytest

from hubbub.definitions.formats import KEY, newest_value
from tests.integration.gateways import Site
from tests.integration.workers import environment, until


@pytest.fixture
def site(tansu, tmp_path):
    with Site(tansu, tmp_path) as site:
        # A new prefix has the newest formats version from the start.
        site.send((0, newest_value(), KEY), topic="queries")
        site.define_in_topic(site.queries)
        yield site


def command(site, *arguments):
    """Run a command of hubbub, and return its process."""
    env = {**os.environ, **environment(site.kafka, site.file)}
    call = [sys.executable, "-m", "hubbub", *arguments]
    return subprocess.run(call, env=env, capture_output=True, text=True, timeout=120, check=False)


def state(gateway):
    return gateway.ask("GET", "/v1/state").body["queries"]["numbers"]


def test_a_stop_reaches_the_gateway_and_a_resume_ends_it(site):
    with site.gateway() as gateway:
        gateway.ready()
        assert gateway.post(site.some_frame()).status == 202
        assert not state(gateway)["stopped"]

        process = command(site, "stop", "numbers", "--reason", "wrong values")
        assert process.returncode == 0, process.stderr
        assert process.stdout.startswith("numbers: stopped since ")
        until(lambda: state(gateway)["stopped"])
        answer = gateway.post(site.some_frame())
        assert (answer.status, answer.body["reason"], answer.body["counted"]) == (409, "stopped", "none")
        assert gateway.ask("GET", "/v1/queries").body == {"queries": []}

        # A second stop changes nothing, and another gateway knows of the first from its start.
        again = command(site, "stop", "numbers")
        assert (again.returncode, again.stdout) == (0, process.stdout)
        with site.gateway() as other_gateway:
            assert other_gateway.ready().post(site.some_frame()).status == 409

        unknown = command(site, "stop", "nothing")
        assert unknown.returncode == 2, unknown.stderr
        assert "there is no query nothing; queries: numbers" in unknown.stderr

        process = command(site, "resume", "numbers")
        assert (process.returncode, process.stdout) == (0, "numbers: goes on\n")
        until(lambda: gateway.ask("GET", "/v1/queries").body["queries"])

    assert len(site.frames()) == 1
