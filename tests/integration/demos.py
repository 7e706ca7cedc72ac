"""Demos that run in a folder of their own, with their processes and their output."""

import os
import re
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.slowness import patience

WAIT = 90
DEMO = sys.executable, "-m", "hubbub", "demo"


def processes(folder):
    """Return the processes of a demo, which have this folder in their environment."""
    pids = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if str(folder).encode() in (place / "environ").read_bytes():
                pids[int(place.name)] = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue  # it has ended, or is another user's
    return pids


class Running:
    """A demo with its temporary files and home in its own folder, and its output so far."""

    def __init__(self, folder, command, wait):
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
        self.output = ""
        self._is_over = threading.Event()
        threading.Thread(target=self._kill_after, args=[wait], daemon=True).start()

    def _kill_after(self, seconds):
        """Kill a demo that hangs. The load may grow while it runs, so the limit is computed anew."""
        begin = time.monotonic()
        while time.monotonic() - begin < patience(seconds):
            if self._is_over.wait(1.0):
                return
        self.process.kill()

    def until(self, pattern):
        """Read its output until a line matches."""
        for text in self.process.stdout:
            self.output += text
            match = re.search(pattern, text)
            if match:
                return match
        pytest.fail(f"{pattern!r} was not printed: {self.output}")

    def has_printed(self, pattern):
        """Find a line in the output so far, or read on until one matches."""
        return re.search(pattern, self.output, re.MULTILINE) or self.until(pattern)

    def worker(self):
        """Return the process of the worker."""
        return next(pid for pid, command in processes(self.folder).items() if re.search("python.* worker", command))

    def ended(self):
        """Wait until all processes of the demo are gone. Return its exit code."""
        self.output += self.process.stdout.read()
        code = self.process.wait()
        deadline = time.monotonic() + patience(10.0)
        while time.monotonic() < deadline and (processes(self.folder) or list(self.folder.iterdir())):
            time.sleep(0.1)
        assert processes(self.folder) == {}
        assert list(self.folder.iterdir()) == []
        return code

    def close(self):
        self._is_over.set()
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@contextmanager
def running(folder, *options, command=DEMO, wait=WAIT):
    run = Running(folder, (*command, "--no-browser", *options), wait)
    try:
        yield run
    finally:
        run.close()
