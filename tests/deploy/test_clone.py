"""A clone in a place that programs stumble over: below /tmp, with a space and an umlaut, in a home that is a link."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import pytest

from tests.brokers import Unavailable, jars, skip
from tests.deploy.compose import ROOT

TESTS = (
    "tests/unit/test_moments.py",
    "tests/integration/test_demo.py::test_it_ends_after_its_seconds_and_uses_another_port_if_its_own_is_in_use",
    "tests/integration/test_end_to_end.py::test_finals_are_byte_for_byte_those_of_the_log",
    "tests/faults/test_gateway.py::test_acknowledged_reports_survive_a_kafka_that_stops_for_twenty_seconds",
    "tests/browser/test_showing_page.py::test_a_value_that_does_not_exist_is_named",
    "tests/deploy/test_stack.py::test_the_stack_is_calm_and_raises_and_ends_the_alert_for_its_last_worker",
)
"""A small test of each suite, the demo and the whole stack."""


@pytest.fixture
def clone():
    """A clone with an environment of its own, which takes its packages from that of these tests."""
    try:
        kafka = jars()
    except Unavailable as error:
        skip(error)
    with tempfile.TemporaryDirectory(prefix="hubbub clön ", dir="/tmp") as folder:
        place = Path(folder)
        place.chmod(0o755)
        (place / "real home").mkdir()
        home = place / "home"
        home.symlink_to("real home")
        checkout = home / "hubbub"
        subprocess.run(("git", "clone", "--quiet", "--depth=1", f"file://{ROOT}", checkout), check=True)

        environment = checkout / ".venv"
        subprocess.run((sys.executable, "-m", "venv", "--without-pip", environment), check=True)
        python = environment / "bin" / "python"
        packages = Path(sysconfig.get_path("purelib", vars={"base": str(environment)}))
        (packages / "packages.pth").write_text(f"{checkout}\n{sysconfig.get_path('purelib')}\n")
        script = environment / "bin" / "hubbub"
        # pip writes such a script if the path of its Python has a space.
        script.write_text(f"#!/bin/sh\nexec '{python}' -m hubbub \"$@\"\n")
        script.chmod(0o755)
        # A build leaves these in the checkout.
        for kernel in ROOT.glob("oracles/kernels/_compiled*"):
            shutil.copy(kernel, checkout / "oracles" / "kernels")
        scripts = Path("aggregator", "board", "static", "vendor")
        shutil.copytree(ROOT / scripts, checkout / scripts)
        shutil.copytree(kafka, checkout / "build" / kafka.name)
        yield checkout, os.environ | {"HOME": str(home)}


@pytest.mark.long
@pytest.mark.parametrize("test", TESTS, ids=lambda test: test.split("/")[1] + "-" + Path(test).name.partition(".")[0])
def test_a_test_of_each_suite_passes_in_the_clone(clone, test):
    checkout, environment = clone
    command = [checkout / ".venv" / "bin" / "python", "-m", "pytest", "-q", "-p", "no:xdist", "-m", "", test]
    process = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stdout[-3000:] + process.stderr[-3000:]
    assert "skipped" not in process.stdout.splitlines()[-1]
