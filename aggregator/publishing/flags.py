"""The flags of a record, and their order."""

from collections.abc import Set as AbstractSet
from dataclasses import replace

from aggregator.records.findings import AnyFindings
from aggregator.records.words import ALL_FLAGS

SKEWED = "skewed"
"""The flag of reports that look forged."""


def in_record_order(flags: AbstractSet[str]) -> tuple[str, ...]:
    """Return flags in the order of a record."""
    return tuple(flag for flag in ALL_FLAGS if flag in flags)


def with_flag(findings: AnyFindings, flag: str) -> AnyFindings:
    """Return findings with one more flag."""
    return replace(findings, flags=in_record_order({*findings.flags, flag}))
