"""Real gateways on real brokers, with requests to them and the frames that they append to the log."""

import signal
import ssl
import subprocess
import sys
import time
from contextlib import closing
from hashlib import sha256
from http.client import HTTPConnection, HTTPSConnection
from itertools import chain
from types import SimpleNamespace

import numpy as np
import orjson
from prometheus_client.parser import text_string_to_metric_families

from oracles.frame import TICK, decode, encode
from tests import forks
from tests.integration.workers import Place, environment, until
from tests.queries import make_text
from tests.slowness import patience

FRAMES, JSON = "application/vnd.hubbub.frames", "application/json"
TOKEN, OTHER, KEY = "a-token-of-tests", "another-token", "5e" * 32
TOKENS = f"""
[tokens.app]
sha256 = ["{sha256(TOKEN.encode()).hexdigest()}"]
[tokens.small]
sha256 = ["{sha256(OTHER.encode()).hexdigest()}"]
quota = 10
[tokens.site]
keys = ["{KEY}"]
each = 3
"""

NUMBERS = make_text("numbers", crowd=1, domain=60000, answers="once", oracle="grr", pane="60s", lateness="30s")
"""A query with so many values that each report of a test can be another one."""


def now(pane=60):
    """Return the start of the present pane. Reports for a pane of 60 seconds are not late for 30 seconds after it."""
    return int(time.time()) // pane * pane


class Gateway:
    """A process of `hubbub gateway`. `patch` is code that runs first and breaks or hastens it."""

    def __init__(self, place, *options, patch=None, **env):
        self.log = place.folder / f"gateway-{id(self)}.log"
        start = [sys.executable, "-m", "hubbub", "gateway"]
        if patch is not None:
            run = "import sys; from producers.gateway.command import main; sys.exit(main(sys.argv[1:]))"
            start = [sys.executable, "-c", f"{patch}\n{run}"]
        # A patch comes before all imports, because defaults of arguments keep what they find then.
        begin = forks.start if patch is None else subprocess.Popen
        with self.log.open("wb") as log:
            self.process = begin(
                [*start, *options],
                env={**environment(place.kafka, place.file), **env},
                stdout=subprocess.PIPE,
                stderr=log,
            )
        self.url = self.process.stdout.readline().decode().split()[-1:] or None
        if self.url:
            self.scheme, _, address = self.url[0].rstrip("/").partition("://")
            self.port = int(address.rpartition(":")[2])

    @property
    def log_text(self):
        return self.log.read_text()

    def __enter__(self):
        if not self.url:
            self.__exit__()
            raise AssertionError(self.log_text)
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def stop(self, number=signal.SIGTERM, seconds=30):
        """Send a signal, and return the exit code."""
        self.process.send_signal(number)
        return self.process.wait(patience(seconds))

    def ask(self, method, path, body=None, source="127.0.0.1", timeout=30, context=None, **headers):
        """Return the status, headers and body of an answer."""
        headers = {name.replace("_", "-"): text for name, text in headers.items()}
        connection = HTTPConnection("127.0.0.1", self.port, timeout=patience(timeout), source_address=(source, 0))
        if self.scheme == "https":
            connection = HTTPSConnection(
                "localhost", self.port, timeout=patience(timeout), context=context or ssl.create_default_context()
            )
        with closing(connection):
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            text = answer.read()
            kind = answer.headers.get_content_type()
            content = orjson.loads(text) if kind.endswith("json") and text else text
            return SimpleNamespace(status=answer.status, headers=answer.headers, body=content)

    def post(self, body, token=None, key=None, kind=FRAMES, **more):
        headers = {"Content_Type": kind}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        if key is not None:
            headers["Idempotency_Key"] = key
        return self.ask("POST", "/v1/reports", body, **(headers | more))

    def metric(self, name, **labels):
        """Return the sum of a metric over all samples with these labels."""
        text = self.ask("GET", "/metrics").body.decode()
        samples = [*chain.from_iterable(family.samples for family in text_string_to_metric_families(text))]
        return sum(s.value for s in samples if s.name == name and labels.items() <= s.labels.items())

    def ready(self):
        until(lambda: self.ask("GET", "/readyz").status == 200)
        return self


class Site(Place):
    """A place with gateways."""

    def __init__(self, broker, folder, queries=NUMBERS, **settings):
        super().__init__(broker, folder, queries, **settings)
        self.tokens = folder / "tokens.toml"
        self.tokens.write_text(TOKENS)

    def gateway_with_tokens(self, *options, **more):
        """Start a gateway that requires tokens."""
        return self.gateway("--tokens", str(self.tokens), *options, **more)

    def gateway(self, *options, **more):
        return Gateway(self, "--rate", "max", *options, **more)

    def reports(self, name, n, seed=0):
        """Return reports that all differ, if `n` is at most the size of the domain."""
        values = (np.arange(n) + seed) % self.queries[name].oracle.size
        return values.astype(f"<u{self.queries[name].oracle.width}").view(np.uint8).reshape(n, -1)

    def frame_of(self, name, reports, pane):
        return encode(self.queries[name].digest, pane, reports)

    def some_frame(self, n=3):
        """Return a frame of `n` reports to `numbers`, for the present pane."""
        return self.frame_of("numbers", self.reports("numbers", n), now())

    def frames(self):
        """Return (record, frame) for each record of the log, without ticks."""
        return [(record, decode(record.value)) for record in self.read("reports") if record.value != TICK]
