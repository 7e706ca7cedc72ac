"""RS+FD: the client answers one attribute and sends fake answers to all others."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from oracles.errors import ParameterError
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

    Claim: epsilon'-LDP for a whole record, and no better: two arbitrary records reach it. Neighbours that
    differ in one attribute reach less. This is still more than epsilon for grr with unequal sizes, for oue_r
    with 3 or more values, and if the oracles differ.
    Test: tests/unit/test_privacy.py.
    """

    def __init__(self, epsilon: float, record_epsilon: float, hidden: Sequence["Hidden"]) -> None:
        super().__init__("rsfd", epsilon, record_epsilon, [attribute.encoder for attribute in hidden])
        self.hidden = tuple(hidden)
        self.attributes = self.hidden
        self.names = tuple(attribute.name for attribute in hidden)

    @property
    def life(self) -> None:
        """None: a fake that stays while the real answer moves would reveal which one is real."""
        return

    def _encode(self, columns: list[Ints], draw: Source) -> Reports:
        attribute_of_report = draw.below(len(columns), len(columns[0]))
        reports = np.empty((len(attribute_of_report), self.width), np.uint8)
        for j, (attribute, part) in enumerate(zip(self.hidden, self._parts, strict=True)):
            answers = np.flatnonzero(attribute_of_report == j)
            fakes = np.flatnonzero(attribute_of_report != j)
            reports[answers, part] = attribute.encoder.encode(columns[j][answers], draw)
            reports[fakes, part] = attribute.fake(len(fakes), draw)
        return reports


class Hidden(Pure):
    """An attribute of rsfd: its encoder as the fakes change it, with p* and q*."""

    def __init__(self, name: str, epsilon: float, size: int, attributes: int) -> None:
        if name not in FAKES:
            raise ParameterError(
                f"rsfd has no fake answers for oracle {name!r}; choose one of {', '.join(FAKES)} or adaptive "
                "(a new one needs a row in FAKES of oracles/multi/rsfd.py)"
            )
        row = FAKES[name]
        empty = {"empty": (attributes - 1) / attributes} if row.is_zero else {}
        self.encoder = row.oracle(epsilon, size, **empty)
        self.fake = partial(row.reports, self.encoder)

        # One report in d is an answer, and all others are fakes.
        p, q = self.encoder.exact
        hidden_q = q / attributes + (attributes - 1) * row.support(self.encoder) / attributes
        super().__init__(name, size, hidden_q + (p - q) / attributes, hidden_q)

    @property
    def one_value(self) -> bool:
        return False

    @property
    def supports_one(self) -> bool:
        return self.encoder.supports_one

    def set_variance(self, n: int, values: int, share: float) -> float:
        """Return the variance of a set. For oue_r it is an upper bound: bits of a one-hot fake correlate negatively."""
        if self.supports_one:
            return set_as_value(self, n, values, share)
        return super().set_variance(n, values, share)


def _uniform(encoder: Grr, count: int, draw: Source) -> Reports:
    """Return reports of uniform values."""
    return encoder.report_bytes(draw.below(encoder.size, count))


def _one_hot(encoder: Oue, count: int, draw: Source) -> Reports:
    """Return perturbed random one-hot vectors."""
    return encoder.encode(draw.below(encoder.size, count), draw)


def _zero(encoder: Unary, count: int, draw: Source) -> Reports:
    """Return perturbed zero vectors."""
    return encoder.flip(count, None, draw)


class Encoder(Protocol):
    """A class of oracles that rsfd hides among fakes."""

    @property
    def max_size(self) -> int: ...

    def __call__(self, *arguments: Any, **options: Any) -> Oracle: ...


class Fake(NamedTuple):
    """A row of FAKES: an oracle, and the fake reports that hide its answers."""

    oracle: Encoder
    reports: Callable[[Any, int, Source], Reports]
    """Function that makes a number of fake reports."""
    support: Callable[[Oracle], Fraction]
    """Exact probability that a fake supports a given value."""
    is_zero: bool = False
    """Whether fakes are perturbed zero vectors. The encoder's marks expect them then."""


_ZERO = partial(Fake, reports=_zero, support=lambda encoder: encoder.exact[1], is_zero=True)

FAKES = {
    "grr": Fake(Grr, _uniform, lambda encoder: Fraction(1, encoder.size)),
    "oue_z": _ZERO(Oue),
    "oue_r": Fake(
        Oue, _one_hot, lambda encoder: encoder.exact[1] + (encoder.exact[0] - encoder.exact[1]) / encoder.size
    ),
    "sue_z": _ZERO(Sue),
}
"""Every fake of rsfd under its name."""
