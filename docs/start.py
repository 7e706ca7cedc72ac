"""The pictures and the table of docs/start.md: `make pages`."""

import hashlib
import math
import re
from pathlib import Path

import numpy as np

from hubbub.texts import odds
from oracles import oracle
from oracles.mechanisms import NEWEST, automatic
from oracles.mechanisms.entropy import Bytes, Source
from oracles.mechanisms.protocol import Oracle

PAGE = Path(__file__).with_name("start.md")
DRINKS = ("tea", "coffee", "juice", "water")
SIZE, LIST = 64, 10
PEOPLE, MANY = 20_000, 1_000_000
EXPONENT = 1.1
EPSILONS = (1.0, 2.0, 4.0)
CROWDS = tuple(round(10 ** (step / 8)) for step in range(24, 49))
CURVES = (0.5, *EPSILONS)
WIDTH = 400
STYLE = """
    text { font-family: system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; font-size: 15px; fill: #1f2328 }
    .page { fill: #ffffff } .name { font-weight: 600 } .note { font-size: 14px; fill: #57606a }
    .right { fill: #4ac26b } .wrong { fill: #ffb77c } .bar { fill: #80ccff }
    .truth { stroke: #1f2328; stroke-width: 3 } .grid { stroke: #d0d7de } .range { stroke: #57606a; stroke-width: 1.5 }
    .curve { fill: none; stroke: #0969da; stroke-width: 2.5 }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3 } .page { fill: #0d1117 } .note { fill: #9da7b3 }
      .right { fill: #1a7f37 } .wrong { fill: #9e4c00 } .bar { fill: #0c2d6b }
      .truth { stroke: #e6edf3 } .grid { stroke: #30363d } .range { stroke: #9da7b3 } .curve { stroke: #58a6ff }
    }
"""


class Stream(Source):
    """Bytes that depend on a seed only, so every machine draws the same picture."""

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._calls = 0

    def raw(self, count: int) -> Bytes:
        self._calls += 1
        return np.frombuffer(hashlib.shake_128(f"{self._seed} {self._calls}".encode()).digest(count), np.uint8)


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    style = f' class="{kind}"' if kind else ""
    return f'  <text x="{x:g}" y="{y:g}"{style} text-anchor="{anchor}">{words}</text>\n'


def box(x: float, y: float, width: float, height: float, kind: str) -> str:
    return f'  <rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="3"/>\n'


def line(x: float, y: float, x2: float, y2: float, kind: str) -> str:
    return f'  <line class="{kind}" x1="{x:g}" y1="{y:g}" x2="{x2:g}" y2="{y2:g}"/>\n'


def svg(title: str, height: int, parts: list[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img" aria-labelledby="title">\n  <title id="title">{title}</title>\n  <style>{STYLE}  </style>\n'
        f'  <rect class="page" width="{WIDTH}" height="{height}" rx="12"/>\n{"".join(parts)}</svg>\n'
    )


def share(value: float, digits: int = 2) -> str:
    """Return a share in percent."""
    return f"{float(f'{100 * value:.{digits}g}'):g}%"


def default(epsilon: float) -> Oracle:
    """Return the oracle of a query with the default settings of the newest edition."""
    return automatic(epsilon, SIZE, edition=NEWEST, budget=4.0 * epsilon)


def report_picture() -> str:
    """Return the probabilities of each report, under two answers."""
    grr = oracle("grr", epsilon=1.0, size=len(DRINKS))
    parts = []
    for panel, answer in enumerate(DRINKS[:2]):
        top = 14 + panel * 156
        parts.append(text(14, top + 18, f"If the answer is “{answer}”, the device sends", "name"))
        for row, drink in enumerate(DRINKS):
            chance = grr.p if drink == answer else grr.q
            y = top + 32 + row * 28
            parts.append(text(70, y + 16, drink, anchor="end"))
            parts.append(box(80, y, round(480 * chance), 22, "bar"))
            parts.append(text(88 + round(480 * chance), y + 16, share(chance, 3), "note"))
    parts.append(text(14, 346, f"The report “tea” is {grr.p / grr.q:.3g} times as likely from tea:"))
    parts.append(text(14, 368, f"{share(grr.p, 3)} / {share(grr.q, 3)}", "name"))
    return svg("The probabilities of four reports under two true answers, at epsilon 1", 382, parts)


def truth() -> list[int]:
    """Return how many people hold each value: Zipf's law, in whole people."""
    weights = [rank**-EXPONENT for rank in range(1, SIZE + 1)]
    counts = [math.floor(PEOPLE * weight / math.fsum(weights)) for weight in weights]
    counts[0] += PEOPLE - sum(counts)
    return counts


def top_ten(epsilon: float) -> list[tuple[int, float, float, float]]:
    """Return position, estimated share and 95% interval of the ten largest estimates of a simulated crowd."""
    encoder = default(epsilon)
    tally = encoder.tally()
    tally.add(encoder.perturb(np.repeat(np.arange(SIZE), truth()), Stream(f"epsilon {epsilon:g}")))
    estimate = tally.estimate()
    shares, (low, high) = estimate.shares, estimate.interval()
    order = sorted(range(SIZE), key=lambda position: (-shares[position], position))[:LIST]
    return [(each, float(shares[each]), float(low[each]), float(high[each])) for each in order]


def top_picture() -> str:
    """Return the ten largest estimates at three epsilons, with their intervals and the truth."""
    counts, left, scale = truth(), 84, 1050
    parts, top = [], 8
    for epsilon in EPSILONS:
        rows = top_ten(epsilon)
        hits = sum(position < LIST for position, *_ in rows)
        parts.append(text(14, top + 18, f"epsilon {epsilon:g}: {hits} of the true ten", "name"))
        for row, (position, estimate, *ends) in enumerate(rows):
            y = top + 28 + row * 24
            low, high = (left + round(scale * min(max(each, 0), 0.29)) for each in ends)
            parts.append(text(left - 8, y + 15, f"page {position + 1}", anchor="end"))
            kind = "right" if position < LIST else "wrong"
            parts.append(box(left, y, round(scale * estimate), 20, kind))
            parts.append(line(low, y + 10, high, y + 10, "range"))
            x = left + round(scale * counts[position] / PEOPLE)
            parts.append(line(x, y, x, y + 20, "truth"))
        top += 28 + LIST * 24 + 12
    legend = (
        "bar: estimate, thin line: its 95% interval",
        "thick mark: truth",
        "orange: page that is not among the true ten",
    )
    parts += [text(14, top + 14 + 20 * row, words, "note") for row, words in enumerate(legend)]
    title = f"The ten largest estimates among {PEOPLE:,} people at epsilon 1, 2 and 4, with the truth"
    return svg(title, top + 68, parts)


def visible_picture() -> str:
    """Return the smallest share that a crowd shows, by its size and epsilon."""
    left, top, wide, high = 54, 40, 270, 300
    floor, decades = 0.001, 3

    def x(crowd: float) -> int:
        return left + round(wide * (math.log10(crowd) - 3) / 3)

    def y(value: float) -> int:
        return top + round(high * -math.log10(value) / decades)

    parts = [text(14, 24, "smallest visible share", "name"), text(left + wide + 8, 24, "epsilon", "name")]
    for value in (1.0, 0.1, 0.01, floor):
        parts += [line(left, y(value), left + wide, y(value), "grid")]
        parts += [text(left - 6, y(value) + 5, share(value), "note", "end")]
    for crowd in (1_000, 10_000, 100_000, 1_000_000):
        parts += [line(x(crowd), top, x(crowd), top + high, "grid")]
        parts += [text(x(crowd), top + high + 20, f"{crowd:,}", "note", "middle")]
    for epsilon in CURVES:
        points = [(crowd, value) for crowd in CROWDS if (value := default(epsilon).detectable(crowd)) is not None]
        path = " ".join(f"{x(crowd)},{y(value)}" for crowd, value in points)
        parts.append(f'  <polyline class="curve" points="{path}"/>\n')
        parts.append(text(left + wide + 8, y(points[-1][1]) + 5, f"{epsilon:g}"))
    parts.append(text(left + wide // 2, top + high + 42, "people who answer in a window", "name", "middle"))
    return svg("The smallest visible share of 64 values, by the number of people and epsilon", top + high + 58, parts)


def pictures() -> dict[str, str]:
    """Return the pictures by the names of their files."""
    return {
        "start-report.svg": report_picture(),
        "start-top.svg": top_picture(),
        "start-visible.svg": visible_picture(),
    }


def table() -> str:
    """Return the meaning of some epsilons as rows of Markdown."""
    rows = [
        f"| epsilon | odds | odds of a life | from 50% to at most | visible from {PEOPLE:,} people | from {MANY:,} |",
        "|--|--|--|--|--|--|",
    ]
    for epsilon in CURVES:
        factor = math.exp(epsilon)
        sizes = (share(default(epsilon).detectable(n)) for n in (PEOPLE, MANY))
        life = odds(float(default(epsilon).life.amount))
        rows.append(
            f"| {epsilon:g} | {odds(epsilon)} | {life} | {share(factor / (1 + factor))} | {' | '.join(sizes)} |"
        )
    return "\n".join(rows)


def page(content: str) -> str:
    """Return the page with a current table."""
    return re.sub(r"\| epsilon \| odds .*?\n\n", lambda _: f"{table()}\n\n", content, flags=re.DOTALL)


if __name__ == "__main__":
    for name, picture in pictures().items():
        PAGE.with_name(name).write_text(picture, encoding="utf-8")
    if PAGE.exists():
        PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
