"""`hubbub demo`, the first minute of a new user, and its clean end."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager

import pytest

from aggregator.demo import pace
from tests.integration.demos import DEMO, processes, running
from tests.queries import LIVE, make_text

PATCH_OF_DEMO = (
    "import sys; from aggregator.demo import command, crashes, surge; {}; sys.exit(command.main(sys.argv[1:]))"
)
EARLY = PATCH_OF_DEMO.format(
    "surge.BEGINS = 8; crashes.FIRST_END = 30; crashes.SHARE = 0.5; crashes.CRASHES = {'null tile in map view': 0}"
)

SENDS = r"^machine: .* (\d[\d,]*)"
"""The last number of the line. A busy machine is too slow for one number before it."""
CROWD = r"^crowd: ([\d,]+) answers per second to homepage"


@pytest.mark.parametrize("rate", pace.RATES)
@pytest.mark.parametrize("capacity", [0.1, 99.0])
def test_the_last_number_of_the_machine_is_what_the_crowd_sends(rate, capacity):
    line = str(pace.MachinePace(2, capacity, rate))
    assert int(re.search(SENDS, line)[1].replace(",", "")) == rate


@pytest.mark.waits
def test_it_shows_estimates_a_surge_and_a_new_crash_survives_a_killed_worker_and_ends_on_ctrl_c(tmp_path):
    with running(tmp_path, command=(sys.executable, "-c", EARLY)) as run:
        run.until("page: |there is no page")
        os.kill(run.worker(), signal.SIGKILL)
        run.until("^the worker ended with exit code -9; starting it again")
        run.until("^first estimates")
        assert "127.0.0.1:" in run.output
        rate, pages = (int(run.has_printed(pattern)[1].replace(",", "")) for pattern in (SENDS, CROWD))
        assert pages == rate // 2
        rise = run.until(r"ALERT surge: page-42 has risen to ([\d.]+)% \(([\d.]+)% to ([\d.]+)%\), before ([\d.-]+)%")
        share, low, high, before = map(float, rise.groups())
        assert before < low < share < high
        crash = run.has_printed(r"^FOUND: null tile in map view of crashes: ([\d.]+)% \(([\d.]+)% to ([\d.]+)%\)")
        share, low, high = map(float, crash.groups())
        assert 0.0 < low < share < high
        assert len(re.findall("^FOUND", run.output, re.MULTILINE)) == 1
        run.process.send_signal(signal.SIGINT)
        assert run.ended() == 0
        assert run.output.endswith("ending\n")


def test_with_a_real_kafka_it_has_its_own_prefix(kafka, tmp_path):
    with running(tmp_path, "--kafka", kafka.bootstrap) as run:
        run.until("^surge:")
        assert f"Kafka: {kafka.bootstrap}, topics hubbub-demo.*, which remain" in run.output
        run.until("^first estimates")
        run.process.send_signal(signal.SIGTERM)
        assert run.ended() == 0


def test_nothing_remains_after_a_kill(tmp_path):
    with running(tmp_path) as run:
        run.until("page: |there is no page")
        assert len(processes(tmp_path)) > 4
        run.process.kill()
        assert run.ended() == -signal.SIGKILL


def test_it_ends_after_its_seconds_and_uses_another_port_if_its_own_is_in_use(tmp_path):
    file = tmp_path / "two.toml"
    file.write_text(
        make_text("a", LIVE, domain=["x", "y"]) + make_text("b", LIVE, attributes={"age": 5, "sex": ["f", "m"]})
    )
    folder = tmp_path / "folder"
    folder.mkdir()
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]  # not the usual one, which another test's demo may have, and give back
        command = (sys.executable, "-c", PATCH_OF_DEMO.format(f"command.PAGE = {port}"))
        with running(folder, "--seconds", "6", "--queries", str(file), command=command) as run:
            assert run.ended() == 0
    assert f"port {port} is in use; the page uses port " in run.output
    assert "surge: y of a, 60 s from now" in run.output
    assert re.search("^crowd: [0-9,]+ answers per second to b", run.output, re.MULTILINE)
    assert "started again" not in run.output


@pytest.mark.long
def test_it_finds_both_new_crashes(tmp_path):
    with running(tmp_path, wait=600) as run:
        run.until("^FOUND: null tile in map view of crashes")
        run.until("crashes 5m: ALERT enter: bad magic in cache ")
        run.has_printed("^FOUND: bad magic in cache of crashes")
        run.process.send_signal(signal.SIGINT)
        assert run.ended() == 0
    assert "anr in login of" not in run.output


@contextmanager
def one_busy_core():
    """Yield the beginning of a command that has one core, which it shares with a busy loop."""
    core = str(min(os.sched_getaffinity(0)))
    loop = subprocess.Popen(["taskset", "-c", core, sys.executable, "-c", "while True: pass"])
    try:
        yield "taskset", "-c", core
    finally:
        loop.kill()
        loop.wait()


@pytest.mark.long
@pytest.mark.skipif(not shutil.which("taskset"), reason="taskset is missing")
def test_on_one_core_with_a_load_beside_it_keeps_its_promises_or_moves_them(tmp_path):
    with one_busy_core() as prefix, running(tmp_path, command=(*prefix, *DEMO), wait=600) as run:
        assert int(run.until(SENDS)[1].replace(",", "")) < pace.RATES[0]
        run.until("^first estimates")
        run.until("^FOUND: null tile in map view of crashes")
        run.has_printed("ALERT (surge|enter): page-42 ")

        # A window ends 75 s after the start. A name that comes much later was announced anew.
        found = re.search("^FOUND.*", run.output, re.MULTILINE)
        before = run.output[: found.start()]
        if "late: results come" in before:
            assert re.search("late: the name of the crash .* appears in about|on time again", before)
        run.process.send_signal(signal.SIGINT)
        assert run.ended() == 0
