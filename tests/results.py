"""The results of single windows, as a worker computes them."""

from aggregator.publishing.finals import final
from aggregator.publishing.group_findings import find
from aggregator.publishing.window import CountedWindow
from aggregator.records.encoder import encode


def build(query, span, total, withheld=(), **options):
    """Return the records of a window. `options` are further fields of a CountedWindow."""
    return encode(find(CountedWindow(query, span, total, withheld, **options)))


def window_result(query, span, total, withheld=(), states=(), **options):
    """Return the findings, records and alerts of a window after the states of the final before it."""
    return final.window_result(CountedWindow(query, span, total, withheld, **options), states)
