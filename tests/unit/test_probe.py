"""`probe` bounds the epsilon of a client from its reports. It accuses no honest client, and finds planted faults."""

import math
import shlex
import sys

import numpy as np
import pytest

from hubbub.__main__ import main
from oracles import ORACLES, oracle
from oracles.conformance import probe
from oracles.conformance.evidence import Guesses, epsilon_bound
from oracles.errors import ParameterError, ReportError
from oracles.mechanisms import NUMBER_ORACLES
from oracles.mechanisms.entropy import Source, source
from producers.client.respondents import Respondents
from tests.queries import make_query, make_text

EPSILONS = (0.5, 1.0, 3.0)
EVERY = (*ORACLES, *NUMBER_ORACLES)


def query_of(**settings):
    return make_query({"period": "1d"}, **settings, edition=2)


def honest(o, seed=1):
    rng = np.random.default_rng(seed)
    return lambda values: o.perturb(values, rng)


def living(o, seed=1):
    """Devices that keep rows, and a table or a report for each class."""
    rng = np.random.default_rng(seed)

    def client(values):
        crowd = Respondents(o, len(values), lambda *_: source(rng))
        return np.stack([crowd.reports(values[:, t]) for t in range(values.shape[1])], axis=1)

    return client


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("name", EVERY)
def test_an_honest_oracle_stands_close_below_epsilon(name, epsilon):
    o = oracle(name, epsilon=epsilon, size=16)
    finding = probe(honest(o), o, reports=100_000)
    assert not finding.violates
    assert 0.6 * epsilon < finding.epsilon_low <= epsilon == finding.claim


@pytest.mark.parametrize("size", [2, 3, 300])
def test_any_size_can_be_probed(size):
    o = oracle("grr", epsilon=2.0, size=size)
    assert not probe(honest(o), o, reports=50_000).violates


LIVES = [
    {"domain": 64, "oracle": "olh", "epsilon": 1.0, "noise": "table"},
    {"domain": 9, "oracle": "olh", "epsilon": 1.0, "noise": "each"},
    {"domain": 5, "oracle": "grr", "epsilon": 1.0, "noise": "table"},
    {"domain": 5, "oracle": "grr", "epsilon": 1.0, "noise": "each", "budget": 5.0},
    {"domain": 100, "oracle": "hr", "epsilon": 2.0, "noise": "each"},
    {"domain": 100, "oracle": "short", "epsilon": 2.0, "noise": "table"},
    {"domain": 12, "oracle": "full", "epsilon": 1.0, "noise": "table"},
    {"domain": 8, "oracle": "ss", "epsilon": 1.0, "noise": "each", "budget": 8.0},
    {"domain": {"low": 0, "high": 9, "bins": 16}, "epsilon": 1.0},
]


@pytest.mark.parametrize("settings", LIVES, ids=lambda each: f"{each.get('oracle', 'haar')}-{each.get('noise')}")
def test_an_honest_life_is_within_the_theorem(settings):
    query = query_of(**settings)
    finding = probe(living(query.oracle), query, reports=300_000, periods=3)
    assert not finding.violates
    assert finding.epsilon_low > 0.5 * query.epsilon


def test_once_repeats_its_first_report():
    query = query_of(domain=9, oracle="grr", epsilon=1.0, answers="once")
    first = honest(query.oracle)
    assert not probe(lambda values: np.stack([first(values[:, 0])] * 3, axis=1), query, 200_000, periods=3).violates


def test_fresh_answers_add_up():
    query = query_of(domain=9, oracle="grr", epsilon=1.0, answers="fresh", budget=3.0)
    finding = probe(anew(query.oracle), query, 300_000, periods=3)
    assert not finding.violates
    assert 1.0 < finding.epsilon_low <= finding.claim == 3.0


def test_a_client_that_sends_the_value_is_unbounded():
    o = oracle("grr", epsilon=1.0, size=4)
    finding = probe(lambda values: values[:, None].astype(np.uint8), o, reports=10_000)
    assert finding.violates
    assert finding.epsilon_low > 4.0


class ByteModulo(Source):
    """Entropy whose integers are a byte modulo the bound: the lower ones come more often."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def raw(self, count):
        return np.frombuffer(self.rng.bytes(count), np.uint8)

    def below(self, bound, count):
        return self.raw(count).astype(np.int64) % bound


def rounded_up(o):
    """Return the oracle with p rounded up to the next 1/50."""
    o.keep = math.ceil(o.p * 50) * (1 << 64) // 50
    return o


def anew(o, seed=1):
    """Noise drawn anew each period."""
    single_answer = honest(o, seed)
    return lambda values: np.stack([single_answer(values[:, t]) for t in range(values.shape[1])], axis=1)


def shared(o, seed=1):
    """One stream for all classes of a device: the same event and the same other bucket for each."""
    rng = np.random.default_rng(seed)

    def client(values):
        truth = source(rng).events(o.keep, len(values))
        rows = o.rows(len(values), rng)
        classes = [o.classify(values[:, t], rows) for t in range(values.shape[1])]
        buckets = o.size if rows is None else o.buckets
        other_class = source(rng).below(buckets - 1, len(values))
        answers = [np.where(truth, class_, other_class + (other_class >= class_)) for class_ in classes]
        if rows is None:
            return np.stack([answer[:, None].astype(np.uint8) for answer in answers], axis=1)
        return np.stack([o.pack(answer, rows) for answer in answers], axis=1)

    return client


@pytest.mark.parametrize(("name", "size", "epsilon"), [("grr", 2, 1.0), ("olh", 64, 0.5), ("hr", 9, 1.0)])
def test_a_rounded_p_is_found(name, size, epsilon):
    o = rounded_up(oracle(name, epsilon=epsilon, size=size))
    assert probe(honest(o), o).violates


@pytest.mark.parametrize("size", [130, 201])
def test_a_byte_modulo_d_is_found(size):
    o = oracle("grr", epsilon=1.0, size=size)
    assert probe(lambda values: o.perturb(values, ByteModulo(1)), o).violates


@pytest.mark.parametrize("settings", LIVES, ids=lambda each: f"{each.get('oracle', 'haar')}-{each.get('noise')}")
def test_noise_that_is_drawn_anew_is_found(settings):
    query = query_of(**settings)
    assert probe(anew(query.oracle), query, reports=300_000, periods=5).violates


@pytest.mark.parametrize(
    "settings",
    [
        {"domain": 8, "oracle": "grr", "epsilon": 1.0, "noise": "each", "budget": 8.0},
        {"domain": 64, "oracle": "olh", "epsilon": 1.0, "noise": "each"},
        {"domain": 64, "oracle": "olh", "epsilon": 2.0, "noise": "each", "budget": 16.0},
    ],
    ids=["grr", "olh-4", "olh-8"],
)
def test_a_key_that_two_classes_share_is_found(settings):
    query = query_of(**settings)
    assert probe(shared(query.oracle), query, periods=2).violates


def test_a_wrong_form_is_an_error():
    o = oracle("grr", epsilon=1.0, size=4)
    with pytest.raises(ReportError, match="uint8 of shape"):
        probe(lambda values: values, o, reports=100)
    with pytest.raises(ReportError, match="line 1, report 1 is malformed"):
        probe(lambda values: np.full((len(values), 1), 9, np.uint8), o, reports=100)
    several = query_of(attributes={"a": 3, "b": 4}, solution="smp", oracle="grr", epsilon=1.0, noise="each", budget=9.0)
    with pytest.raises(ParameterError, match="one answer"):
        probe(honest(o), several, reports=100)
    with pytest.raises(ParameterError, match="pass a query"):
        probe(honest(o), o, reports=100, periods=2)


def test_the_bound_is_that_of_clopper_and_pearson():
    """Nine right guesses of ten: the chance is at least 0.5550 with a confidence of 95%."""
    assert epsilon_bound(Guesses(9, 1), 0.025) == pytest.approx(math.log(0.5550 / 0.4450), abs=1e-3)
    assert epsilon_bound(Guesses(5, 5), 0.025) == 0.0
    assert epsilon_bound(Guesses(10, 0), 0.025) == pytest.approx(math.log(0.6915 / 0.3085), abs=1e-3)


def test_the_bound_is_wrong_as_seldom_as_it_says():
    """At a confidence of 90%, 100 probes of an honest oracle accuse it at most 10 times on average (26: below 1e-5)."""
    o = oracle("grr", epsilon=1.0, size=2)
    assert sum(probe(honest(o, seed), o, 400, 0.9, seed=seed).violates for seed in range(100)) <= 25


FILE = make_text("q", domain=4, oracle="grr", noise="each")
PROGRAMS = {
    "honest": "r = oracle('grr', epsilon=1.0, size=4).perturb(values)",
    "leaks": "r = [[v] for v in values]",
    "silent": "r = []",
    "wrong": "r = [[9] for v in values]",
}


@pytest.mark.parametrize(("name", "code"), [("honest", 0), ("leaks", 4), ("silent", 2), ("wrong", 2)])
def test_the_command_asks_a_program_in_any_language(name, code, tmp_path, capsys):
    queries = tmp_path / "hubbub.toml"
    program = tmp_path / "client.py"
    queries.write_text(FILE)
    reading = "import sys\nfrom oracles import oracle\nvalues = [int(line) for line in sys.stdin]\n"
    program.write_text(f"{reading}{PROGRAMS[name]}\nfor row in r: print(bytes(list(row)).hex())\n")
    command = shlex.join([sys.executable, str(program)])
    arguments = ["probe", "--queries", str(queries), "--query", "q", "--exec", command, "--reports", "4000"]
    assert main(arguments) == code
    captured = capsys.readouterr()
    assert ("VIOLATION" in captured.out) == (name == "leaks")
    assert ("hubbub probe: " in captured.err) == (code == 2)


def test_the_command_says_what_is_wrong(tmp_path, capsys):
    queries = tmp_path / "hubbub.toml"
    queries.write_text(FILE)
    about = ["probe", "--queries", str(queries), "--exec", "/none", "--query"]
    assert main([*about, "q"]) == 2
    assert main([*about, "other"]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert errors == [
        "hubbub probe: --exec /none: No such file or directory",
        f"hubbub probe: {queries}: there is no query 'other': q",
    ]
