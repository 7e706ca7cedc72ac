"""A reader of the log, without a broker."""

import asyncio

import pytest

from hubbub.kafka import log_reader
from hubbub.kafka.errors import KafkaUnreachable
from hubbub.kafka.settings import REPORTS, Kafka


class SilentConsumer:
    """A consumer whose broker answers the start, and then nothing."""

    async def start(self):
        pass

    async def stop(self):
        pass

    def assign(self, partitions):
        pass

    async def seek_to_beginning(self, *partitions):
        pass

    async def end_offsets(self, partitions):
        await asyncio.Event().wait()


def test_a_silent_broker_is_unreachable(monkeypatch):
    monkeypatch.setattr(log_reader, "consumer", lambda *_, **__: SilentConsumer())

    async def read():
        async with log_reader.open_log(Kafka("nowhere:1"), {REPORTS: [0]}, patience=0.01):
            pass

    with pytest.raises(KafkaUnreachable, match="no answer in time"):
        asyncio.run(read())
