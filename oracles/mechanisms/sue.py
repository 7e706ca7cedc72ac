"""SUE, symmetric unary encoding: the client flips every bit with the same probability (basic RAPPOR)."""

import math

from oracles.mechanisms import chance
from oracles.mechanisms.unary import Unary


class Sue(Unary):
    """Unary encoding with p = s/(s + 1), s = exp(epsilon/2), and q = 1 - p.

    Claim: epsilon-LDP. Two inputs differ in two bits, so the ratio of an output's probabilities is at most
    (p/(1 - p))^2. Here p is the largest multiple of 2**-64 that keeps it at exp(epsilon).
    Variance: n Var = s/(s - 1)^2 for every share.
    Test: tests/unit/test_privacy.py and test_conformance.py.

    Erlingsson, Pihur and Korolova 2014; Wang, Blocki, Li and Jha 2017.
    """

    def __init__(self, epsilon: float, size: int, empty: float = 0.0) -> None:
        p = chance.largest(1, 1, chance.exp(epsilon, parts=2))
        super().__init__("sue", epsilon, size, p, chance.ONE - p, empty)

    @property
    def overlap(self) -> float:
        return (math.exp(self.epsilon / 2.0) + 1.0) ** -2
