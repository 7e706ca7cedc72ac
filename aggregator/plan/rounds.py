"""The rounds that a device renews under its own limits, by the rule of clients (docs/clients.md)."""

from collections import Counter
from collections.abc import Iterator
from math import inf
from typing import NamedTuple

from hubbub.texts import up
from oracles.query import Query
from oracles.query.lifetime import affords, times

ROUNDS = 400
"""Rounds for which the rule runs."""
_ANSWERS = 60
"""Most answers of a device in one of these rounds. More would take long and change the shares little."""


class Renewals(NamedTuple):
    """The shares of periods that are answered and of rounds that are renewed, from 0 to 1."""

    answers: float
    rounds: float


def renewals(query: Query, max_epsilon: float, per: float = inf) -> Renewals:
    """Return the shares of a device that answers this query alone, as often as it may."""
    renew = query.renew or 1
    period = max(query.period, renew // _ANSWERS)
    periods = range(0, ROUNDS * renew, period)
    cost = query.charge.amount
    uses: list[int] = []
    answers = 0
    starts = Counter[int]()
    for time_s in periods:
        # The last use of each noise that counts, in rising order. The newest noise is that of the last round.
        uses = [use for use in uses if use > time_s - per]
        start = time_s // renew
        fits = affords(max_epsilon, cost * (len(uses) + 1))

        is_old = query.answers != "fresh" and bool(starts[start] and uses)
        stays = query.answers == "life" and bool(uses) and not fits
        if is_old or stays:
            uses[-1] = time_s
        elif fits and starts[start] < query.charges:
            uses.append(time_s)
            starts[start] += 1
        else:
            continue
        answers += 1
    return Renewals(answers / len(periods), sum(count > 0 for count in starts.values()) / ROUNDS)


def needed_epsilon(query: Query) -> float:
    """Return the `max_epsilon` with which a device renews each round if `per` is as long as `renew`."""
    renew = query.renew or 1
    # A stretch of one round touches two, and fresh answers are charged one by one.
    charges = min(2 * query.charges, renew // query.period + 1) if query.answers == "fresh" else 2
    return query.record_charge * charges


def texts(query: Query, max_epsilon: float) -> Iterator[str]:
    """Yield what a device with this limit does at the end of a round, in sentences."""
    if query.renew is None:
        return

    rounds = times(max_epsilon, query.record_charge * (query.charges if query.answers == "fresh" else 1))
    ends = "stays in the last one" if query.answers == "life" else "is silent"
    count = f"{rounds:,} {'round' if rounds == 1 else 'rounds'}"
    yield f"Rounds: with max_epsilon = {max_epsilon:g} and no `per`, a device has {count} and then {ends}."

    result = renewals(query, max_epsilon, query.renew)
    need = f"With `per` as long as `renew`, max_epsilon must be at least {up(needed_epsilon(query))}"
    share = f"answers {result.answers:.0%} of its periods and renews {result.rounds:.0%} of its rounds"
    yield f"{need}: a device with {max_epsilon:g} {share}."
    if query.answers == "life" and not query.lengthened:
        yield "Errors are too small if devices pass no `per`, or too small a max_epsilon. Then use lengthened = true."
