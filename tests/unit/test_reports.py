"""The JSON object of a command, and the reasons for which `hubbub check --topic` fails."""

import argparse
import json

import pytest

from aggregator.plan import check
from aggregator.worker import command
from hubbub.command.report import Report
from hubbub.definitions import formats
from hubbub.definitions.catalog import TopicRecord, changes, read
from hubbub.kafka.errors import KafkaUnreachable
from oracles.query import File
from tests.queries import make_queries, make_table

PAGE = make_table(domain=["a", "b"], oracle="grr")
GROUPS = PAGE | {"groups": {"platform": ["ios", "web"]}}
TEXT = '[queries.page]\ndomain = ["a", "b"]\nepsilon = 1.0\npane = "10s"\n'
COMMON = {"version", "ok", "code", "faults"}
NOW = 1_000_000_000


def file(**tables):
    return File(make_queries(tables))


def topic(active, *more):
    """Return the definitions of a topic with these active queries and further records."""
    writes = changes(active, read([]), (), "token").writes
    return read([*(TopicRecord(key, value, NOW) for key, value in writes), *more])


HIGHER = TopicRecord(formats.KEY, b'{"version": 99, "release": "9.1.0"}', NOW)
UNREADABLE = TopicRecord(b"00" * 8 + b"|" + b"0" * 16, b"no definition", NOW)


@pytest.mark.parametrize(
    ("present", "definitions", "words"),
    [
        (file(page=PAGE), topic(file(page=PAGE)), []),
        (file(page=PAGE, other=PAGE), topic(file(page=PAGE)), []),
        (file(page=PAGE), topic(file(page=PAGE, other=PAGE)), ["the file lacks active queries: other"]),
        (
            file(page=GROUPS | {"groups": {"platform": ["web", "ios"]}}),
            topic(file(page=GROUPS)),
            ["would not start: queries.page: "],
        ),
        (file(page=PAGE), topic(file(page=PAGE), HIGHER), ["install release 9.1.0"]),
        (file(page=PAGE), topic(file(page=PAGE), UNREADABLE), ["of the topic queries: "]),
    ],
    ids=["same", "new", "missing", "groups", "higher", "unreadable"],
)
def test_a_file_with_which_no_worker_starts_has_its_reasons(present, definitions, words):
    reasons = check.start_refusals(present, definitions)
    assert len(reasons) == len(words)
    assert all(text in reason for text, reason in zip(words, reasons, strict=True))


def test_a_file_whose_edition_changes_a_digest_is_refused():
    open_table = make_table(domain=1024)
    active, newer = (File(make_queries({"page": open_table}, edition=edition), edition=edition) for edition in (1, 2))
    assert active.queries["page"].digest != newer.queries["page"].digest
    [reason] = check.start_refusals(newer, topic(active))
    assert "only the edition changes the digests of page" in reason


def test_a_file_may_lack_the_queries_that_retire_names():
    definitions = topic(file(page=PAGE, other=PAGE, third=PAGE))
    assert check.start_refusals(file(page=PAGE), definitions, {"other", "third"}) == []
    [reason] = check.start_refusals(file(page=PAGE), definitions, {"other"})
    assert "lacks active queries: third" in reason
    lines = [*check.compare(file(page=PAGE), definitions, 10.0, {"other", "third", "page"})]
    assert [line for line in lines if "--retire" in line] == [
        "page: is not active, or the file still has it, so --retire has no effect.",
        "other: is active, and ends because --retire names it.",
        "third: is active, and ends because --retire names it.",
    ]


def test_retire_starts_a_query_again_whose_digest_only_the_edition_changes():
    open_table = make_table(domain=1024)
    active, newer = (File(make_queries({"page": open_table}, edition=edition), edition=edition) for edition in (1, 2))
    assert check.start_refusals(newer, topic(active), {"page"}) == []
    [line, *_] = check.compare(newer, topic(active), 10.0, {"page"})
    assert line.startswith("page: its digest would change")


def test_check_reads_retire_like_a_worker(monkeypatch):
    monkeypatch.setenv("HUBBUB_RETIRE", "a, b")
    for options in (check._options([]), command._options([])):
        assert options.retire == {"a", "b"}
    for options in (check._options(["--topic", "--retire", "c"]), command._options(["--retire", "c"])):
        assert options.retire == {"c"}


def report_of(capsys, *arguments):
    """Return the exit code and the object of `hubbub check`."""
    code = check.main([*arguments, "--format", "json"])
    output = capsys.readouterr()
    assert output.err == ""
    return code, json.loads(output.out)


def test_check_prints_one_object(tmp_path, capsys):
    path = tmp_path / "hubbub.toml"
    path.write_text(TEXT)
    code, document = report_of(capsys, str(path))
    assert code == document["code"] == 0
    assert document["ok"] is True
    assert document["faults"] == []
    assert document.keys() == COMMON | {"file", "queries", "together", "edition", "topic"}
    [query] = document["queries"]
    assert query.keys() == {"name", "digest", "lines"}
    assert document["topic"] is None


def test_check_of_a_name_has_this_query_alone(tmp_path, capsys):
    path = tmp_path / "hubbub.toml"
    path.write_text(TEXT + TEXT.replace("page", "other"))
    _, document = report_of(capsys, str(path))
    names = [query["name"] for query in document["queries"]]
    assert len(names) == 2
    _, document = report_of(capsys, str(path), names[1])
    assert [query["name"] for query in document["queries"]] == names[1:]


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        (TEXT.replace("1.0", "-1"), [], "epsilon"),
        (TEXT, ["--max-state", "1B"], "state"),
        ("", [], ""),
    ],
    ids=["invalid", "too large", "empty"],
)
def test_a_refused_file_is_an_object_too(tmp_path, capsys, text, options, words):
    path = tmp_path / "hubbub.toml"
    path.write_text(text)
    code, document = report_of(capsys, str(path), *options)
    assert code == document["code"] == 2
    assert document["ok"] is False
    assert any(words in fault for fault in document["faults"])


def test_an_error_of_kafka_is_an_object_with_its_code(capsys):
    def fail():
        raise KafkaUnreachable("no broker")

    assert Report("doctor", argparse.Namespace(format="json")).run(fail) == 3
    assert json.loads(capsys.readouterr().out) == {"version": 1, "ok": False, "code": 3, "faults": ["no broker"]}
    assert Report("doctor", argparse.Namespace(format="text")).run(fail) == 3
    assert capsys.readouterr().err == "hubbub doctor: no broker\n"
