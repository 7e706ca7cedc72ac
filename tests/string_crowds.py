"""A crowd whose answers are strings that nobody listed, and the records that workers publish for it."""

import numpy as np
import orjson

from aggregator.merging.name_history import NameHistory
from aggregator.records.span import Span
from aggregator.tallies.snapshot import Snapshot
from tests.queries import make_queries, make_table
from tests.results import window_result

HOUR = 3600
FRESH = {"answers": "fresh", "budget": 1e9, "pane": "5m", "windows": ["1h"]}
TEXTS = make_table(FRESH, domain={"discover": "text", "length": 24, "cells": 13}, epsilon=6.0, windows=["1h", "5m"])
BYTES = make_table(FRESH, domain={"discover": "bytes", "length": 128, "cells": 12}, epsilon=6.0)
NOTHING = make_table(FRESH, domain={"discover": "text", "length": 24}, epsilon=2.0)
STRINGS = make_queries({"crashes": TEXTS, "terms": BYTES, "empty": NOTHING}, edition=2)
CRASHES, TERMS = STRINGS["crashes"], STRINGS["terms"]
SHARES = {
    "typeerror: x is null": 0.2,
    "out of memory": 0.1,
    "segfault at 0x0": 0.06,
    "rangeerror: invalid arra\N{HORIZONTAL ELLIPSIS}": 0.05,
}
NEW = "assertion failed"
HOSTILE_NAMES = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(2)>",
    "\N{RIGHT-TO-LEFT OVERRIDE}txt.exe",
    "tab\there, bell\a, escape\x1b[2J",
    "line\nbreak",
    "",
    "שלום עולם",
    "a" * 128 + "\N{HORIZONTAL ELLIPSIS}",
    "=1+1",
    "zero\N{ZERO WIDTH SPACE}width",
)
"""Names that strangers may choose."""


class StringCrowd:
    """Clients that have one of a few strings, or a rare one. From the hour `new_from` on, some have a new string."""

    def __init__(self, start, clients=60_000, new_from=2, seed=1):
        self.start, self.clients, self.new_from = start, clients, new_from
        self.rng = np.random.default_rng(seed)
        self.history = NameHistory()
        self.hour = 0
        self.slots = CRASHES.oracle

    def next(self):
        """Return the records, maps and alerts of the next hour, and those of its last pane, as messages."""
        shares = dict(SHARES)
        if self.hour >= self.new_from:
            shares[NEW] = 0.08
        end = self.start + HOUR * (self.hour + 1)
        self.hour += 1
        messages = []
        for window, clients in zip(CRASHES.windows, (self.clients, self.clients // 12), strict=True):
            total = self._tally(shares, clients)
            span = Span(window, end - window.size, end)
            result = window_result(CRASHES, span, total, history=self.history)
            self.history = self.history.with_search(result.decision.search)
            messages += [("estimates", *record) for record in result.window.records]
            messages += [("maps", *record) for record in result.window.maps]
            messages += [("alerts", *alert) for alert in result.decision.alerts]
        return messages

    def _tally(self, shares, clients):
        rare = [f"rare {number}" for number in range(500)]
        rows = np.array([self.slots.strings.cells_of(text) for text in [*shares, *rare]])
        each = (1.0 - sum(shares.values())) / len(rare)
        places = self.rng.choice(len(rows), clients, p=[*shares.values(), *([each] * len(rare))])
        state = self.slots.zeros()
        refusals = self.slots.add(state, self.slots.perturb(rows[places], self.rng))
        return Snapshot(clients - refusals, refusals, 0, 0, state)


def empty_message(message):
    """Return the record of a query without names."""
    return hostile_message(message, STRINGS["empty"], ())


def hostile_message(message, query=TERMS, names=HOSTILE_NAMES):
    """Return the record of another query, with the names that strangers have chosen. The other fields are real."""
    topic, key, value = message
    record = orjson.loads(value)
    count = len(names)
    end = record["window"]["end"]
    shares = [0.2 - 0.015 * place for place in range(count)]
    record |= {"query": query.name, "digest": query.digest.hex(), "values": list(names), "shares": {"unbiased": shares}}
    record |= {"stderr": [0.001] * count, "low": [share - 0.003 for share in shares]}
    record |= {"high": [share + 0.003 for share in shares], "level": [0.999] * count}
    record["discover"] |= {"names_n": [1000] * count, "first_seen": dict.fromkeys(names, end)}
    name = key.replace(b"crashes", query.name.encode()).replace(
        CRASHES.digest.hex().encode(), query.digest.hex().encode()
    )
    return topic, name, orjson.dumps(record)
