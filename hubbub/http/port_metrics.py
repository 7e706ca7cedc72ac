"""The metrics of a port: what its callers hold, and the connections that it ended. No label names a caller."""

from collections.abc import Iterator

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from hubbub.http.fair_shares import FairShares
from hubbub.http.port_shares import PortShares

REASONS = ("full", "slow")
_OF_THINGS = ["port", "thing"]


class PortMetrics(Collector):
    """The metrics of one port, named as its command. `things` are shared on this port only, each by its name."""

    def __init__(self, port: str, shares: PortShares, **things: FairShares) -> None:
        self._port = port
        self._ends = shares.ends
        self._things = {"connections": shares.places, "answer_bytes": shares.answers, **things}

    def collect(self) -> Iterator[Metric]:
        closed_text = "Connections and bodies that were ended or refused, by reason"
        ends = CounterMetricFamily("hubbub_port_closed", closed_text, labels=["port", "reason"])
        for reason in REASONS:
            ends.add_metric([self._port, reason], self._ends[reason])

        holdings = GaugeMetricFamily(
            "hubbub_port_held", "Units of a thing that callers of a port hold", labels=_OF_THINGS
        )
        most_text = "Units of a thing that the network or token holds which holds most"
        most = GaugeMetricFamily("hubbub_port_most", most_text, labels=_OF_THINGS)
        for thing, shares in self._things.items():
            holdings.add_metric([self._port, thing], shares.held)
            most.add_metric([self._port, thing], shares.most)
        yield from (ends, holdings, most)
