"""The sender of the drills, which brings reports to the gateways."""

import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path

import numpy as np

from oracles.frame import encode
from oracles.query import load

GATEWAY = "http://gateway:8802/v1/reports"
"""The name leads to a running gateway, as a load balancer does."""
REPORTS, SEED = 50, 7


class Sender:
    """A device that sends a request of 50 reports to a gateway twice a second. `answers` counts the statuses."""

    def __init__(self, queries: Path, token: str) -> None:
        [self._query] = load(queries).values()
        self._token = token
        self._draw = np.random.default_rng(SEED)
        self.answers: Counter[str] = Counter()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            self.answers[self._send()] += 1
            time.sleep(0.5)

    def _send(self) -> str:
        pane = int(time.time() // self._query.pane * self._query.pane)
        values = self._draw.integers(0, self._query.oracle.size, REPORTS)
        frame = encode(self._query.digest, pane, self._query.oracle.perturb(values, self._draw))
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/vnd.hubbub.frames"}
        try:
            with urllib.request.urlopen(urllib.request.Request(GATEWAY, frame, headers), timeout=20) as answer:
                return str(answer.status)
        except urllib.error.HTTPError as refusal:
            with refusal:
                return str(refusal.code)
        except OSError as error:
            return type(error).__name__
