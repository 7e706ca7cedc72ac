"""Clients: how perturbed reports get into Kafka.

`Client` perturbs, remembers and keeps the budget; `Publisher` sends to Kafka, `HttpPublisher` to a
gateway. Only who publishes pays for importing a client of Kafka, or of HTTP.
"""

import importlib
from typing import TYPE_CHECKING, Any

from producers.client import Client
from producers.errors import BudgetSpent, DeliveryError, NotAllowed, NotYet, StoreError
from producers.ledger import Ledger

if TYPE_CHECKING:
    from producers.http import HttpPublisher
    from producers.publisher import Publisher

__all__ = [
    "BudgetSpent",
    "Client",
    "DeliveryError",
    "HttpPublisher",
    "Ledger",
    "NotAllowed",
    "NotYet",
    "Publisher",
    "StoreError",
]


_PUBLISHERS = {"Publisher": "producers.publisher", "HttpPublisher": "producers.http"}


def __getattr__(name: str) -> Any:
    if name not in _PUBLISHERS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_PUBLISHERS[name]), name)
