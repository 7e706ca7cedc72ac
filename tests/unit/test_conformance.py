"""The promises of every oracle and every multi solution, checked in the same way for each.

Statistical checks use fixed seeds. Each fails by chance with probability below 1e-9, and all together below 1e-6.
"""

import zlib
from dataclasses import replace

import numpy as np
import pytest

from oracles import ORACLES, oracle
from oracles.conformance import check
from oracles.consistency import METHODS
from oracles.errors import ConformanceError, HubbubError, ParameterError, ReportError
from oracles.kernels.tails import binomial_tail
from oracles.mechanisms.grr import Grr
from oracles.mechanisms.hashing import _combinations
from oracles.mechanisms.oue import Oue
from oracles.multi import multi
from oracles.multi.rsfd import FAKES

FALSE_ALARM = 1e-9
SIZES = (2, 3, 37, 256, 1024, 41_270)
EPSILONS = (0.1, 1.0, 3.0, 8.0)
MULTI = [("spl", name) for name in (*ORACLES, "adaptive")]
MULTI += [("smp", name) for name in (*ORACLES, "adaptive")]
MULTI += [("rsfd", name) for name in (*FAKES, "adaptive")]
SUBJECTS = [f"{name}-{size}-{epsilon}" for name in ORACLES for size in SIZES for epsilon in EPSILONS]
SUBJECTS += [f"{s}:{name}-{size}-{epsilon}" for s, name in MULTI for size in SIZES for epsilon in (0.1, 8.0)]


def unusual(label):
    """Whether only `make test-all` runs a case. These are middle sizes, and spl, an oracle with a smaller epsilon."""
    name, size, epsilon = label.rsplit("-", 2)
    spl = name.startswith("spl:") and name != "spl:adaptive"
    between = size in ("3", "256") if ":" in name else epsilon == "3.0"
    return spl or between


class Subject:
    """An oracle, or a multi solution over three attributes, the first of the stated size."""

    def __init__(self, label):
        self.label = label
        name, size, epsilon = label.rsplit("-", 2)
        self.rng = np.random.default_rng(zlib.crc32(label.encode()))
        self.large = int(size) > 10_000
        solution, _, inner = name.rpartition(":")
        if solution:
            self.sizes = (int(size), 3, 5)
            self.it = multi(solution, sizes=self.sizes, epsilon=float(epsilon), oracle=inner)
            self.views = self.it.attributes
        else:
            self.sizes = (int(size),)
            self.it = oracle(name, epsilon=float(epsilon), size=int(size))
            self.views = (self.it,)
        self.many = bool(solution)

    def values(self, columns):
        """Return values for `perturb`, a vector for one attribute or columns for several attributes."""
        return np.column_stack(columns) if self.many else columns[0]

    def random(self, n):
        return self.values([self.rng.integers(0, size, n) for size in self.sizes])

    def constant(self, n, value=0):
        return self.values([np.full(n, value) for _ in self.sizes])

    def supports(self, state, n):
        """Return (support counts, number of their reports) for each attribute."""
        supports = self.it.support(state, n)
        if not self.many:
            return [(supports, n)]
        return list(zip(supports, self.it.answering(state, n), strict=True))

    def estimates(self, state, n):
        estimates = self.it.estimate(state, n)
        return estimates if self.many else [estimates]


@pytest.fixture(params=[pytest.param(s, marks=pytest.mark.long) if unusual(s) else s for s in SUBJECTS])
def subject(request):
    return Subject(request.param)


def counted(system, reports):
    state = system.zeros()
    system.add(state, reports)
    return state


def test_reports_are_bytes_of_the_stated_width_and_tallies_are_int64(subject):
    reports = subject.it.perturb(subject.random(5), subject.rng)
    assert reports.dtype == np.uint8
    assert reports.shape == (5, subject.it.width)
    assert subject.it.perturb(subject.random(1)).shape == (1, subject.it.width), "from the system's entropy"
    state = subject.it.zeros()
    assert state.dtype == np.int64
    assert state.shape == (subject.it.state_size,)
    assert not state.any()
    assert subject.it.check(reports) is None


def test_merging_parts_in_any_order_and_batch_size_gives_the_same_tally_bit_for_bit(subject):
    n = 60 if subject.large else 200
    reports = subject.it.perturb(subject.random(n), subject.rng)
    whole = counted(subject.it, reports)
    for batch in (1, 7, n // 2, n):
        if batch == 1 and subject.large:
            continue
        in_other_order = reports[subject.rng.permutation(n)]
        parts = [counted(subject.it, in_other_order[start : start + batch]) for start in range(0, n, batch)]
        assert np.array_equal(sum(parts), whole)
        assert np.array_equal(sum(parts) - parts[0], whole - parts[0])
    assert not (whole - counted(subject.it, reports[::-1])).any()


def test_counts_follow_the_closed_forms_of_p_and_q(subject):
    """The support of the true value is Bin(n, p), and of each other value Bin(n, q). Tails are exact and two-sided."""
    n = 300 if subject.large else 5_000
    state = counted(subject.it, subject.it.perturb(subject.constant(n), subject.rng))
    for view, (support, m) in zip(subject.views, subject.supports(state, n), strict=True):
        chance = np.where(np.arange(view.size) == 0, view.p, view.q)
        for below in (False, True):
            tail = np.where(
                chance == view.p,
                binomial_tail(support, m, view.p, below=below),
                binomial_tail(support, m, view.q, below=below),
            )
            assert tail.min() * view.size > FALSE_ALARM


def test_the_variance_is_the_closed_form(subject):
    """Compare sample variances of support counts over many runs with n (p - q) Var."""
    runs = 300
    for view in subject.views:
        minimum = min(view.p * (1 - view.p), view.q * (1 - view.q))
        n = max(300, int(20 / minimum))
        if n * runs * view.size > 400_000_000 or n * runs > 2_000_000 or subject.large:
            continue  # p, q and the independence of reports give the variance, and tests above check them
        if subject.many and subject.it.solution == "smp":
            continue  # the number of answers varies too; a test below checks the coverage of its intervals
        column = np.arange(n) % 2
        values = subject.values([np.tile(column, runs) for _ in subject.sizes])
        reports = subject.it.perturb(values, subject.rng)
        attribute = subject.views.index(view)
        shares = np.array(
            [
                subject.estimates(counted(subject.it, reports[k * n : (k + 1) * n]), n)[attribute].shares[:6]
                for k in range(runs)
            ]
        )
        true = np.where(np.arange(shares.shape[1]) < 2, 0.5, 0.0)
        # If n is odd, value 0 has the larger half.
        true[0], true[1] = np.count_nonzero(column == 0) / n, np.count_nonzero(column == 1) / n
        variance = np.array([view.variance(n, f) for f in true])
        z = (shares.mean(axis=0) - true) / np.sqrt(variance / runs)
        assert np.abs(z).max() < 7, "biased"
        kurtosis = 1 / (n * minimum)
        ratio = ((shares - true) ** 2).mean(axis=0) / variance
        assert np.abs(ratio - 1).max() < 7 * np.sqrt((2 + kurtosis) / runs)


def test_a_wrong_value_is_refused(subject):
    system = subject.it
    good = subject.random(4)
    for bad_value in (good.astype(float), good.astype(str), good.tolist()[0] if subject.many else 3, good[None], None):
        with pytest.raises(ReportError, match=r"integers|shape"):
            system.perturb(bad_value, subject.rng)
    for wrong_value in (-1, max(subject.sizes)):
        values = good.copy()
        values[2] = wrong_value
        with pytest.raises(ReportError, match="outside") as error:
            system.perturb(values, subject.rng)
        assert error.value.index == 2
    with pytest.raises(ParameterError, match="Generator"):
        system.perturb(good, 42)


def test_wrong_reports_are_refused_and_leave_the_tally_unchanged(subject):
    system = subject.it
    reports = system.perturb(subject.random(4), subject.rng)
    state = counted(system, reports)
    earlier_state = state.copy()
    for bad in (reports.astype(np.int64), reports.tobytes(), reports[0], reports[:, :-1], np.hstack([reports] * 2)):
        with pytest.raises(ReportError, match="reports"):
            system.add(state, bad)
        with pytest.raises(ReportError, match="reports"):
            system.check(bad)
    for bad in (state[:-1], state.astype(np.int32), state.tolist(), state.astype(float)):
        with pytest.raises(ReportError, match="tally"):
            system.add(bad, reports)
    assert np.array_equal(state, earlier_state)


def test_one_malformed_report_refuses_the_whole_batch(subject):
    system = subject.it
    reports = system.perturb(subject.random(9), subject.rng)
    reports[[5, 7]] = 0xFF
    flags = system.check(reports)
    if flags is None:  # every bit pattern is valid here
        return
    assert flags == 5
    state = system.zeros()
    with pytest.raises(ReportError, match="report 5 is malformed") as error:
        system.add(state, reports)
    assert error.value.index == 5
    assert not state.any()


def test_no_reports_give_no_counts(subject):
    system = subject.it
    reports = system.perturb(subject.random(0), subject.rng)
    assert reports.shape == (0, system.width)
    assert system.check(reports) is None
    state = system.zeros()
    assert system.add(state, reports) == 0
    assert not state.any()
    for estimate in subject.estimates(state, 0):
        assert np.isnan(estimate.shares).all()
        assert np.isnan(estimate.stderr).all()
        assert np.isnan(estimate.interval()).all()
        assert estimate.n == 0


def test_shares_give_the_support_counts_again(subject):
    n = 50 if subject.large else 500
    state = counted(subject.it, subject.it.perturb(subject.random(n), subject.rng))
    for estimate, (support, _) in zip(subject.estimates(state, n), subject.supports(state, n), strict=True):
        assert np.array_equal(estimate.counts, support)


@pytest.mark.parametrize("make", [lambda **k: oracle("olh", **k), lambda **k: multi("smp", sizes=[k.pop("size")], **k)])
def test_parameters_out_of_range_are_refused(make):
    for epsilon in (0, -1, 16.1, float("nan"), float("inf"), "1", None, True):
        with pytest.raises(ParameterError, match="epsilon must be"):
            make(epsilon=epsilon, size=10)
    for size in (0, 1, -5, 2.5, "7", 2**40):
        with pytest.raises(ParameterError, match="size must be"):
            make(epsilon=1.0, size=size)


def test_names_out_of_range_are_refused():
    with pytest.raises(ParameterError, match="choose one of grr"):
        oracle("rappor", epsilon=1.0, size=3)
    with pytest.raises(ParameterError, match="choose one of spl"):
        multi("rs", sizes=[2, 2], epsilon=1.0)
    with pytest.raises(ParameterError, match="rsfd has no fake answers"):
        multi("rsfd", sizes=[2, 2], epsilon=1.0, oracle="olh")
    with pytest.raises(ParameterError, match="2 oracles, got 3"):
        multi("spl", sizes=[2, 2], epsilon=1.0, oracle=["grr"] * 3)
    with pytest.raises(ParameterError, match="attributes"):
        multi("spl", sizes=[], epsilon=1.0)
    for name in ("sue", "oue", "ss"):
        oracle(name, epsilon=1.0, size=524_280)
        with pytest.raises(ParameterError, match="choose olh"):
            oracle(name, epsilon=1.0, size=524_281)
    with pytest.raises(HubbubError, match="too small"):
        oracle("sue", epsilon=1e-20, size=3)


def test_large_domains_work():
    for name in ("olh", "hr"):
        o = oracle(name, epsilon=4.0, size=1_000_000)
        rng = np.random.default_rng(1)
        values = np.where(rng.random(20_000) < 0.5, 999_999, rng.integers(0, 1_000_000, 20_000))
        e = o.estimate(counted(o, o.perturb(values, rng)), 20_000)
        assert abs(e.shares[999_999] - 0.5) < 7 * e.stderr[999_999]
        assert e.shares.argmax() == 999_999


@pytest.mark.parametrize("name", ["blh", "hr", "olh"])
def test_a_large_domain_has_the_same_counts_at_once_and_in_frames(name):
    """One large batch takes several runs. A frame is too small for a histogram of all cells."""
    o = oracle(name, epsilon=2.0, size=300_000)
    rng = np.random.default_rng(5)
    reports = o.perturb(rng.integers(0, o.size, 150_000), rng)
    whole_state = o.zeros()
    parts = o.zeros()
    o.add(whole_state, reports)
    for start in range(0, len(reports), 1_000):
        o.add(parts, reports[start : start + 1_000])
    assert np.array_equal(whole_state, parts)
    by_histogram = o.zeros()
    o._add_many(by_histogram, _combinations(o._signed_rows(o._integers(reports))))
    assert np.array_equal(whole_state, by_histogram)


@pytest.mark.parametrize("size", [2, 3, 37, 300])
@pytest.mark.parametrize("name", ORACLES)
def test_every_oracle_conforms(name, size):
    for epsilon in (0.5, 4.0):
        check(oracle(name, epsilon=epsilon, size=size))


@pytest.mark.parametrize("name", METHODS)
def test_every_method_conforms(name):
    check(METHODS[name])


class Broken(Grr):
    """An oracle that keeps its promises, until a test breaks one."""

    def __init__(self, **wrong):
        super().__init__(1.0, 20)
        vars(self).update(wrong)


def broken(base=Grr, **methods):
    return type("Broken", (base,), methods)(1.0, 20)


ORACLE_FAULTS = {
    "p and q must be": Broken(exact=(Grr(1.0, 20).exact[1], Grr(1.0, 20).exact[0])),
    "support 0": Broken(p=0.9),
    "set_variance of one": broken(set_variance=lambda self, n, values, share: 2 * self.variance(n, share)),
    "work must be": broken(work=0),
    "reports are uint8": broken(answer=lambda self, c, rows, rng=None: Grr.answer(self, c, rows, rng).view(np.int8)),
    "own report 0 is malformed": broken(_malformed=lambda self, reports: np.arange(len(reports)) == 0),
    "must equal rows, classify and answer": broken(
        perturb=lambda self, v, rng=None: Grr.perturb(self, v[::-1] if len(v) > 9 else v, rng)
    ),
    "classes": broken(classes=3),
    "do not add up": broken(_count=lambda self, state, reports: int(state[:20].__setitem__(0, 1) or 0)),
    "must raise a ReportError": broken(
        check=lambda self, reports: None,
        add=lambda self, state, reports: Grr._count(self, state, np.ascontiguousarray(reports)) if len(reports) else 0,
    ),
    "no test reads them": broken(Oue, honest_marks=None, __init__=Oue.__init__),
    "look forged": broken(Oue, honest_marks=np.full(64, 1 / 64), __init__=Oue.__init__),
    "forged report 0 is malformed": broken(forge=lambda self, targets, count, rng: np.full((count, 1), 99, np.uint8)),
    "forged reports support the targets only 0": broken(
        forge=lambda self, targets, count, rng: np.full(
            (count, 1), min(set(range(20)) - set(targets.tolist())), np.uint8
        )
    ),
    "raises AttributeError": broken(forge=lambda self, targets, count, rng: None),
}


@pytest.mark.parametrize("what", ORACLE_FAULTS)
def test_the_message_names_the_broken_promise_of_an_oracle(what):
    with pytest.raises(ConformanceError, match=what):
        check(ORACLE_FAULTS[what])


METHOD_FAULTS = {
    "good_for": {"good_for": ("all",)},
    "options": {"options": ("beta",)},
    "another shape": {"shares": lambda e: e.shares[:1]},
    "not finite": {"shares": lambda e: e.shares * np.inf},
    "negative": {"shares": lambda e: e.shares},
    "the sum is": {"shares": lambda e: np.maximum(e.shares, 0.0)},
    "equal values": {"shares": lambda e: np.arange(len(e.shares)) / np.arange(len(e.shares)).sum()},
    "order": {
        "shares": lambda e: (
            np.where(e.shares == e.shares.max(), 0.0, 1.0) / np.count_nonzero(e.shares != e.shares.max())
            if np.ptp(e.shares)
            else np.full(len(e.shares), 1 / len(e.shares))
        )
    },
    "the answer to the set": {"answer": lambda answer, *_: (answer[0] + 2.0, None)},
    "slope says": {"slope": METHODS["base"].slope},
}


@pytest.mark.parametrize("what", METHOD_FAULTS)
def test_the_message_names_the_broken_promise_of_a_method(what):
    with pytest.raises(ConformanceError, match=what):
        check(replace(METHODS["norm_sub"], **METHOD_FAULTS[what]))


def test_check_refuses_other_objects():
    with pytest.raises(ParameterError, match="row of METHODS"):
        check("grr")
