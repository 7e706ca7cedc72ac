"""A View as tables for a terminal, drawn by rich. Texts are given as Text, so that no markup in them counts."""

import time
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from aggregator.reading.tail.notation import clock, percent, sparkline
from aggregator.reading.tail.overview import Track, View, newest
from aggregator.reading.tail.summary import Alert, Row, Sheet

ALERTS = 6
BAR = 20
STALE = 30.0
"""Seconds without anything new after which the table says so."""
_COLOURS = {"enter": "green", "leave": "dim", "surge": "bold yellow"}


class Screen:
    """`with Screen(top) as screen: screen.show(view, ...)`: a table that is drawn anew as things change."""

    def __init__(self, top: int, console: Console | None = None) -> None:
        self._top = top
        self._live = Live(console=console or Console(highlight=False, emoji=False), refresh_per_second=4)
        self._heard = time.monotonic()

    def show(self, view: View, sheets: list[Sheet], alerts: list[Alert]) -> None:
        now = time.monotonic()
        if sheets or alerts:
            self._heard = now
        silent = now - self._heard
        stale = f"nothing new for {silent:.0f} s" if silent >= STALE else ""
        self._live.update(Group(*drawn(view, self._top), Text(stale, style="bold red")))

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, error, trace)


def drawn(view: View, top: int) -> Iterator[RenderableType]:
    """A table for each query or attribute, and one of the alerts."""
    if not view.tracks:
        yield Text(waiting(view), style="dim")
    for place in sorted(view.tracks):
        yield _sheet(view.tracks[place], top)
    if view.alerts:
        yield _alerts(newest(view.alerts, ALERTS))


def waiting(view: View) -> str:
    """What is said as long as there is nothing to show."""
    what = "records" if view.query is None else f"records of {view.query}"
    others = f"; there are records of {', '.join(sorted(view.others))}" if view.others else ""
    return f"waiting for {what}{others}"


def _sheet(track: Track, top: int) -> Table:
    sheet = track.newest
    state = "" if sheet.final else ", provisional"
    title = Text(f"{sheet.subject}, to {clock(sheet.subject.end)}{state}, {sheet.n:,} reports", style="bold")
    caption = Text(f"● proved frequent, ○ listed; {sheet.quality}", style="dim")
    table = Table(title=title, title_justify="left", caption=caption, caption_justify="left", box=None, pad_edge=False)
    table.add_column("")
    table.add_column("value", no_wrap=True, min_width=12)
    table.add_column("share", justify="right")
    table.add_column("95% interval", justify="right", no_wrap=True)
    table.add_column(Text(sheet.method or ""), justify="right")
    table.add_column("")
    table.add_column("history", no_wrap=True)
    rows = sheet.rows[:top]
    widest = max((row.high for row in rows), default=0.0)
    for row in rows:
        mark = "●" if row.proved else "○" if row.frequent else ""
        consistent = "" if row.consistent is None else percent(row.consistent, row.digits)
        numbers = (percent(row.share, row.digits), row.interval, consistent)
        table.add_row(*map(Text, (mark, row.name, *numbers, _bar(row, widest), sparkline(track.history(row.value)))))
    return table


def _bar(row: Row, widest: float) -> str:
    """The share as blocks, and a line up to the end of its interval."""
    scale = BAR / widest if widest > 0.0 else 0.0
    filled = round(max(row.share, 0.0) * scale)
    return "█" * filled + "─" * (round(row.high * scale) - filled)


def _alerts(alerts: list[Alert]) -> Table:
    table = Table(title=Text("alerts", style="bold"), title_justify="left", box=None, pad_edge=False, show_header=False)
    for alert in alerts:
        style = _COLOURS[alert.kind]
        cells = (clock(alert.subject.end), alert.kind, str(alert.subject), str(alert))
        table.add_row(*(Text(cell, style=style) for cell in cells))
    return table
