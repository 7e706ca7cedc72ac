"""Commands that end in the process of the test."""

import threading
import time

from aggregator.worker import command as worker
from hubbub.command import logs
from tests.slowness import patience


def run_worker(monkeypatch, *arguments):
    """Return the exit code of `hubbub worker`. It must end before it counts."""
    monkeypatch.setattr(logs, "configure", lambda *_: None)
    code = worker.main([*map(str, arguments)])
    end = time.monotonic() + patience(60)
    while "watchdog" in [thread.name for thread in threading.enumerate()]:  # it would end this process
        assert time.monotonic() < end, "the watchdog's thread still runs"
        time.sleep(0.05)
    return code
