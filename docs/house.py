"""The picture docs/house.svg, of the way from a device to the board: `make pages`."""

from pathlib import Path

PICTURE = Path(__file__).with_name("house.svg")
WIDTH, ROW, HIGH = 560, 92, 58
LEFT, BROAD = 20, 270
SIDE, NARROW = 372, 168
ROWS = (
    ("process", "Device", "adds noise to its answer"),
    ("process", "Gateway", "checks and mixes reports"),
    ("topic", "reports", "the log: frames of reports"),
    ("process", "Worker: count", "adds reports to tallies"),
    ("topic", "snapshots", "tallies of closed panes"),
    ("process", "Worker: merge", "adds partitions to windows"),
    ("process", "Worker: estimate", "takes the noise out"),
    ("topic", "estimates, alerts", "shares with their errors"),
    ("process", "Board, tail, export", "show what is published"),
)
ARROWS = ("report (HTTP)", "frame", "frames", "snapshot", "all partitions", "counts of a window", "record", "records")
SIDES = (
    (1, "topic", "queries", "what to count", ((1, "from"), (3, "both"))),
    (4, "topic", "changelog", "tally + its offset", ((3, "both"),)),
)
STYLE = """
    text { font-family: system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; font-size: 15px; fill: #1f2328 }
    .page { fill: #ffffff } .name { font-weight: 600 } .note { font-size: 14px; fill: #57606a }
    .process { fill: #ddf4ff; stroke: #0969da } .topic { fill: #dafbe1; stroke: #1a7f37 }
    path { stroke: #57606a; stroke-width: 1.5; fill: none } marker path { fill: #57606a; stroke: none }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3 } .page { fill: #0d1117 } .note { fill: #9da7b3 }
      .process { fill: #0c2d6b; stroke: #58a6ff } .topic { fill: #033a16; stroke: #3fb950 }
      path { stroke: #9da7b3 } marker path { fill: #9da7b3 }
    }
"""


def top(row: int) -> int:
    return 20 + row * ROW


def box(x: int, y: int, width: int, kind: str, name: str, note: str) -> str:
    """Return a box with a name and a note. Topics are rounder than processes."""
    round_, middle = (22 if kind == "topic" else 6), x + width // 2
    return (
        f'  <rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{HIGH}" rx="{round_}"/>\n'
        f'  <text class="name" x="{middle}" y="{y + 25}" text-anchor="middle">{name}</text>\n'
        f'  <text class="note" x="{middle}" y="{y + 45}" text-anchor="middle">{note}</text>\n'
    )


def arrow(path: str, *, both: bool = False) -> str:
    start = ' marker-start="url(#tip)"' if both else ""
    return f'  <path d="{path}" marker-end="url(#tip)"{start}/>\n'


def picture() -> str:
    height = top(len(ROWS)) - (ROW - HIGH) + 20
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
            'role="img" aria-labelledby="title">\n'
        ),
        (
            '  <title id="title">The way of a report: device, gateway, topic reports, worker, topic snapshots, '
            "merging, estimates, topic estimates, board</title>\n"
        ),
        f"  <style>{STYLE}  </style>\n",
        (
            '  <defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
            'orient="auto-start-reverse"><path d="M0 0L8 4L0 8z"/></marker></defs>\n'
        ),
        f'  <rect class="page" width="{WIDTH}" height="{height}" rx="12"/>\n',
    ]
    middle = LEFT + BROAD // 2
    for row, (kind, name, note) in enumerate(ROWS):
        parts.append(box(LEFT, top(row), BROAD, kind, name, note))
    for row, name in enumerate(ARROWS):
        bottom = top(row) + HIGH
        parts.append(arrow(f"M{middle} {bottom}V{top(row + 1)}"))
        parts.append(f'  <text class="note" x="{middle + 10}" y="{bottom + 22}">{name}</text>\n')
    for row, kind, name, note, ends in SIDES:
        parts.append(box(SIDE, top(row), NARROW, kind, name, note))
        for target, direction in ends:
            parts.append(_sideways(row, target, both=direction == "both"))
    return "".join([*parts, "</svg>\n"])


def _sideways(row: int, target: int, *, both: bool) -> str:
    """Return an arrow from a box at the side to a row of the way."""
    edge, level = LEFT + BROAD, top(target) + HIGH // 2
    if row == target:
        return arrow(f"M{SIDE} {level}H{edge}", both=both)
    start = top(row) + (HIGH if target > row else 0)
    x, y = SIDE + NARROW // 2, level + (12 if target < row else -12)
    return arrow(f"M{x} {start}V{y}H{edge}", both=both)


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
