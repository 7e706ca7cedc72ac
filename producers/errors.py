"""Every error that clients raise on purpose, beside those of `oracles.errors`.

HubbubError
├── NotAllowed       a query that the application does not list (also a PermissionError)
├── NotYet           this period was answered already; nothing was spent
├── BudgetSpent      answering would be charged more than a limit on this device leaves; nothing was spent
├── StoreError       answers or frames cannot be kept on disk (also an OSError)
└── DeliveryError    reports that Kafka, or a gateway, did not take
"""

from oracles.errors import HubbubError


class NotAllowed(HubbubError, PermissionError):
    """A query whose name is not among those that the application allows."""


class NotYet(HubbubError):
    """The period was answered already, or a later one was. Nothing was spent and nothing is to be sent."""

    def __init__(self, message: str, due: float) -> None:
        super().__init__(message)
        self.due = due
        """When the next answer may be given, in seconds since the Unix epoch."""


class BudgetSpent(HubbubError):
    """Answering would be charged more than the query's budget leaves, or than max_epsilon over all queries."""


class StoreError(HubbubError, OSError):
    """The store, which must be on disk before anything leaves the device, cannot be kept there."""


class DeliveryError(HubbubError):
    """Reports that Kafka or a gateway refused, or has not acknowledged in time; those may still arrive."""

    def __init__(self, message: str, reports: int = 0) -> None:
        super().__init__(message)
        self.reports = reports
        """How many of those that were put before."""
