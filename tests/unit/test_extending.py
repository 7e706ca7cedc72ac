"""Each recipe of CONTRIBUTING adds its example to a copy of the tree by its blocks alone, and the example works."""

import json

import pytest

from tests.queries import make_text
from tests.recipes import changed, copy_tree, files, run, run_tests

MOST_FILES = {
    "Adding an oracle": 3,
    "Adding a method": 1,
    "Adding a metric": 2,
    "Adding an option": 2,
    "Adding a key of the query file": 3,
    "Adding a kind of alert": 3,
    "Adding a field of a record": 3,
    "Adding a kind of answer": 8,
    "Adding an endpoint": 3,
}
"""The most files that people write for each example. Files that a program writes do not count."""
QUERIES = make_text(
    "toys", domain=20, oracle="toy", budget=100.0, methods=["halved", "norm_sub"], fallback="halved", risk=False
)


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    folder = copy_tree(tmp_path_factory.mktemp("tree"), *MOST_FILES)
    (folder / "hubbub.toml").write_text(QUERIES)
    return folder


@pytest.mark.parametrize("title", MOST_FILES)
def test_a_recipe_needs_few_files(title):
    assert 1 <= len(files(title)) <= MOST_FILES[title]


def test_a_diff_changes_the_lines_that_a_file_has_once():
    assert changed("a\nb\nc\n", " a\n-b\n+B\n@@\n+x\n c\n") == "a\nB\nx\nc\n"
    with pytest.raises(AssertionError, match="once"):
        changed("a\nb\na\n", "+x\n a\n")
    with pytest.raises(AssertionError, match="once"):
        changed("aa\n", "+x\n a b\n")


CHECK = """
from oracles import oracle
from oracles.conformance import check
from oracles.consistency import METHODS
from oracles.query import load
check(oracle("toy", epsilon=1.0, size=20))
check(METHODS["halved"])
query = load("hubbub.toml")["toys"]
print(query.oracle, *query.methods, query.fallback)
"""


def test_oracle_and_method_conform_and_a_query_can_name_them(tree):
    assert run(tree, "-c", CHECK) == "oracle('toy', epsilon=1.0, size=20) halved norm_sub halved\n"


def test_auto_does_not_choose_the_new_oracle(tree):
    code = "from oracles import oracle; print(*{oracle('auto', epsilon=e, size=3).name for e in (0.5, 1.0, 4.0)})"
    assert run(tree, "-c", code) == "grr\n"


def test_a_plan_compares_the_new_oracle(tree):
    assert "toy" in run(tree, "-m", "hubbub", "plan", "--clients", "1e5", "--size", "20", "--epsilon", "1")


def test_a_query_file_with_both_is_checked(tree):
    assert "toy" in run(tree, "-m", "hubbub", "check", "hubbub.toml")


def test_the_vectors_include_the_new_oracle(tree, tmp_path):
    run(tree, "tests/vectors/make.py", str(tmp_path))
    groups = json.loads((tmp_path / "reports.json").read_text())["oracles"]
    assert [group["width"] for group in groups if group["oracle"] == "toy"]


SUITES = ["test_conformance.py", "test_privacy.py", "test_classes.py", "test_consistency.py", "test_risk.py"]


def test_the_suites_cover_oracle_and_method(tree):
    assert run_tests(tree, SUITES, "-m", "not long", "-k", "toy or halved") > 20


METRIC = """
from aggregator.process.metrics import Metrics
(family,) = (family for family in Metrics().registry.collect() if family.name == "hubbub_pauses")
(line,) = (line for line in open("docs/metrics.md") if "`hubbub_pauses_total`" in line)
kind, labels, text = (cell.strip() for cell in line.split("|")[2:5])
assert (kind, labels, text) == (family.type, "", family.documentation)
print(*(sample.value for sample in family.samples))
"""


def test_a_worker_reports_the_new_metric_as_its_row_describes_it(tree):
    assert run(tree, "-c", METRIC) == "0.0\n"


ROUTE = """
from aggregator.board.server.route import SCHEMAS, describe
operation = describe("1", protected=False)["paths"]["/api/v1/active"]["get"]
print(operation["operationId"], list(SCHEMAS["active"]["properties"]))
"""


def test_the_api_describes_the_new_route(tree):
    assert run(tree, "-c", ROUTE) == "active ['queries']\n"


def test_the_suites_of_the_board_cover_the_new_route(tree):
    assert run_tests(tree, ["test_board_store.py"], "-k", "names or number or table or page") > 15


OPTION = """
import argparse
from aggregator.board import command
from aggregator.board.store.store import Store
assert command._options([]).alerts == 10_000
print(command._options(["--alerts", "5"]).alerts, Store(1, 1, most_alerts=5)._most_alerts)
"""


def test_the_new_option_has_a_variable_and_reaches_the_store(tree, monkeypatch):
    assert run(tree, "-c", OPTION) == "5 5\n"
    monkeypatch.setenv("HUBBUB_BOARD_ALERTS", "7")
    code = "from aggregator.board import command; print(command._options([]).alerts)"
    assert run(tree, "-c", code) == "7\n"


def test_the_page_has_the_new_option(tree):
    row = "| `--alerts N` | `HUBBUB_BOARD_ALERTS` | 10000 | limit of alerts in memory; the oldest are dropped |"
    assert row in (tree / "docs" / "options.md").read_text(encoding="utf-8")


KEY = """
import json
from hubbub.definitions.table import dump, query_of
from oracles.query import load
query = load("hubbub.toml")["toys"]
assert query_of("toys", json.loads(json.dumps(dump(query)))) == query
print(query.risk, dump(query)["risk"])
"""


def test_the_topic_of_definitions_has_the_new_key(tree):
    assert run(tree, "-c", KEY) == "False False\n"


def test_the_page_has_the_new_key(tree):
    row = "| `risk` | `true` |  | states the estimated error of each method in records |"
    assert row in (tree / "docs" / "query-file.md").read_text(encoding="utf-8")


RECORD = """
import json
import numpy as np
from aggregator.records.decoder import decode
from aggregator.records.span import Span
from aggregator.tallies.snapshot import Snapshot
from oracles.query import load
from tests import schemas
from tests.results import build

def record_of(query, n, withheld=()):
    # Each value has a larger share than the value before.
    p, q = map(float, query.oracle.exact)
    shares = np.arange(query.domain.size) / np.arange(query.domain.size).sum()
    counts = np.rint(n * (q + shares * (p - q))).astype(np.int64)
    total = Snapshot(n, 0, 0, 0, np.append(counts, np.zeros(64, np.int64)))
    ((_, value),) = build(query, Span(query.windows[0], 0, 10), total, withheld).records
    schemas.RECORD.validate(json.loads(value))
    return decode(value)

query = load("hubbub.toml")["toys"]
record = record_of(query, 200_000)
"""


def test_the_new_key_is_obeyed(tree):
    code = RECORD + 'print(record.member("quality")["risk"])'
    assert run(tree, "-c", code) == "{'unbiased': None, 'halved': None, 'norm_sub': None}\n"


def test_records_have_the_new_field_and_withheld_ones_too(tree):
    code = RECORD + 'print(record.proved, record_of(query, 200_000, ["small"]).proved)'
    assert run(tree, "-c", code) == "17 None\n"


def test_the_pages_have_the_new_field(tree):
    row = "| `proved` | number of values that are proved to exceed the threshold. Null in a withheld record |"
    assert row in (tree / "docs" / "records.md").read_text(encoding="utf-8")
    assert "`detectable`, `proved`," in (tree / "docs" / "board-api.md").read_text(encoding="utf-8")


ORDERED = """
from hubbub.definitions.table import dump, query_of
from oracles.query import parse

table = {"domain": [*"abcde"], "ordered": True, "epsilon": 4.0, "budget": 100.0, "pane": "10s", "oracle": "grr"}
ordered = parse({"queries": {"levels": table}}, "test", None)["levels"]
plain = parse({"queries": {"levels": {**table, "ordered": False}}}, "test", None)["levels"]
assert query_of("levels", dump(ordered)) == ordered != plain
assert ordered.digest == plain.digest
"""


def test_records_of_the_new_kind_have_the_median_and_others_lack_it(tree):
    code = RECORD + ORDERED + "print(record_of(ordered, 10_000).median, record_of(plain, 10_000).median)"
    assert run(tree, "-c", code) == "d None\n"


BOARD = """
import orjson
from tests.boards import Crowd
from tests.unit.test_board_store import ask, store

crowd = Crowd(ordered, clients=20_000)
messages = [*crowd.next()]
reply = ask(store(messages, queries={"levels": ordered}), "estimate", "levels")
record = orjson.loads([value for topic, _, value in messages if topic == "estimates"][-1])
assert reply["median"] == record["median"] in "abcde"
print(reply["proved"] == record["proved"] > 0)
"""


def test_the_api_answers_with_the_new_field_and_the_median(tree):
    assert run(tree, "-c", ORDERED + BOARD) == "True\n"


def test_the_suites_of_options_and_keys_cover_the_new_ones(tree):
    names = ["test_site.py", "test_options.py", "test_definitions.py"]
    assert run_tests(tree, names, "-k", "current or options or definition") > 20


ALERT = """
import json
from aggregator.board.answers.parameters import ALERT_KIND
from aggregator.process.metrics import Metrics
from aggregator.reading.tail.notice import Notice
from aggregator.records.alert import decode
from tests import schemas

alerts = [value for topic, _, value in messages if topic == "alerts"]
assert alerts
for value in alerts:
    schemas.ALERT.validate(json.loads(value))
majorities = [alert for alert in map(decode, alerts) if alert.kind == "majority"]
assert {alert.value for alert in majorities} == {"a"}
assert ask(store(messages, queries={"levels": ordered}), "alerts", kind="majority")["alerts"]
assert "majority" in vars(Metrics)["alerts"].labels["kind"]
print(str(Notice.of(majorities[0])).partition(":")[0])
"""
LEADER = "crowd = Crowd(ordered)\ncrowd.answers = lambda pane: crowd.rng.choice(6, 20_000, p=[0.7, *[0.06] * 5])\n"


def test_the_new_kind_of_alert_is_published_and_shown_everywhere(tree):
    code = ORDERED + BOARD.replace("crowd = Crowd(ordered, clients=20_000)\n", LEADER) + ALERT
    assert run(tree, "-c", code) == "True\na is now proved to have the majority\n"


def test_the_page_has_the_new_kind_of_alert(tree):
    row = "| `majority` | a value that enters is proved to be more than half of all answers |"
    assert row in (tree / "docs" / "records.md").read_text(encoding="utf-8")


def test_the_suites_of_records_cover_the_new_field_and_kind(tree):
    assert (
        run_tests(tree, ["test_fields.py", "test_record.py"], "-m", "not long", "-k", "schema or member or table") > 15
    )
