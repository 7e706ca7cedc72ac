"""The core lives the lives of tests/vectors: each frame, error, time, charge and item."""

import json

import pytest

from tests.core.compiler import ROOT
from tests.core.device import Device, query_of
from tests.core.lives import differences

VECTORS = ROOT / "tests" / "vectors"
HISTORIES = json.loads((VECTORS / "histories.json").read_text())


@pytest.mark.parametrize("life", HISTORIES, ids=lambda life: f"{life['name']}, key {life['key'][:2]}")
def test_a_device_lives_as_the_vectors_say(life):
    assert list(differences(life)) == []


def test_strings_have_the_cells_of_the_vectors():
    strings = json.loads((VECTORS / "strings.json").read_text())["definitions"]
    count = 0
    for case in strings:
        code, query = query_of(listing_of(case))
        assert code == "OK"
        for text in case["texts"]:
            device = Device(bytes.fromhex(case["key"]), max_epsilon=99.0)
            assert device.bind() == "OK"
            code, frame = device.answer(query, text["text"], 1_700_000_000)
            assert code == "OK"
            assert frame[40:].hex() == text["answer"], text
            count += 1
        assert device.account(query, 0).spent == case["charge"]
    assert count > 20


def listing_of(case):
    """Return the item of a definition in strings.json."""
    meaning = json.loads(case["canonical"])
    rules = {"answers": case["answers"], "budget": 99.0, "renew": None, "period": 86400}
    return {**meaning, **rules, "digest": case["digest"], "thresholds": case["thresholds"], "width": case["width"]}
