"""Clients that perturb answers on a device and send the reports.

`Client` perturbs and keeps the privacy budget. `Publisher` sends to Kafka, and `HttpPublisher` sends to a gateway.
The two publishers are imported at first use, because they need a Kafka or an HTTP client.
"""

import importlib
from typing import TYPE_CHECKING, Any

from producers.client.client import Client
from producers.client.file_key_store import FileKeyStore
from producers.client.items import one_of
from producers.client.key_item import KeyStore
from producers.client.ledger import Ledger
from producers.client.renewal import RenewalWarning
from producers.client.status import Status
from producers.errors import BudgetSpent, DeliveryError, NotAllowed, NotYet, Stopped, StoreError

if TYPE_CHECKING:
    from producers.publishers.http_publisher import HttpPublisher
    from producers.publishers.kafka_publisher import Publisher

__all__ = [
    "BudgetSpent",
    "Client",
    "DeliveryError",
    "FileKeyStore",
    "HttpPublisher",
    "KeyStore",
    "Ledger",
    "NotAllowed",
    "NotYet",
    "Publisher",
    "RenewalWarning",
    "Status",
    "Stopped",
    "StoreError",
    "one_of",
]


_PUBLISHERS = {
    "Publisher": "producers.publishers.kafka_publisher",
    "HttpPublisher": "producers.publishers.http_publisher",
}


def __getattr__(name: str) -> Any:
    if name not in _PUBLISHERS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_PUBLISHERS[name]), name)
