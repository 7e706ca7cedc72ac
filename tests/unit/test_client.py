"""The promises of a client: one report a value, a period between answers, limits that nothing renews."""

import math
import multiprocessing
import re
import signal
import subprocess
import sys
from contextlib import suppress
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from oracles.errors import EntropyError, HubbubError, ParameterError, ReportError
from oracles.mechanisms.entropy import System
from oracles.query import parse
from producers import BudgetSpent, Client, Ledger, NotAllowed, NotYet, StoreError, client

PAGES = [f"page-{i}" for i in range(8)]


def query(name="q", **settings):
    given = {"domain": PAGES, "oracle": "grr", "epsilon": 1.0, "pane": "10s", "budget": 1000.0, **settings}
    return parse({"queries": {name: given}}, "test", ".")[name]


def several(**settings):
    attributes = {"sex": ["f", "m"], "age": 100}
    given = {"attributes": attributes, "solution": "rsfd", "epsilon": 1.0, "pane": "10s", **settings}
    return parse({"queries": {"p": given}}, "test", ".")["p"]


def hours():
    """A clock that is an hour further each time."""
    time = count(1_700_000_000, 3600)
    return lambda: float(next(time))


def at(seconds):
    return lambda: float(seconds)


def test_a_thousand_rounds_of_one_value_leak_one_report():
    ledger = Ledger(":memory:")
    person = Client(query(oracle="olh"), ledger, clock=hours())
    assert len({person.answer("page-3").tobytes() for _ in range(1000)}) == 1
    with ledger.page() as page:
        assert page.spent() == 1


def test_without_memoisation_averaging_finds_the_value():
    # Each round the true value's count gains p - q = 0.16 on any of the 8 others. By Hoeffding one of them is as
    # common in the end, a false alarm, with probability at most 8 exp(-rounds (p - q)^2 / 2) = 6e-11.
    rounds = 2000
    q = query(budget=1e4)
    assert 8 * math.exp(-rounds * q.oracle.gap**2 / 2) < 1e-6
    ledger = Ledger(":memory:")
    person = Client(q, ledger, memoise=False, max_epsilon=1e4, clock=hours())
    tally = q.oracle.zeros()
    for _ in range(rounds):
        q.oracle.add(tally, person.answer("page-5"))
    assert np.argmax(q.oracle.support(tally, rounds)) == 5
    with ledger.page() as page:
        assert page.spent() == rounds, "each answer is paid for"
        assert page.report(q.digest, (5,)) is None


def test_each_distinct_value_has_a_report_of_its_own_that_comes_back():
    person = Client(query(domain=1 << 30, oracle="olh"), ":memory:", clock=hours())
    values = [3, 70_000, 3, 12, 70_000]
    reports = [person.answer(value).tobytes() for value in values]
    assert reports[0] == reports[2]
    assert reports[1] == reports[4]
    assert len(set(reports)) == 3


def test_a_report_is_what_perturb_gives():
    for q, value in ((query(oracle="oue"), "page-1"), (several(), [30, "f"])):
        report = Client(q, ":memory:").answer(value)
        assert report.shape == (1, q.oracle.width)
        assert q.oracle.check(report) is None


def test_answers_follow_the_oracle_s_law():
    # Four counts, each within 5.2 standard deviations of its mean: false alarms under 1e-6.
    q, n = query(domain=4, budget=1e4), 2000
    person = Client(q, ":memory:", memoise=False, max_epsilon=1e4, clock=hours())
    said = [int(person.answer(2)[0, 0]) for _ in range(n)]
    for value in range(4):
        p = q.oracle.p if value == 2 else q.oracle.q
        assert abs(said.count(value) - n * p) < 5.2 * math.sqrt(n * p * (1 - p))


def test_entropy_is_the_system_s_and_nothing_is_spent_where_it_fails(monkeypatch):
    ledger = Ledger(":memory:")

    def fail(self, count):
        raise EntropyError("none")

    with monkeypatch.context() as broken:
        broken.setattr(System, "raw", fail)
        with pytest.raises(EntropyError):
            Client(query(), ledger).answer("page-1")
    with ledger.page() as page:
        assert page.spent() == 0
        assert page.last("q") is None


def test_answers_are_a_period_apart():
    ledger, q = Ledger(":memory:"), query(period="1m")
    Client(q, ledger, clock=at(1000)).answer("page-1")
    for value in ("page-1", "page-2"):
        with pytest.raises(NotYet, match="30 of 60 seconds") as early:
            Client(q, ledger, clock=at(1030)).answer(value)
        assert early.value.due == 1060
    with pytest.raises(NotYet):
        Client(q, ledger, clock=at(1059.999)).answer("page-1")
    with ledger.page() as page:
        assert page.spent() == 1, "being early costs nothing"
    Client(q, ledger, clock=at(1060)).answer("page-1")


def test_a_new_definition_does_not_shorten_the_period():
    ledger = Ledger(":memory:")
    Client(query(period="1m"), ledger, clock=at(1000)).answer("page-1")
    with pytest.raises(NotYet):
        Client(query(period="1m", epsilon=2.0), ledger, clock=at(1030)).answer("page-1")
    Client(query("other", period="1m"), ledger, clock=at(1030)).answer("page-1")


def test_a_clock_that_was_wrong_costs_a_period_and_not_a_year():
    ledger, q = Ledger(":memory:"), query(period="1m")
    Client(q, ledger, clock=at(5_000_000)).answer("page-1")
    with pytest.raises(NotYet) as early:
        Client(q, ledger, clock=at(1000)).answer("page-1")
    assert early.value.due == 1060
    with pytest.raises(NotYet):
        Client(q, ledger, clock=at(1059)).answer("page-1")
    Client(q, ledger, clock=at(1060)).answer("page-1")


def test_the_budget_of_a_name_is_not_renewed_by_restarts_or_new_definitions(tmp_path):
    store, clock = tmp_path / "store", hours()
    old, new = query(budget=3.0), query(budget=3.0, pane="20s")
    assert old.digest != new.digest
    kept = Client(old, store, clock=clock).answer("page-1")
    Client(old, store, clock=clock).answer("page-2")
    Client(new, store, clock=clock).answer("page-1")
    for q, value in ((old, "page-3"), (new, "page-2"), (query(budget=3.0, epsilon=0.5), "page-1")):
        with pytest.raises(BudgetSpent, match="budget of query 'q' is 3: 3 is spent"):
            Client(q, store, clock=clock).answer(value)
    again = Client(old, store, clock=clock).answer("page-1")
    assert again.tobytes() == kept.tobytes(), "what is paid for is sent on"


def test_a_budget_allows_as_many_answers_as_the_query_says():
    for q in (query(epsilon=0.1, budget=0.3), query(epsilon=0.7, budget=4.9), several(), several(budget=4.0)):
        person = Client(q, ":memory:", max_epsilon=1e6, clock=hours())
        values = iter(PAGES if q.domain else [(age, "f") for age in range(8)])
        for _ in range(q.answers):
            person.answer(next(values))
        with pytest.raises(BudgetSpent):
            person.answer(next(values))


def test_max_epsilon_holds_over_all_queries():
    ledger, clock = Ledger(":memory:"), hours()
    one, other = query("one"), query("other", epsilon=0.5)
    limits = {"max_epsilon": 2.0, "clock": clock}
    Client(one, ledger, **limits).answer("page-1")
    Client(other, ledger, **limits).answer("page-1")
    with pytest.raises(BudgetSpent, match=r"max_epsilon, over all queries of this device, is 2: 1\.5 is spent"):
        Client(one, ledger, **limits).answer("page-2")
    Client(other, ledger, **limits).answer("page-2")
    with pytest.raises(BudgetSpent):
        Client(other, ledger, **limits).answer("page-3")


def test_each_name_has_a_budget_of_its_own():
    ledger = Ledger(":memory:")
    for name in ("one", "other"):
        person = Client(query(name, budget=1.0), ledger, clock=hours())
        person.answer("page-1")
        with pytest.raises(BudgetSpent):
            person.answer("page-2")


def test_without_memoisation_what_others_remember_is_not_sent():
    ledger, q, clock = Ledger(":memory:"), query(domain=1 << 30, oracle="olh"), hours()
    kept = Client(q, ledger, clock=clock).answer(5)
    anew = Client(q, ledger, memoise=False, clock=clock).answer(5)
    assert kept.tobytes() != anew.tobytes()  # 2^-30 and less for equal ones
    assert Client(q, ledger, clock=clock).answer(5).tobytes() == kept.tobytes()


def test_a_query_that_is_not_allowed_is_refused_before_anything_is_answered():
    Client(query(), ":memory:", allow=["q", "r"])
    Client(query(), ":memory:")
    with pytest.raises(NotAllowed, match="allows r, not 'q'"):
        Client(query(), ":memory:", allow={"r"})
    with pytest.raises(NotAllowed):
        Client(query(), ":memory:", allow=[])
    with pytest.raises(ParameterError):
        Client(query(), ":memory:", allow="q and others")


@pytest.mark.parametrize("wrong", [0, -1, math.inf, math.nan])
def test_a_limit_is_a_number_above_zero(wrong):
    with pytest.raises(ParameterError, match="max_epsilon"):
        Client(query(), ":memory:", max_epsilon=wrong)


@pytest.fixture
def positions(monkeypatch):
    """What is perturbed, in place of a report."""

    def positions(q, value):
        asked = []
        monkeypatch.setattr(client.Page, "report", lambda page, digest, answer: asked.append(answer) or b"known")
        Client(q, ":memory:").answer(value)
        return asked[0]

    return positions


def test_values_are_names_indices_dicts_and_sequences(positions):
    assert positions(query(), "page-7") == (7,)
    assert positions(query(), "elsewhere") == (8,)
    assert positions(query(), "(other)") == (8,)
    for value in (5, "5", np.int64(5)):
        assert positions(query(domain=9), value) == (5,)
    assert positions(several(), {"sex": "m", "age": 30}) == (30, 1)
    assert positions(several(), [30, "m"]) == (30, 1)
    assert positions(several(), (30, "none of these")) == (30, 2)


@pytest.mark.parametrize(
    ("q", "value"),
    [
        (query(other=False), "elsewhere"),
        (query(), 3),
        (query(), None),
        (query(), ["page-1"]),
        (query(domain=9), 9),
        (query(domain=9), 1.0),
        (query(domain=9), True),
        (several(), "mm"),
        (several(), {"sex": "m"}),
        (several(), {"sex": "m", "age": 30, "shoe": 44}),
        (several(), [30]),
        (several(), {"sex": "m", "age": "old"}),
    ],
)
def test_values_that_cannot_be_counted_are_refused_and_cost_nothing(q, value):
    ledger = Ledger(":memory:")
    with pytest.raises(ReportError):
        Client(q, ledger).answer(value)
    with ledger.page() as page:
        assert page.spent() == 0
        assert page.last(q.name) is None


def race(q, store, results):
    """Answer one value in many rounds, each a period later than the last of all processes."""
    ledger, reports = Ledger(store), set()
    for _ in range(30):
        with ledger.page() as page:
            last = page.last(q.name) or 0.0
        with suppress(NotYet):  # another was quicker
            reports.add(Client(q, ledger, clock=at(last + q.period)).answer("page-1").tobytes())
    results.put(reports)


def test_processes_that_race_send_the_same_report_and_pay_once(tmp_path):
    q, fork = query(oracle="olh", epsilon=1.0), multiprocessing.get_context("fork")
    results = fork.SimpleQueue()
    racers = [fork.Process(target=race, args=(q, tmp_path / "store", results)) for _ in range(3)]
    for racer in racers:
        racer.start()
    found = [results.get() for _ in racers]
    for racer in racers:
        racer.join()
        assert racer.exitcode == 0
    assert len(set.union(*found)) == 1
    with Ledger(tmp_path / "store").page() as page:
        assert page.spent() == 1


CHILD = """
import os, signal, sys
from contextlib import contextmanager
from itertools import count
from oracles.query import parse
from producers import Client, ledger

given = {"domain": 1 << 30, "oracle": "olh", "epsilon": 1.0, "pane": "10s", "budget": 1000.0}
query = parse({"queries": {"q": given}}, "test", ".")["q"]
store, point = sys.argv[1:]

def die(*arguments):
    os.kill(os.getpid(), signal.SIGKILL)

@contextmanager
def page(self, whole=ledger.Ledger.page):
    with whole(self) as page:
        yield page
    die()

if point == "commit":
    ledger.Ledger.page = page
elif point != "never":
    setattr(ledger.Page, point, die)
time = count(10_000, 3600)
person = Client(query, store, max_epsilon=1e6, clock=lambda: float(next(time)))
for value in count():
    print(person.answer(value).tobytes().hex(), flush=True)
"""
STORED = query(domain=1 << 30, oracle="olh")


@pytest.mark.parametrize("point", ["charge", "remember", "answered", "commit"])
def test_what_is_killed_in_the_middle_has_answered_whole_or_not_at_all(tmp_path, point):
    done = subprocess.run([sys.executable, "-c", CHILD, tmp_path / "store", point], check=False, capture_output=True)
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, b"")
    ledger = Ledger(tmp_path / "store")
    with ledger.page() as page:
        report, spent, last = page.report(STORED.digest, (0,)), page.spent(), page.last("q")
    if point != "commit":
        assert (report, spent, last) == (None, 0, None)
    else:
        assert (spent, last) == (1, 10_000)
        assert Client(STORED, ledger, clock=at(20_000)).answer(0).tobytes() == report


def test_whatever_was_handed_out_before_a_kill_is_what_is_sent_after_it(tmp_path):
    store, command = tmp_path / "store", [sys.executable, "-c", CHILD]
    with subprocess.Popen([*command, store, "never"], stdout=subprocess.PIPE, text=True) as child:
        handed = [child.stdout.readline().strip() for _ in range(20)]
        child.kill()
        handed += child.stdout.read().split()
    with Ledger(store).page() as page:
        assert page.spent() in (len(handed), len(handed) + 1)
        assert [page.report(STORED.digest, (value,)).hex() for value in range(len(handed))] == handed


def test_a_store_that_cannot_be_written_hands_nothing_out(tmp_path):
    folder = tmp_path / "file"
    folder.touch()
    with pytest.raises(StoreError):
        Client(query(), folder / "store")


def test_every_error_is_hubbub_s():
    from producers import errors

    tree = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    assert all(issubclass(kind, HubbubError) for kind in tree)
    assert {kind.__name__ for kind in tree} - {"HubbubError"} == set(re.findall(r"── (\w+)", errors.__doc__))


LIGHT = """
import sys
import producers
assert {"Client", "Ledger"} <= set(dir(producers))
print(*sorted({module.partition(".")[0] for module in sys.modules} & set(sys.argv[1:])))
"""


def test_importing_clients_imports_neither_kafka_nor_faust_nor_the_web():
    heavy = ["aiokafka", "aiohttp", "faust", "mode", "asyncio", "scipy", "prometheus_client", "rich", "ssl"]
    done = subprocess.run([sys.executable, "-c", LIGHT, *heavy, "numpy"], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["numpy"]


def test_the_examples_of_the_documentation_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (Path(__file__).parents[2] / "docs" / "clients.md").read_text()
    [settings] = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    Path("hubbub.toml").write_text(settings)
    examples = [code for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "Publisher" not in code]
    assert len(examples) == 2
    names = {}
    for example in examples:
        exec(example, names)  # noqa: S102
    assert names["report"].shape == (1, names["queries"]["profile"].oracle.width)
