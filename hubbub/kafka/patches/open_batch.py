"""A record batch that stays open until aiokafka takes it from its queue. So records that come until then share it."""

from aiokafka.producer.message_accumulator import BatchBuilder


class OpenBatch(BatchBuilder):  # type: ignore[misc] # aiokafka is untyped
    """A batch that closes when aiokafka counts its records.

    aiokafka counts the records when it takes the batch, and builds the batch later, in another task. Without this a
    record could come between the two, and its number would also be the first number of the next batch.
    """

    def _set_producer_state(self, *numbers: int) -> None:
        self.close()
        super()._set_producer_state(*numbers)
