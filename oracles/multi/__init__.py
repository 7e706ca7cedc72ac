"""Several attributes of one client by spl, smp or rsfd. Each attribute acts as a pure oracle."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from oracles.errors import ParameterError
from oracles.estimate import Estimate
from oracles.mechanisms import ALL_ORACLES, EACH, ORACLES, WITH_BUCKETS, chance, with_noise
from oracles.mechanisms import oracle as named
from oracles.mechanisms.entropy import Source
from oracles.mechanisms.protocol import Charge, Oracle
from oracles.multi.attributes import Joint, Multi
from oracles.multi.rsfd import FAKES, Hidden, Rsfd
from oracles.readable import RowDraw
from oracles.types import MAX_WIDTH, Flags, Ints, Reports, usable_epsilon, usable_size, whole_number

ADAPTIVE = "adaptive"


class Spl(Joint):
    """Every attribute with epsilon/d.

    Claim: epsilon-LDP for a whole record, by composition. epsilon/d is rounded down, so d times it is at most
    epsilon.
    """

    @property
    def life(self) -> Charge:
        """Charge of a client that keeps its table or one report for each class, for each attribute."""
        if any(encoder.tables is not None for encoder in self.encoders):
            return Charge(chance.up(sum((encoder.life.amount for encoder in self.encoders), Fraction())), 1)
        return Charge(self.encoders[0].epsilon, sum(encoder.classes for encoder in self.encoders))

    def estimate(self, state: Ints, n: int, n_independent: int | None = None) -> list[Estimate]:
        parts = zip(self.encoders, self._states, strict=True)
        return [encoder.estimate(state[part], n, n_independent) for encoder, part in parts]

    def joined(self, pieces: Sequence[Reports]) -> Reports:
        """Join the reports of the attributes into reports of whole records."""
        return np.hstack(pieces)

    def _encode(self, columns: list[Ints], draw: Source) -> Reports:
        return np.hstack([e.encode(column, draw) for e, column in zip(self.encoders, columns, strict=True)])


class Smp(Multi):
    """One attribute, chosen uniformly and named in the report, with epsilon.

    Claim: epsilon-LDP for a whole record, because the choice does not depend on it. A tally ends with the
    number of reports for each attribute. The clients that answer an attribute are a sample, which adds to the
    error.
    """

    def __init__(self, epsilon: float, encoders: Sequence[Oracle], pairs: Sequence[tuple[int, int]] = ()) -> None:
        super().__init__("smp", epsilon, epsilon, encoders, pairs)
        self.state_size += len(encoders)

    def _width(self) -> int:
        return 2 + max(encoder.width for encoder in self.encoders)

    @property
    def life(self) -> Charge:
        """Charge of a client that answers one attribute for life."""
        return max((encoder.life for encoder in self.encoders), key=lambda charge: charge.amount)

    @property
    def row_draws(self) -> tuple[RowDraw, ...]:
        """The rows of all attributes, of which a report answers one."""
        part = 1.0 / len(self.encoders)
        return tuple(RowDraw(draw.rows, draw.share * part) for draw in super().row_draws)

    def choose(self, draw: Source, count: int) -> Ints:
        """Return the attribute that each of `count` clients answers."""
        return draw.below(len(self.encoders), count)

    def disclosed(self, attribute_of_report: Ints) -> Reports:
        """Return reports that name their attribute and hold no answer yet."""
        reports = np.zeros((len(attribute_of_report), self.width), np.uint8)
        reports[:, :2] = attribute_of_report.astype("<u2").view(np.uint8).reshape(-1, 2)
        return reports

    def _encode(self, columns: list[Ints], draw: Source) -> Reports:
        attribute_of_report = self.choose(draw, len(columns[0]))
        reports = self.disclosed(attribute_of_report)
        for j, encoder in enumerate(self.encoders):
            rows = np.flatnonzero(attribute_of_report == j)
            reports[rows, 2 : 2 + encoder.width] = encoder.encode(columns[j][rows], draw)
        return reports

    def _answered(self, reports: Reports) -> NDArray[np.unsignedinteger]:
        return np.ascontiguousarray(reports[:, :2]).view("<u2")[:, 0]

    def _malformed(self, reports: Reports) -> Flags | None:
        attribute_of_report = self._answered(reports)
        is_bad = attribute_of_report >= len(self.encoders)
        for j, encoder in enumerate(self.encoders):
            rows = np.flatnonzero(attribute_of_report == j)
            # Reports have the width of the widest encoder. The padding of others must be zero.
            is_bad[rows] = reports[rows, 2 + encoder.width :].any(axis=1)
            mask = encoder.malformed(np.ascontiguousarray(reports[rows, 2 : 2 + encoder.width]))
            if mask is not None:
                is_bad[rows] |= mask
        return is_bad if is_bad.any() else None

    def _count(self, state: Ints, reports: Reports) -> int:
        attribute_of_report = self._answered(reports)
        left_out = 0
        for j, (encoder, part) in enumerate(zip(self.encoders, self._states, strict=True)):
            own_reports = reports[attribute_of_report == j, 2 : 2 + encoder.width]
            implausible = encoder.add(state[part], own_reports)
            # The last integers of the tally count the reports of each attribute.
            state[j - len(self.encoders)] += len(own_reports) - implausible
            left_out += implausible
        return left_out

    def attack(self, targets: Sequence[Ints], values: Ints, rng: "np.random.Generator") -> Reports:
        """Return reports of attackers that each choose an attribute with targets."""
        attribute_of_report = rng.choice([j for j, aims in enumerate(targets) if len(aims)], len(values))
        reports = self.disclosed(attribute_of_report)
        for j in np.unique(attribute_of_report):
            rows = np.flatnonzero(attribute_of_report == j)
            encoder = self.encoders[j]
            reports[rows, 2 : 2 + encoder.width] = encoder.forge(targets[j], len(rows), rng)
        return reports

    def answering(self, state: Ints, n: int) -> list[int]:
        del n
        return [int(n) for n in state[-len(self.encoders) :]]

    def support(self, state: Ints, n: int) -> list[Ints]:
        parts = zip(self.encoders, self._states, self.answering(state, n), strict=True)
        return [encoder.support(state[part], n_j) for encoder, part, n_j in parts]

    def estimate(self, state: Ints, n: int, n_independent: int | None = None) -> list[Estimate]:
        n = whole_number("n", n)
        independent = n if n_independent is None else whole_number("n_independent", n_independent)
        estimates = []
        for encoder, part, n_j in zip(self.encoders, self._states, self.answering(state, n), strict=True):
            own_independent = n_j * independent // n if n else 0
            # The clients of an attribute are a random sample of all, which adds to the error of its shares.
            estimates.append(replace(encoder.estimate(state[part], n_j, own_independent), population=independent))
        return estimates


def multi(
    solution: str,
    *,
    sizes: Sequence[int],
    epsilon: float,
    oracle: str | Sequence[str] = ADAPTIVE,
    buckets: int | None = None,
    noise: str = EACH,
    tables: Mapping[int, int] | None = None,
    pairs: Sequence[tuple[int, int]] = (),
) -> Multi:
    """Return the `solution` (spl, smp or rsfd) for attributes of these sizes, with one oracle for all or one each.

    "adaptive" takes the candidate with the smallest variance for each attribute. It depends on epsilon and the
    sizes only, never on data. `buckets` is for every attribute with olh, full or short. With the noise "table", clients
    answer by a table in each attribute that can have one. `tables` gives the t of an attribute, by its number.
    `pairs` (smp only) names two attributes each, by number. Each pair is one more attribute with all pairs of values.

    >>> rsfd = multi("rsfd", sizes=[7, 16], epsilon=1.0)
    >>> rsfd.names, rsfd.width, round(rsfd.record_epsilon, 4)
    (('grr', 'oue_z'), 3, 1.4899)
    """
    epsilon = usable_epsilon(epsilon)
    sizes = _with_pairs([usable_size(size) for size in sizes], pairs, solution)
    d = len(sizes)
    if not 1 <= d <= MAX_WIDTH:
        raise ParameterError(f"the number of attributes must be from 1 to {MAX_WIDTH}, got {d}")
    names = [oracle] * d if isinstance(oracle, str) else list(oracle)
    if len(names) != d:
        raise ParameterError(f"{d} attributes need {d} oracles, got {len(names)}; name one for all, or one each")
    if buckets is not None and not WITH_BUCKETS.intersection(names):
        listing = ", ".join(dict.fromkeys(names))
        raise ParameterError(f"none of the oracles ({listing}) takes buckets; {', '.join(sorted(WITH_BUCKETS))} do")

    if solution == "rsfd":
        # Fakes hide which attribute is the real one, so it may have a larger epsilon.
        encoder_epsilon = chance.amplified(epsilon, d)
        views = [_hidden(name, encoder_epsilon, size, d) for name, size in zip(names, sizes, strict=True)]
        return Rsfd(epsilon, encoder_epsilon, views)
    if solution not in ("spl", "smp"):
        raise ParameterError(f"unknown solution {solution!r}; choose one of spl, smp, rsfd")

    encoder_epsilon = chance.divided(epsilon, d) if solution == "spl" else epsilon
    points = tables or {}
    encoders = [
        _encoder(name, encoder_epsilon, size, buckets=buckets, noise=noise, table=points.get(j))
        for j, (name, size) in enumerate(zip(names, sizes, strict=True))
    ]
    if any(encoders[j].tables is None for j in points):
        raise ParameterError('table needs attributes whose oracle takes one, and the noise "table"')
    return Spl("spl", epsilon, epsilon, encoders) if solution == "spl" else Smp(epsilon, encoders, pairs)


def _with_pairs(sizes: list[int], pairs: Sequence[tuple[int, int]], solution: str) -> list[int]:
    """Return the sizes of the single attributes, followed by those of the pairs."""
    if pairs and solution != "smp":
        raise ParameterError(f"pairs need the solution smp, got {solution!r}")
    for row, column in pairs:
        if row == column or not (0 <= row < len(sizes) and 0 <= column < len(sizes)):
            raise ParameterError(f"a pair must name two different attributes by number, got {(row, column)}")
    if len({frozenset(pair) for pair in pairs}) < len(pairs):
        raise ParameterError("each pair must occur once, in one order")
    return [*sizes, *(usable_size(sizes[row] * sizes[column]) for row, column in pairs)]


def _encoder(name: str, epsilon: float, size: int, *, buckets: int | None, noise: str, table: int | None) -> Oracle:
    """Return an encoder for spl or smp."""
    if name == ADAPTIVE:
        candidates = (ORACLES[name](epsilon, size) for name in ("grr", "oue") if size <= ORACLES[name].max_size)
        name = min(candidates, key=lambda candidate: candidate.variance(1)).name
    if name not in ALL_ORACLES:
        raise ParameterError(f"unknown oracle {name!r}; choose one of {', '.join(ORACLES)} or {ADAPTIVE}")
    make = partial(named, name, epsilon=epsilon, size=size, buckets=buckets if name in WITH_BUCKETS else None)
    return with_noise(make(), noise, table, lambda t: make(table=t))


def _hidden(name: str, epsilon: float, size: int, attributes: int) -> Hidden:
    """Return an attribute of rsfd."""
    if name == ADAPTIVE:
        names = [name for name, fake in FAKES.items() if size <= fake.oracle.max_size]
        candidates = (Hidden(name, epsilon, size, attributes) for name in names)
        return min(candidates, key=lambda candidate: candidate.variance(1, 1 / size))
    return Hidden(name, epsilon, size, attributes)
