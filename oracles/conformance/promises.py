"""Conformance of oracles and methods: `check` tests yours against the promises on which all other code relies.

Statistical checks draw from one seed. An oracle that keeps its promises fails with a probability below 1e-6.
Privacy is not checked here: `probe` bounds it from reports, and tests/unit/test_privacy.py enumerates every outcome of
every oracle of the table.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from oracles.conformance import string_promises
from oracles.consistency import answer, apply, blank
from oracles.discover import Slots
from oracles.errors import ConformanceError, HubbubError, ParameterError, ReportError
from oracles.estimate import Estimate
from oracles.forgery import p_value
from oracles.kernels.tails import binomial_tail
from oracles.mechanisms import ORACLES, oracle
from oracles.mechanisms.protocol import Oracle
from oracles.method import TASKS, Method
from oracles.types import MARKS, Floats, Ints, Reports

FALSE_ALARM = 1e-9
_REPORTS = 600
_SPREAD = 7.0
"""Standard errors that chance does not reach."""


def check(subject: Oracle | Slots | Method, seed: int = 0) -> None:
    """Check the promises of an oracle or a method. A ConformanceError names the first broken promise.

    The oracle of unknown strings is one too.

    >>> check(oracle("olh", epsilon=1.0, size=20))
    >>> from oracles.consistency import METHODS
    >>> check(METHODS["norm_sub"])
    """
    rng = np.random.default_rng(seed)
    steps: list[Callable[[], None]]
    if isinstance(subject, Oracle):
        steps = [partial(_check_statement, subject)]
        steps += [partial(step, subject, rng) for step in (_check_reports, _check_classes, _check_tallies)]
        support = (_check_support, _check_forgeries) if subject.pure else (_check_signs,)
        steps += [partial(step, subject, rng) for step in (_check_refusals, *support, _check_marks)]
    elif isinstance(subject, Slots):
        steps = [partial(step, subject, rng) for step in string_promises.STEPS]
    elif isinstance(subject, Method):
        estimates = _estimates(rng)
        steps = [partial(_check_row, subject)]
        steps += [partial(_check_promises, subject, e) for e in estimates]
        steps += [partial(_check_slope, subject, e, rng) for e in estimates if e.n > 1]
    else:
        raise ParameterError(f"check takes an oracle, Slots or a row of METHODS, got {type(subject).__name__}")
    for step in steps:
        try:
            step()
        except ConformanceError as error:
            raise ConformanceError(f"{subject.name}: {error}") from None
        except (HubbubError, ValueError, TypeError, IndexError, ArithmeticError, AttributeError) as error:
            raise ConformanceError(f"{subject.name}: raises {type(error).__name__}: {error}") from error


def _hold(promise: object, message: str) -> None:
    if not promise:
        raise ConformanceError(message)


def _check_statement(o: Oracle) -> None:
    p, q = o.exact
    _hold(0 < q < p <= 1, f"p and q must be 0 < q < p <= 1, they are {p} and {q}")
    _hold(o.state_size >= MARKS, f"a tally ends with {MARKS} marks, so state_size is at least that, not {o.state_size}")
    _hold(1 <= o.work <= o.state_size, f"work must be from 1 to state_size, it is {o.work}")
    for share in (0.0, 0.3, 1.0):
        alone, one = o.variance(50, share), o.set_variance(50, 1, share)
        _hold(abs(one / alone - 1.0) < 1e-9, f"set_variance of one value is {one}, its variance {alone}")
        every = o.set_variance(50, o.size, 1.0)
        _hold(every >= -1e-12, f"set_variance of all values is negative: {every}")


def _random_values(o: Oracle, rng: np.random.Generator) -> Ints:
    return rng.integers(0, o.size, _REPORTS)


def _check_reports(o: Oracle, rng: np.random.Generator) -> None:
    for reports, n in (
        (o.perturb(_random_values(o, rng), rng), _REPORTS),
        (o.perturb([0]), 1),
        (o.perturb([], rng), 0),
    ):
        _hold(reports.dtype == np.uint8, f"reports are uint8, these are {reports.dtype}")
        _hold(reports.shape == (n, o.width), f"reports of {n} have shape {(n, o.width)}, these {reports.shape}")
        _hold(o.check(reports) is None, f"its own report {o.check(reports)} is malformed")
        odd = o.implausible(reports) if n else None
        _hold(odd is None or not odd.any(), "its own reports are implausible")


def _check_classes(o: Oracle, rng: np.random.Generator) -> None:
    values = _random_values(o, rng)
    whole = o.perturb(values, np.random.default_rng(1))
    draw = np.random.default_rng(1)
    rows = o.rows(len(values), draw)
    classes = o.classify(values, rows)
    _hold(
        np.array_equal(o.answer(classes, rows, draw), whole),
        "perturb must equal rows, classify and answer, one after another",
    )
    _hold(o.classes >= 1, f"classes must be at least 1, it is {o.classes}")
    one = o.rows(1, draw)
    some = np.arange(min(o.size, 1000))
    classes = o.classify(some, None if one is None else np.repeat(one, len(some), axis=0))
    _hold(
        len(np.unique(classes)) <= o.classes,
        f"one client has {len(np.unique(classes))} classes, classes says {o.classes}",
    )


def _tally_of(o: Oracle, reports: Reports) -> Ints:
    state = o.zeros()
    o.add(state, reports)
    return state


def _check_tallies(o: Oracle, rng: np.random.Generator) -> None:
    reports = o.perturb(_random_values(o, rng), rng)
    whole = _tally_of(o, reports)
    _hold(whole.dtype == np.int64 and whole.shape == (o.state_size,), "a tally is an int64 vector of state_size")
    for batch in (1, 7, _REPORTS // 2):
        permutation = reports[rng.permutation(len(reports))]
        parts = [_tally_of(o, permutation[start : start + batch]) for start in range(0, len(reports), batch)]
        _hold(
            np.array_equal(np.sum(parts, axis=0), whole), f"parts of {batch} reports do not add up to the whole tally"
        )
    if o.pure:
        e = o.estimate(whole, len(reports))
        _hold(np.array_equal(e.counts, o.support(whole, len(reports))), "the shares must give back the support counts")
    empty = o.zeros()
    _hold(o.add(empty, o.perturb([], rng)) == 0 and not empty.any(), "no reports must change nothing")


def _check_refusals(o: Oracle, rng: np.random.Generator) -> None:
    for wrong in ([-1], [o.size], [0.5], ["a"], [[0]]):
        _must_refuse(partial(o.perturb, wrong, rng), f"perturb({wrong})")
    reports = o.perturb(_random_values(o, rng)[:9], rng)
    state = _tally_of(o, reports)
    before = state.copy()
    bad: Any
    for what, bad in (("integers", reports.astype(np.int64)), ("narrower ones", reports[:, :-1]), ("one", reports[0])):
        _must_refuse(partial(o.add, state, bad), f"add of {what}")
    faulty = reports.copy()
    faulty[[5, 7]] = 0xFF
    first = o.check(faulty)
    _hold(first in (5, None), f"check says {first} of reports of which 5 is the first malformed one")
    mask = o.malformed(faulty)
    alone = [o.check(faulty[i : i + 1]) is not None for i in range(len(faulty))]
    _hold(
        alone == (mask.tolist() if mask is not None else [False] * 9), "malformed and check disagree on single reports"
    )
    if first is not None:
        _must_refuse(partial(o.add, state, faulty), "add of a malformed report")
    _hold(np.array_equal(state, before), "a refused report changes the tally")


def _must_refuse(act: Callable[[], object], what: str) -> None:
    try:
        act()
    except ReportError:
        return
    raise ConformanceError(f"{what} must raise a ReportError")


def _check_support(o: Oracle, rng: np.random.Generator) -> None:
    """Support of the true value is Bin(n, p), of every other Bin(n, q)."""
    for value in {0, o.size - 1}:
        n = 5 * _REPORTS
        support = o.support(_tally_of(o, o.perturb(np.full(n, value), rng)), n)
        _hold(support.shape == (o.size,), f"support has shape {support.shape}, there are {o.size} values")
        sums_to_n = not o.supports_one or support.sum() == n
        _hold(sums_to_n, f"supports_one is true, but {n} reports support {support.sum()} values")
        own = np.arange(o.size) == value
        for below in (False, True):
            tails = np.where(
                own, binomial_tail(support, n, o.p, below=below), binomial_tail(support, n, o.q, below=below)
            )
            worst = int(tails.argmin())
            expectation = n * (o.p if own[worst] else o.q)
            message = (
                f"{n} reports of value {value} support {worst} {support[worst]} times, by p and q {expectation:.1f}"
            )
            _hold(tails.min() * o.size > FALSE_ALARM, message)


def _check_signs(o: Oracle, rng: np.random.Generator) -> None:
    """The estimate of a bin is within its error, and all bins sum to 1."""
    for value in {0, o.size // 3, o.size - 1}:
        n = 20 * _REPORTS
        e = o.estimate(_tally_of(o, o.perturb(np.full(n, value), rng)), n)
        _hold(abs(e.shares.sum() - 1.0) < 1e-9, f"the shares sum to {e.shares.sum()}")
        distance = np.abs(e.shares - (np.arange(o.size) == value)) / e.stderr
        worst = int(distance.argmax())
        _hold(distance[worst] < _SPREAD, f"bin {worst} is {distance[worst]:.1f} standard errors off for number {value}")


def _check_marks(o: Oracle, rng: np.random.Generator) -> None:
    n = 5 * _REPORTS
    marks, law = _tally_of(o, o.perturb(rng.integers(0, o.size, n), rng))[-MARKS:], o.honest_marks
    if law is None:
        _hold(not marks.any(), "its tallies hold marks, but honest_marks is None, so no test reads them")
        return
    _hold(
        law.shape == (MARKS,) and law.min() >= 0 and abs(law.sum() - 1) < 1e-9,
        "honest_marks must be a probability of each mark, with sum 1",
    )
    p = p_value(o, marks, n, n)
    _hold(p is None or p > FALSE_ALARM, f"honest reports look forged: their marks have p-value {p}")


def _check_forgeries(o: Oracle, rng: np.random.Generator) -> None:
    targets = np.unique(rng.integers(0, o.size, 3))
    forgeries = o.forge(targets, _REPORTS, rng)
    _hold(
        forgeries.shape == (_REPORTS, o.width) and forgeries.dtype == np.uint8,
        "forge must return uint8 reports of shape (count, width)",
    )
    _hold(o.check(forgeries) is None, f"forged report {o.check(forgeries)} is malformed")
    state = o.zeros()
    left_out = o.add(state, forgeries)
    _hold(left_out == 0, f"{left_out} forged reports are implausible")
    gain, honest = float(o.support(state, _REPORTS)[targets].sum()), _REPORTS * o.p
    _hold(
        gain >= honest - _SPREAD * np.sqrt(honest * (1.0 - o.p)),
        f"forged reports support the targets only {gain:.0f} times",
    )


def _estimates(rng: np.random.Generator) -> list[Estimate]:
    """Return estimates of few and many reports, crowded and empty, with ties, and with all shares negative."""
    estimates = []
    for name in ORACLES:
        for epsilon, size, n in ((1.0, 12, 2000), (4.0, 40, 500), (0.5, 2, 3), (1.0, 60, 10**9), (2.0, 5, 0)):
            o = oracle(name, epsilon=epsilon, size=size)
            own = rng.multinomial(n, rng.dirichlet(np.full(size, 0.3)))
            counts = rng.binomial(own, o.p) + rng.binomial(n - own, o.q)
            counts[-2:] = counts[-2]
            estimates.append(Estimate(o.shares(counts, n), n, o))
        estimates.append(Estimate(np.full(size, -0.25), 9, o))
    return estimates


def _check_row(method: Method) -> None:
    _hold(method.sums_to_one in ("yes", "no", "at most"), f"sums_to_one is {method.sums_to_one!r}")
    _hold(set(method.good_for) <= set(TASKS), f"good_for has {set(method.good_for) - set(TASKS)}; tasks are {TASKS}")
    unknown = set(method.options) - {"alpha", "top", "calibrated"}
    _hold(not unknown, f"options has unknown names: {unknown}")


def _check_promises(method: Method, e: Estimate) -> None:
    shares = apply(method, e)
    about = f"from {e.n} reports of {e.oracle!r}"
    _hold(shares.shape == e.shares.shape and shares.dtype == np.float64, f"shares of another shape or type {about}")
    if not e.n:
        return
    _hold(np.isfinite(shares).all(), f"shares are not finite {about}")
    _hold(not method.non_negative or shares.min() >= 0.0, f"a share is negative {about}: {shares.min()}")
    total = float(shares.sum())
    _hold(method.sums_to_one != "yes" or abs(total - 1.0) < 1e-9, f"the sum is {total} {about}")
    _hold(method.sums_to_one != "at most" or total <= 1.0 + 1e-9, f"the sum is {total} {about}")
    for equal in np.unique(e.shares):
        _hold(np.ptp(shares[e.shares == equal]) == 0.0, f"equal values have different shares {about}")
    steps = np.diff(shares[np.argsort(e.shares, kind="stable")])
    _hold(not method.keeps_order or steps.min() >= 0.0, f"the order is not kept {about}")
    share, stderr = answer(method, e, [0])
    _hold(
        abs(share - shares[0]) < 1e-9, f"the answer to the set of one value is {share}, its share {shares[0]} {about}"
    )
    _hold(stderr is None or stderr >= 0.0, f"the standard error of an answer is {stderr} {about}")


def _check_slope(method: Method, e: Estimate, rng: np.random.Generator) -> None:
    """Compare the slope with a small step in a random direction. A fitted prior would move with the step."""
    if method.slope is None or method.fits_a_prior:
        return
    size = len(e.shares)
    here = Estimate(e.shares + 0.1 * e.sigma * rng.standard_normal(size), e.n, e.oracle)  # off the kinks at 0
    if blank(method, here):
        return
    step, towards = 1e-6 * e.sigma, rng.choice([-1.0, 1.0], size)
    ahead, behind = (apply(method, replace(here, shares=here.shares + far * towards)) for far in (step, -step))
    change: Floats = (ahead - behind) / (2.0 * step)
    own, back = method.slope(here, apply(method, here), None)
    slope_change = own * towards if back is None else own * towards - back * float((own * towards).sum())
    near = np.abs(change - slope_change) < 1e-3 * max(1.0, float(np.abs(slope_change).max()))
    _hold(near.all(), f"slope says {slope_change[:3]}, a small step {change[:3]}, for the first values of {e.oracle!r}")
