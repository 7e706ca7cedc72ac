"""The results of single windows, as a worker computes them."""

from aggregator.publishing.finals import final
from aggregator.publishing.records import encoder


def build(query, span, total, withheld=(), **options):
    """Return the records of a window."""
    return encoder.build(query, span, total, withheld, **options)


def window_result(query, span, total, withheld=(), states=(), **options):
    """Return the records and alerts of a window after the states of the final before it."""
    return final.window_result(query, span, total, withheld, states, **options)
