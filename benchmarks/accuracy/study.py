"""The results of a study: tables, plots and claims, stored as JSON until the page is written."""

import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np

from oracles.types import Floats

SEED = 20260101


class Track(Protocol):
    """A function that iterates over a sequence and shows a progress bar."""

    def __call__(
        self, sequence: Iterable[Any], *, total: float | None = None, description: str = ""
    ) -> Iterator[Any]: ...


def seeded(*labels: object) -> np.random.Generator:
    """Return the generator of one cell, so that each study and cell can run alone."""
    return np.random.default_rng([SEED, zlib.crc32(repr(labels).encode())])


@dataclass(frozen=True)
class Figure:
    """A mean over runs, and its standard error."""

    mean: float
    stderr: float

    @classmethod
    def of(cls, runs: Iterable[float]) -> Self:
        numbers = np.asarray(list(runs), np.float64)
        spread = float(numbers.std(ddof=1) / np.sqrt(len(numbers))) if len(numbers) > 1 else float("nan")
        return cls(float(numbers.mean()), spread)

    @classmethod
    def rate(cls, hits: float, of: int) -> Self:
        """Return the share of independent trials. If none or all hit, its error is the error of one hit or miss."""
        part = min(max(hits / of, 1.0 / of), 1.0 - 1.0 / of)
        return cls(hits / of, float(np.sqrt(part * (1.0 - part) / of)))

    def times(self, factor: float) -> "Figure":
        return Figure(self.mean * factor, self.stderr * factor)

    def __str__(self) -> str:
        if not np.isfinite(self.stderr) or self.stderr < 1e-12:
            return f"{round(self.mean, 12) + 0.0:.3g}"
        place = int(np.floor(np.log10(self.stderr)))
        digits = min(max(0, -place + (self.stderr < 2 * 10.0**place)), 6)
        return f"{round(self.mean, digits) + 0.0:.{digits}f} ± {self.stderr:.{digits}f}"


@dataclass
class Table:
    """A table with a title, a note and the names of its columns."""

    title: str
    note: str
    head: list[str]
    rows: list[list[str]] = field(default_factory=list)


@dataclass
class Line:
    """One line of a panel."""

    label: str
    x: list[float]
    y: list[float]
    errors: list[float] = field(default_factory=list)
    style: str = "o-"


@dataclass
class Panel:
    """One chart."""

    title: str
    x: str
    y: str
    lines: list[Line]
    log: str = ""
    """The logarithmic axes: "", "x", "y" or "xy". "s" is x with a zero."""
    level: float | None = None
    """The position of a horizontal line for comparison."""


@dataclass
class Plot:
    """Charts side by side in one file, docs/accuracy-NAME.png."""

    name: str
    caption: str
    panels: list[Panel]


@dataclass
class Claim:
    """A statement, and whether it holds in this study."""

    source: str
    claim: str
    verdict: str
    figures: str


@dataclass
class Section:
    """The results of one study."""

    text: str
    tables: list[Table] = field(default_factory=list)
    plots: list[Plot] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    omissions: list[str] = field(default_factory=list)
    """The parts that are left out, with the missing data."""

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Self:
        values = json.loads(path.read_text(encoding="utf-8"))
        plots = [
            Plot(
                p["name"], p["caption"], [Panel(**{**q, "lines": [Line(**x) for x in q["lines"]]}) for q in p["panels"]]
            )
            for p in values.pop("plots")
        ]
        tables = [Table(**table) for table in values.pop("tables")]
        claims = [Claim(**claim) for claim in values.pop("claims")]
        return cls(**values, tables=tables, plots=plots, claims=claims)


def mse(shares: Floats, truth: Floats) -> float:
    return float(np.mean((shares - truth) ** 2))


def verdict(wins: int, trials: int) -> str:
    """Return whether a claim holds: in more than 90% of trials, in at least half of them, or not."""
    return "yes" if wins > 0.9 * trials else "no" if wins < 0.5 * trials else "mostly"
