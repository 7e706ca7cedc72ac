"""Real gateways on real brokers: how tests start them, what they ask them, and what then stands in the log."""

import signal
import ssl
import subprocess
import sys
import time
from contextlib import closing
from hashlib import sha256
from http.client import HTTPConnection, HTTPSConnection
from types import SimpleNamespace

import numpy as np
import orjson
from prometheus_client.parser import text_string_to_metric_families

from oracles.frame import TICK, decode, encode
from tests.integration.workers import Place, environment, until

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

NUMBERS = """
[queries.numbers]
crowd = 1
domain = 60000
answers = "once"
oracle = "grr"
epsilon = 1.0
pane = "60s"
lateness = "30s"
"""
"""Reports that are told apart by what they say."""


def now(pane=60):
    """The pane of so many seconds that is now; of 60, it will be for some seconds, and 30 more are not late."""
    return int(time.time()) // pane * pane


class Gateway:
    """One process of `hubbub gateway`; `patch` is code that breaks or hastens it first."""

    def __init__(self, place, *options, patch=None, **env):
        self.log = place.folder / f"gateway-{id(self)}.log"
        start = [sys.executable, "-m", "hubbub", "gateway"]
        if patch is not None:
            run = "import sys; from producers.gateway.command import main; sys.exit(main(sys.argv[1:]))"
            start = [sys.executable, "-c", f"{patch}\n{run}"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
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
    def said(self):
        return self.log.read_text()

    def __enter__(self):
        if not self.url:
            self.__exit__()
            raise AssertionError(self.said)
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def stop(self, number=signal.SIGTERM, seconds=30):
        """Its exit code."""
        self.process.send_signal(number)
        return self.process.wait(seconds)

    def ask(self, method, path, body=None, source="127.0.0.1", timeout=30, context=None, **headers):
        """Status, headers and body of an answer."""
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        connection = HTTPConnection("127.0.0.1", self.port, timeout=timeout, source_address=(source, 0))
        if self.scheme == "https":
            connection = HTTPSConnection(
                "localhost", self.port, timeout=timeout, context=context or ssl.create_default_context()
            )
        with closing(connection):
            connection.request(method, path, body, named)
            answer = connection.getresponse()
            text = answer.read()
            kind = answer.headers.get_content_type()
            found = orjson.loads(text) if kind.endswith("json") and text else text
            return SimpleNamespace(status=answer.status, headers=answer.headers, body=found)

    def post(self, body, token=None, key=None, kind=FRAMES, **more):
        headers = {"Content_Type": kind}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        if key is not None:
            headers["Idempotency_Key"] = key
        return self.ask("POST", "/v1/reports", body, **(headers | more))

    def metric(self, name, **labels):
        """The sum of a metric over all samples with these labels."""
        text = self.ask("GET", "/metrics").body.decode()
        samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
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

    def protected(self, *options, **more):
        """A gateway that asks for tokens."""
        return self.gateway("--tokens", str(self.tokens), *options, **more)

    def gateway(self, *options, **more):
        return Gateway(self, "--rate", "max", *options, **more)

    def reports(self, name, n, seed=0):
        """Reports that are told apart by what they say."""
        values = (np.arange(n) + seed) % self.queries[name].oracle.size
        return values.astype(f"<u{self.queries[name].oracle.width}").view(np.uint8).reshape(n, -1)

    def framed(self, name, reports, pane):
        return encode(self.queries[name].digest, pane, reports)

    def some(self, n=3):
        """A frame of so many reports to `numbers`, of the pane that is now."""
        return self.framed("numbers", self.reports("numbers", n), now())

    def frames(self):
        """What stands in the log: (record, frame), ticks left out."""
        return [(record, decode(record.value)) for record in self.read("reports") if record.value != TICK]
