"""A lower bound of the epsilon of any client, from its reports alone."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import singledispatch
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
Answer = Callable[[Any], Reports]
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
    client: Answer,
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

    # A fair coin of its own for each line. If a client could guess it from the line's number, the bound would be wrong.
    rng = np.random.default_rng(seed)
    kinds = list(_kinds(o, query, periods, rng))
    lines = reports // periods
    kind = rng.integers(0, len(kinds), lines)
    is_first = rng.integers(0, 2, lines).astype(np.bool_)
    pair = rng.integers(0, _PAIRS, lines)
    inputs = np.array([candidate.padded_pairs() for candidate in kinds])
    values = inputs[kind, pair, np.where(is_first, 0, 1)]

    lines_of_values = values if periods > 1 else values[:, 0]
    output = client(o.texts(lines_of_values) if isinstance(o, ProbedStrings) else lines_of_values)
    outputs = _checked(o, np.asarray(output), lines, periods)

    # One half finds an event and the other counts it. On one half, the best of many events would look too good.
    for_search = np.arange(lines) < lines // 2
    # Each kind has its part of the error (Bonferroni), because the worst of all findings is reported.
    alpha = (1.0 - confidence) / len(kinds)
    findings = []
    for number, event_kind in enumerate(kinds):
        trials = []
        for j in range(len(event_kind.pairs)):
            is_own_pair = (kind == number) & (pair % len(event_kind.pairs) == j)
            if is_own_pair.any():
                trial = _trial(
                    o,
                    event_kind,
                    inputs[number, j],
                    reports=outputs[is_own_pair],
                    is_first=is_first[is_own_pair],
                    for_search=for_search[is_own_pair],
                )
                trials.append(trial)
        findings.append(_judge(trials, event_kind.claim, alpha))
    return max(findings, key=lambda finding: finding.epsilon_low - finding.claim)


@singledispatch
def _subject(subject: object) -> Subject:
    """Return the oracle whose reports are probed."""
    del subject
    raise ParameterError("probe takes queries of one answer; probe each attribute by a query of its own")


_subject.register(Slots, ProbedStrings)


@_subject.register
def _oracle(subject: Oracle) -> Subject:
    return subject


@_subject.register
def _oracle_of_query(subject: Query) -> Subject:
    return _subject(subject.oracle)


def _judge(trials: list[Trial], claim: float, alpha: float) -> Finding:
    events = best_events(trials, alpha)
    counts = [event.count() for event in events]
    guesses = Guesses(sum(count.right for count in counts), sum(count.wrong for count in counts))
    text = "; ".join(f"{event.trial.name} by {event.feature}" for event in events)
    return Finding(epsilon_bound(guesses, alpha), claim, text or "nothing tells them apart", guesses)


@dataclass(frozen=True)
class _Kind:
    """Pairs of inputs with one claim. An input is a row of positions, one for each period."""

    pairs: list[Ints]
    claim: float
    by_class: bool
    """Whether the claim needs histories whose classes repeat at the same times."""

    def padded_pairs(self) -> list[Ints]:
        """Return as many pairs as any kind has. The first ones come again if there are fewer."""
        return [self.pairs[j % len(self.pairs)] for j in range(_PAIRS)]


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

        cycle = np.arange(periods) % distinct
        pairs = [np.stack([values[cycle] for values in pair]) for pair in _pairs(o, distinct, rng)]
        yield _Kind(pairs, claim, answers == "life" and distinct > 1)


def _pairs(o: Subject, distinct: int, rng: np.random.Generator) -> list[tuple[Ints, Ints]]:
    """Return pairs of sequences of values: those at both ends of the domain, and random ones."""
    size = o.size
    cycle = np.arange(distinct)
    if distinct == 1:
        pairs = [(cycle, cycle + 1), (size - 2 + cycle, size - 1 + cycle)]
    else:
        pairs = [(cycle, cycle[::-1]), (size - 1 - cycle, cycle)]

    while len(pairs) < _PAIRS:
        one_side = rng.choice(size, distinct, replace=False)
        other_side = rng.choice(size, distinct, replace=False)
        if not np.array_equal(one_side, other_side):
            pairs.append((one_side, other_side))

    # In a small domain both ends are one pair, and a value may be its own mirror image.
    different = [(values, partner) for values, partner in pairs if not np.array_equal(values, partner)]
    return list({(tuple(values), tuple(partner)): (values, partner) for values, partner in different}.values())


def _checked(o: Subject, reports: Any, lines: int, periods: int) -> Reports:
    """Return reports of shape (lines, periods, width), or raise on a wrong form."""
    shape = (lines, periods, o.width) if periods > 1 else (lines, o.width)
    if reports.dtype != np.uint8 or reports.shape != shape:
        raise ReportError(f"reports must be uint8 of shape {shape}, got {reports.dtype} of shape {reports.shape}")

    by_period: Reports = reports.reshape(lines, periods, o.width)
    index = o.check(np.ascontiguousarray(by_period.reshape(-1, o.width)))
    if index is not None:
        raise ReportError(f"line {index // periods + 1}, report {index % periods + 1} is malformed", index)
    return by_period


def _trial(o: Subject, kind: _Kind, inputs: Ints, *, reports: Reports, is_first: Flags, for_search: Flags) -> Trial:
    periods = reports.shape[1]
    labels = {"its bytes": _hashes(reports)}
    labels |= {f"bit {i} of its first report": bit for i, bit in enumerate(_bits(reports[:, 0]))}

    sides = [[support(o, reports[:, t], int(values[t])) for t in range(periods)] for values in inputs]
    # Oracles of numbers support no single value.
    if all(side[0][0] is not None for side in sides):
        supports_of_both = np.array([[supports for supports, _ in side] for side in sides], np.int64)
        # All periods together would have more labels than a sample can fill.
        steps = [supports_of_both[0, t] * 2 + supports_of_both[1, t] for t in range(min(periods, _TUPLE))]
        labels["its support"] = _joined(steps, 4)
        if periods > 1:
            labels["how often it supports them"] = (supports_of_both[0] - supports_of_both[1]).sum(axis=0) + periods
            labels["its support and classes"] = _with_distances(steps, sides)

    # The claim for life holds for histories whose classes repeat alike. Other lines allow no guess.
    if kind.by_class:
        is_same = _same_pattern(sides)
        labels = {name: np.where(is_same, label, -1) for name, label in labels.items()}
    names = repr if isinstance(o, Oracle) else o.name
    return Trial(_named(inputs, names), is_first, for_search, labels)


def _with_distances(steps: list[Ints], sides: list[list[tuple[Any, Any]]]) -> Ints:
    """Return labels of the first two periods: support, and how far apart the classes of each history are."""
    distances = [np.minimum(np.abs(side[0][1] - side[1][1]), 2) for side in sides]
    return _joined([*steps[:2], *distances], 4)


def _same_pattern(sides: list[list[tuple[Any, Any]]]) -> Flags:
    """Whether the classes of both histories repeat at the same times. Rows do not depend on the values."""
    left_classes, right_classes = (np.stack([classes for _, classes in side]) for side in sides)
    is_same: Flags = np.ones(left_classes.shape[1], np.bool_)
    for t in range(min(len(left_classes), _TUPLE)):
        is_same &= ((left_classes == left_classes[t]) == (right_classes == right_classes[t])).all(axis=0)
    return is_same


def support(o: Subject, reports: Reports, value: int) -> tuple[Flags | None, Ints]:
    """Return whether each report supports a value, and the value's class under the rows of the report."""
    if isinstance(o, ProbedStrings):
        supports = np.zeros(len(reports), np.bool_)
        classes = np.zeros(len(reports), np.int64)
        for part in o.parts(reports, value):
            supports[part.rows], classes[part.rows] = support(o.cell_oracle, part.reports, part.cell)
        return supports, classes

    if isinstance(o, Hashing):
        heads, rows = o.unpack(reports)
        classes = o.classify(np.full(len(reports), value, np.int64), rows)
        return o.names_bucket(heads, classes), classes

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
    # High bits, since the lowest bit of a sum of products depends on the lowest bits of the bytes alone.
    return (sums >> np.uint64(40)).astype(np.int64) % _HASHES


def _joined(parts: list[Ints], base: int) -> Ints:
    label = np.zeros_like(parts[0])
    for part in parts:
        label = label * base + part
    return label


def _named(inputs: Ints, name: Callable[[int], str]) -> str:
    texts = [" ".join(map(name, dict.fromkeys(row.tolist()))) for row in inputs]
    return f"values {texts[0]} against {texts[1]}"
