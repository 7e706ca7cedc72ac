"""The errors that clients raise on purpose, in addition to those of `oracles.errors`.

HubbubError
├── NotAllowed       the application does not list this query, or pins another (also a PermissionError)
├── NotYet           the client has answered in this period; nothing was charged
├── Stopped          an operator has stopped the query; nothing was charged
├── BudgetSpent      the charge exceeds a limit of this device; nothing was charged
├── StoreError       the store or the spool on disk cannot be used (also an OSError)
└── DeliveryError    Kafka or a gateway did not take reports
"""

from oracles.errors import HubbubError


class NotAllowed(HubbubError, PermissionError):
    """A query that is not on the application's list, or not within its pins."""


class NotYet(HubbubError):
    """A second answer in a period, or an answer in an earlier period. Nothing was charged. Send nothing."""

    def __init__(self, message: str, due: float) -> None:
        super().__init__(message)
        self.due = due
        """The time of the next answer, in seconds since the Unix epoch."""


class Stopped(HubbubError):
    """An answer to a query that an operator has stopped. Nothing was charged, and the query may go on later."""


class BudgetSpent(HubbubError):
    """A charge above the rest of the query's budget, or above the rest of max_epsilon over all queries."""


class StoreError(HubbubError, OSError):
    """A store, key or spool on disk that cannot be read or written. Nothing leaves the device before it is stored."""


class DeliveryError(HubbubError):
    """Reports that Kafka or a gateway refused, or did not acknowledge in time. Late ones may still arrive."""

    def __init__(self, message: str, reports: int = 0) -> None:
        super().__init__(message)
        self.reports = reports
        """The number of these reports."""
