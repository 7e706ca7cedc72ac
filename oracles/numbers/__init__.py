"""Distributions of numbers: their tree of bins, quantiles and means, and how they change."""

from oracles.numbers.numbers import BLOCKS, LINEAR, LOG, Histogram, Numbers, Quantity, RangeShare, Scale

__all__ = ["BLOCKS", "LINEAR", "LOG", "Histogram", "Numbers", "Quantity", "RangeShare", "Scale"]
