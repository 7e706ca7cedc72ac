"""Gateways that are killed, and a Kafka that stops, under load. Every acknowledged report is in the finals once.

All reports have different values, so a value that occurs twice was counted twice.
"""

import http.client
import itertools
import random
import signal
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path

import numpy as np
import orjson
import pytest

from aggregator.demo.broker import free_port
from oracles.frame import decode
from tests.integration.gateways import Gateway, Site
from tests.integration.workers import until
from tests.queries import make_text
from tests.slowness import patience

VALUES, GROUP = 4000, 10
TIMES = {"crowd": 1, "answers": "once", "pane": "2s", "lateness": "15s", "windows": ["2s"], "publish": "all"}
QUERIES = make_text(
    "numbers", TIMES, emit_every="never", domain=VALUES, oracle="grr", epsilon=5.0, methods=["norm_sub"]
)


class Load:
    """Clients that send groups of values until a gateway accepts them or they are late. Each group has its own key."""

    def __init__(self, site, ports, has_keys=True):
        self.site, self.ports, self.has_keys = site, ports, has_keys
        self.accepted = []
        self.unsure = []
        self.statuses = Counter()
        self.ending = threading.Event()
        self.groups = iter(range(0, VALUES, GROUP))
        self.one = threading.Lock()

    def run(self, seed):
        rng = random.Random(seed)
        while not self.ending.is_set():
            with self.one:
                group = next(self.groups, None)
            if group is None:
                return
            pane = int(time.time()) // 2 * 2
            body = self.site.frame_of("numbers", self.site.reports("numbers", GROUP, group), pane)
            (self.accepted if self.send(body, f"key{group:020d}", rng) else self.unsure).append(group)

    def send(self, body, key, rng):
        """Send a frame to any gateway until one answers. Return whether it was accepted."""
        for _ in itertools.repeat(None):
            status = self.request(body, key, rng.choice(self.ports))
            self.statuses[status] += 1
            if status in (202, 409):
                return status == 202
            if not self.has_keys and status == 0:
                return False
            time.sleep(rng.uniform(0.02, 0.2))
        raise AssertionError

    def request(self, body, key, port):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=patience(12))
        headers = {"Content-Type": "application/vnd.hubbub.frames"}
        if self.has_keys:
            headers["Idempotency-Key"] = key
        try:
            connection.request("POST", "/v1/reports", body, headers)
            return connection.getresponse().status
        except OSError:
            return 0
        finally:
            connection.close()

    def values(self, groups):
        return [*chain.from_iterable(range(group, group + GROUP) for group in groups)]


def counts(site):
    """Return how often each value is in the finals, from their unbiased shares."""
    oracle = site.queries["numbers"].oracle
    total = np.zeros(VALUES, int)
    for versions in site.finals().values():
        [text] = versions
        record = orjson.loads(text)
        shares = np.zeros(VALUES)
        shares[[int(value) for value in record["values"]]] = record["shares"]["unbiased"]
        total += np.rint(record["n"] * (shares * (oracle.p - oracle.q) + oracle.q)).astype(int)
    return total


@pytest.mark.parametrize("kills", [4, pytest.param(20, marks=pytest.mark.long)])
def test_reports_with_a_key_are_counted_once_if_gateways_are_killed(kafka, tmp_path, kills):
    rng = random.Random(kills)
    ports = [free_port(), free_port()]
    with Site(kafka, tmp_path, QUERIES) as site:
        worker = site.start().ready()
        start = [lambda port=port: Gateway(site, "--rate", "max", "--port", str(port)) for port in ports]
        gateways = [begin() for begin in start]
        load = Load(site, ports)
        try:
            with ThreadPoolExecutor(8) as pool:
                clients = [pool.submit(load.run, seed) for seed in range(8)]
                for _ in range(kills):
                    time.sleep(rng.uniform(0.1, 0.5))
                    victim = rng.randrange(2)
                    gateways[victim].stop(signal.SIGKILL)
                    gateways[victim].__exit__()
                    gateways[victim] = start[victim]()
                until(lambda: len(load.accepted) > 50)
                load.ending.set()
                for client in clients:
                    client.result(patience(60))
        finally:
            for gateway in gateways:
                gateway.__exit__()
        assert load.statuses[0] > 0, "no try was cut off"
        site.sent_at = time.time()
        assert site.verdict().exact
        total = counts(site)
        assert set(total.tolist()) <= {0, 1}
        assert total[load.values(load.accepted)].all()
        assert total.sum() <= GROUP * (len(load.accepted) + len(load.unsure))
        assert worker.stop() == 0


@pytest.mark.long
def test_acknowledged_reports_survive_a_kafka_that_stops_for_twenty_seconds(kafka, tmp_path):
    queries = QUERIES.replace('"15s"', '"60s"')
    with Site(kafka, tmp_path, queries) as site, Gateway(site, "--rate", "max") as gateway:
        gateway.ready()
        load = Load(site, [gateway.port])
        keyless = Load(site, [gateway.port], has_keys=False)
        keyless.groups = iter(range(VALUES // 2, VALUES, GROUP))
        load.groups = iter(range(0, VALUES // 2, GROUP))
        with ThreadPoolExecutor(8) as pool:
            clients = [pool.submit(loads.run, seed) for seed, loads in enumerate([load, keyless] * 4)]
            until(lambda: len(load.accepted) > 5 and len(keyless.accepted) > 5)
            kafka.kill(0)
            resident = memory(gateway)
            time.sleep(20)
            assert gateway.ask("GET", "/readyz").status == 503
            assert memory(gateway) - resident < 64 << 20
            kafka.heal()
            gateway.ready()
            earlier_count = len(load.accepted)
            until(lambda: len(load.accepted) > earlier_count + 5)
            load.ending.set()
            keyless.ending.set()
            for client in clients:
                client.result(patience(90))
        assert load.statuses[503] + keyless.statuses[503] > 10
        until(lambda: gateway.metric("hubbub_gateway_unacknowledged_bytes") == 0)
        frames = {decode(record.value).id: decode(record.value) for record in site.read("reports")}
        occurrences = Counter(n for f in frames.values() for n in np.frombuffer(f.reports.tobytes(), "<u2").tolist())
        assert all(occurrences[value] >= 1 for value in load.values(load.accepted) + keyless.values(keyless.accepted))
        assert all(occurrences[value] == 1 for value in load.values(load.accepted))
        assert gateway.stop() == 0


def memory(gateway):
    """Return the resident memory of a gateway in bytes."""
    return 4096 * int(Path(f"/proc/{gateway.process.pid}/statm").read_text().split()[1])
