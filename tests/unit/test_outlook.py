"""The model behind `check`, `plan` and `init`: what people will show, and what other ways to answer need."""

import math

import numpy as np
import pytest

from aggregator.plan import check, command, outlook
from aggregator.plan.check_text import lines
from aggregator.plan.kinds import values
from aggregator.plan.visibility import promises
from hubbub.definitions.catalog import TopicRecord, changes, read
from hubbub.texts import percent, up
from oracles.mechanisms.choice import least_variance, optimum
from oracles.query import File, load_file
from tests.queries import make_queries, make_query, make_table, make_text

SCREENS = make_table(domain=64, epsilon=4.0, period="1d", other=False)
SEVERAL = make_table(attributes={"sex": ["f", "m"], "age": 74}, budget=200.0)


def query(edition=2, **table):
    return make_query(table, name="screens", edition=edition)


def subject(clients=20_000, **table):
    return outlook.audiences(query(**table), clients)[0]


def words(capsys, main, *arguments):
    assert main([*arguments]) == 0
    return " ".join(capsys.readouterr().out.split())


def test_the_optimum_of_a_rare_value_is_that_of_the_best_subset():
    for epsilon, size in ((1.0, 20), (2.0, 64), (4.0, 64), (0.5, 9)):
        values = [size_of_set(epsilon, size, m) for m in range(1, size)]
        assert least_variance(epsilon, size) == pytest.approx(min(values), rel=1e-12)
        assert optimum(epsilon, size) >= size * min(values) * 0.99


def size_of_set(epsilon, size, m):
    e = np.exp(epsilon)
    p = m * e / (m * e + size - m)
    q = (p * (m - 1) + (1 - p) * m) / (size - 1)
    return q * (1 - q) / (p - q) ** 2


def test_answers_for_life_are_compared_with_once_fresh_and_the_optimum():
    ways = {way.name: way for way in values.ways(query(**SCREENS), query(**SCREENS).oracle)}
    assert ways["once"].distance == pytest.approx(1.0, abs=0.01)
    assert ways["life"].distance == pytest.approx(4.13, abs=0.01)
    assert ways["life"].lifetime == 12.50667961609
    assert ways["once"].lifetime == 4.0
    assert ways["fresh"].lifetime == 16.0
    [text] = outlook.comparison(subject(**SCREENS, oracle="olh", buckets=8))
    assert "Standard error 0.0043 at 10,000 reports, 0.002 with the best report there is" in text
    assert "life 4.65 times (12.51 of the budget of 16), fresh " in text


def test_the_people_that_a_share_needs_see_it():
    view = query(**SCREENS).oracle
    for share in (0.3, 0.01, 0.002):
        people = values.people(view, share, 0.05, sampled=False)
        assert view.detectable(people, 0.05) <= share
        assert view.detectable(people * 98 // 100, 0.05) > share
    assert values.people(view, 1e-9, 0.05, sampled=False) is None


def test_the_epsilon_of_answers_once_sees_the_share():
    epsilon = values.epsilon_once(64, 20_000, 0.005, 0.05, sampled=False)
    assert query(**SCREENS | {"epsilon": epsilon, "answers": "once"}).oracle.detectable(20_000) <= 0.005
    assert query(**SCREENS | {"epsilon": epsilon - 0.1, "answers": "once"}).oracle.detectable(20_000) > 0.005


def test_a_list_of_ten_has_as_many_true_values_as_simulated_people_show():
    view = query(**SCREENS).oracle
    rng = np.random.default_rng(5)
    shares = np.arange(1, 65) ** -1.1
    shares /= shares.sum()
    hits = []
    for _ in range(40):
        true_counts = np.rint(20_000 * shares).astype(np.int64)
        reports = view.perturb(np.repeat(np.arange(64), true_counts), rng)
        state = view.zeros()
        view.add(state, reports)
        top = np.argsort(-view.estimate(state, len(reports)).shares)[:10]
        hits.append(int((top < 10).sum()))
    length, expected = values.listed(view, 20_000)
    assert length == 10
    assert expected == pytest.approx(np.mean(hits), abs=0.5)


def test_check_and_plan_say_the_same(capsys, tmp_path):
    path = tmp_path / "hubbub.toml"
    path.write_text("edition = 2\n" + make_text("planned", domain=64, other=False, epsilon=4.0, pane="1d"))
    plan = words(capsys, command.main, "--clients", "20000", "--size", "64", "--epsilon", "4")
    text = words(capsys, check.main, str(path), "--long", "--clients", "20000")
    sentences = list(outlook.sentences(subject(**SCREENS)))
    assert len(sentences) == 2
    for sentence in sentences:
        assert sentence in plan
        assert sentence in text
    assert "Answers for life need 4.1 times the people of once here." in sentences[1]
    assert "more than 1.3% have. A list of 10 will have 9 of the true 10" in sentences[0]
    assert "standard error 0.0029" in plan.lower()


def test_a_table_compares_people_reports_and_lifetimes():
    rows = list(outlook.table(subject(**SCREENS)))
    assert [row[0] for row in rows] == ["to see 1.3%", "once", "life", "fresh", "best report"]
    assert rows[2][1:4] == ("20,000", "54.6", "270,000")
    assert float(rows[1][1].replace(",", "")) == pytest.approx(20_000 / 4.13, rel=0.01)


def test_each_attribute_has_its_sentences():
    text = "\n".join(lines(query(**SEVERAL), 12, 20_000))
    assert "values of age that" in " ".join(text.split())
    assert "values of sex that" in " ".join(text.split())
    hidden = "\n".join(lines(query(**SEVERAL | {"solution": "rsfd"}), 12, 20_000))
    assert "values of age that" in " ".join(hidden.split())


def test_an_attribute_takes_its_charge_from_the_budget_of_the_whole_query():
    several = query(**SEVERAL | {"attributes": {"sex": ["f", "m"], "age": 40}, "solution": "spl", "budget": 30.0})
    for encoder in several.oracle.encoders:
        note = next(way.note for way in values.ways(several, encoder) if way.name == "life")
        assert note.endswith(" of the budget of 30")


def test_a_table_states_the_odds_of_a_report_and_of_a_life():
    """The bound of 8 buckets at epsilon 2 is 6.685227, which five digits round up to 6.6853."""
    rows = {row[0]: row for row in outlook.table(subject(domain=64, epsilon=2.0, pane="1m", other=False))}
    assert rows["life"][2:4] == ("7.39", "801")


def test_who_knows_an_answer_of_every_attribute_learns_about_all_of_them():
    """For spl an answer is a whole record: the bounds of both tables add up. For smp it is one of them."""
    several = make_table(attributes={"age": 6, "sex": 2}, epsilon=2.0, budget=30.0, pane="1m")
    spl, smp = (query(**several | {"solution": solution}) for solution in ("spl", "smp"))
    for plan, add in ((spl, math.fsum), (smp, max)):
        second = add([encoder.bound(2) for encoder in plan.oracle.encoders])
        assert f"learns up to exp({up(second)}) about another" in " ".join(promises(plan))
        assert second >= 2.0, "it is never less than one report tells"


def test_too_few_people_see_nothing():
    [sentence] = outlook.sentences(subject(20, **SCREENS | {"epsilon": 0.1}))
    assert sentence.startswith("With 20 people a day you will see no value. To see 50% you need ")


@pytest.mark.parametrize(
    ("table", "texts"),
    [
        (SCREENS, ["answers for life need 4.1 times the people of once here"]),
        (SCREENS | {"epsilon": 1.0}, []),
        (SCREENS | {"epsilon": 4.0, "budget": 6.0}, ["answers for life need", "more epsilon buys nothing"]),
        (SCREENS | {"epsilon": 1.0, "budget": 2.0}, []),
        (SCREENS | {"answers": "once"}, []),
    ],
)
def test_costly_answers_for_life_and_useless_epsilon_give_warnings(table, texts):
    warnings = list(outlook.warnings(subject(**table)))
    assert len(warnings) == len(texts)
    assert all(text in warning for text, warning in zip(texts, warnings, strict=True))


def edited(edition, **tables):
    return File(make_queries(tables, edition=edition), edition=edition)


def topic_of(file):
    writes = changes(file, read([]), (), "a" * 16).writes
    return read([TopicRecord(key, value, 1_000_000_000) for key, value in writes])


def test_check_says_what_the_newest_edition_saves(capsys, tmp_path):
    path = tmp_path / "hubbub.toml"
    path.write_text(make_text("screens", domain=64, epsilon=4.0))
    text = words(capsys, check.main, str(path))
    assert "edition screens: edition = 2 would charge 12.507 instead of 16, need 0.44 times the people" in text
    path.write_text(make_text("screens", domain=4, epsilon=4.0, answers="once"))
    assert "edition = 2 would change no query" in words(capsys, check.main, str(path))
    path.write_text("edition = 2\n" + path.read_text())
    assert "would" not in words(capsys, check.main, str(path))


@pytest.mark.parametrize(
    ("before", "after", "sentences"),
    [
        (edited(1, screens=SCREENS), edited(1, screens=SCREENS), ["keeps its digest"]),
        (
            edited(1, screens=SCREENS),
            edited(2, screens=SCREENS),
            ['To keep it: noise = "each", oracle = "olh", buckets = 4', "charged 16 so far, and 12.507 more: 28.507"],
        ),
        (
            edited(1, screens=SCREENS),
            edited(1, screens=SCREENS | {"budget": 300.0}),
            ['Add these lines to the clients\' copy of the file: noise = "each", oracle = "olh", buckets = 4'],
        ),
        (
            edited(2, screens=SCREENS | {"epsilon": 1.0}),
            edited(2, screens=SCREENS | make_table(pane="20s")),
            ["its digest would change", "max_epsilon of 8, so no device falls silent"],
        ),
        (edited(2, screens=SCREENS), edited(2, other=SCREENS), ["screens: is active, but", "other: is new"]),
    ],
)
def test_a_file_is_compared_with_the_topic(before, after, sentences):
    text = " ".join(check.compare(after, topic_of(before), 8.0))
    for sentence in sentences:
        assert sentence in text


def test_the_edition_of_a_file_can_be_replaced(tmp_path):
    path = tmp_path / "hubbub.toml"
    path.write_text(make_text("screens", domain=64, epsilon=4.0))
    assert load_file(path).edition == 1
    assert load_file(path, edition=2).queries["screens"].noise == "table"


WAIT = make_table(domain={"low": 0, "high": 10000, "bins": 256}, pane="1h", windows=["1h"])
ATTRIBUTES = {"page": ["a", "b", "c"], "wait": {"low": 1, "high": 60000, "scale": "log"}}
VISIT = make_table(attributes=ATTRIBUTES, solution="smp", oracle="olh", pane="1h", windows=["1h"])


def test_numbers_have_errors_of_ranks():
    """With 256 bins, k = 8 levels: z sqrt(k (k + 0.7) V / (12 n)). With smp half of the people answer."""
    queries = make_queries({"wait": WAIT, "visit": VISIT}, edition=2)
    wait, visit = (" ".join(" ".join(lines(queries[name], 12, 100_000)).split()) for name in ("wait", "visit"))
    rank = 1.96 * math.sqrt(8 * 8.7 / 12 / 100_000) / math.tanh(0.5)
    assert f"you will know the median to within {percent(rank)} in rank" in wait
    assert f"you will know the median of wait to within {percent(rank * math.sqrt(2))} in rank" in visit
    for words in ("you will see values", "A list of", "times the people of once", "answers for life need"):
        assert words not in wait
    assert "you will see values of page" in visit
    assert "you will see values of wait" not in visit
