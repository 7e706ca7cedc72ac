"""An idempotent producer whose partition goes on after a broker refused a batch as too large.

aiokafka counts the records of a batch as written when it sends them. The broker has written none of a refused batch.
So it refuses all later batches of that partition, because numbers are missing.
"""

from typing import Any

from aiokafka.errors import MessageSizeTooLargeError
from aiokafka.producer.sender import SendProduceReqHandler

_handle_response = SendProduceReqHandler.handle_response


def install() -> None:
    """Give the numbers of refused batches to the next records, in all producers of this process."""
    SendProduceReqHandler.handle_response = _handle


def _handle(self: Any, response: Any) -> None:
    _handle_response(self, response)
    manager = self._sender._txn_manager  # noqa: SLF001 - aiokafka has no other way
    for tp, batch in self._batches.items() if manager is not None else ():
        if batch.future.done() and isinstance(batch.future.exception(), MessageSizeTooLargeError):
            manager.increment_sequence_number(tp, -batch.record_count)
