"""The mathematics of hubbub: it perturbs answers, counts reports, and estimates shares from the counts."""

from oracles.estimate import Estimate
from oracles.mechanisms import ORACLES, oracle
from oracles.mechanisms.protocol import Oracle

__all__ = ["ORACLES", "Estimate", "Oracle", "oracle"]
