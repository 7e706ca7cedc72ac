"""RS+FD: one attribute is answered, hidden among fake answers to all others."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from oracles.estimate import Pure
from oracles.mechanisms.entropy import Source
from oracles.mechanisms.grr import Grr, set_as_value
from oracles.mechanisms.oue import Oue
from oracles.mechanisms.protocol import Oracle
from oracles.mechanisms.sue import Sue
from oracles.mechanisms.unary import Unary
from oracles.multi.attributes import Joint
from oracles.types import Ints, Reports


class Rsfd(Joint):
    """One attribute, hidden among fakes, with epsilon' = ln(d (e - 1) + 1).

    Claim: epsilon'-LDP for a whole record, and no better: two arbitrary records reach it. Only
    neighbours that differ in one attribute are told apart by less, and not even they by epsilon
    for grr with unequal sizes, for oue_r with 3 values and more, or where oracles differ.
    Shown in tests/unit/test_privacy.py.
    """

    def __init__(self, epsilon: float, record_epsilon: float, hidden: Sequence["Hidden"]) -> None:
        super().__init__("rsfd", epsilon, record_epsilon, [attribute.encoder for attribute in hidden])
        self.hidden = tuple(hidden)
        self.attributes = self.hidden
        self.names = tuple(attribute.name for attribute in hidden)

    @property
    def life(self) -> None:
        """A fake that stays while the real answer moves would tell which is real."""
        return

    def _encode(self, columns: list[Ints], draw: Source) -> Reports:
        answered = draw.below(len(columns), len(columns[0]))
        reports = np.empty((len(answered), self.width), np.uint8)
        for j, (attribute, part) in enumerate(zip(self.hidden, self._parts, strict=True)):
            true, fake = np.flatnonzero(answered == j), np.flatnonzero(answered != j)
            reports[true, part] = attribute.encoder.encode(columns[j][true], draw)
            reports[fake, part] = attribute.fake(len(fake), draw)
        return reports


class Hidden(Pure):
    """An attribute of rsfd: its encoder seen through the fakes, with p* and q*."""

    def __init__(self, name: str, epsilon: float, size: int, attributes: int) -> None:
        encoder, fake = FAKES[name]
        empty = {"empty": (attributes - 1) / attributes} if fake is _zero else {}
        self.encoder = encoder(epsilon, size, **empty)
        self.fake = partial(fake, self.encoder)
        p, q = self.encoder.exact
        h = {"grr": Fraction(1, size), "oue_r": q + (p - q) / size}.get(name, q)
        """The chance that a fake supports a given value."""
        seen = q / attributes + (attributes - 1) * h / attributes
        super().__init__(name, size, seen + (p - q) / attributes, seen)

    @property
    def one_value(self) -> bool:
        return False

    def set_law(self, values: int) -> tuple[int, float, float] | None:
        one = self.name == "grr"
        return (1, self.p + (values - 1) * self.q, values * self.q) if one else super().set_law(values)

    def set_variance(self, n: int, values: int, share: float) -> float:
        """For oue_r an upper bound: the bits of a one-hot fake are negatively correlated."""
        if self.name == "grr":
            return set_as_value(*self.exact, n, values, share)
        return super().set_variance(n, values, share)


def _uniform(encoder: Grr, count: int, draw: Source) -> Reports:
    """Uniform values."""
    return encoder.written(draw.below(encoder.size, count))


def _one_hot(encoder: Oue, count: int, draw: Source) -> Reports:
    """Random one-hot vectors, perturbed."""
    return encoder.encode(draw.below(encoder.size, count), draw)


def _zero(encoder: Unary, count: int, draw: Source) -> Reports:
    """Zero vectors, perturbed."""
    return encoder.flip(count, None, draw)


FAKES: dict[str, tuple[Callable[..., Oracle], Callable[[Any, int, Source], Reports]]] = {
    "grr": (Grr, _uniform),
    "oue_z": (Oue, _zero),
    "oue_r": (Oue, _one_hot),
    "sue_z": (Sue, _zero),
}
"""By name, what encodes the answer, and how it makes so many fakes."""
