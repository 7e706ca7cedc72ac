"""Several attributes of one client: spl, smp and rsfd, each attribute seen as a pure oracle."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from oracles.errors import ParameterError
from oracles.estimate import Estimate
from oracles.mechanisms import ORACLES, chance
from oracles.mechanisms.entropy import Source
from oracles.mechanisms.olh import Olh
from oracles.mechanisms.protocol import Charge, Oracle
from oracles.multi.attributes import Joint, Multi
from oracles.multi.rsfd import FAKES, Hidden, Rsfd
from oracles.types import MAX_WIDTH, Flags, Ints, Reports, usable_epsilon, usable_size, whole_number

ADAPTIVE = "adaptive"


class Spl(Joint):
    """Every attribute with epsilon/d.

    Claim: epsilon-LDP for a whole record, by composition; d times the rounded-down float epsilon/d
    is at most epsilon.
    """

    @property
    def life(self) -> Charge:
        """Each attribute is memoised by its own class."""
        return Charge(self.encoders[0].epsilon, sum(encoder.classes for encoder in self.encoders))

    def joined(self, pieces: Sequence[Reports]) -> Reports:
        """The reports of whole records, from those of each attribute."""
        return np.hstack(pieces)

    def _encode(self, columns: list[Ints], draw: Source) -> Reports:
        return np.hstack([e.encode(column, draw) for e, column in zip(self.encoders, columns, strict=True)])


class Smp(Multi):
    """One attribute, uniformly chosen and disclosed, with epsilon.

    Claim: epsilon-LDP for a whole record: the choice does not depend on it. A tally ends with the
    number of reports for each attribute; those who answered are a sample, which adds to the error.
    """

    def __init__(self, epsilon: float, encoders: Sequence[Oracle]) -> None:
        super().__init__("smp", epsilon, epsilon, encoders)
        self.state_size += len(encoders)

    def _width(self) -> int:
        return 2 + max(encoder.width for encoder in self.encoders)

    @property
    def life(self) -> Charge:
        """A client answers one attribute for life, whichever it drew."""
        return Charge(self.epsilon, max(encoder.classes for encoder in self.encoders))

    def disclosed(self, answered: Ints) -> Reports:
        """Reports that name the attribute they answer, and nothing more yet."""
        reports = np.zeros((len(answered), self.width), np.uint8)
        reports[:, :2] = answered.astype("<u2").view(np.uint8).reshape(-1, 2)
        return reports

    def _encode(self, columns: list[Ints], draw: Source) -> Reports:
        answered = draw.below(len(self.encoders), len(columns[0]))
        reports = self.disclosed(answered)
        for j, encoder in enumerate(self.encoders):
            rows = np.flatnonzero(answered == j)
            reports[rows, 2 : 2 + encoder.width] = encoder.encode(columns[j][rows], draw)
        return reports

    def _answered(self, reports: Reports) -> NDArray[np.unsignedinteger]:
        return np.ascontiguousarray(reports[:, :2]).view("<u2")[:, 0]

    def _malformed(self, reports: Reports) -> Flags | None:
        answered = self._answered(reports)
        wrong = answered >= len(self.encoders)
        for j, encoder in enumerate(self.encoders):
            rows = np.flatnonzero(answered == j)
            wrong[rows] = reports[rows, 2 + encoder.width :].any(axis=1)
            bad = encoder.malformed(np.ascontiguousarray(reports[rows, 2 : 2 + encoder.width]))
            if bad is not None:
                wrong[rows] |= bad
        return wrong if wrong.any() else None

    def _count(self, state: Ints, reports: Reports) -> int:
        answered = self._answered(reports)
        left_out = 0
        for j, (encoder, part) in enumerate(zip(self.encoders, self._states, strict=True)):
            mine = reports[answered == j, 2 : 2 + encoder.width]
            implausible = encoder.add(state[part], mine)
            state[j - len(self.encoders)] += len(mine) - implausible
            left_out += implausible
        return left_out

    def attack(self, targets: Sequence[Ints], values: Ints, rng: "np.random.Generator") -> Reports:
        """Each attacker chooses an attribute that has targets."""
        answered = rng.choice([j for j, aims in enumerate(targets) if len(aims)], len(values))
        reports = self.disclosed(answered)
        for j in np.unique(answered):
            rows, encoder = np.flatnonzero(answered == j), self.encoders[j]
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
        return [
            Estimate(encoder.shares(support, n_j), n_j, encoder, n_j * independent // n if n else 0, independent)
            for encoder, support, n_j in zip(
                self.encoders, self.support(state, n), self.answering(state, n), strict=True
            )
        ]


def multi(
    solution: str,
    *,
    sizes: Sequence[int],
    epsilon: float,
    oracle: str | Sequence[str] = ADAPTIVE,
    buckets: int | None = None,
) -> Multi:
    """The `solution` (spl, smp or rsfd) for attributes of these sizes; one oracle for all, or one each.

    "adaptive" takes for each attribute the candidate with the smallest variance; it depends on
    epsilon and the sizes only, never on data. `buckets` is for olh, of every attribute that has it.

    >>> rsfd = multi("rsfd", sizes=[7, 16], epsilon=1.0)
    >>> rsfd.names, rsfd.width, round(rsfd.record_epsilon, 4)
    (('grr', 'oue_z'), 3, 1.4899)
    """
    epsilon = usable_epsilon(epsilon)
    sizes = [usable_size(size) for size in sizes]
    d = len(sizes)
    if not 1 <= d <= MAX_WIDTH:
        raise ParameterError(f"there must be between 1 and {MAX_WIDTH} attributes, got {d}")
    names = [oracle] * d if isinstance(oracle, str) else list(oracle)
    if len(names) != d:
        raise ParameterError(f"there are {d} attributes, but {len(names)} oracles")
    if buckets is not None and "olh" not in names:
        raise ParameterError(f"buckets are for olh only, not for {', '.join(dict.fromkeys(names))}")
    if solution == "rsfd":
        spent = chance.amplified(epsilon, d)
        return Rsfd(epsilon, spent, [_hidden(name, spent, size, d) for name, size in zip(names, sizes, strict=True)])
    if solution not in ("spl", "smp"):
        raise ParameterError(f"there is no solution {solution!r}; choose one of spl, smp, rsfd")
    spent = chance.divided(epsilon, d) if solution == "spl" else epsilon
    encoders = [_open(name, spent, size, buckets) for name, size in zip(names, sizes, strict=True)]
    return Spl("spl", epsilon, epsilon, encoders) if solution == "spl" else Smp(epsilon, encoders)


def _open(name: str, epsilon: float, size: int, buckets: int | None) -> Oracle:
    """An encoder for spl and smp."""
    if name == "olh":
        return Olh(epsilon, size, buckets)
    if name == ADAPTIVE:
        names = ("grr", "oue") if size <= 8 * MAX_WIDTH else ("grr",)
        return min((ORACLES[candidate](epsilon, size) for candidate in names), key=lambda o: o.variance(1))
    if name not in ORACLES:
        raise ParameterError(f"there is no oracle {name!r}; choose one of {', '.join(ORACLES)} or {ADAPTIVE}")
    return ORACLES[name](epsilon, size)


def _hidden(name: str, epsilon: float, size: int, attributes: int) -> Hidden:
    """An attribute for rsfd."""
    if name == ADAPTIVE:
        names = tuple(FAKES) if size <= 8 * MAX_WIDTH else ("grr",)
        candidates = (Hidden(candidate, epsilon, size, attributes) for candidate in names)
        return min(candidates, key=lambda hidden: hidden.variance(1, 1 / size))
    if name not in FAKES:
        raise ParameterError(f"there is no oracle {name!r} for rsfd; choose one of {', '.join(FAKES)} or {ADAPTIVE}")
    return Hidden(name, epsilon, size, attributes)
