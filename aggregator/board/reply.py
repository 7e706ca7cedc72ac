"""The rows of answers: values with their errors, heavy hitters, points of a history, and the truth beside them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from aggregator.board.entry import Entry
from aggregator.board.store import Series
from aggregator.board.view import View
from aggregator.publishing.analysis import UNBIASED
from oracles.estimate import Floats

Said = dict[str, Any]


def values(view: View, method: str, truth: Floats | None) -> list[Said]:
    part = view.part
    listed: dict[str, Said] = {each["value"]: each for each in part.told()["hitters"].get(method, [])}
    true = [None] * len(part.values) if truth is None else truth[view.positions(part.values)].tolist()
    numbers = (part.shares[method], part.shares[UNBIASED], part.stderr, part.low, part.high)
    order = np.argsort(-part.shares[method], kind="stable").tolist()
    columns = [column.tolist() for column in numbers]
    rows = []
    for at in order:
        value = part.values[at]
        share, unbiased, stderr, low, high = (column[at] for column in columns)
        hitter = listed.get(value, {})
        rows.append(
            {
                "value": value,
                "share": share,
                "unbiased": unbiased,
                "stderr": stderr,
                "low": low,
                "high": high,
                "listed": bool(hitter),
                "decided": hitter.get("decided", False),
                "probability": hitter.get("probability"),
                "ranks": hitter.get("ranks"),
                "truth": true[at],
            }
        )
    return rows


def error(rows: Sequence[Said]) -> Said | None:
    """How far the published shares are from the truth, in a simulation."""
    if not rows or rows[0]["truth"] is None:
        return None
    share, low, high, truth = (np.array([row[key] for row in rows]) for key in ("share", "low", "high", "truth"))
    return {
        "values": len(rows),
        "rms": float(np.sqrt(np.mean((share - truth) ** 2))),
        "max": float(np.max(np.abs(share - truth))),
        "covered": int(np.count_nonzero((low <= truth) & (truth <= high))),
    }


def point(record: Entry, attribute: int, value: str, method: str | None) -> Said:
    """What one window says of a value; nulls where it does not publish it."""
    part = record.parts[attribute]
    point: Said = {"start": record.span.start, "end": record.span.end, "n": part.n}
    columns = {"share": part.shares.get(method or ""), "unbiased": part.shares[UNBIASED]}
    columns |= {"low": part.low, "high": part.high}
    try:
        at = part.values.index(value)
    except ValueError:
        return point | dict.fromkeys(columns)
    return point | {key: None if column is None else float(column[at]) for key, column in columns.items()}


def true_shares(series: Series, view: View) -> Floats | None:
    """The true share of every value in the window, where a simulation tells."""
    counts = series.truth.counts(view.record.span, view.definition.attribute)
    if counts is None or not counts.any() or not view.record.final:
        return None
    shares: Floats = counts / counts.sum()
    return shares
