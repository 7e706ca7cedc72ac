"""A client. It sends one report for each class and round, charges before it sees a value, and answers once a period."""

import math
import multiprocessing
import re
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from oracles import oracle
from oracles.errors import HubbubError, ParameterError, ReportError
from producers import BudgetSpent, Client, Ledger, NotAllowed, NotYet, StoreError
from producers.client.respondents import Respondents
from producers.entropy import Keyed, Purpose
from tests.queries import make_query

PAGES = [f"page-{i}" for i in range(8)]


def query(name="q", **settings):
    return make_query({"domain": PAGES, "oracle": "grr", "budget": 1000.0}, **settings, name=name)


def several(**settings):
    attributes = {"sex": ["f", "m"], "age": 100}
    return make_query({"attributes": attributes, "solution": "rsfd"}, **settings, name="p")


KEY = bytes(range(32))


def days(step=86_400, start=1_700_000_000):
    """Return a clock that moves by a day for each answer."""
    return Days(step, start)


class Days:
    def __init__(self, step, start):
        self.now, self.step = start, step

    def __call__(self):
        return float(self.now)

    def next(self):
        self.now += self.step


def at(seconds):
    return lambda: float(seconds)


def answers(client, clock, values):
    """Return the reports of one answer a day."""
    reports = []
    for value in values:
        clock.next()
        reports.append(client.answer(value).tobytes())
    return reports


def spent(ledger):
    with ledger.transaction() as transaction:
        return transaction.total_charge()


def test_streams_of_a_key_are_those_of_the_wire_format():
    digest = bytes.fromhex("e49ed91b111b507a")
    assert Keyed(KEY, digest, purpose=Purpose.ROWS).raw(16).tobytes().hex() == "ac0c46650156a3d1b8c7571641ddcbf2"
    stream = Keyed(KEY, digest, classes=(1,))
    assert (stream.raw(3).tobytes() + stream.raw(13).tobytes()).hex() == "9520ce5ad68c86e5ab286574be19e7c8"
    assert len(Keyed(KEY, digest).raw(1000)) == 1000, "beyond one code"


def test_reports_of_a_key_are_those_of_the_wire_format():
    digest = bytes.fromhex("e49ed91b111b507a")
    o = oracle("olh", epsilon=1.0, size=3)
    them = Respondents(o, 1, lambda j, purpose, classes: Keyed(b"\2" * 32, digest, j, 0, purpose, 0, classes))
    assert [them.reports(np.array([value])).tobytes().hex() for value in range(3)] == [
        "38000000",
        "3a000000",
        "39000000",
    ]


def test_a_key_has_32_bytes():
    with pytest.raises(ParameterError, match="32 bytes, this one has 31"):
        Keyed(b"1" * 31, b"12345678")
    with pytest.raises(ParameterError, match="32 bytes"):
        Client(query(), ":memory:", key=b"short")


def test_a_life_is_charged_once_and_never_silent():
    clock = days()
    ledger = Ledger(":memory:")
    person = Client(query(oracle="hr", budget=2.0), ledger, clock=clock)
    reports = answers(person, clock, [f"page-{i % 8}" for i in range(200)])
    assert len(set(reports)) <= 2, "at most a report for each of two classes"
    assert spent(ledger) == 2
    assert person.spent == 2.0
    assert person.remaining == 0.0


def test_the_same_class_always_gives_the_same_report():
    clock = days()
    person = Client(query(oracle="grr"), ":memory:", max_epsilon=9.0, clock=clock)
    reports = answers(person, clock, ["page-1", "page-2", "page-1", "page-3", "page-2"])
    assert reports[0] == reports[2]
    assert reports[1] == reports[4]


def test_a_restored_backup_gives_no_fresh_report(tmp_path):
    store = tmp_path / "store"
    clock = days()
    q = query(domain=1 << 22, oracle="olh")
    Client(q, store, clock=clock)
    shutil.copy(store, tmp_path / "backup")
    reports = set()
    for _ in range(20):
        shutil.copy(tmp_path / "backup", store)
        clock.next()
        reports.add(Client(q, store, clock=clock).answer(5).tobytes())
    assert len(reports) == 1


def test_an_empty_store_is_an_error_and_no_new_budget(tmp_path):
    store = tmp_path / "store"
    Client(query(), store, max_epsilon=9.0).answer("page-1")
    key = (tmp_path / "store.key").read_bytes()
    store.write_bytes(b"")
    with pytest.raises(StoreError, match="is empty, but has a key"):
        Client(query(), store, max_epsilon=9.0)
    store.unlink()
    with pytest.raises(StoreError, match="is missing, but its key"):
        Client(query(), store, max_epsilon=9.0)
    assert not store.exists()
    assert (tmp_path / "store.key").read_bytes() == key


def test_once_is_one_report_for_all_later_values():
    clock = days()
    ledger = Ledger(":memory:")
    person = Client(query(domain=1 << 22, oracle="olh", answers="once"), ledger, clock=clock)
    assert len(set(answers(person, clock, range(50)))) == 1
    assert spent(ledger) == 1


def test_fresh_answers_have_their_own_noise_and_end_for_any_values():
    q = query(domain=1 << 22, oracle="olh", answers="fresh", budget=4.0)
    for values in ([3, 3, 3, 3], [1, 2, 3, 4]):
        clock = days()
        ledger = Ledger(":memory:")
        person = Client(q, ledger, clock=clock)
        assert len(set(answers(person, clock, values))) == 4
        clock.next()
        with pytest.raises(BudgetSpent, match="budget of query 'q' is 4: 4 is spent, and the next answer costs 1"):
            person.answer(values[0])
        assert spent(ledger) == 4
        assert Client(q, ledger, clock=clock).remaining == 0.0, "one can still look at it"


def test_a_budget_is_divided_by_its_decimals():
    for settings in ({"epsilon": 0.1, "budget": 0.3}, {"epsilon": 0.7, "budget": 4.9}):
        clock = days()
        q = query(answers="fresh", **settings)
        person = Client(q, ":memory:", clock=clock)
        answers(person, clock, ["page-1"] * q.charges)
        clock.next()
        with pytest.raises(BudgetSpent):
            person.answer("page-1")


def test_a_new_round_starts_and_an_earlier_one_never_returns():
    q = query(domain=1 << 22, oracle="olh", period="1h", renew="1d", budget=4.0)
    clock = Days(3600, 20_000 * 86_400)
    ledger = Ledger(":memory:")
    person = Client(q, ledger, clock=clock)
    first_answers = answers(person, clock, [7] * 20)
    clock.now = 20_001 * 86_400
    second = answers(person, clock, [7] * 20)
    assert len({*first_answers}) == len({*second}) == 1
    assert first_answers[0] != second[0]
    assert spent(ledger) == 8
    assert person.spent == 4.0, "of the present round"
    clock.now -= 86_400
    with pytest.raises(NotYet):
        person.answer(7)


def test_max_epsilon_sums_all_charges_of_a_store_without_per():
    ledger = Ledger(":memory:")
    clock = Days(3600, 20_000 * 86_400)
    rounds = query("summed", oracle="hr", answers="once", period="1h", renew="1d", budget=2.0)
    person = Client(rounds, ledger, max_epsilon=3.0, clock=clock)
    for _ in range(3):
        answers(person, clock, ["page-1"])
        clock.now += 86_400
    assert [person.spent, person.remaining] == [0.0, 0.0]
    with pytest.raises(BudgetSpent, match="device, is 3: 3 is spent, and the next answer costs 2"):
        Client(query("other", oracle="hr"), ledger, max_epsilon=3.0, clock=clock)


def test_a_client_that_does_not_fit_is_refused_when_it_is_made():
    ledger = Ledger(":memory:")
    with pytest.raises(BudgetSpent, match="is 8: 0 is spent, and the next answer costs 9"):
        Client(query(), ledger)
    with pytest.raises(BudgetSpent, match=r"is 0\.5: 0 is spent, and the next answer costs 1"):
        Client(query(answers="fresh"), ledger, max_epsilon=0.5)
    assert spent(ledger) == 0


def test_charges_count_in_every_mode():
    ledger = Ledger(":memory:")
    clock = days()
    for kind, count in (("once", 1), ("life", 2), ("fresh", 3)):
        q = query(oracle="hr", answers=kind, budget=3.0)
        answers(Client(q, ledger, clock=clock), clock, ["page-1"])
        assert spent(ledger) == count
    clock.next()
    with pytest.raises(BudgetSpent):
        Client(query(oracle="hr", answers="fresh", budget=3.0), ledger, clock=clock).answer("page-1")


def test_a_charge_comes_before_the_look_at_the_value():
    ledger = Ledger(":memory:")
    with pytest.raises(ReportError):
        Client(query(other=False), ledger, max_epsilon=9.0).answer("elsewhere")
    assert spent(ledger) == 8
    with pytest.raises(ReportError):
        Client(query("f", other=False, answers="fresh"), ledger, max_epsilon=90.0, clock=at(1000)).answer("elsewhere")
    Client(query("f", other=False, answers="fresh"), ledger, max_epsilon=90.0, clock=at(1000)).answer("page-1")
    assert spent(ledger) == 9, "what was charged and not answered is not charged again"


def test_a_client_answers_once_in_an_aligned_period():
    ledger = Ledger(":memory:")
    q = query(oracle="hr", period="1m")
    Client(q, ledger, clock=at(1019)).answer("page-1")
    for moment in (1019.9, 1000, 960, 5):
        with pytest.raises(NotYet, match="next period of 60 seconds") as early:
            Client(q, ledger, clock=at(moment)).answer("page-2")
        assert 1020 <= early.value.due < 1080
    Client(q, ledger, clock=at(1020)).answer("page-1")
    assert spent(ledger) == 2, "being early costs nothing"


def test_a_thousand_daily_jobs_all_answer_on_their_second_day():
    q = query(oracle="hr", period="1d")
    rng = np.random.default_rng(1)
    for moment, integer in zip(rng.integers(0, 86_400, 1000), rng.integers(0, 86_400, 1000), strict=True):
        ledger = Ledger(":memory:")
        Client(q, ledger, clock=at(moment)).answer("page-1")
        Client(q, ledger, clock=at(86_400 + integer)).answer("page-1")


def test_due_times_are_spread_over_the_period():
    # Of 200 uniform moments none lies in a given fifth of the period with probability 0.8^200 < 1e-19.
    q = query(oracle="hr", period="1d")
    moments = []
    for seed in range(200):
        person = Client(q, ":memory:", key=seed.to_bytes(32, "big"), clock=at(86_400 * 7 + 5))
        assert person.due == person.due
        assert 86_400 * 7 <= person.due < 86_400 * 8
        moments.append(person.due % 86_400)
        person.answer("page-1")
        assert 86_400 * 8 <= person.due < 86_400 * 9
    assert set(np.floor(np.array(moments) / 86_400 * 5)) == {0, 1, 2, 3, 4}


def test_a_new_definition_does_not_shorten_the_period():
    ledger = Ledger(":memory:")
    Client(query(oracle="hr", period="1m"), ledger, clock=at(1000)).answer("page-1")
    with pytest.raises(NotYet):
        Client(query(oracle="hr", period="1m", epsilon=2.0), ledger, clock=at(1010)).answer("page-1")
    Client(query("other", oracle="hr", period="1m"), ledger, clock=at(1010)).answer("page-1")


def test_smp_answers_one_attribute_for_life():
    attributes = {"sex": ["f", "m"], "age": 100, "zip": 300}
    q = make_query(attributes=attributes, solution="smp", oracle="hr", name="p")
    kinds = [set(), set(), set()]
    for seed in range(40):
        clock = days()
        person = Client(q, ":memory:", key=seed.to_bytes(32, "big"), clock=clock)
        reports = answers(person, clock, [(age, "f", 7) for age in range(100)])
        assert len({report[:2] for report in reports}) == 1
        kinds[reports[0][0]].add(len(set(reports)))
    # Both classes of an age may be told by one bit.
    assert kinds == [{1, 2}, {1}, {1}], "ages change, the rest stays"


def test_spl_memoises_each_attribute_by_its_own_class():
    attributes = {"age": 50, "sex": ["f", "m"]}
    q = make_query(attributes=attributes, solution="spl", oracle="oue", budget=99.0, name="p")
    clock = days()
    reports = answers(Client(q, ":memory:", max_epsilon=99.0, clock=clock), clock, [(age, "f") for age in range(50)])
    width = q.oracle.encoders[0].width
    assert len({report[:width] for report in reports}) == 50
    assert len({report[width:] for report in reports}) == 1, "one changed age does not redraw the sex"


def test_rsfd_is_one_record_for_its_round():
    clock = days()
    ledger = Ledger(":memory:")
    q = several()
    person = Client(q, ledger, clock=clock)
    assert len(set(answers(person, clock, [(age, "f") for age in range(30)]))) == 1
    assert spent(ledger) == q.charge.amount


def test_answers_follow_the_oracle_s_law():
    # Four counts over 2,000 keys, each within 5.2 standard deviations of its mean: false alarms under 1e-6.
    q = query(domain=4, other=False)
    n = 2000
    reports_sent = [int(Client(q, ":memory:", key=seed.to_bytes(32, "big")).answer(2)[0, 0]) for seed in range(n)]
    for value in range(4):
        p = q.oracle.p if value == 2 else q.oracle.q
        assert abs(reports_sent.count(value) - n * p) < 5.2 * math.sqrt(n * p * (1 - p))


def test_a_report_is_one_row_of_the_query_s_width():
    for q, value in ((query(oracle="oue"), "page-1"), (several(), [30, "f"])):
        report = Client(q, ":memory:", max_epsilon=9.0).answer(value)
        assert report.shape == (1, q.oracle.width)
        assert q.oracle.check(report) is None


def test_the_time_of_the_answer_decides_its_pane():
    person = Client(query(oracle="hr"), ":memory:", clock=at(1234.5))
    assert person.answered is None
    person.answer("page-1")
    assert person.answered == 1234.5


def test_the_application_may_store_the_key(tmp_path):
    client = Client(query(domain=1 << 22, oracle="olh"), tmp_path / "one", key=KEY, first=True, clock=at(10)).answer(3)
    assert [path.name for path in tmp_path.iterdir()] == ["one"]
    repeated_reports = Client(
        query(domain=1 << 22, oracle="olh"), tmp_path / "two", key=KEY, first=True, clock=at(10)
    ).answer(3)
    assert client.tobytes() == repeated_reports.tobytes(), "a first start with a key of before: the noise comes again"
    for options in ({"key": KEY}, {"first": True}, {"installation": b"device-1"}, {"moved": True}):
        with pytest.raises(ParameterError, match="to the Ledger"):
            Client(query(), Ledger(":memory:"), **options)


def test_forgetting_deletes_key_store_and_spool_and_lists_the_rest(tmp_path):
    spool = tmp_path / "spool"
    spool.mkdir()
    (spool / "0102030405060708.frame").write_bytes(b"waiting")
    person = Client(query(oracle="hr"), tmp_path / "store")
    person.answer("page-1")
    text = person.forget(spool)
    assert "1 frames in the spool" in text
    assert "charges of 2 epsilon in all, for q" in text
    assert [path.name for path in tmp_path.rglob("*")] == ["spool"]
    with pytest.raises(StoreError):
        person.answer("page-1")


def test_a_query_that_is_not_allowed_is_refused_before_any_answer():
    Client(query(oracle="hr"), ":memory:", allow=["q", "r"])
    Client(query(oracle="hr"), ":memory:")
    with pytest.raises(NotAllowed, match="allows r, not 'q'"):
        Client(query(oracle="hr"), ":memory:", allow={"r"})
    with pytest.raises(NotAllowed):
        Client(query(oracle="hr"), ":memory:", allow=[])
    with pytest.raises(ParameterError):
        Client(query(oracle="hr"), ":memory:", allow="q and others")


@pytest.mark.parametrize("wrong_limit", [0, -1, math.inf, math.nan])
def test_a_limit_is_a_number_above_zero(wrong_limit):
    with pytest.raises(ParameterError, match="max_epsilon"):
        Client(query(oracle="hr"), ":memory:", max_epsilon=wrong_limit)


def positions(q, value):
    """Return the position of each value of an answer."""
    return Client(q, ":memory:", max_epsilon=1e6)._positions(value)


def test_values_are_names_indices_dicts_and_sequences():
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
def test_values_that_cannot_be_counted_are_refused(q, value):
    ledger = Ledger(":memory:")
    with pytest.raises(ReportError):
        Client(q, ledger, max_epsilon=1e6).answer(value)
    with ledger.transaction() as transaction:
        assert transaction.answer_time(q.name) is None


def race(q, store, results):
    """Answer one value in many rounds, each a period after the last answer of all processes."""
    ledger = Ledger(store)
    reports = set()
    for _ in range(30):
        with ledger.transaction() as transaction:
            last_time = transaction.answer_time(q.name) or 0.0
        with suppress(NotYet):  # another was quicker
            reports.add(Client(q, ledger, clock=at(last_time + q.period)).answer("page-1").tobytes())
    results.put(reports)


def test_concurrent_processes_make_one_key_send_the_same_report_and_pay_once(tmp_path):
    q = query(oracle="olh", epsilon=1.0)
    fork = multiprocessing.get_context("fork")
    results = fork.SimpleQueue()  # which holds all three answers at once
    racers = [fork.Process(target=race, args=(q, tmp_path / "store", results)) for _ in range(3)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert [racer.exitcode for racer in racers] == [0, 0, 0]
    outcomes = [results.get() for _ in racers]
    assert len(set.union(*outcomes)) == 1
    assert spent(Ledger(tmp_path / "store")) == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store", "store.key"]


CHILD = """
import os, signal, sys
from oracles.query import parse
from producers import Client
from producers.client import ledger

given = {"domain": 1 << 22, "oracle": "olh", "epsilon": 1.0, "pane": "10s", "answers": "fresh"}
query = parse({"queries": {"q": given}}, "test", ".")["q"]

def die(*arguments):
    os.kill(os.getpid(), signal.SIGKILL)

person = Client(query, sys.argv[1], clock=lambda: 10_000.0)
setattr(ledger.Transaction, sys.argv[2], die)
person.answer(1)
"""


@pytest.mark.parametrize(("point", "charges"), [("add_charge", 0), ("add_answer", 1), ("set_answer_time", 1)])
def test_a_process_killed_in_an_answer_has_sent_nothing_and_pays_once(tmp_path, point, charges):
    process = subprocess.run([sys.executable, "-c", CHILD, tmp_path / "store", point], check=False, capture_output=True)
    assert process.returncode == -signal.SIGKILL
    ledger = Ledger(tmp_path / "store")
    assert spent(ledger) == charges
    Client(query(domain=1 << 22, oracle="olh", answers="fresh", budget=4.0), ledger, clock=at(10_000)).answer(1)
    assert spent(ledger) == 1, "the charge of before is used"


def test_a_store_without_space_gives_no_answer(tmp_path):
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
    process = subprocess.run([sys.executable, "-c", LIGHT, *heavy, "numpy"], check=True, capture_output=True, text=True)
    assert process.stdout.split() == ["numpy"]


def test_the_examples_of_the_documentation_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (Path(__file__).parents[2] / "docs" / "clients.md").read_text()
    [settings] = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    Path("hubbub.toml").write_text(settings)
    others = ("Publisher", "# client.py")  # one needs Kafka, and the other is a program of its own
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    examples = [code for code in blocks if not any(name in code for name in others)]
    assert len(examples) == 8
    names = {}
    for example in examples:
        exec(example, names)  # noqa: S102
    assert names["report"].shape == (1, names["queries"]["profile"].oracle.width)
