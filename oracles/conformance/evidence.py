"""Evidence against a claim: an event that tells two inputs apart. One half of a sample finds it, the other counts it.

Each line of a sample has one of two inputs, by a fair coin. A guess looks at the reports only, and may be absent. If
the reports are epsilon-LDP, each guess is right with a probability of at most e/(e + 1), whatever was guessed before,
so the number of right guesses bounds epsilon from below.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from oracles.errors import extra
from oracles.types import Flags, Floats, Ints

with extra("stats"):
    from scipy import special

_STEPS = 12
"""Number of likelihood ratios that are tried as the limit of an event."""


@dataclass(frozen=True)
class Trial:
    """The lines of two inputs, with several labels for each line."""

    name: str
    first: Flags
    """Whether the line has the first of the two inputs."""
    for_search: Flags
    """Whether the line belongs to the half on which an event is found."""
    labels: Mapping[str, Ints]
    """Labels of the lines, by the name of a feature. A negative label allows no guess."""


class Guesses(NamedTuple):
    """Numbers of right and wrong guesses."""

    right: float
    wrong: float

    def scaled(self, factor: float) -> "Guesses":
        return Guesses(self.right * factor, self.wrong * factor)


@dataclass(frozen=True)
class Event:
    """Labels of a feature that speak for the first input (1), for the second (-1) or for none (0)."""

    trial: Trial
    feature: str
    votes: Ints
    forecast: Guesses
    """Guesses expected on the half that counts."""

    def count(self) -> Guesses:
        """Count the guesses on the half that did not choose the event."""
        trial = self.trial
        labels = trial.labels[self.feature]
        lines = ~trial.for_search & (labels >= 0)
        votes = self.votes[np.minimum(labels[lines], len(self.votes) - 1)]
        is_first = trial.first[lines]
        right_guesses = int((votes == np.where(is_first, 1, -1)).sum())
        return Guesses(right_guesses, int((votes != 0).sum()) - right_guesses)


def epsilon_bound(guesses: Guesses, alpha: float) -> float:
    """Return the lower bound of epsilon, by Clopper and Pearson's bound of the chance of a right guess."""
    if guesses.right <= guesses.wrong:
        return 0.0
    chance = float(special.betaincinv(guesses.right, guesses.wrong + 1.0, alpha))
    return max(0.0, math.log(chance / (1.0 - chance))) if chance < 1.0 else math.inf


def best_events(trials: Sequence[Trial], alpha: float) -> list[Event]:
    """Return the best event of each trial, for those trials that give the largest bound together."""
    events = [event for event in (best_event(trial, alpha) for trial in trials) if event]
    events.sort(key=lambda event: epsilon_bound(event.forecast, alpha), reverse=True)

    # One count of all guesses gives a tighter bound than a test for each trial, but weak events would dilute it.
    count = 0
    highest_bound = -1.0
    total = Guesses(0.0, 0.0)
    for number, event in enumerate(events, start=1):
        total = Guesses(total.right + event.forecast.right, total.wrong + event.forecast.wrong)
        bound = epsilon_bound(total, alpha)
        if bound > highest_bound:
            count = number
            highest_bound = bound
    return events[:count]


def best_event(trial: Trial, alpha: float) -> Event | None:
    """Return the event with the largest bound that is to be expected. Each half of the search judges the other."""
    lines = np.flatnonzero(trial.for_search)
    if not len(lines):
        return None
    factor = (~trial.for_search).sum() / len(lines)
    is_first = trial.first[lines]

    events = []
    for feature, labels in trial.labels.items():
        search_labels = labels[lines]
        size = int(labels.max(initial=0)) + 1
        counts = np.array([_counts(search_labels[half::2], is_first[half::2], size) for half in (0, 1)])
        total = counts.sum(axis=0)
        # A quarter would forecast its own luck if it chose the votes and counted them.
        for limit, sides in _limits(total):
            halves = [_judged(_votes(counts[half], limit, sides), counts[1 - half]) for half in (0, 1)]
            forecast = Guesses(*np.sum(halves, axis=0)).scaled(factor)
            events.append(Event(trial, feature, _votes(total, limit, sides), forecast))
    return max(events, key=lambda event: epsilon_bound(event.forecast, alpha), default=None)


def _counts(labels: Ints, is_first: Flags, size: int) -> Ints:
    """Return how often each label occurs, for the first and the second input."""
    valid = labels >= 0
    return np.stack([np.bincount(labels[valid & side], minlength=size) for side in (is_first, ~is_first)])


def _limits(counts: Ints) -> Iterator[tuple[float, tuple[int, ...]]]:
    """Yield limits of the likelihood ratio, and the inputs for which an event may speak."""
    ratios = np.abs(_ratios(counts))[counts.sum(axis=0) > 0]
    if not len(ratios):
        return

    # An event that speaks for one input only is better if the other one never gives such a label.
    for limit in np.unique(np.quantile(ratios, np.linspace(0.0, 1.0, _STEPS), method="lower")):
        for sides in ((1, -1), (1,), (-1,)):
            yield float(limit), sides


def _ratios(counts: Ints) -> Floats:
    """Return the logarithm of each label's likelihood ratio. Rare labels count less."""
    # Half a report more of each: a label with one report would have an infinite ratio.
    ratios: Floats = np.log((counts[0] + 0.5) / (counts[1] + 0.5))
    return ratios


def _votes(counts: Ints, limit: float, sides: tuple[int, ...]) -> Ints:
    ratios = _ratios(counts)
    votes = np.where(np.abs(ratios) >= limit, np.sign(ratios), 0).astype(np.int64)
    return np.where(np.isin(votes, sides), votes, 0)


def _judged(votes: Ints, counts: Ints) -> tuple[float, float]:
    right_guesses = counts[0][votes > 0].sum() + counts[1][votes < 0].sum()
    return float(right_guesses), float(counts[:, votes != 0].sum() - right_guesses)
