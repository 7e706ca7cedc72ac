"""The rule of small crowds, for all that was ever published, by the rule alone.

The edges of all published windows cut the time of an attribute into stretches. Sums and differences of windows tell no
shorter stretch, so each must have no reports or at least `crowd`.
"""

import ast
from collections import defaultdict
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from aggregator.records.decoder import decode
from oracles.query.settings import Window
from tests.fold import group_count, of_attribute, total


class Edges(NamedTuple):
    """A published window: its two edges, and the places of which it shows values."""

    start: int
    end: int
    places: tuple[int, ...]


def faults(records, versions, panes):
    """Yield the step and the text of each stretch with too few reports.

    `panes` has the sums of all panes by digest and pane. Of the records of groups only sums show the edges, because
    whole records tell those of the total alone.
    """
    edges = defaultdict(dict)
    for record in records:
        if record.value is None:
            continue
        digest = bytes.fromhex(record.key.split(b"|")[1].decode())
        window = window_of(record, versions[digest].query)
        for place in window.places:
            for edge in (window.start, window.end):
                edges[digest, place].setdefault(edge, record.step)

    for (digest, place), steps in edges.items():
        history = versions[digest]
        own_panes = panes[digest]
        for start, end in pairwise(sorted(steps)):
            parts = [part for pane, part in own_panes.items() if start <= pane < end]
            if not parts:
                continue
            count = of_attribute(history.query, total(parts), place)
            crowd = min(history.at(pane).query.crowd for pane in own_panes if start <= pane < end)
            if np.any(count) and np.min(count) < crowd:
                text = f"{history.query.name} shows {start} and {end} of place {place}, with {count} reports between"
                yield max(steps[start], steps[end]), text


def window_of(record, query):
    """Return the edges of a record, a sum or a whole one."""
    if record.value.startswith(b'["'):
        return _of_sum(record)
    part = decode(record.value)
    is_shown = part.withheld is None and group_count(query) == 1
    names = [attribute.name for attribute in query.attributes] or [None]
    end = part.span.end if part.through is None else part.through
    return Edges(part.span.start, end, (names.index(part.attribute),) if is_shown else ())


def _of_sum(record):
    """Return the edges of a sum. It has the reasons for which places are withheld, and the start of its window."""
    through, withheld, start, *_ = ast.literal_eval(record.value[: record.value.rindex(b"]") + 1].decode())
    end = through if through != "None" else record.key.split(b"|")[5].decode()
    reasons = ast.literal_eval(withheld)
    return Edges(int(start), int(end), tuple(place for place, reason in enumerate(reasons) if reason is None))


def window_in(key):
    """Return the digest, the window and the end in the key of a record."""
    _, digest, kind, size, step, end, *_ = key.decode().split("|")
    return bytes.fromhex(digest), Window(kind, int(size), int(step)), int(end)
