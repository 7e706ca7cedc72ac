"""What the terminal of a demo shows: estimates, alerts, found names, and results that are late."""

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import aclosing, nullcontext

from aggregator.demo import crashes
from aggregator.demo.forecast import Promise, Punctuality
from aggregator.reading.tail.command import Lines, follow, output, take
from aggregator.reading.tail.notation import plain
from aggregator.reading.tail.notice import Notice
from aggregator.reading.tail.overview import Overview
from aggregator.reading.tail.summary import Summary
from hubbub.kafka.settings import Kafka
from oracles.query import Query

LOOK = 1.0
"""Seconds between two looks at the time."""


class DemoScreen:
    """The output of a demo from its start on."""

    def __init__(self, queries: Mapping[str, Query], promises: list[Promise], write: Callable[[str], None]) -> None:
        self._queries = queries
        self._write = write
        self._start = time.time()
        self._punctuality = Punctuality(queries.values(), promises, self._start)
        self._discoveries: set[tuple[str, str]] = set()
        """Queries and names that the terminal has shown as found."""
        self._shows_estimates = False

    async def follow(self, kafka: Kafka, *, page: bool) -> None:
        """Print alerts and, without a page, estimates."""
        overview = Overview()
        with nullcontext(Lines()) if page else output() as screen:
            async with aclosing(follow(kafka, 0)) as stream:
                async for news in stream:
                    summaries, notices = take(overview, news)
                    screen.show(overview, [] if page else summaries, notices)
                    self._take(summaries, notices)

    async def watch_time(self) -> None:
        """Say when results are late, and when they are on time again."""
        while True:
            await asyncio.sleep(LOOK)
            for line in self._punctuality.lines(time.time() - self._start):
                self._write(plain(line, crashes.EVENT))

    def _take(self, summaries: list[Summary], notices: list[Notice]) -> None:
        if summaries and not self._shows_estimates:
            self._write(f"first estimates: {time.time() - self._start:.1f} s after the start")
            self._shows_estimates = True
        for line in crashes.discoveries(self._queries, summaries, self._discoveries):
            self._write(line)

        for query, name in self._discoveries:
            self._punctuality.fulfil(query, name)
        for notice in notices:
            self._punctuality.fulfil(notice.heading.query, notice.row.value)
        for summary in summaries:
            if summary.final:
                self._punctuality.take_final(summary.heading.query, summary.heading.end)
