"""The picture docs/marks.svg, of panes, marks and windows: `make pages`."""

from pathlib import Path

from aggregator.merging.marks import QueryMarks
from hubbub.definitions.versions import Versions
from oracles.query import parse

PICTURE = Path(__file__).with_name("marks.svg")
PANE, CROWD = 10, 50
COUNTS = (60, 55, 70, 64, 52, 1, 30, 75, 51, 20, 15, 66)
WINDOWS = ["10s", "1m", "all"]
LEFT, STEP, ROW = 70, 48, 34
STYLE = """
    text { font-family: system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; font-size: 14px; fill: #1f2328 }
    .page { fill: #ffffff } .pane { fill: #f6f8fa; stroke: #8c959f } .mark { stroke: #0969da; stroke-width: 2.5 }
    .shown { fill: #dafbe1; stroke: #1a7f37 } .withheld { fill: none; stroke: #8c959f; stroke-dasharray: 4 3 }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3 } .page { fill: #0d1117 } .pane { fill: #161b22; stroke: #6e7681 } .mark { stroke: #58a6ff }
      .shown { fill: #033a16; stroke: #3fb950 } .withheld { stroke: #6e7681 }
    }
"""


def x(time: int) -> float:
    return LEFT + time / PANE * STEP


def bar(row: int, start: int, end: int, kind: str, text: object) -> str:
    y, width, middle = 20 + row * ROW, x(end) - x(start) - 3, (x(start) + x(end)) / 2
    return (
        f'  <rect class="{kind}" x="{x(start) + 1.5:g}" y="{y}" width="{width:g}" height="24" rx="4"/>\n'
        f'  <text x="{middle:g}" y="{y + 17}" text-anchor="middle">{text}</text>\n'
    )


def picture() -> str:
    table = {"domain": 2, "epsilon": 1.0, "pane": f"{PANE}s", "windows": WINDOWS, "crowd": CROWD}
    query = parse({"queries": {"q": table}}, "picture", ".")["q"]
    marks, end = QueryMarks(Versions.of(query)), PANE * len(COUNTS)
    for number, n in enumerate(COUNTS):
        marks.count(PANE * number, [n])
    rows = [f'  <text x="8" y="{37 + row * ROW}">{name}</text>\n' for row, name in enumerate(("reports", *WINDOWS))]
    rows += [bar(0, PANE * number, PANE * number + PANE, "pane", n) for number, n in enumerate(COUNTS)]
    for row, window in enumerate(query.windows, 1):
        for start in range(0, end, window.step or end):
            # `all` is drawn up to its newest mark
            ends = range(PANE, end + 1, PANE)
            last = start + window.size if window.step else max(time for time in ends if time in marks.places[0])
            inside = sum(COUNTS[start // PANE : last // PANE])
            reason = marks.withheld(start, last, [inside])[0]
            rows.append(bar(row, start, last, "withheld" if reason else "shown", reason or inside))
    for time in (time for time in range(0, end + 1, PANE) if time in marks.places[0]):
        rows.append(f'  <line class="mark" x1="{x(time):g}" y1="8" x2="{x(time):g}" y2="{20 + 4 * ROW}"/>\n')
    width, height = int(x(end)) + 20, 28 + 4 * ROW
    title = (
        f"Panes with their reports, the marks between them for a crowd of {CROWD}, and the windows shown or withheld"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-labelledby="title">\n  <title id="title">{title}</title>\n  <style>{STYLE}  </style>\n'
        f'  <rect class="page" width="{width}" height="{height}"/>\n{"".join(rows)}</svg>\n'
    )


if __name__ == "__main__":
    PICTURE.write_text(picture())
