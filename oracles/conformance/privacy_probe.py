"""A lower bound of the epsilon of any client, from its reports alone."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from oracles.conformance.evidence import Guesses, Trial, best_events, epsilon_bound
from oracles.conformance.probed_strings import ProbedStrings
from oracles.discover import Slots
from oracles.errors import ParameterError, ReportError
from oracles.mechanisms.grr import Grr
from oracles.mechanisms.hashing import Hashing
from oracles.mechanisms.protocol import Oracle
from oracles.mechanisms.ss import Ss
from oracles.mechanisms.unary import Unary
from oracles.query import Query
from oracles.types import Flags, Ints, Reports

REPORTS = 10**6
CONFIDENCE = 1 - 1e-6
_PAIRS = 4
_HASHES = 1024
"""Labels of a whole report: enough to see that a client repeats few reports."""
_BITS = 64
"""Bits of a report that are features of their own."""
_TUPLE = 4
"""Periods whose support is one label."""

Subject = Oracle | ProbedStrings
Probed = Callable[[Any], Reports]
"""A client: it takes positions, of shape (lines, periods), and returns reports, of shape (lines, periods, width).

If strings are unknown, it takes texts in place of positions.

Each line is another device. Without periods the shapes are (lines,) and (lines, width).
"""


@dataclass(frozen=True)
class Finding:
    """The result of a probe: with this confidence, epsilon is at least `epsilon_low`."""

    epsilon_low: float
    claim: float
    """The largest epsilon that the query promises for these inputs."""
    event: str
    """Values that were told apart, and the features that did it."""
    guesses: Guesses

    @property
    def violates(self) -> bool:
        """Whether the client breaks its claim."""
        return self.epsilon_low > self.claim


def probe(
    client: Probed,
    query: Query | Oracle | Slots,
    reports: int = REPORTS,
    confidence: float = CONFIDENCE,
    *,
    periods: int = 1,
    seed: int = 0,
) -> Finding:
    """Return a lower bound of a client's epsilon, from so many reports.

    Inputs that the claim protects are mixed at random. Half of the reports show which event tells them apart best. The
    other half counts it. A client that keeps its claim is said to violate it with a probability below 1 - `confidence`.
    With several `periods` a line is one device, and the claim is that of a whole round. An oracle in place of a query
    claims its epsilon for one report.

    >>> from oracles import oracle
    >>> o = oracle("grr", epsilon=1.0, size=4)
    >>> rng = np.random.default_rng(0)
    >>> probe(lambda values: o.perturb(values, rng), o, reports=20_000).violates
    False
    >>> probe(lambda values: values[:, None].astype(np.uint8), o, reports=20_000).violates
    True
    """
    o = _subject(query)
    if periods > 1 and not isinstance(query, Query):
        raise ParameterError("an oracle has no periods: pass a query, which says how its clients repeat themselves")
    if isinstance(query, Query) and query.answers == "fresh" and periods > query.charges:
        raise ParameterError(f"a client is silent after {query.charges} answers: use at most so many periods")
    rng = np.random.default_rng(seed)
    kinds = list(_kinds(o, query, periods, rng))
    lines = reports // periods
    kind, first = rng.integers(0, len(kinds), lines), rng.integers(0, 2, lines).astype(np.bool_)
    pair = rng.integers(0, _PAIRS, lines)
    inputs = np.array([[kinds[i].pairs[j % len(kinds[i].pairs)] for j in range(_PAIRS)] for i in range(len(kinds))])
    values = inputs[kind, pair, np.where(first, 0, 1)]
    lines_of_values = values if periods > 1 else values[:, 0]
    output = client(o.texts(lines_of_values) if isinstance(o, ProbedStrings) else lines_of_values)
    outputs = _checked(o, np.asarray(output), lines, periods)
    search, alpha = np.arange(lines) < lines // 2, (1.0 - confidence) / len(kinds)
    findings = []
    for number, about in enumerate(kinds):
        trials = [
            _trial(o, about, inputs[number, j], outputs[mine], first[mine], search[mine])
            for j in range(len(about.pairs))
            if (mine := (kind == number) & (pair % len(about.pairs) == j)).any()
        ]
        findings.append(_judge(trials, about.claim, alpha))
    return max(findings, key=lambda finding: finding.epsilon_low - finding.claim)


def _subject(query: Query | Oracle | Slots) -> Subject:
    """Return the oracle whose reports are probed."""
    o = query.oracle if isinstance(query, Query) else query
    if isinstance(o, Slots):
        return ProbedStrings(o)
    if not isinstance(o, Oracle):
        raise ParameterError("probe takes queries of one answer; probe each attribute by a query of its own")
    return o


def _judge(trials: list[Trial], claim: float, alpha: float) -> Finding:
    events = best_events(trials, alpha)
    counts = [event.count() for event in events]
    guesses = Guesses(sum(each.right for each in counts), sum(each.wrong for each in counts))
    text = "; ".join(f"{event.trial.name} by {event.feature}" for event in events)
    return Finding(epsilon_bound(guesses, alpha), claim, text or "nothing tells them apart", guesses)


@dataclass(frozen=True)
class _Kind:
    """Pairs of inputs with one claim. An input is a row of positions, one for each period."""

    pairs: list[Ints]
    claim: float
    by_class: bool
    """Whether the claim needs histories whose classes repeat at the same times."""


def _kinds(o: Subject, query: Query | Oracle | Slots, periods: int, rng: np.random.Generator) -> Iterator[_Kind]:
    """Yield pairs of constant inputs, then of inputs that go round two and three values."""
    answers = query.answers if isinstance(query, Query) else "once"
    for distinct in (1, 2, 3):
        if distinct > min(periods, o.size):
            return
        claim = o.epsilon
        if answers == "life":
            claim = o.bound(distinct)
        elif answers == "fresh" and isinstance(query, Query):
            claim = o.epsilon * periods
        pairs = [np.stack([each[np.arange(periods) % distinct] for each in two]) for two in _pairs(o, distinct, rng)]
        yield _Kind(pairs, claim, answers == "life" and distinct > 1)


def _pairs(o: Subject, distinct: int, rng: np.random.Generator) -> list[tuple[Ints, Ints]]:
    """Return pairs of sequences of values: those at both ends of the domain, and random ones."""
    size = o.size
    own = np.arange(distinct)
    if distinct == 1:
        pairs = [(own, own + 1), (size - 2 + own, size - 1 + own)]
    else:
        pairs = [(own, own[::-1]), (size - 1 - own, own)]
    while len(pairs) < _PAIRS:
        first, second = (rng.choice(size, distinct, replace=False) for _ in range(2))
        if not np.array_equal(first, second):
            pairs.append((first, second))
    return list({(tuple(one), tuple(two)): (one, two) for one, two in pairs if not np.array_equal(one, two)}.values())


def _checked(o: Subject, reports: Any, lines: int, periods: int) -> Reports:
    """Return reports of shape (lines, periods, width), or raise on a wrong form."""
    shape = (lines, periods, o.width) if periods > 1 else (lines, o.width)
    if reports.dtype != np.uint8 or reports.shape != shape:
        raise ReportError(f"reports must be uint8 of shape {shape}, got {reports.dtype} of shape {reports.shape}")
    whole: Reports = reports.reshape(lines, periods, o.width)
    bad = o.check(np.ascontiguousarray(whole.reshape(-1, o.width)))
    if bad is not None:
        raise ReportError(f"line {bad // periods + 1}, report {bad % periods + 1} is malformed", bad)
    return whole


def _trial(o: Subject, kind: _Kind, inputs: Ints, reports: Reports, first: Flags, search: Flags) -> Trial:
    periods = reports.shape[1]
    labels = {"its bytes": _hashes(reports)}
    labels |= {f"bit {i} of its first report": bit for i, bit in enumerate(_bits(reports[:, 0]))}
    sides = [[support(o, reports[:, t], int(each[t])) for t in range(periods)] for each in inputs]
    supports = [[one for one, _ in each] for each in sides if each[0][0] is not None]
    if len(supports) == 2:
        both = np.array(supports, np.int64)
        steps = [both[0, t] * 2 + both[1, t] for t in range(min(periods, _TUPLE))]
        labels["its support"] = _joined(steps, 4)
        if periods > 1:
            labels["how often it supports them"] = (both[0] - both[1]).sum(axis=0) + periods
            labels["its support and classes"] = _with_distances(steps, sides)
    same = _same_pattern(sides) if kind.by_class else None
    if same is not None:
        labels = {name: np.where(same, each, -1) for name, each in labels.items()}
    names = repr if isinstance(o, Oracle) else o.name
    return Trial(_named(inputs, names), first, search, labels)


def _with_distances(steps: list[Ints], sides: list[list[tuple[Any, Any]]]) -> Ints:
    """Return labels of the first two periods: support, and how far apart the classes of each history are."""
    distances = [np.minimum(np.abs(side[0][1] - side[1][1]), 2) for side in sides]
    return _joined([*steps[:2], *distances], 4)


def _same_pattern(sides: list[list[tuple[Any, Any]]]) -> Flags:
    """Whether the classes of both histories repeat at the same times. Rows do not depend on the values."""
    one, two = (np.stack([classes for _, classes in side]) for side in sides)
    same: Flags = np.ones(one.shape[1], np.bool_)
    for t in range(min(len(one), _TUPLE)):
        same &= ((one == one[t]) == (two == two[t])).all(axis=0)
    return same


def support(o: Subject, reports: Reports, value: int) -> tuple[Flags | None, Ints]:
    """Return whether each report supports a value, and the value's class under the rows of the report."""
    if isinstance(o, ProbedStrings):
        supports, classes = np.zeros(len(reports), np.bool_), np.zeros(len(reports), np.int64)
        for part in o.parts(reports, value):
            mine, of_part = support(o.cell_oracle, part.reports, part.cell)
            supports[part.rows], classes[part.rows] = mine, of_part
        return supports, classes
    if isinstance(o, Hashing):
        buckets, rows = o.unpack(reports)
        classes = o.classify(np.full(len(reports), value, np.int64), rows)
        return buckets == classes, classes
    classes = np.full(len(reports), value, np.int64)
    if isinstance(o, Grr):
        return _integers(reports) == value, classes
    if isinstance(o, Unary | Ss):
        return ((reports[:, value // 8] >> (value % 8)) & 1).astype(np.bool_), classes
    return None, classes


def _integers(reports: Reports) -> Ints:
    integers: Ints = (reports.astype(np.int64) << (8 * np.arange(reports.shape[1]))).sum(axis=1)
    return integers


def _bits(reports: Reports) -> Iterator[Ints]:
    for i in range(min(_BITS, 8 * reports.shape[1])):
        yield ((reports[:, i // 8] >> (i % 8)) & 1).astype(np.int64)


def _hashes(reports: Reports) -> Ints:
    """Return a label of all bytes of a line: a random linear function, so that equal lines have equal labels."""
    flat = reports.reshape(len(reports), -1)
    factors = np.random.default_rng(1).integers(1, 1 << 62, flat.shape[1], np.uint64)
    sums = np.zeros(len(flat), np.uint64)
    for column, factor in zip(flat.T, factors, strict=True):
        sums += column * factor
    return (sums >> np.uint64(40)).astype(np.int64) % _HASHES


def _joined(parts: list[Ints], base: int) -> Ints:
    label = np.zeros_like(parts[0])
    for part in parts:
        label = label * base + part
    return label


def _named(inputs: Ints, name: Callable[[int], str]) -> str:
    texts = [" ".join(map(name, dict.fromkeys(row.tolist()))) for row in inputs]
    return f"values {texts[0]} against {texts[1]}"
