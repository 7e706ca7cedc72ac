"""`hubbub check --facts`: the table for an impact assessment, and the retention that docs state."""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from aggregator.plan.facts import table
from aggregator.topics.layout import MONTH, WEEK
from hubbub.__main__ import main
from tests.queries import make_queries, make_table, make_text

DOCS = Path(__file__).parents[2] / "docs"
DAY = 86_400_000
SAVES = make_table(
    domain=["never", "a|b"],
    about="How often a person saved",
    purpose="Judge a button",
    contact="privacy@example.org",
    until=datetime(2027, 5, 1, tzinfo=UTC),
    groups={"platform": ["ios", "android"]},
)


def rows(queries):
    """Return the cells of the table, without its head."""
    return [line.strip("| ").split(" | ") for line in [*table(queries.values())][2:]]


def test_each_query_has_its_facts():
    facts = {(name, fact): value for name, fact, value in rows(make_queries({"saves": SAVES}))}

    assert facts["saves", "what is asked"] == "How often a person saved"
    assert facts["saves", "purpose"] == "Judge a button"
    assert facts["saves", "sent in clear"] == "ios, android"
    assert facts["saves", "a report changes odds by a factor of"] == "at most 2.72"
    assert facts["saves", "ends"] == "2027-05-01 00:00:00 UTC"


def test_a_bar_in_a_value_does_not_end_its_cell():
    (line,) = [line for line in table(make_queries({"saves": SAVES}).values()) if "answers before noise" in line]
    assert r"one of never, a\|b" in line
    assert len(re.split(r"(?<!\\)\|", line)) == 5


def test_what_nobody_states_is_said():
    facts = rows(make_queries({"q": make_table(domain=4)}))
    assert [value for _, _, value in facts].count("not stated in the query file") == 3


def test_the_odds_of_a_device_are_those_of_all_queries_together():
    single_query = make_queries({"a": make_table(domain=4, answers="once", budget=1.0)})
    both_queries = make_queries({name: make_table(domain=4, answers="once", budget=1.0) for name in "ab"})
    odds = [
        next(value for name, _, value in rows(queries) if name == "all queries")
        for queries in (single_query, both_queries)
    ]
    assert odds == ["at most 2.72", "at most 7.39"]


def test_docs_state_the_retention_of_the_topics():
    """The pages for lawyers, the page of topics and the topics agree."""
    topics = (DOCS / "topics.md").read_text()
    assert f"| `retention.ms` | estimates, maps, alerts | {MONTH // DAY} days |" in topics
    assert f"| `retention.ms` | rejects | {WEEK // DAY} days" in topics

    gdpr = (DOCS / "gdpr.md").read_text()
    for topic, days in (("estimates", MONTH), ("maps", MONTH), ("alerts", MONTH), ("rejects", WEEK)):
        assert re.search(rf"\| the topic `{topic}`[^|]*\| {days // DAY} days, unless", gdpr), topic
    assert f"({MONTH // DAY} days by default)" in (DOCS / "deletion.md").read_text()


def test_the_page_of_gdpr_has_the_articles_and_says_first_what_it_is_not():
    text = (DOCS / "gdpr.md").read_text()
    assert "is no legal advice" in text.split("\n\n")[1]
    assert re.findall(r"^## Article (\d+)", text, re.MULTILINE) == ["5", "15", "17", "25", "35"]


@pytest.mark.parametrize("idle", [["--long"], ["--clients", "9"], ["--format", "json"], ["--topic"]])
def test_options_without_effect_are_refused(tmp_path, capsys, idle):
    path = tmp_path / "hubbub.toml"
    path.write_text(make_text("q", domain=4))
    with pytest.raises(SystemExit) as ending:
        main(["check", str(path), "--facts", *idle])
    assert ending.value.code == 2
    assert "with --facts" in capsys.readouterr().err
    assert main(["check", str(path), "--facts"]) == 0
    assert capsys.readouterr().out.startswith("| about | fact | value |\n")
