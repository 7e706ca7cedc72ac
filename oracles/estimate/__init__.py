"""Estimates of shares with their errors: intervals, changes, pairs of values, and estimates of listed values."""

from oracles.estimate.changes import change
from oracles.estimate.estimate import Covariance, Estimate, Noise, Pure, quantile

__all__ = ["Covariance", "Estimate", "Noise", "Pure", "change", "quantile"]
