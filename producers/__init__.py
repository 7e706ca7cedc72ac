"""Clients: how perturbed reports get into Kafka.

`Client` perturbs, remembers and keeps the budget; `Publisher` sends. Only who publishes pays for
importing a Kafka client.
"""

from typing import TYPE_CHECKING, Any

from producers.client import Client
from producers.errors import BudgetSpent, DeliveryError, NotAllowed, NotYet, StoreError
from producers.ledger import Ledger

if TYPE_CHECKING:
    from producers.publisher import Publisher

__all__ = [
    "BudgetSpent",
    "Client",
    "DeliveryError",
    "Ledger",
    "NotAllowed",
    "NotYet",
    "Publisher",
    "StoreError",
]


def __getattr__(name: str) -> Any:
    if name != "Publisher":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from producers.publisher import Publisher

    return Publisher
