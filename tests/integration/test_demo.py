"""`hubbub demo`: what a new user sees in the first minute, and that nothing stays behind."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from aggregator.demo import command as demo

WAIT = 90
CHANGED = "import sys; from aggregator.demo import command, surge; {}; sys.exit(command.main(sys.argv[1:]))"
EARLY = CHANGED.format("surge.BEGINS = 8")


def processes(folder):
    """Those that have this folder in their environment: all that a demo started."""
    found = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if str(folder).encode() in (place / "environ").read_bytes():
                found[int(place.name)] = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue  # it has ended, or is another user's
    return found


class Running:
    """A demo whose temporary files and home are in a folder of its own, and what it said so far."""

    def __init__(self, folder, command):
        self.folder = folder
        self.process = subprocess.Popen(
            command,
            env={
                **os.environ,
                "TMPDIR": str(folder),
                "HOME": str(folder),
                "HUBBUB_KAFKA": "127.0.0.1:1",
                "HUBBUB_PORT": "x",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.said = ""
        self._late = threading.Timer(WAIT, self.process.kill)
        self._late.start()

    def until(self, pattern):
        """Read on until it has said this."""
        for text in self.process.stdout:
            self.said += text
            if match := re.search(pattern, text):
                return match
        pytest.fail(f"{pattern!r} was not said: {self.said}")

    def worker(self):
        """The process of the worker."""
        return next(pid for pid, command in processes(self.folder).items() if re.search("python.* worker", command))

    def ended(self):
        """The exit code, once all that it started is gone, too."""
        self.said += self.process.stdout.read()
        code = self.process.wait()
        until = time.monotonic() + 10.0
        while time.monotonic() < until and (processes(self.folder) or list(self.folder.iterdir())):
            time.sleep(0.1)
        assert processes(self.folder) == {}
        assert list(self.folder.iterdir()) == []
        return code

    def close(self):
        self._late.cancel()
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@contextmanager
def running(folder, *options, command=(sys.executable, "-m", "hubbub", "demo")):
    run = Running(folder, (*command, "--no-browser", *options))
    try:
        yield run
    finally:
        run.close()


def test_estimates_come_then_a_surge_whoever_is_killed_and_ctrl_c_ends_it_all(tmp_path):
    with running(tmp_path, command=(sys.executable, "-c", EARLY)) as run:
        run.until("page: |there is no page")
        os.kill(run.worker(), signal.SIGKILL)
        run.until("^the worker ended with -9; it is started again")
        run.until("^first estimates")
        assert "127.0.0.1:" in run.said
        assert "50,000 answers a second to homepage" in run.said
        risen = run.until(r"ALERT surge: page-42 has risen to ([\d.]+)% \(([\d.]+)% to ([\d.]+)%\), before ([\d.-]+)%")
        share, low, high, before = map(float, risen.groups())
        assert before < low < share < high
        run.process.send_signal(signal.SIGINT)
        assert run.ended() == 0
        assert run.said.endswith("ending\n")


def test_on_a_real_kafka_it_has_a_prefix_of_its_own(kafka, tmp_path):
    with running(tmp_path, "--kafka", kafka.bootstrap) as run:
        run.until("^surge:")
        assert f"Kafka: {kafka.bootstrap}, topics hubbub-demo.*, which stay" in run.said
        run.until("^first estimates")
        run.process.send_signal(signal.SIGTERM)
        assert run.ended() == 0


def test_all_is_gone_when_it_is_killed(tmp_path):
    with running(tmp_path) as run:
        run.until("page: |there is no page")
        assert len(processes(tmp_path)) > 4
        run.process.kill()
        assert run.ended() == -signal.SIGKILL


def test_it_ends_after_its_seconds_and_takes_another_port_where_its_own_is_taken(tmp_path):
    file = tmp_path / "two.toml"
    file.write_text(
        '[queries.a]\ncrowd = 1\ndomain = ["x", "y"]\nepsilon = 1.0\nbudget = 1e9\npane = "1s"\n'
        '[queries.b]\ncrowd = 1\nattributes = { age = 5, sex = ["f", "m"] }\nepsilon = 1.0\nbudget = 1e9\npane = "1s"\n'
    )
    folder = tmp_path / "folder"
    folder.mkdir()
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]  # not the usual one, which another test's demo may have, and give back
        command = (sys.executable, "-c", CHANGED.format(f"command.PAGE = {taken}"))
        with running(folder, "--seconds", "6", "--queries", str(file), command=command) as run:
            assert run.ended() == 0
    assert f"port {taken} is taken: the page takes " in run.said
    assert "surge: y of a, 60 s from now" in run.said
    assert "25,000 answers a second to b" in run.said
    assert "started again" not in run.said


def test_what_cannot_be_had_is_said(tmp_path, capsys):
    assert demo.main(["--kafka", "127.0.0.1:1", "--no-browser"]) == 3
    assert "hubbub demo: Kafka at 127.0.0.1:1 cannot be reached" in capsys.readouterr().err
    assert demo.main(["--queries", str(tmp_path / "none.toml")]) == 2
    assert "none.toml: cannot be read" in capsys.readouterr().err
    for wrong in (["--seconds", "0"], ["--kafka", "here"], ["--prefix", "a b"]):
        with pytest.raises(SystemExit) as ended:
            demo.main(wrong)
        assert ended.value.code == 2
