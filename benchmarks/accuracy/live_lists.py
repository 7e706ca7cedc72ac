"""Heavy hitters of a simulated crowd through the daemon, against the same lists computed from its log offline."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.accuracy.stream import placed
from benchmarks.accuracy.study import Claim, Figure, Table, Track
from oracles import Estimate
from oracles.calibrate import calibrate
from oracles.consistency import apply
from oracles.frame import TICK, decode
from oracles.query import Query
from oracles.types import Floats, Ints

if TYPE_CHECKING:
    from tests.integration.workers import Place

Scores = tuple[float, float, float]
"""Precision, recall and F1."""
Pair = tuple[dict[str, Scores], dict[str, Scores]]
"""The scores of each method in a window, through the daemon and offline."""

WINDOWS, SECONDS, RATE, SIZE = 20, 3, 20_000, 256
PARTITIONS = 2
METHODS = ("unbiased", "norm_sub", "calibrate")
CLOSE = 0.01
"""How far the scores of the daemon may be from those of the same reports offline."""
QUERY = f"""
edition = 3

[queries.lists]
domain = {SIZE}
oracle = "oue"
epsilon = 2.0
answers = "fresh"
budget = 1e9
pane = "{SECONDS}s"
lateness = "2s"
windows = ["{SECONDS}s"]
methods = ["norm_sub", "calibrate"]
publish = "all"
emit_every = "never"
"""


def measure(track: Track) -> tuple[Table, Claim]:
    """Return the scores of both ways, and whether they are close."""
    with placed(QUERY, PARTITIONS, wall=False) as place:
        return _judge(list(_windows(place, track)))


def _windows(place: "Place", track: Track) -> Iterator[Pair]:
    """Yield the scores of each whole window."""
    from tests.integration import crowds
    from tests.integration.workers import until

    place.start().ready()
    place.wait_for_ticks()
    crowd = crowds.crowd(place, "lists", "--rate", RATE, "--values", "zipf:1.1", "--port", 0)
    for number in track(range(WINDOWS), description="heavy hitters, live"):
        # The first window is no whole one, because the crowd began within it.
        until(lambda: len(crowds.finals(place, "lists", "tumbling", SECONDS)) >= number + 2)  # noqa: B023 called at once
    crowd.stop()

    query: Query = place.queries["lists"]
    truth = crowds.true_counts(place, "lists")
    supports = _supports(place, query)
    records = crowds.finals(place, "lists", "tumbling", SECONDS)

    for end in list(records)[1 : 1 + WINDOWS]:
        start = end - SECONDS
        counts, n = supports[start]
        if records[end]["n"] != n:
            raise ValueError(f"the window that ends at {end} counts {records[end]['n']} reports, and its log has {n}")
        true = truth[start] / truth[start].sum()
        yield _live_scores(records[end], true), _offline_scores(query.oracle.estimate(counts, n), true)


def _supports(place: "Place", query: Query) -> dict[int, tuple[Ints, int]]:
    """Return the tally and the number of reports of each pane, from the frames of the log."""
    panes: dict[int, tuple[Ints, int]] = {}
    for record in place.read("reports"):
        if record.value == TICK:
            continue
        frame = decode(record.value)
        counts, n = panes.get(frame.pane, (query.oracle.zeros(), 0))
        query.oracle.add(counts, frame.reports)
        panes[frame.pane] = counts, n + len(frame.reports)
    return panes


def _live_scores(record: dict, true: Floats) -> dict[str, Scores]:
    order = [int(value) for value in record["values"]]
    t = record["significance"]
    scores = {}
    for method in METHODS:
        shares = np.empty(SIZE)
        shares[order] = record["shares"][method]
        scores[method] = _score(shares, true, t)
    return scores


def _offline_scores(e: Estimate, true: Floats) -> dict[str, Scores]:
    t = e.significance()
    posterior = calibrate(e, "best")
    shares = {"unbiased": e.shares, "norm_sub": apply("norm_sub", e), "calibrate": posterior.shares}
    return {method: _score(shares[method], true, t) for method in METHODS}


def _score(shares: Floats, true: Floats, t: float | None) -> Scores:
    if t is None:
        raise ValueError("no share can be proved with so few reports; raise the rate")
    members, heavy = shares >= t, true >= t
    hits = float((members & heavy).sum())
    precision = hits / max(float(members.sum()), 1.0)
    recall = hits / max(float(heavy.sum()), 1.0)
    return precision, recall, 2.0 * precision * recall / max(precision + recall, 1e-12)


def _judge(windows: list[Pair]) -> tuple[Table, Claim]:
    rows, farthest = [], 0.0
    for method in METHODS:
        live, offline = (np.array([pair[side][method] for pair in windows]) for side in (0, 1))
        farthest = max(farthest, float(np.abs(live - offline).max()))
        for name, scores in (("daemon", live), ("offline", offline)):
            rows.append([method, name, *(str(Figure.of(column)) for column in scores.T)])
    note = (
        f"`hubbub simulate` sends {RATE:,} answers a second with Zipf 1.1 shares, {SIZE} values, `oue`, epsilon 2. The"
        f" true counts are those of the topic `truth`. Means over {len(windows)} windows of {SECONDS} s. Offline means:"
        " from the same reports, with `oracles` alone."
    )
    table = Table("Heavy hitters at T through the daemon", note, ["method", "", "precision", "recall", "F1"], rows)
    claim = Claim(
        "hubbub", f"precision, recall and F1 through the daemon are within {CLOSE:g} of those offline",
        "yes" if farthest <= CLOSE else "no", f"at most {farthest:.4f} apart in {len(windows)} windows",
    )  # fmt: skip
    return table, claim
