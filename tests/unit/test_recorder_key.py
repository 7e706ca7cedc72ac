"""The key `recorder` of a query file: its meaning, its digest, its errors, and its sentence in `hubbub check`."""

import hashlib
import json
import tomllib
from contextlib import chdir

import pytest

from aggregator.plan import check
from aggregator.plan.recorder_text import sentence
from hubbub.definitions.formats import Formats
from hubbub.definitions.key_formats import early_keys
from hubbub.definitions.table import dump, query_of
from oracles.errors import QueryError, ReportError
from oracles.query import parse
from oracles.query.public_definition import public_definition
from producers import Client
from producers.publishers.pinned_query import pin_query

NAMED = 'domain = ["none", "1", "2-4", "5 or more"]\nepsilon = 2.0\npane = "1h"\nperiod = "1d"\nanswers = "fresh"\n'
SIZE = 'domain = 8\nepsilon = 2.0\npane = "1h"\nperiod = "7d"\nanswers = "fresh"\n'
SCALE = 'domain = { low = -1.5, high = 60, bins = 16 }\nepsilon = 2.0\npane = "1h"\nperiod = "1h"\nanswers = "fresh"\n'
COUNT = 'recorder = { keep = "count", edges = [0, 1, 2, 5] }\n'
GOOD = [
    (NAMED + COUNT, {"keep": "count", "edges": [0, 1, 2, 5], "empty": None, "period": 86_400}),
    (
        NAMED + 'recorder = { keep = "max", edges = [0, 1, 2, 5], empty = "none" }',
        {"keep": "max", "edges": [0, 1, 2, 5], "empty": "none", "period": 86_400},
    ),
    (
        NAMED + 'other = true\nrecorder = { keep = "last", empty = "(other)" }',
        {"keep": "last", "edges": None, "empty": "(other)", "period": 86_400},
    ),
    (
        NAMED + 'recorder = { keep = "step", empty = "none" }',
        {"keep": "step", "edges": None, "empty": "none", "period": 86_400},
    ),
    (SIZE + 'recorder = { keep = "days" }', {"keep": "days", "edges": None, "empty": None, "period": 604_800}),
    (
        SIZE + 'recorder = { keep = "since", empty = "7" }',
        {"keep": "since", "edges": None, "empty": 7, "period": 604_800},
    ),
    (SIZE + 'recorder = { keep = "age" }', {"keep": "age", "edges": None, "empty": None, "period": 604_800}),
    (
        SCALE + 'recorder = { keep = "max", empty = 0 }',
        {"keep": "max", "edges": None, "empty": 0.0, "period": 3600},
    ),
]


def read(body):
    return parse(tomllib.loads(f"[queries.saves]\n{body}"), "hubbub.toml", ".")["saves"]


@pytest.mark.parametrize(("body", "meaning"), GOOD)
def test_a_recorder_is_read_and_is_in_the_digest_with_all_four_members(body, meaning):
    query = read(body)
    assert query.recorder.meaning == meaning
    assert json.loads(query.canonical)["recorder"] == meaning
    assert hashlib.sha256(query.canonical.encode()).digest()[:8] == query.digest
    assert query_of("saves", dump(query)) == query, "workers read the same query from the topic"


def test_the_digest_has_the_form_of_the_contract_and_is_absent_without_a_recorder():
    part = '"recorder":{"edges":[0,1,2,5],"empty":null,"keep":"count","period":86400}'
    assert part in read(NAMED + COUNT).canonical
    assert "recorder" not in read(NAMED).canonical
    assert "recorder" not in public_definition(read(NAMED))
    shorter_period = read((NAMED + COUNT).replace('"1d"', '"1h"'))
    assert shorter_period.digest != read(NAMED + COUNT).digest


@pytest.mark.parametrize(("body", "meaning"), GOOD)
def test_a_client_gets_the_recorder_from_a_listing(body, meaning):
    query = read(body)
    listing = json.dumps({"queries": [public_definition(query)]}).encode()
    pinned_query = pin_query(listing, "saves", 2.0, "gateway")
    assert pinned_query.recorder == query.recorder
    assert pinned_query.digest == query.digest


def test_a_recorder_knows_no_other_answer_unless_it_keeps_the_last_value():
    assert read(NAMED).other
    assert not read(NAMED + COUNT).other
    assert not read(NAMED + 'recorder = { keep = "last", empty = "none" }').other
    assert read(NAMED + 'other = true\nrecorder = { keep = "last", empty = "none" }').other


@pytest.mark.parametrize(
    ("body", "edges", "positions"),
    [
        (NAMED + COUNT, [-3, 0, 1, 1.9, 2, 4, 5, 1e300], [0, 0, 1, 1, 2, 2, 3, 3]),
        (SIZE + 'recorder = { keep = "count" }', [-1, 0, 0.9, 6.9, 7, 1e300], [0, 0, 0, 6, 7, 7]),
        (SCALE + 'recorder = { keep = "count" }', [-9, 60, 1e300], [0, 15, 15]),
    ],
)
def test_a_number_becomes_a_value(body, edges, positions):
    query = read(body)
    assert [query.recorder.value_of(amount, query.domain) for amount in edges] == positions


MISSING_PERIOD = NAMED.replace('period = "1d"\n', "")


@pytest.mark.parametrize(
    ("body", "texts"),
    [
        (NAMED + "recorder = 3", ["recorder: must be a table such as {", "edges = [0, 1, 2, 5]", "got 3"]),
        (NAMED + 'recorder = { kep = "count" }', ["recorder.kep: unknown key; did you mean 'keep'?"]),
        (NAMED + "recorder = {}", ["recorder.keep: is missing", "count, max, last", 'keep = "count"']),
        (NAMED + 'recorder = { keep = "sum" }', ["recorder.keep: must be one of count, max", "got 'sum'"]),
        (MISSING_PERIOD + COUNT, ["period: is missing", 'period = "1d"']),
        (NAMED + 'recorder = { keep = "days", edges = [0, 1, 2, 5] }\n', []),
        (SIZE.replace("7d", "12h") + 'recorder = { keep = "days" }', ["period: must be 1 to 31 whole days", '"7d"']),
        (SIZE.replace("7d", "32d") + 'recorder = { keep = "days" }', ["period: must be 1 to 31 whole days"]),
        (SIZE.replace("7d", "25h") + 'recorder = { keep = "days" }', ["period: must be 1 to 31 whole days", "90000s"]),
        (NAMED + "other = true\n" + COUNT, ["other: must be false", "other = false"]),
        (NAMED + 'recorder = { keep = "count" }', ["recorder.edges: is missing", "4 rising", "[0, 1, 2, 3]"]),
        (NAMED + 'recorder = { keep = "count", edges = [0, 1] }', ["recorder.edges: must be 4 rising", "got [0, 1]"]),
        (NAMED + 'recorder = { keep = "count", edges = [1, 2, 3, 4] }', ["edges: must be 4 rising", "the first 0"]),
        (NAMED + 'recorder = { keep = "count", edges = [0, 2, 2, 4] }', ["edges: must be 4 rising"]),
        (NAMED + 'recorder = { keep = "count", edges = [0, 1, 2, 9007199254740992] }', ["edges", "9007199254740991"]),
        (NAMED + 'recorder = { keep = "count", edges = 4 }', ["edges: must be 4 rising", "got 4"]),
        (NAMED + 'recorder = { keep = "step", edges = [0, 1, 2, 3], empty = "1" }', ["recorder.edges: must be absent"]),
        (SIZE + 'recorder = { keep = "count", edges = [0, 1] }', ["recorder.edges: must be absent unless"]),
        (NAMED + 'recorder = { keep = "last" }', ["recorder.empty: is missing", 'such as "none"']),
        (NAMED + 'recorder = { keep = "last", empty = "x" }', ["recorder.empty: must be a value", "got 'x'"]),
        (SIZE + 'recorder = { keep = "max", empty = 8 }', ["recorder.empty", "from 0 to 7, such as 0", "got 8"]),
        (SCALE + 'recorder = { keep = "max", empty = 61 }', ["recorder.empty", "from -1.5 to 60", "got 61"]),
        (SCALE + 'recorder = { keep = "max", empty = true }', ["recorder.empty", "from -1.5 to 60", "got True"]),
        (NAMED + COUNT.replace("}", ', empty = "none" }'), ["recorder.empty: must be absent", "number 0"]),
        (
            'attributes = { a = 2, b = 2 }\nepsilon = 1.0\npane = "1h"\nperiod = "1h"\nrecorder = { keep = "count" }',
            ["recorder: must be absent with attributes", 'domain = ["no", "yes"]'],
        ),
        (
            (
                'domain = { discover = "text", length = 8 }\nepsilon = 1.0\npane = "1h"\nperiod = "1h"\n'
                'recorder = { keep = "count" }'
            ),
            ["recorder: must be absent", "a scale"],
        ),
    ],
)
def test_each_error_names_the_key_the_range_and_an_example(body, texts):
    if not texts:
        read(body)
        return
    with pytest.raises(QueryError) as error:
        read(body)
    message = str(error.value)
    assert message.startswith("hubbub.toml: queries.saves.")
    for text in texts:
        assert text in message


def test_the_key_needs_formats_version_3():
    (text,) = early_keys([read(NAMED + COUNT)], Formats(2, "0.2.0"))
    assert "the query key `recorder` needs formats version 3" in text


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (
            NAMED + COUNT,
            "Each device counts on the device, and tells once a day one of four answers about the day before.",
        ),
        (
            SIZE + 'recorder = { keep = "days" }',
            (
                "Each device counts its days of use on the device, and tells once a week one of eight answers "
                "about the week before."
            ),
        ),
        (
            SCALE.replace('period = "1h"', 'period = "36h"') + 'recorder = { keep = "max", empty = 0 }',
            (
                "Each device keeps the largest number on the device, and tells once in 36 hours one of 16 answers "
                "about the 36 hours before."
            ),
        ),
        (
            SIZE + 'recorder = { keep = "since", empty = 7 }',
            (
                "Each device keeps the time of its last use on the device, and tells once a week one of eight answers "
                "about the time since then, counted in periods."
            ),
        ),
    ],
)
def test_check_says_in_words_what_a_device_keeps(body, text):
    assert sentence(read(body)) == text
    assert sentence(read(NAMED)) is None


def test_check_prints_the_sentence_and_no_warning_of_silent_clients(tmp_path, capsys):
    (tmp_path / "hubbub.toml").write_text(f"edition = 2\n[queries.saves]\n{NAMED}{COUNT}")
    with chdir(tmp_path):
        assert check.main(["hubbub.toml", "saves"]) == 0
    output = " ".join(capsys.readouterr().out.split())
    assert "device Each device counts on the device, and tells once a day one of four answers" in output
    assert "sends nothing, which reveals that" not in output


def test_no_client_answers_for_a_recorder_and_none_is_charged():
    client = Client(read(NAMED + COUNT), ":memory:", clock=lambda: 10.0 * 86_400)
    with pytest.raises(ReportError, match="has a recorder"):
        client.answer("none")
    assert client.spent == 0
