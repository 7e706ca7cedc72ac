"""Tables of an overview for a terminal, drawn by rich. Foreign text is a `Text`, so that its markup has no effect."""

import time
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from aggregator.reading.tail.notation import clock, lateness, percent, sparkline
from aggregator.reading.tail.overview import Overview, Track, last_notices
from aggregator.reading.tail.summary import Notice, Summary, SummaryRow

LATEST = 6
"""Maximum number of alerts in the table."""
BAR = 20
"""Characters of the longest bar."""
_STYLES = {"enter": "", "leave": "dim", "surge": "bold"}


class Screen:
    """The output as live tables: `with Screen(top) as screen: screen.show(overview, ...)`."""

    def __init__(self, top: int, console: Console | None = None) -> None:
        self._top = top
        self._live = Live(console=console or Console(highlight=False, emoji=False), refresh_per_second=4)

    def show(self, overview: Overview, summaries: list[Summary], notices: list[Notice]) -> None:
        del summaries, notices
        self._live.update(Group(*tables(overview, self._top, time.time())))

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, error, trace)


def tables(overview: Overview, top: int, now: float = 0.0) -> Iterator[RenderableType]:
    """Yield a table for each query or attribute, and a table of the alerts."""
    if not overview.tracks:
        yield Text(waiting_text(overview), style="dim")
    for place in sorted(overview.tracks):
        yield _summary(overview.tracks[place], top)
        track = overview.tracks[place]
        if track.gap:
            yield Text(track.gap, style="yellow")
        late = track.late(now)
        if late > 0.0:
            since = clock(max(track.finals))
            hint = "check that clients send and workers run (/readyz, hubbub_lag_seconds)"
            text = f"no final since {since}, late by {lateness(late)}: {hint}"
            yield Text(text, style="bold red")
    if overview.notices:
        yield _notices(last_notices(overview.notices, LATEST))


def waiting_text(overview: Overview) -> str:
    """Return the text to show before the first record."""
    subject = "records" if overview.query is None else f"records of {overview.query}"
    others = f"; there are records of {', '.join(sorted(overview.others))}" if overview.others else ""
    return f"waiting for {subject}{others}"


def _summary(track: Track, top: int) -> Table:
    summary = track.newest
    title = Text(f"{summary.heading}, to {clock(summary.heading.end)}, {summary.state}", style="bold")
    caption = None if summary.withheld else Text(f"● proved frequent, ○ listed; {summary.quality}", style="dim")
    table = Table(title=title, title_justify="left", caption=caption, caption_justify="left", box=None, pad_edge=False)
    table.add_column("")
    table.add_column("value", no_wrap=True, min_width=12)
    table.add_column("share", justify="right")
    table.add_column("95% interval", justify="right", no_wrap=True)
    table.add_column(Text(summary.method or ""), justify="right")
    table.add_column("")
    table.add_column("history", no_wrap=True)
    rows = summary.rows[:top]
    widest = max((row.high for row in rows), default=0.0)
    for row in rows:
        mark = "●" if row.proved else "○" if row.frequent else ""
        consistent = "" if row.consistent is None else percent(row.consistent, row.digits)
        numbers = (percent(row.share, row.digits), row.interval, consistent)
        table.add_row(
            *map(Text, (mark, row.name, *numbers, _share_bar(row, widest), sparkline(track.history(row.value))))
        )
    return table


def _share_bar(row: SummaryRow, widest: float) -> str:
    """Return a bar of blocks for the share, with a line to the upper end of the interval."""
    scale = BAR / widest if widest > 0.0 else 0.0
    blocks = round(max(row.share, 0.0) * scale)
    return "█" * blocks + "─" * (round(row.high * scale) - blocks)


def _notices(notices: list[Notice]) -> Table:
    table = Table(title=Text("alerts", style="bold"), title_justify="left", box=None, pad_edge=False, show_header=False)
    for notice in notices:
        style = _STYLES[notice.kind]
        cells = (clock(notice.heading.end), notice.kind, str(notice.heading), str(notice))
        table.add_row(*(Text(cell, style=style) for cell in cells))
    return table
