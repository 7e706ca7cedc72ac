"""The answers of a crowd whose clients note at random: the distribution of the values of a recorder."""

import math
from collections.abc import Iterator
from typing import cast

import numpy as np

from oracles.errors import ParameterError
from oracles.query import Query
from oracles.query.domain import Domain
from oracles.query.recorder import DAY, Recorder
from producers.client.note_rules import LONGEST_AWAY
from producers.simulation.crowd.distribution import Distribution

SPEC = "poisson:RATE"
MOST_RATE = 1_000.0
_LEAST_CHANCE = 1e-18
"""Chance below which a number of notes, or of periods, is left out."""


def read_notes(spec: str, query: Query) -> Distribution:
    """Return the distribution of the answers of clients that note with a rate, in notes a period."""
    kind, _, text = spec.partition(":")
    try:
        rate = float(text)
    except ValueError:
        rate = math.nan
    if kind != "poisson" or not 0.0 < rate <= MOST_RATE:
        raise ParameterError(f"notes are {SPEC} with a rate above 0 and at most {MOST_RATE:g}, got {spec!r}")

    recorder = query.recorder
    if recorder is None:
        raise ParameterError(f"query {query.name!r} has no recorder, so its clients note nothing")
    if recorder.keep not in _CHANCES:
        keeps = ", ".join(_CHANCES)
        raise ParameterError(f'notes without values are for {keeps}, and the query has keep = "{recorder.keep}"')
    # A query with a recorder has one domain.
    return Distribution(_weights(recorder, cast(Domain, query.domain), rate))


def _weights(recorder: Recorder, domain: Domain, rate: float) -> np.ndarray:
    weights = np.zeros(domain.size)
    for number, chance in _CHANCES[recorder.keep](recorder, rate):
        weights[recorder.value_of(number, domain)] += chance
    # A device forgets a recorder without notes, so the rest has the answer of one that never had any.
    weights[recorder.empty_position(domain)] += max(1.0 - weights.sum(), 0.0)
    return weights


def _sums(recorder: Recorder, rate: float) -> Iterator[tuple[int, float]]:
    """Yield the numbers of notes of a period with their chances."""
    del recorder
    number = 0
    while True:
        chance = math.exp(number * math.log(rate) - rate - math.lgamma(number + 1))
        if number > rate and chance < _LEAST_CHANCE:
            return
        yield number, chance
        number += 1


def _days(recorder: Recorder, rate: float) -> Iterator[tuple[int, float]]:
    """Yield the numbers of days with a note, with their chances."""
    days = recorder.period // DAY
    chance = -math.expm1(-rate / days)
    for number in range(days + 1):
        yield number, math.comb(days, number) * chance**number * (1.0 - chance) ** (days - number)


def _gaps(recorder: Recorder, rate: float) -> Iterator[tuple[int, float]]:
    """Yield the numbers of periods since the newest note, with their chances."""
    chance = -math.expm1(-rate)
    for number in range(1, LONGEST_AWAY // recorder.period + 1):
        rest = math.exp(-rate * (number - 1))
        if rest < _LEAST_CHANCE:
            return
        yield number, chance * rest


_CHANCES = {"count": _sums, "days": _days, "since": _gaps}
"""The numbers that recorders keep, with their chances. Notes at random have no values, and age needs none."""
