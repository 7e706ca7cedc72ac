"""Predictions about listed values: errors of shares, ways to answer, lists of the largest, and tables of pairs.

The people that a way to answer needs are compared by the variance of a rare value, as a multiple of that of the best
report there is.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from aggregator.plan.kinds.audience import Audience
from aggregator.records.needed_people import people
from hubbub.texts import odds, percent
from oracles.errors import ParameterError
from oracles.estimate import Pure
from oracles.mechanisms import EACH, NEWEST, automatic, fitted
from oracles.mechanisms.choice import least_variance, optimum, total
from oracles.mechanisms.protocol import Oracle
from oracles.query import Query
from oracles.query.answers import MOST_PAIRS
from oracles.query.lifetime import times

REPORTS = "reports"
EXPONENT = 1.1
"""Exponent of the Zipf law by which the shares of an expected list fall."""
LIST = 10
"""Number of values in an expected list."""
MOST_LISTED = 1 << 20
"""Largest domain for which an expected list is computed."""
MANY = 2.0
"""Multiple of the people of answers once above which answers for life deserve a warning."""
LITTLE = 0.1
"""Part of the error that half as much epsilon again must save, or it buys nothing."""
_DRAWS = 1 << 21
PAIR_SHARE = 0.01
"""The share of a cell to see in a table of pairs, by default."""
_SIZES = re.compile(r"([0-9]{1,4})x([0-9]{1,4})")
_NICE = (5, 2, 1)


@dataclass(frozen=True)
class Way:
    """A way to answer a query, and its price."""

    name: str
    distance: float
    """People that it needs, as a multiple of those of the best report."""
    report: float
    """Epsilon of one report."""
    lifetime: float
    """Epsilon of all reports of a round."""
    note: str = ""


def distance(view: Pure, epsilon: float) -> float:
    """Return the variance of a rare value as a multiple of the smallest possible one."""
    return view.variance(1) / least_variance(epsilon, view.size)


def of_optimum(view: Pure, epsilon: float) -> float:
    """Return the sum of the variances of all values as a multiple of the smallest possible one. `auto` looks at it."""
    return total(view) / optimum(epsilon, view.size)


def ways(query: Query, encoder: Oracle) -> list[Way]:
    """Return the ways to answer one attribute of a query. Its own way uses its own oracle."""
    epsilon = encoder.epsilon
    size = encoder.size
    budget = query.budget * epsilon / query.epsilon
    answers = times(query.budget, query.record_epsilon)
    best = encoder
    if query.answers == "life":  # the file may name an oracle, but with fewer buckets than it would use once
        best = fitted("auto" if "oracle" in query.open else encoder.name, epsilon, size, None)

    error = distance(best, epsilon)
    result = [Way("once", error, epsilon, epsilon, "does not follow changes")]
    life = encoder if query.answers == "life" else _for_life(epsilon, size, budget)
    if life is not None:
        amount = float(life.life.amount)
        note = f"{amount:.4g} of the budget of {query.budget:.4g}"
        result.append(Way("life", distance(life, epsilon), epsilon, amount, note))

    note = f"{answers:,} answer{'' if answers == 1 else 's'}, then silent"
    return [*result, Way("fresh", error, epsilon, float(answers * Fraction(epsilon)), note)]


def _for_life(epsilon: float, size: int, budget: float, noise: str | None = None) -> Oracle | None:
    try:
        return automatic(epsilon, size, edition=NEWEST, budget=budget, noise=noise)
    except ParameterError:
        return None


def own(query: Query, choices: list[Way]) -> Way:
    return next(way for way in choices if way.name == query.answers)


def shows(subject: Audience) -> str:
    """Return the smallest share that a window with these people usually proves, in words."""
    share = subject.view.detectable(subject.n, subject.query.family_error, sampled=subject.sampled)
    return "no value" if share is None else f"values above {percent(share)}"


def comparison(subject: Audience, n: int) -> Iterator[str]:
    """Yield a sentence that compares the ways to answer with the best report there is."""
    encoder = subject.encoder
    if encoder is None:
        return
    choices = ways(subject.query, encoder)
    error = encoder.noise(n).sigma
    best = error / math.sqrt(distance(encoder, encoder.epsilon))
    parts = [f"{way.name} {way.distance:.2f} times{f' ({way.note})' if way.note else ''}" for way in choices]
    yield (
        f"Standard error {error:.2g} at {n:,} reports, {best:.2g} with the best report there is. People for the same "
        f"error, compared with the best: {', '.join(parts)}."
    )


def warnings(subject: Audience) -> Iterator[str]:
    """Yield warnings about answers for life that need many people, and about epsilon that buys nothing."""
    query = subject.query
    encoder = subject.encoder
    if query.answers != "life" or encoder is None:
        return

    choices = {way.name: way for way in ways(query, encoder)}
    ratio = choices["life"].distance / choices["once"].distance
    if ratio > MANY:
        yield f"answers for life need {ratio:.1f} times the people of once here; raise `budget`, or lower epsilon"

    epsilon = 1.5 * encoder.epsilon
    budget = query.budget * encoder.epsilon / query.epsilon
    noise = EACH if query.table is None and "noise" not in query.open else None
    more = None if epsilon > min(budget, 16.0) else _for_life(epsilon, encoder.size, budget, noise)
    if more is not None and total(more) > (1.0 - LITTLE) * total(encoder):
        yield (
            f"more epsilon buys nothing at this budget: epsilon {epsilon:g} would lower the variance by less than "
            f"{LITTLE:.0%}, because {budget:.4g} leaves it few buckets; raise `budget` too"
        )


def listed(view: Pure, n: int, *, sampled: int | None = None) -> tuple[int, float] | None:
    """Return the length of a list and how many of its values are truly among the first, if shares fall like Zipf's law.

    `sampled` is the number of all people if only `n` of them answer. None if the domain is too small or too large.
    """
    length = min(LIST, view.size // 2)
    if length < 2 or n < 1 or view.size > MOST_LISTED:
        return None

    shares = np.arange(1, view.size + 1, dtype=np.float64) ** -EXPONENT
    shares /= shares.sum()
    noise = view.noise(n)
    variance = noise.variance(shares) + shares * (1.0 - shares) * (0.0 if sampled is None else 1.0 / n - 1.0 / sampled)

    # The seed is fixed, so that the same query always gets the same sentence.
    rng = np.random.default_rng(1)
    runs = min(200, max(8, _DRAWS // view.size))
    hits = 0
    for _ in range(runs):
        scores = shares + np.sqrt(variance) * rng.standard_normal(view.size)
        hits += int((np.argpartition(-scores, length - 1)[:length] < length).sum())
    return length, hits / runs


def nice(share: float) -> float:
    """Return the largest share of the form 1, 2 or 5 times a power of ten that is at most `share`.

    >>> nice(0.0137), nice(0.6), nice(0.005)
    (0.01, 0.5, 0.005)
    """
    # A rounded logarithm must not push an exact power of ten into the decade below.
    power = 10.0 ** math.floor(math.log10(share) + 1e-9)
    return next(round(step * power, 12) for step in _NICE if step * power <= share * (1 + 1e-9))


def epsilon_once(size: int, n: int, share: float, family_error: float, *, sampled: bool) -> float | None:
    """Return the least epsilon, in tenths, with which answers once make `share` visible. None if 16 is not enough."""
    low = 0
    high = 160
    while high - low > 1:
        middle = (low + high) // 2
        view = automatic(middle / 10, size, edition=NEWEST)
        detectable = view.detectable(n, family_error, sampled=sampled)
        low, high = (low, middle) if detectable is not None and detectable <= share else (middle, high)
    return None if high == 160 else high / 10


def sentences(subject: Audience) -> Iterator[str]:
    """Yield in words what a number of people will show of one answer, and what more would need."""
    query = subject.query
    view = subject.view
    n = subject.n
    start = subject.start
    share = view.detectable(n, query.family_error, sampled=subject.sampled)
    if share is None:
        need = people(view, 0.5, query.family_error, sampled=subject.sampled)
        factor = len(query.attributes) if subject.sampled else 1
        yield f"{start} you will see no value{subject.of}. To see 50% you need {_count(need, factor)} people."
        return

    text = f"{start} you will see values{subject.of} that more than {percent(share)} have."
    expectation = listed(view, n, sampled=subject.clients if subject.sampled else None)
    if expectation is not None:
        length, hits = expectation
        true = f"{hits:.0f} of the true {length}"
        text += f" A list of {length} will have {true} (if shares fall like Zipf {EXPONENT:g})."
    yield text

    goal = nice(share / 2)
    need = people(view, goal, query.family_error, sampled=subject.sampled)

    alternatives = []
    if subject.encoder is not None:
        epsilon = epsilon_once(view.size, n, goal, query.family_error, sampled=subject.sampled)
        if epsilon is not None and (epsilon > subject.encoder.epsilon or query.answers == "life"):
            alternatives.append(f"epsilon {epsilon:g} with answers once")
    alternatives.append(f"{_count(need, len(query.attributes) if subject.sampled else 1)} people")

    text = f"To see {percent(goal)}: {', or '.join(alternatives)}."
    if subject.encoder is not None and query.answers == "life":
        choices = {way.name: way.distance for way in ways(query, subject.encoder)}
        ratio = choices["life"] / choices["once"]
        need_of_life = "as many people as" if f"{ratio:.1f}" == "1.0" else f"{ratio:.1f} times the people of"
        text += f" Answers for life need {need_of_life} once here."
    yield text


def _count(number: int | None, factor: int = 1) -> str:
    return "more than 10^13" if number is None else f"{number * factor:,}"


def smallest_part(_: Query) -> float:
    """Return the part of the reports that must hold `crowd`, which is all of them."""
    return 1.0


def small_parts(_: Query) -> int:
    """Return 1, for all reports."""
    return 1


def counts(_: Query) -> str:
    """Return what a client tells, in words."""
    return "one answer per client"


def nothing(*_: object) -> Iterator[Any]:
    """Yield nothing: a query of values has no costs, errors and warnings of its own."""
    yield from ()


costs = nothing
errors = nothing
notices = nothing


def table(subject: Audience) -> Iterator[tuple[str, ...]]:
    """Yield the rows of a table of ways to answer, compared at the share that the query shows to these people."""
    encoder = subject.encoder
    share = subject.view.detectable(subject.n, subject.query.family_error, sampled=subject.sampled)
    if encoder is None or share is None:
        return

    choices = ways(subject.query, encoder)
    own_distance = own(subject.query, choices).distance
    yield f"to see {percent(share)}", "people", "odds of a report", "odds of a life", ""
    for way in [*choices, Way("best report", 1.0, encoder.epsilon, encoder.epsilon, "the smallest possible error")]:
        need = subject.clients * way.distance / own_distance
        yield (
            way.name,
            f"{float(f'{need:.3g}'):,.0f}",
            odds(way.report),
            odds(way.lifetime),
            way.note,
        )


def table_sizes(text: str) -> tuple[int, int]:
    """Return the sizes of a table such as 16x8."""
    match = _SIZES.fullmatch(text)
    rows, columns = (int(match[1]), int(match[2])) if match else (0, 0)
    if min(rows, columns) < 2 or rows * columns > MOST_PAIRS:
        raise ParameterError(f"must be the sizes of two attributes, such as 16x8, with at most {MOST_PAIRS:,} cells")
    return rows, columns


def pair_sentences(
    sizes: tuple[int, int], epsilon: float, share: float, family_error: float, budget: float | None
) -> Iterator[str]:
    """Yield in words how many people a table of pairs needs, and how many its two attributes alone need.

    With `smp` a person answers one attribute or the pair, so each answer has a third of the people, or half of them
    without the pair. Oracles are those of a file of the newest edition, within the budget of answers for life.
    """
    rows, columns = sizes

    def need(size: int, answers: int) -> int | None:
        oracle = automatic(epsilon, size, edition=NEWEST, budget=budget)
        people_of_answer = people(oracle, share, family_error, sampled=True)
        return None if people_of_answer is None else people_of_answer * answers

    cell = need(rows * columns, 3)
    alone = _larger(need(rows, 2), need(columns, 2))
    yield (
        f"At epsilon {epsilon:g} a table of {rows} x {columns} needs {_count(cell)} people to see a cell that more "
        f"than {percent(share)} have."
    )
    yield (
        f"The two attributes alone need {_count(alone)} people to see a value that more than {percent(share)} have. "
        f"With the pair they need {_count(None if alone is None else -(-alone * 3 // 2))}, because fewer answer each."
    )


def _larger(number: int | None, rival: int | None) -> int | None:
    """Return the larger number. None is more than any number."""
    return None if number is None or rival is None else max(number, rival)
