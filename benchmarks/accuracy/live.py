"""The live study: an hour of a stream through the real daemon, and ten minutes in real time on Kafka."""

from pathlib import Path

from benchmarks.accuracy import live_lists
from benchmarks.accuracy.stream import PARTITIONS, PEOPLE, RISEN, SIZE, SURGE, Absent, Stream, Window, finals_of, placed
from benchmarks.accuracy.study import Claim, Figure, Line, Panel, Plot, Section, Table, Track

HOUR = Stream("an hour, ticks of its own", 10, 360, 60, wall=False)
KAFKA = Stream("ten minutes, LogAppendTime", 1, 600, 5, wall=True)
ROWS = 9
"""Number of rows in a table."""

TEXT = f"""One worker counts {PARTITIONS} partitions, with {PARTITIONS * PEOPLE:,} reports per pane, `olh`,
epsilon 1 and {SIZE} values. Shares drift, and from the middle on value {SURGE} has {RISEN:.0%} of all reports.
The first run is an hour of event time in a quarter of a minute, with panes of {HOUR.pane} s, on the embedded
broker. There only ticks move the clock, and this study appends them. The second run is ten minutes on Apache
Kafka with its own timestamps (LogAppendTime) and panes of a second. *True error* is the root mean square over
all values of the published share minus the true share of the window's people. *Stated* is the root mean square
of the published standard errors."""


def run(track: Track, folder: Path) -> Section:
    del folder
    section = Section(TEXT)
    panels = []
    for stream in (HOUR, KAFKA):
        try:
            finals = _through(stream, track)
        except Absent as reason:
            section.omissions.append(f"{stream.name}: {reason}")
            continue
        for kind, windows in finals.items():
            name = f"windows of {stream.window} s" if kind == "tumbling" else "all so far"
            section.tables.append(_table(f"{stream.name}: {name}", windows))
            section.claims.append(_claim(f"{stream.name}, {name}", windows, alone=kind == "tumbling"))
            if stream is HOUR or kind == "all":
                panels.append(_panel(f"{stream.name}: {name}", windows, "y" if kind == "all" else ""))
    try:
        table, claim = live_lists.measure(track)
        section.tables.append(table)
        section.claims.append(claim)
    except Absent as reason:
        section.omissions.append(f"heavy hitters through the daemon: {reason}")
    if panels:
        caption = "Streams through the daemon: the true error and the stated error of published shares."
        section.plots.append(Plot("live", caption, panels))
    return section


def _through(stream: Stream, track: Track) -> dict[str, list[Window]]:
    """Return the finals of a stream through its own broker."""
    with placed(stream.query, PARTITIONS, wall=stream.wall) as place:
        return finals_of(stream, place, track)


def _table(title: str, windows: list[Window]) -> Table:
    selection = windows[:: max(len(windows) // ROWS, 1)]
    rows = [[f"{w.seconds:g}", f"{w.true_error:.3%}", f"{w.stated_error:.3%}", f"{w.coverage:.3f}"] for w in selection]
    head = ["seconds", "true error", "stated error", "values within their 95% intervals"]
    return Table(title, f"A selection of {len(windows)} finals.", head, rows)


def _claim(name: str, windows: list[Window], *, alone: bool) -> Claim:
    ratio, coverage = Figure.of(w.true_error / w.stated_error for w in windows), Figure.of(w.coverage for w in windows)
    is_right = abs(ratio.mean - 1.0) < 0.1 and coverage.mean > 0.94
    result = f"true / stated error {ratio}, coverage {coverage}, {len(windows)} finals"
    if not alone:
        result = (
            f"true / stated error {ratio.mean:.3f}, coverage {coverage.mean:.3f}; each final contains the earlier ones"
        )
    return Claim("hubbub", f"the daemon states its errors right ({name})", "yes" if is_right else "no", result)


def _panel(title: str, windows: list[Window], log: str) -> Panel:
    x = [w.seconds for w in windows]
    true_line = Line("true error", x, [w.true_error for w in windows], style="-")
    stated_line = Line("stated error", x, [w.stated_error for w in windows], style="-")
    return Panel(title, "seconds", "root mean square error", [true_line, stated_line], log)
