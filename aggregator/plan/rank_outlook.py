"""The results of a query of numbers with a number of people, in words: errors of ranks instead of shares."""

from oracles.mechanisms.haar import Haar

Z = 1.959964
"""Standard errors from an estimate to the end of its 95% interval."""


def error(encoder: Haar, n: int) -> str:
    """Return a sentence about the error of numbers. All ways to answer have the same one."""
    return (
        f"Standard error {encoder.rank_error(n):.2g} of the share of numbers up to a bin, at {n:,} reports. Answers "
        "once, for life and fresh need the same people."
    )


def sentence(encoder: Haar, n: int, clients: int, start: str, of: str) -> str:
    """Return in words what `n` reports will show of the distribution. `clients` people send them."""
    rank = Z * encoder.rank_error(max(1, n))
    if rank >= 0.5:
        return f"{start} you will not know the median{of}."
    return (
        f"{start} you will know the median{of} to within {100 * rank:.2g}% in rank: the 95% interval reaches from "
        f"about {50 - 100 * rank:.1f}% to {50 + 100 * rank:.1f}% of the people. Half of that needs "
        f"{4 * clients:,} people."
    )
