"""Conformance of oracles and methods: `check` tests yours against the promises on which all other code relies.

Statistical checks draw from one seed. An oracle that keeps its promises fails with a probability below 1e-6.
Privacy is not checked here: `probe` bounds it from reports, and tests/unit/test_privacy.py enumerates every outcome of
every oracle of the table.
"""

from collections.abc import Callable
from functools import partial, singledispatch
from typing import Any

import numpy as np

from oracles.conformance import method_promises, string_promises
from oracles.conformance.method_promises import FALSE_ALARM, hold
from oracles.consistency.method import Method
from oracles.discover import Slots
from oracles.errors import ConformanceError, HubbubError, ParameterError, ReportError
from oracles.kernels.tails import binomial_tail
from oracles.mechanisms.protocol import Oracle
from oracles.multi.forgery import p_value
from oracles.types import MARKS, Ints, Reports

_REPORTS = 600
_SPREAD = 7.0
"""Standard errors that chance does not reach."""


def check(subject: Oracle | Slots | Method, seed: int = 0) -> None:
    """Check the promises of an oracle or a method. A ConformanceError names the first broken promise.

    The oracle of unknown strings is one too.

    >>> from oracles import oracle
    >>> check(oracle("olh", epsilon=1.0, size=20))
    >>> from oracles.consistency import METHODS
    >>> check(METHODS["norm_sub"])
    """
    for step in _steps(subject, np.random.default_rng(seed)):
        try:
            step()
        except ConformanceError as error:
            raise ConformanceError(f"{subject.name}: {error}") from None
        except (HubbubError, ValueError, TypeError, IndexError, ArithmeticError, AttributeError) as error:
            raise ConformanceError(f"{subject.name}: raises {type(error).__name__}: {error}") from error


@singledispatch
def _steps(subject: object, rng: np.random.Generator) -> list[Callable[[], None]]:
    """Return the checks that suit the subject, in the order of their draws."""
    del rng
    raise ParameterError(f"check takes an oracle, Slots or a row of METHODS, got {type(subject).__name__}")


_steps.register(Method, method_promises.steps)
_steps.register(Slots, string_promises.steps)


@_steps.register
def _oracle_steps(subject: Oracle, rng: np.random.Generator) -> list[Callable[[], None]]:
    # Oracles of numbers support no single value, so their signs are checked instead.
    support = (_check_support, _check_forgeries) if subject.pure else (_check_signs,)
    steps = (_check_reports, _check_classes, _check_tallies, _check_refusals, *support, _check_marks)
    return [partial(_check_statement, subject), *(partial(step, subject, rng) for step in steps)]


def _check_statement(o: Oracle) -> None:
    p, q = o.exact
    hold(0 < q < p <= 1, f"p and q must be 0 < q < p <= 1, they are {p} and {q}")
    hold(o.state_size >= MARKS, f"a tally ends with {MARKS} marks, so state_size is at least that, not {o.state_size}")
    hold(1 <= o.work <= o.state_size, f"work must be from 1 to state_size, it is {o.work}")

    for share in (0.0, 0.3, 1.0):
        value_variance = o.variance(50, share)
        set_of_one = o.set_variance(50, 1, share)
        hold(
            abs(set_of_one / value_variance - 1.0) < 1e-9,
            f"set_variance of one value is {set_of_one}, its variance {value_variance}",
        )

    # All shares of some oracles sum to 1 without error, so this variance may be 0 up to rounding.
    whole_domain = o.set_variance(50, o.size, 1.0)
    hold(whole_domain >= -1e-12, f"set_variance of all values is negative: {whole_domain}")


def _random_values(o: Oracle, rng: np.random.Generator) -> Ints:
    return rng.integers(0, o.size, _REPORTS)


def _check_reports(o: Oracle, rng: np.random.Generator) -> None:
    _check_form(o, o.perturb(_random_values(o, rng), rng), _REPORTS)
    # Without a generator, as on a device.
    _check_form(o, o.perturb([0]), 1)
    _check_form(o, o.perturb([], rng), 0)


def _check_form(o: Oracle, reports: Reports, n: int) -> None:
    """Check the form of the `n` reports of honest clients."""
    hold(reports.dtype == np.uint8, f"reports are uint8, these are {reports.dtype}")
    hold(reports.shape == (n, o.width), f"reports of {n} have shape {(n, o.width)}, these {reports.shape}")
    hold(o.check(reports) is None, f"its own report {o.check(reports)} is malformed")
    mask = o.implausible(reports) if n else None
    hold(mask is None or not mask.any(), "its own reports are implausible")


def _check_classes(o: Oracle, rng: np.random.Generator) -> None:
    # Clients with memory call the three steps one by one. Another order of draws would change their reports.
    values = _random_values(o, rng)
    reports = o.perturb(values, np.random.default_rng(1))
    draw = np.random.default_rng(1)
    rows = o.rows(len(values), draw)
    classes = o.classify(values, rows)
    hold(
        np.array_equal(o.answer(classes, rows, draw), reports),
        "perturb must equal rows, classify and answer, one after another",
    )

    hold(o.classes >= 1, f"classes must be at least 1, it is {o.classes}")
    client_rows = o.rows(1, draw)
    domain = np.arange(min(o.size, 1000))
    classes = o.classify(domain, None if client_rows is None else np.repeat(client_rows, len(domain), axis=0))
    count = len(np.unique(classes))
    hold(count <= o.classes, f"one client has {count} classes, classes says {o.classes}")


def _tally_of(o: Oracle, reports: Reports) -> Ints:
    state = o.zeros()
    o.add(state, reports)
    return state


def _check_tallies(o: Oracle, rng: np.random.Generator) -> None:
    reports = o.perturb(_random_values(o, rng), rng)
    total = _tally_of(o, reports)
    hold(total.dtype == np.int64 and total.shape == (o.state_size,), "a tally is an int64 vector of state_size")

    # Small and large batches may take different ways in an oracle. Both ways must give the same bits.
    for batch in (1, 7, _REPORTS // 2):
        permutation = reports[rng.permutation(len(reports))]
        parts = [_tally_of(o, permutation[start : start + batch]) for start in range(0, len(reports), batch)]
        adds_up = np.array_equal(np.sum(parts, axis=0), total)
        hold(adds_up, f"parts of {batch} reports do not add up to the whole tally")

    if o.pure:
        e = o.estimate(total, len(reports))
        hold(np.array_equal(e.counts, o.support(total, len(reports))), "the shares must give back the support counts")

    empty_tally = o.zeros()
    left_out = o.add(empty_tally, o.perturb([], rng))
    hold(left_out == 0 and not empty_tally.any(), "no reports must change nothing")


def _check_refusals(o: Oracle, rng: np.random.Generator) -> None:
    for values in ([-1], [o.size], [0.5], ["a"], [[0]]):
        _must_refuse(partial(o.perturb, values, rng), f"perturb({values})")

    reports = o.perturb(_random_values(o, rng)[:9], rng)
    state = _tally_of(o, reports)
    copy = state.copy()
    misshapen: dict[str, Any] = {
        "integers": reports.astype(np.int64),
        "narrower ones": reports[:, :-1],
        "one": reports[0],
    }
    for description, array in misshapen.items():
        _must_refuse(partial(o.add, state, array), f"add of {description}")

    # Not every oracle has malformed reports: any byte may be one of 256 values.
    faulty = reports.copy()
    faulty[[5, 7]] = 0xFF
    index = o.check(faulty)
    hold(index in (5, None), f"check says {index} of reports of which 5 is the first malformed one")
    mask = o.malformed(faulty)
    singles = [o.check(faulty[i : i + 1]) is not None for i in range(len(faulty))]
    flags = mask.tolist() if mask is not None else [False] * 9
    hold(singles == flags, "malformed and check disagree on single reports")

    if index is not None:
        _must_refuse(partial(o.add, state, faulty), "add of a malformed report")
    hold(np.array_equal(state, copy), "a refused report changes the tally")


def _must_refuse(act: Callable[[], object], description: str) -> None:
    try:
        act()
    except ReportError:
        return
    raise ConformanceError(f"{description} must raise a ReportError")


def _check_support(o: Oracle, rng: np.random.Generator) -> None:
    """Support of the true value is Bin(n, p), of every other Bin(n, q)."""
    for value in {0, o.size - 1}:
        n = 5 * _REPORTS
        support = o.support(_tally_of(o, o.perturb(np.full(n, value), rng)), n)
        hold(support.shape == (o.size,), f"support has shape {support.shape}, there are {o.size} values")
        sums_to_n = not o.supports_one or support.sum() == n
        hold(sums_to_n, f"supports_one is true, but {n} reports support {support.sum()} values")

        is_own = np.arange(o.size) == value
        for is_below in (False, True):
            own_tails = binomial_tail(support, n, o.p, below=is_below)
            tails = np.where(is_own, own_tails, binomial_tail(support, n, o.q, below=is_below))
            worst = int(tails.argmin())
            expectation = n * (o.p if is_own[worst] else o.q)
            message = (
                f"{n} reports of value {value} support {worst} {support[worst]} times, by p and q {expectation:.1f}"
            )
            # The smallest of `size` tails is below a level `size` times as often (Bonferroni).
            hold(tails.min() * o.size > FALSE_ALARM, message)


def _check_signs(o: Oracle, rng: np.random.Generator) -> None:
    """The estimate of a bin is within its error, and all bins sum to 1."""
    for value in {0, o.size // 3, o.size - 1}:
        n = 20 * _REPORTS
        e = o.estimate(_tally_of(o, o.perturb(np.full(n, value), rng)), n)
        hold(abs(e.shares.sum() - 1.0) < 1e-9, f"the shares sum to {e.shares.sum()}")

        distance = np.abs(e.shares - (np.arange(o.size) == value)) / e.stderr
        worst = int(distance.argmax())
        hold(distance[worst] < _SPREAD, f"bin {worst} is {distance[worst]:.1f} standard errors off for number {value}")


def _check_marks(o: Oracle, rng: np.random.Generator) -> None:
    n = 5 * _REPORTS
    marks = _tally_of(o, o.perturb(rng.integers(0, o.size, n), rng))[-MARKS:]
    law = o.honest_marks
    if law is None:
        hold(not marks.any(), "its tallies hold marks, but honest_marks is None, so no test reads them")
        return

    is_law = law.shape == (MARKS,) and law.min() >= 0 and abs(law.sum() - 1) < 1e-9
    hold(is_law, "honest_marks must be a probability of each mark, with sum 1")
    p = p_value(o, marks, n, n)
    hold(p is None or p > FALSE_ALARM, f"honest reports look forged: their marks have p-value {p}")


def _check_forgeries(o: Oracle, rng: np.random.Generator) -> None:
    targets = np.unique(rng.integers(0, o.size, 3))
    forgeries = o.forge(targets, _REPORTS, rng)
    has_form = forgeries.shape == (_REPORTS, o.width) and forgeries.dtype == np.uint8
    hold(has_form, "forge must return uint8 reports of shape (count, width)")
    hold(o.check(forgeries) is None, f"forged report {o.check(forgeries)} is malformed")

    state = o.zeros()
    left_out = o.add(state, forgeries)
    hold(left_out == 0, f"{left_out} forged reports are implausible")

    # A forgery is worth its name if it helps the targets as much as honest reports would.
    gain = float(o.support(state, _REPORTS)[targets].sum())
    honest = _REPORTS * o.p
    least_gain = honest - _SPREAD * np.sqrt(honest * (1.0 - o.p))
    hold(gain >= least_gain, f"forged reports support the targets only {gain:.0f} times")
