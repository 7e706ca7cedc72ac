"""The loop that counts, without a broker."""

import asyncio
from unittest.mock import AsyncMock, Mock

from aggregator.counting.app import MAX_REJECTS, CountingApp


def test_many_rejects_do_not_wait_for_the_partition_of_another_worker():
    """Only the owner of a partition writes its rejects."""
    source = Mock(next_offset=0, rejects=[None] * (MAX_REJECTS + 1))
    counting = Mock(sources={0: source}, stopping=False)
    counting.on_close = counting.sources.clear  # a rebalance
    counting.follower.cover = counting._bind = AsyncMock()

    async def events():
        yield Mock(value=Mock(first=0), message=Mock(partition=0))

    asyncio.run(asyncio.wait_for(CountingApp.count(counting, events()), 30))
    counting._take.assert_called_once()
