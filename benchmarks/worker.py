"""A worker on its own core, with the broker on another, and the worker's metrics."""

import os
import subprocess
import sys
import urllib.request
from pathlib import Path

import numpy as np

from tests.integration.workers import environment

HUBBUB = Path(sys.executable).with_name("hubbub")
OURS, THEIRS = (sorted(os.sched_getaffinity(0)) * 2)[:2]
PARTITIONS = 4
BROKER = ("-XX:TieredStopAtLevel=4", "-Xmx1g")
"""Java options of production. Tests use options for a quick start."""
RNG = np.random.default_rng(20260101)
QUERY = """\
[queries.measured]
domain = {size}
oracle = "{oracle}"
epsilon = 1.0
budget = 1e9
pane = "1h"
lateness = "1h"
windows = ["1h"]
emit_every = "never"
max_ids = 2_000_000
"""


def pin(core):
    os.sched_setaffinity(0, {core})


def worker(kafka, queries, core=OURS):
    env = environment(kafka, queries) | {"HUBBUB_LOG_LEVEL": "warning"}
    return subprocess.Popen(  # noqa: S603 - our own command
        [str(HUBBUB), "worker"],
        env=env,
        stdout=subprocess.PIPE,
        preexec_fn=lambda: pin(core),  # noqa: PLW1509
    )


class Metrics:
    """The metrics of a worker."""

    def __init__(self, process):
        self.address = process.stdout.readline().split()[-1].decode()

    def read(self):
        with urllib.request.urlopen(self.address, timeout=10) as answer:  # noqa: S310 - our own worker's
            lines = answer.read().decode().splitlines()
        metrics = {}
        for line in lines:
            if not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                metrics[name.partition("{")[0]] = metrics.get(name.partition("{")[0], 0.0) + float(value)
        return metrics
