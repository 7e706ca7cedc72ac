"""The metrics of a final. The estimator makes them, and the worker sets its gauges by them."""

import math
from collections.abc import Mapping
from typing import NamedTuple

from oracles.numbers import Quantity


class NumberMetrics(NamedTuple):
    """The metrics of an attribute whose answers are numbers. Each number has the ends of its 95% interval."""

    mean: Quantity
    quantiles: Mapping[str, Quantity]
    """By share, as in a record."""
    ranges: Mapping[str, Quantity]


class FinalMetrics(NamedTuple):
    """The metrics of one attribute of a final. A withheld attribute has only flags."""

    name: str | None
    flags: tuple[str, ...]
    sigma: float = math.nan
    detectable: float | None = None
    threshold: float | None = None
    numbers: NumberMetrics | None = None
