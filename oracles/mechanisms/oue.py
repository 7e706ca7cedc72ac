"""OUE, optimised unary encoding: the own bit is a fair coin, and all other bits are rarely 1."""

import math

from oracles.mechanisms import chance
from oracles.mechanisms.unary import Unary


class Oue(Unary):
    """Unary encoding with p = 1/2 exactly and q about 1/(e + 1).

    Claim: epsilon-LDP. Two inputs differ in two bits, so the ratio of an output's probabilities is at most (1 -
    q)/q. Here q is the smallest multiple of 2**-64 that keeps it at exp(epsilon).
    Variance: n Var = 4e/(e - 1)^2 + f, at f = 0 the least of all unary encodings.
    Test: tests/unit/test_privacy.py and test_conformance.py.

    Wang, Blocki, Li and Jha 2017.
    """

    auto_edition = 1

    def __init__(self, epsilon: float, size: int, empty: float = 0.0) -> None:
        q = chance.ONE - chance.largest(1, 1, chance.exp(epsilon))
        super().__init__("oue", epsilon, size, chance.ONE >> 1, q, empty)

    @property
    def overlap(self) -> float:
        return 0.5 / (math.exp(self.epsilon) + 1.0)
