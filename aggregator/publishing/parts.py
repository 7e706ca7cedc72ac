"""The parts of a record that its writer fills, and its reader holds to their schema."""

from dataclasses import dataclass
from typing import Annotated

from aggregator.publishing.schema import Chance, Count

Ranks = Annotated[list[Count] | None, {"minItems": 2, "maxItems": 2}]


@dataclass(frozen=True, kw_only=True, slots=True)
class HitterRow:
    """A value that exceeds a threshold."""

    value: str
    share: float
    decided: bool
    p_value: Chance
    probability: Chance
    ranks: Ranks


@dataclass(frozen=True, kw_only=True, slots=True)
class RefusedRow:
    """Reports that a window left out."""

    duplicate: Count
    implausible: Count
