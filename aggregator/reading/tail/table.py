"""The pages of a terminal, drawn by rich. Foreign text is a `Text`, so that its markup has no effect."""

import time
from collections.abc import Iterator, Sequence
from textwrap import wrap
from types import TracebackType
from typing import NamedTuple, Self

from rich.cells import cell_len, set_cell_size
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from aggregator.reading.tail.notation import clock, lateness, level_text, plain, sparkline
from aggregator.reading.tail.notice import Notice, notice_lines
from aggregator.reading.tail.overview import HISTORY, Overview, QueryPulse, Track, last_notices
from aggregator.reading.tail.pages import Pages
from aggregator.reading.tail.rows import TailRow
from aggregator.reading.tail.summary import Summary
from aggregator.records.alert import COMPARISONS
from oracles.query.domain import NUMBERS

LATEST = 6
"""Maximum number of alerts on a page."""
BAR = 20
"""Characters of the longest bar."""
AMOUNT_COLUMNS = 46
"""Columns of the numbers of a value."""
EXTRAS = BAR + HISTORY + 4
"""Columns of the bar and the history of a value. These are left out if its name needs the room."""
LONG_NAME = 60
"""Columns of a name that go before bar and history."""
LEAST_NAME = 6
"""Fewest letters of a name that is shortened."""
COLUMN_GAP = 2
MARK_AND_NAME = 1 + COLUMN_GAP + 12
"""Columns of the mark and of the shortest name."""
STATE_STYLES = {"late": "bold red", "withheld": "yellow", "live": "green"}
_STYLES: dict[str, str] = {"leave": "dim", **dict.fromkeys(COMPARISONS, "bold")}
"""The style of an alert by its kind, if it has one."""


class Screen:
    """The output as live pages: `with Screen(top) as screen: screen.show(overview, ...)`."""

    def __init__(self, top: int, console: Console | None = None) -> None:
        self._top = top
        # With its defaults, rich would draw `:name:` as an emoji, and color parts of names.
        self._console = console or Console(highlight=False, emoji=False)
        self._live = Live(console=self._console, refresh_per_second=4)
        self._overview = Overview()
        self._pages = Pages()

    def show(self, overview: Overview, summaries: list[Summary], notices: list[Notice]) -> None:
        del summaries, notices  # the overview has them already
        self._overview = overview
        self._draw()

    def press(self, key: str) -> None:
        """Turn to the page of a key."""
        self._pages.press(key, self._overview.names, _rows(self._console.height))
        self._draw()

    def _draw(self) -> None:
        width, height = self._console.size
        self._live.update(Group(*page(self._overview, self._pages, self._top, width, height, time.time())))

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, error, trace)


def page(
    overview: Overview, pages: Pages, top: int, width: int, height: int, clock_time: float
) -> Iterator[RenderableType]:
    """Yield the parts of the page that is shown. If there is only one query, its page is the first one."""
    names = overview.names
    if not names:
        yield Text(overview.waiting_text, style="dim")
        return

    name = pages.name if pages.name in names else None
    if name is None and len(names) == 1:
        name = names[0]
    if name is None:
        yield from _all_queries(overview, pages, width, height, clock_time)
    else:
        yield from _one_query(overview, name, top, width, height, clock_time)
        if len(names) > 1:
            yield Text("keys: 0: all queries, q: end", style="dim")


def _rows(height: int) -> int:
    """Return the number of queries that fit, with a heading, a line of keys and two lines of alerts."""
    return max(1, height - 5)


def _all_queries(
    overview: Overview, pages: Pages, width: int, height: int, clock_time: float
) -> Iterator[RenderableType]:
    names = overview.names
    queries = pages.visible(names, _rows(height))
    rows = [(key, name, overview.pulse(name, clock_time), overview.tracks_of(name)) for key, name in queries]
    cells = [(key, name, *_overview_cells(pulse, tracks)) for key, name, pulse, tracks in rows]

    # Names and values share the columns that the numbers leave.
    number_width = 2
    for index, heading in _NUMBER_COLUMNS:
        number_width += max(cell_len(text) for text in (heading, *(row[index] for row in cells))) + 1
    longest = max(_columns(name) for _, name in queries)
    values = max(7, *(_columns(row[5]) for row in cells))
    space = max(12, width - number_width)
    name_width = min(longest, max(space - values, space // 2))
    value_width = max(7, space - name_width)

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in ("", "query", "state", "age", "reports"):
        table.add_column(heading, no_wrap=True, justify="right" if heading in ("age", "reports") else "left")
    table.add_column("largest", no_wrap=True)
    table.add_column("share", no_wrap=True, justify="right")
    for key, name, state, age, reports, value, share in cells:
        texts = [key, _fitted(name, name_width), state, age, reports, _fitted(value, value_width), share]
        row = [Text(text) for text in texts]
        row[2].stylize(STATE_STYLES.get(state, "dim"))
        table.add_row(*row)
    yield table

    more = f", space: {len(names) - len(queries)} more queries" if len(names) > len(queries) else ""
    yield Text(f"keys: {queries[0][0]} to {queries[-1][0]}: a query{more}, q: end", style="dim")
    room = height - len(queries) - 3
    for _, line in list(notice_lines(last_notices(overview.notices, LATEST), 1))[: max(0, room)]:
        yield Text(_cut(line, width), style="bold")


_NUMBER_COLUMNS = ((0, ""), (2, "state"), (3, "age"), (4, "reports"), (6, "share"))
"""The columns of the overview that are never shortened."""


def _overview_cells(pulse: QueryPulse | None, tracks: Sequence[Track]) -> tuple[str, str, str, str, str]:
    """Return the state, the age, the reports, and the largest value with its share, of the first attribute."""
    state = pulse.state if pulse else ""
    age = lateness(pulse.age) if pulse and pulse.age is not None else "-"
    if not tracks:
        return state, age, "-", pulse.text if pulse else "", ""

    summary = tracks[0].newest
    reports, words = summary.brief_state
    if words or not summary.rows:
        return state, age, reports, words, ""
    _, [row] = summary.listed(1)
    return state, age, reports, row.visible, f"{row.text(row.amount)} ({row.short_interval})"


def _one_query(
    overview: Overview, name: str, top: int, width: int, height: int, clock_time: float
) -> Iterator[RenderableType]:
    """Yield a table for each attribute, the state in words, and the alerts of the query."""
    tracks = overview.tracks_of(name)
    pulse = overview.pulse(name, clock_time)
    notices = last_notices((notice for notice in overview.notices if notice.heading.query == name), LATEST)

    promise = overview.promise(name)
    room = height - 4 - len(wrap(promise, width)) - len(notices) - 4 * len(tracks)
    for track in tracks:
        yield _summary(track, max(1, min(top, room // len(tracks))), width)
        if track.gap:
            yield Text(track.gap, style="yellow")

    if promise and tracks:
        yield Text(promise, style="dim")
    if pulse is not None and pulse.text:
        yield Text(f"{'' if tracks else name + ': '}{pulse.text}", style=STATE_STYLES.get(pulse.state, "dim"))
    if pulse is not None and (pulse.lack or pulse.outlook):
        yield Text(pulse._replace(text="").whole_text, style="dim")
    if notices:
        yield from _notices(notices, width)


class Headings(NamedTuple):
    """The headings of the table of a kind of answer."""

    answer: str
    amount: str
    are_shares: bool
    """Whether the amounts are shares, with marks and bars."""


_SHARES = Headings("value", "share", are_shares=True)
_HEADINGS = {NUMBERS: Headings("answer", "value", are_shares=False)}


def _summary(track: Track, top: int, width: int) -> Table:
    summary = track.newest
    title = Text(f"{summary.heading}, to {clock(summary.heading.end)}, {summary.state}", style="bold")
    level, rows = summary.listed(top)
    headings = _HEADINGS.get(summary.record.kind, _SHARES)
    marks = "● proved present" if summary.proof == "present" else "● proved, ○ listed"
    words = summary.caption(f"{marks}, grey: may be 0; " if headings.are_shares else "")
    caption = None if words is None else Text(words, style="dim", overflow="ellipsis", no_wrap=True)
    table = Table(title=title, title_justify="left", caption=caption, caption_justify="left", box=None, pad_edge=False)

    longest = max((_columns(row.visible) for row in rows), default=0)
    ranks = max((len(row.rank) for row in rows), default=0)
    rank_width = COLUMN_GAP + max(ranks, len("rank")) if ranks else 0
    number_width = AMOUNT_COLUMNS + rank_width
    is_wide = width >= number_width + EXTRAS + min(longest, LONG_NAME)
    space = max(12, width - number_width - (EXTRAS if is_wide else 0))
    numbers = _fitting_columns(
        width - MARK_AND_NAME - rank_width,
        [
            (headings.amount, [row.shown for row in rows]),
            (f"{level_text(level)} interval", [row.interval for row in rows]),
            (summary.method or "", [row.method_share for row in rows]),
        ],
    )

    table.add_column("")
    if ranks:
        table.add_column("rank", justify="right", no_wrap=True)
    table.add_column(headings.answer, no_wrap=True, min_width=12, max_width=space)
    for heading, _ in numbers:
        table.add_column(Text(heading), justify="right", no_wrap=True)
    if is_wide:
        table.add_column("")
        table.add_column("history", no_wrap=True)

    widest = max((row.high for row in rows), default=0.0)
    for index, row in enumerate(rows):
        cells = [row.mark, row.rank] if ranks else [row.mark]
        cells += [_fitted(row.visible, space), *(texts[index] for _, texts in numbers)]
        if is_wide:
            bar = _share_bar(row, widest) if headings.are_shares else ""
            cells += [bar, sparkline(track.history(row.value))]
        table.add_row(*(Text(cell, style="" if row.is_present else "dim") for cell in cells))
    return table


def _fitting_columns(width: int, columns: Sequence[tuple[str, list[str]]]) -> list[tuple[str, list[str]]]:
    """Return the first columns of numbers that fit into this width, at least one, each with its heading."""
    widths = [COLUMN_GAP + max(map(cell_len, (heading, *texts))) for heading, texts in columns]
    return [column for index, column in enumerate(columns) if not index or sum(widths[: index + 1]) <= width]


def _fitted(text: str, width: int) -> str:
    """Return foreign text in this width. Wide and escaped characters need more room than one column each."""
    texts = (plain(text, length) for length in range(width, LEAST_NAME, -1))
    return next((candidate for candidate in texts if cell_len(candidate) <= width), plain(text, LEAST_NAME))


def _columns(text: str) -> int:
    """Return the number of columns that foreign text needs."""
    return cell_len(plain(text, len(text)))


def _cut(line: str, width: int) -> str:
    """Return a line without its end, if it is wider than this."""
    return line if cell_len(line) < width else f"{set_cell_size(line, width - 4)}..."


def _share_bar(row: TailRow, widest: float) -> str:
    """Return a bar of blocks for the share, with a line to the upper end of the interval."""
    # An unbiased share may be below zero, and then its bar is empty.
    scale = BAR / widest if widest > 0.0 else 0.0
    blocks = round(max(row.amount, 0.0) * scale)
    return "█" * blocks + "─" * (round(row.high * scale) - blocks)


def _notices(notices: Sequence[Notice], width: int) -> Iterator[Text]:
    """Yield a line for each alert of a query."""
    yield Text("alerts", style="bold")
    for notice in notices:
        text = f"{clock(notice.heading.end)} {notice.kind} {notice.heading.subject}: {notice}"
        yield Text(_cut(text, width), style=_STYLES.get(notice.kind, ""))
