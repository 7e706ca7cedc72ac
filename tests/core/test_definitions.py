"""The core opens the definitions of tests/vectors, refuses the altered ones, and finds the positions of values."""

import ctypes
import json
import unicodedata

import pytest

from tests.core.compiler import ROOT
from tests.core.device import Device, opened, query_of

VECTORS = ROOT / "tests" / "vectors"
DEFINITIONS = json.loads((VECTORS / "definitions.json").read_text())
OUTSIDE = {None: "OK", "NotAllowed": "NotAllowed", "ParameterError": "Misuse"}
KEY = bytes(range(32))


def device():
    device = Device(KEY, max_epsilon=1e9)
    assert device.bind() == "OK"
    return device


@pytest.mark.parametrize("case", DEFINITIONS["good"], ids=lambda case: case["name"])
def test_a_good_definition_has_its_digest_charge_and_positions(case):
    definition = case["definition"]
    code, query = query_of(definition)
    assert code == "OK"

    first = device()
    answers = [value["value"] for value in case["values"] if value["positions"] is not None]
    assert first.answer(query, answers[0], 0)[0] == "OK"
    account = first.account(query, 0)
    assert bytes(account.digest).hex() == definition["digest"]
    assert account.spent == case["charge"]

    # Answers with equal positions have one report, and a value without a position is an error.
    reports = {}
    for value in case["values"]:
        code, frame = device().answer(query, value["value"], 0)
        assert code == ("ReportError" if value["positions"] is None else "OK"), value
        if frame:
            assert reports.setdefault(tuple(value["positions"]), frame) == frame


@pytest.mark.parametrize("case", DEFINITIONS["refused"], ids=lambda case: case["name"])
def test_an_altered_definition_is_refused(case):
    assert query_of(case["definition"], case["pinned"])[0] == "NotAllowed"


def test_a_definition_outside_of_the_pins_is_refused():
    for case in DEFINITIONS["outside"]:
        assert query_of(case["definition"], case["pinned"])[0] == OUTSIDE[case["error"]], case["pinned"]
    assert len(DEFINITIONS["outside"]) > 40


def good(name):
    return next(case["definition"] for case in DEFINITIONS["good"] if case["name"] == name)


def body_of(definition):
    return json.dumps(definition)


def test_a_body_may_have_several_items_and_the_last_of_a_name_counts():
    size, names = good("size"), {**good("names"), "name": "screens"}
    other = {**good("fewer buckets"), "name": "other"}
    code, query = opened(json.dumps({"queries": [size, other, names]}), "screens")
    assert code == "OK"
    assert device().answer(query, "a.example", 0)[0] == "OK"
    assert opened(json.dumps({"queries": [other]}), "screens")[0] == "NotAllowed"
    assert opened(json.dumps({"queries": []}), "screens")[0] == "NotAllowed"


def test_keys_and_texts_may_be_escaped():
    text = body_of(good("names that JSON escapes"))
    assert "\\ud83d\\udc1d" in text
    escaped = "".join(f"\\u{ord(letter):04X}" for letter in "epsilon")
    assert opened(text.replace('"epsilon"', f'"{escaped}"'), "screens")[0] == "OK"
    for units in ("\\ud83d", "\\udc1d\\ud83d", "\\ud83dx", "\\u12", "\\x", "\x01"):
        assert opened(text.replace("\\ud83d\\udc1d", units), "screens")[0] == "NotAllowed", units


def test_a_key_twice_is_refused_also_if_it_is_escaped():
    text = body_of(good("size"))
    for member in ('"pane": 10', '"p\\u0061ne": 10', '"more": 1, "more": 1'):
        assert opened(text[:-1] + f", {member}}}", "screens")[0] == "NotAllowed"
    assert opened(text[:-1] + ', "more": {"more": [1, {"more": 1}]}}', "screens")[0] == "OK"


@pytest.mark.parametrize(
    ("number", "code"),
    [("1.0", "OK"), ("1", "OK"), ("1e0", "OK"), ("10.0e-1", "OK"), ("1.00000000000000001", "NotAllowed")],
)
def test_the_canonical_form_follows_from_the_digits_alone(number, code):
    text = body_of(good("size")).replace('"epsilon": 1.0', f'"epsilon": {number}')
    assert opened(text, "screens")[0] == code


@pytest.mark.parametrize("number", ["0.30000000000000004441", "0.3000000000000000444", "3.0000000000000005e-1"])
def test_a_number_that_is_not_in_its_shortest_form_is_refused(number):
    text = body_of(good("an epsilon of many digits"))
    assert opened(text, "screens")[0] == "OK"
    assert opened(text.replace('"epsilon": 0.30000000000000004', f'"epsilon": {number}'), "screens")[0] == "NotAllowed"


def test_listed_edges_are_not_read():
    definition = good("numbers with a large end")
    values = next(case["values"] for case in DEFINITIONS["good"] if case["definition"] is definition)
    code, query = query_of({**definition, "edges": [0.0, 1.0]})
    assert code == "OK"
    _, own_query = query_of(definition)
    numbers = [value["value"] for value in values if value["positions"]]
    assert [device().answer(query, number, 0) for number in numbers] == [
        device().answer(own_query, number, 0) for number in numbers
    ]


def test_names_are_compared_in_normal_form():
    _, query = query_of(good("names in two forms of Unicode"))
    forms = [unicodedata.normalize(form, "café") for form in ("NFC", "NFD")]
    assert forms[0] != forms[1]
    assert len({device().answer(query, text, 0) for text in forms}) == 1


@pytest.mark.parametrize("text", [b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"a\xe2\x82"])
def test_a_text_that_is_no_utf8_is_charged_and_no_answer(text):
    _, query = query_of(good("names"))
    own = device()
    assert own.answer(query, text, 0) == ("ReportError", None)
    assert own.account(query, 0).spent > 0


def test_no_body_of_other_bytes_is_accepted():
    text = body_of(good("attributes for life"))
    for size in range(len(text)):
        assert opened(text[:size], "screens")[0] == "NotAllowed"
    for body in ("[" * 100, '{"queries": ' * 9, "", " ", "{}", "null", '"', "1", "[1]", '{"queries": [1, []]}'):
        assert opened(body, "screens")[0] == "NotAllowed"


def test_a_query_that_is_not_open_is_misuse():
    _, query = opened("{}", "screens")
    own = device()
    assert own.answer(query, 0, 0)[0] == "Misuse"
    assert opened(None, "screens")[0] == "Misuse"
    assert opened("{}", "x" * 256)[0] == "Misuse"
    assert ctypes.sizeof(query) == 32768
