"""Signals to processes that are forks."""

import os
import signal
import subprocess
import sys

from tests.forks import Fork


def test_a_signal_to_a_process_whose_end_is_not_yet_reported_is_no_error():
    """The server of forks has waited for the process, but has not written its exit code."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    process = Fork.__new__(Fork)
    process.returncode, process.pid = None, ended.pid
    process._status, writer = os.pipe()

    process.send_signal(signal.SIGCONT)

    os.close(process._status)
    os.close(writer)
