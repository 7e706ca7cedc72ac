"""The mathematics of hubbub: perturbing answers, counting reports, and what the counts say."""

from oracles.estimate import Estimate
from oracles.mechanisms import ORACLES, oracle
from oracles.mechanisms.protocol import Oracle

__all__ = ["ORACLES", "Estimate", "Oracle", "oracle"]
