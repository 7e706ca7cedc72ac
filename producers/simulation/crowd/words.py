"""Crowds of words: the strings that simulated clients hold, with their weights."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import cast

import numpy as np

from oracles.discover import Slots, Strings
from oracles.errors import ParameterError
from oracles.query import Query
from oracles.types import Ints
from producers.simulation.crowd.distribution import Distribution
from producers.simulation.crowd.scenario import Attack, Change, Fade, Scenario, Surge

SPECS = "for unknown strings words:FILE or generated:COUNT,A"
DEFAULT = "generated:10000,1.1"
EXPONENT = 1.1
"""Exponent of the Zipf law of a file without counts."""
MOST_WORDS = 1_000_000
SHORTEST = 4
"""Symbols of the shortest generated word, if the query's length allows it."""
_SEED = 37
"""Seed of the generated words, which are the same in all runs."""
_RANDOM_WORDS = re.compile(r"generated:([0-9]{1,7})(?:,([0-9.]+))?")


@dataclass(frozen=True, eq=False)
class Words(Distribution):
    """Texts with their weights. A value is the position of a text."""

    texts: tuple[str, ...] = ()

    def without(self, attribute: int, value: int) -> "Words":
        del attribute
        weights = self.weights.copy()
        weights[value] = 0.0
        return replace(self, weights=weights)

    def extended(self, texts: Iterable[str]) -> "Words":
        """Return the words with these texts, which nobody holds at the start."""
        new_texts = [text for text in dict.fromkeys(texts) if text not in self._places]
        weights = np.concatenate([self.weights, np.zeros(len(new_texts))])
        return Words(weights, None, (*self.texts, *new_texts))

    def place(self, text: str) -> int:
        """Return the position of a text."""
        return self._places[text]

    @cached_property
    def _places(self) -> dict[str, int]:
        # Of a text that comes twice the first place counts.
        return {text: place for place, text in reversed(list(enumerate(self.texts)))}


class Dictionary:
    """The words of a simulation, and the cells that clients report of them."""

    def __init__(self, words: Words, slots: Slots) -> None:
        self.words = words
        dtype = np.min_scalar_type((1 << slots.strings.cells) - 1)
        self._cells = slots.strings.cells_of_many(words.texts).astype(dtype)

    def cells(self, values: Ints) -> Ints:
        """Return a row of cells for each word."""
        return self._cells[values].astype(np.int64)

    def targets(self, values: Iterable[int]) -> list[Ints]:
        """Return for each level and map the cells of these words."""
        return [np.unique(column).astype(np.int64) for column in self._cells[list(values)].T]


def read_words(specs: list[str], query: Query) -> Words:
    """Return the words of a spec."""
    if len(specs) > 1:
        raise ParameterError("give one distribution of words")
    spec = specs[0] if specs else DEFAULT
    if spec.startswith("words:"):
        return _of_file(Path(spec.removeprefix("words:")))
    match = _RANDOM_WORDS.fullmatch(spec)
    count, exponent = (int(match[1]), float(match[2] or EXPONENT)) if match else (0, 0.0)
    if not 1 <= count <= MOST_WORDS:
        raise ParameterError(f"words are {SPECS}, with a COUNT from 1 to {MOST_WORDS:,}; got {spec!r}")
    return _generated(count, exponent, query)


def _generated(count: int, exponent: float, query: Query) -> Words:
    """Return words of random symbols, whose shares fall like Zipf's law."""
    coding = cast(Strings, query.strings).coding
    rng = np.random.default_rng(_SEED)
    symbols = np.array(list((coding.alphabet or "abcdefghijklmnopqrstuvwxyz")[: max(2, coding.size - 1)]))

    texts: dict[str, None] = {}
    # A short alphabet has few short words, so many draws are repetitions.
    for length in rng.integers(min(SHORTEST, coding.length), coding.length + 1, 20 * count).tolist():
        texts["".join(rng.choice(symbols, length))] = None
        if len(texts) == count:
            break
    return Words(np.arange(1, len(texts) + 1, dtype=np.float64) ** -exponent, None, tuple(texts))


def _of_file(path: Path) -> Words:
    """Return the words of a file, one a line. A number after a tab is its count."""
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except (OSError, ValueError) as error:
        raise ParameterError(f"cannot read {path}: {error}") from error
    if not 1 <= len(lines) <= MOST_WORDS:
        raise ParameterError(f"{path}: must have from 1 to {MOST_WORDS:,} lines, got {len(lines):,}")

    weights: dict[str, float] = {}
    for number, line in enumerate(lines, start=1):
        text, tab, count = line.rpartition("\t")
        weight = _count(count, path, number) if tab else number**-EXPONENT
        text = text if tab else line
        weights[text] = weights.get(text, 0.0) + weight

    return Words(np.array(list(weights.values())), None, tuple(weights))


def _count(text: str, path: Path, number: int) -> float:
    try:
        count = float(text)
    except ValueError:
        count = -1.0
    if not 0.0 <= count < float("inf"):
        raise ParameterError(f"{path}, line {number}: the count after the tab must be at least 0, got {text!r}")
    return count


def placed(scenario: Scenario, words: Words) -> tuple[Scenario, Words]:
    """Return a scenario whose values are positions of words, and the words with those of the scenario."""
    texts: list[str] = []
    for change in scenario.changes:
        texts += _texts(change)
    words = words.extended(texts)
    return replace(scenario, changes=tuple(_placed(change, words) for change in scenario.changes)), words


def _texts(change: Change) -> list[str]:
    if isinstance(change, Surge | Fade):
        return [str(change.value)]
    texts: list[str] = []
    if isinstance(change, Attack):
        for targets in change.targets:
            texts += map(str, targets)
    return texts


def _placed(change: Change, words: Words) -> Change:
    if isinstance(change, Surge | Fade):
        return replace(change, value=words.place(str(change.value)))
    if isinstance(change, Attack):
        targets = tuple(tuple(words.place(str(text)) for text in aims) for aims in change.targets)
        return replace(change, targets=targets)
    return change
