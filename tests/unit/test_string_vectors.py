"""The golden vectors of unknown strings, reproduced by the package and by a client that knows only the wire format."""

import json
from pathlib import Path

import pytest

from oracles.query import parse
from producers import Client
from tests.unit.fixed_source import Fixed
from tests.unit.reference_client import Stream
from tests.unit.reference_strings import Strings

GROUPS = json.loads((Path(__file__).parents[1] / "vectors" / "strings.json").read_text())["definitions"]
PAGE = (Path(__file__).parents[2] / "docs" / "wire-format.md").read_text()


def query_of(group):
    """Return the query of a group's canonical JSON."""
    meaning = json.loads(group["canonical"])
    domain = dict(meaning["domain"])
    table = {
        "normal": domain.pop("normal"),
        "domain": domain,
        "pane": f"{meaning['pane']}s",
        "answers": group["answers"],
    }
    table |= {key: meaning[key] for key in ("epsilon", "oracle", "buckets", "table") if key in meaning}
    table |= {"noise": "table" if "table" in meaning else "each", "budget": 4 * meaning["epsilon"], "period": "1d"}
    return parse({"queries": {meaning["name"]: table}}, "vectors", None)[meaning["name"]]


def each_group(test):
    return pytest.mark.parametrize("group", GROUPS, ids=lambda group: group["digest"])(test)


@each_group
def test_package_has_the_definitions_and_codes(group):
    query = query_of(group)
    assert (query.canonical, query.digest.hex()) == (group["canonical"], group["digest"])
    assert (query.strings.chunks, query.strings.slots) == (group["chunks"], group["slots"])
    assert (query.record_charge, query.thresholds) == (group["charge"], group["thresholds"])
    for case in group["texts"]:
        numbers = query.strings.numbers(case["text"])
        assert (numbers.tolist(), query.strings.text(numbers)) == (case["numbers"], case["name"])
        assert query.strings.cells_of(case["text"]).tolist() == case["cells"]


@each_group
def test_reference_client_has_the_codes(group):
    strings = Strings(group["canonical"])
    assert (strings.digest.hex(), strings.chunks, strings.slots) == (group["digest"], group["chunks"], group["slots"])
    for case in group["texts"]:
        assert (strings.numbers(case["text"]), strings.name(case["text"])) == (case["numbers"], case["name"])
        assert [strings.cell(case["text"], part) for part in range(strings.levels + 4)] == case["cells"]


@each_group
def test_reports_of_random_bytes_are_the_same(group):
    query, strings = query_of(group), Strings(group["canonical"])
    for case in group["reports"]:
        source, stream = Fixed(bytes.fromhex(case["entropy"])), Stream(bytes.fromhex(case["entropy"]))
        report = query.oracle.perturb(query.strings.cells_of(case["text"])[None, :], source)
        assert report.tobytes().hex() == strings.report(case["text"], stream).hex() == case["report"]
        assert not source.left
        assert stream.used == len(stream.data)


@each_group
def test_answers_of_a_device_key_are_the_same(group):
    query, strings, key = query_of(group), Strings(group["canonical"]), bytes.fromhex(group["key"])
    for case in group["texts"]:
        client = Client(query, ":memory:", key=key, max_epsilon=1000.0, clock=lambda: 1_700_000_000.0)
        mode = int(group["answers"] == "fresh")
        assert client.answer(case["text"]).tobytes().hex() == case["answer"]
        assert strings.keyed(case["text"], key, mode, 0).hex() == case["answer"]


def test_the_page_has_the_first_definition_as_its_example():
    group = GROUPS[0]
    assert group["canonical"] in PAGE
    assert group["digest"] in PAGE
    oom = next(case for case in group["texts"] if case["text"] == "oom")
    assert f"`{oom['answer']}`" in PAGE
    assert ", ".join(map(str, oom["cells"])) in PAGE
