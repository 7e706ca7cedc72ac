"""The metrics of a port: the things of its callers, and the ends of connections."""

import time

from prometheus_client import CollectorRegistry

from hubbub.http.fair_shares import FairShares
from hubbub.http.port_metrics import PortMetrics
from hubbub.http.port_shares import PortShares


def test_a_port_tells_what_is_held_and_by_the_one_that_holds_most():
    shares = PortShares(10)
    bodies = FairShares(100, time.monotonic)
    registry = CollectorRegistry()
    registry.register(PortMetrics("gateway", shares, body_bytes=bodies))

    def value(name, **labels):
        return registry.get_sample_value(f"hubbub_port_{name}", {"port": "gateway", **labels})

    assert value("closed_total", reason="full") == value("closed_total", reason="slow") == 0
    assert value("most", thing="connections") == 0
    for network, count in (("192.0.2.0/24", 2), ("198.51.100.0/24", 1)):
        for _ in range(count):
            shares.places.enter((network, "address"), 1, lambda: None)
    bodies.enter(("name app",), 70, lambda: None)
    shares.ends["slow"] += 1

    assert value("held", thing="connections") == 3
    assert value("most", thing="connections") == 2
    assert value("held", thing="body_bytes") == value("most", thing="body_bytes") == 70
    assert value("held", thing="answer_bytes") == 0
    assert value("closed_total", reason="slow") == 1
    assert value("held", thing="streams") is None
