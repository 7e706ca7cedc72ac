"""Live: an hour of a stream through the real daemon, and ten minutes on Kafka's own time."""

import tempfile
from pathlib import Path

from benchmarks.accuracy.stream import PARTITIONS, PEOPLE, RISEN, SIZE, SURGE, Stream, Window, followed
from benchmarks.accuracy.study import Claim, Figure, Line, Panel, Plot, Section, Table, Track

HOUR = Stream("an hour, ticks of its own", 10, 360, 60, wall=False)
KAFKA = Stream("ten minutes, LogAppendTime", 1, 600, 5, wall=True)
SHOWN = 9
"""Rows of a table."""

TEXT = f"""One worker, {PARTITIONS} partitions, {PARTITIONS * PEOPLE:,} reports a pane, `olh`, epsilon 1, {SIZE} values.
Shares drift, and from the middle on value {SURGE} takes {RISEN:.0%} of all. First an hour of event time in a quarter of
a minute, panes of {HOUR.pane} s, on the embedded broker: there only ticks move the clock, and this study appends them.
Then ten minutes on Apache Kafka, which appends its own timestamps (LogAppendTime), panes of a second. *True error* is
the root mean square over all values of published less true share of the window's people, *stated* that of the
published standard errors."""


def run(track: Track, folder: Path) -> Section:
    del folder
    section = Section(TEXT)
    panels = []
    for stream in (HOUR, KAFKA):
        try:
            found = _through(stream, track)
        except Absent as reason:
            section.skipped.append(f"{stream.name}: {reason}")
            continue
        for kind, windows in found.items():
            name = f"windows of {stream.window} s" if kind == "tumbling" else "all so far"
            section.tables.append(_table(f"{stream.name}: {name}", windows))
            section.claims.append(_claim(f"{stream.name}, {name}", windows, alone=kind == "tumbling"))
            if stream is HOUR or kind == "all":
                panels.append(_panel(f"{stream.name}: {name}", windows, "y" if kind == "all" else ""))
    if panels:
        caption = "Streams through the daemon: the true error of what is published, and the stated one."
        section.plots.append(Plot("live", caption, panels))
    return section


class Absent(Exception):
    """What a stream needs is not here."""


def _through(stream: Stream, track: Track) -> dict[str, list[Window]]:
    """The finals of a stream, through a broker of its own."""
    from aggregator.errors import EmbeddedError

    try:
        from tests.brokers import Cluster, Tansu, Unavailable
        from tests.integration.workers import Place
    except ImportError as missing:
        raise Absent(str(missing)) from missing
    try:
        with (
            Cluster() if stream.wall else Tansu() as broker,
            tempfile.TemporaryDirectory() as folder,
            Place(broker, Path(folder), stream.query, PARTITIONS) as place,
        ):
            return followed(stream, place, track)
    except (EmbeddedError, Unavailable) as error:
        raise Absent(str(error)) from error


def _table(title: str, windows: list[Window]) -> Table:
    shown = windows[:: max(len(windows) // SHOWN, 1)]
    rows = [[f"{w.seconds:g}", f"{w.true:.3%}", f"{w.stated:.3%}", f"{w.covered:.3f}"] for w in shown]
    head = ["seconds", "true error", "stated error", "values within their 95% intervals"]
    return Table(title, f"{len(windows)} finals, of which some.", head, rows)


def _claim(name: str, windows: list[Window], *, alone: bool) -> Claim:
    ratio, covered = Figure.of(w.true / w.stated for w in windows), Figure.of(w.covered for w in windows)
    good = abs(ratio.mean - 1.0) < 0.1 and covered.mean > 0.94
    told = f"true / stated error {ratio}, coverage {covered}, {len(windows)} finals"
    if not alone:
        told = f"true / stated error {ratio.mean:.3f}, coverage {covered.mean:.3f}; each final holds the ones before it"
    return Claim("hubbub", f"what the daemon publishes is as sure as it says ({name})", "yes" if good else "no", told)


def _panel(title: str, windows: list[Window], log: str) -> Panel:
    x = [w.seconds for w in windows]
    true = Line("true error", x, [w.true for w in windows], style="-")
    stated = Line("stated error", x, [w.stated for w in windows], style="-")
    return Panel(title, "seconds", "root mean square error", [true, stated], log)
