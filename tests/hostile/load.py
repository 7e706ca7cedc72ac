"""The CPU time that other work takes on this machine. Beside it, times show the machine and not the port."""

import os
import time
from pathlib import Path

QUIET = 0.15
"""Cores in use by other work, below which the times of a row are judged."""
_TICKS = os.sysconf("SC_CLK_TCK")


def busy_seconds():
    """Return the CPU seconds that all processes of the machine have used."""
    user, nice, system, _, _, irq, soft_irq, steal = map(int, Path("/proc/stat").read_text().split()[1:9])
    return (user + nice + system + irq + soft_irq + steal) / _TICKS


def process_seconds(number):
    """Return the CPU seconds of a process."""
    fields = Path(f"/proc/{number}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


class OtherWork:
    """The cores that other work uses, while this process and some more are measured."""

    def __init__(self, *processes):
        self._processes = ("self", *processes)
        self._start = time.monotonic()
        self._seconds = self._read()

    def cores(self):
        """Return the mean number of cores since the start."""
        seconds = max(0.0, self._read() - self._seconds)
        return seconds / max(1e-9, time.monotonic() - self._start)

    def _read(self):
        return busy_seconds() - sum(map(process_seconds, self._processes))
