"""Conformance. `check` tests an oracle or a method against its promises, and `probe` tests any client's epsilon."""

from oracles.conformance.method_promises import FALSE_ALARM
from oracles.conformance.privacy_probe import Finding, probe
from oracles.conformance.promises import check

__all__ = ["FALSE_ALARM", "Finding", "check", "probe"]
