"""Queries of unknown strings: the query file, the digest, the topic's definition, and the answers of clients."""

import json

import numpy as np
import pytest

from hubbub.definitions.table import dump, query_of
from hubbub.http.problem import Problem
from oracles.discover import Slots
from oracles.discover.alphabet import DEFAULT_ALPHABET
from oracles.errors import QueryError, ReportError
from oracles.frame import encode, encode_json
from producers import Client
from producers.errors import BudgetSpent, NotAllowed
from producers.gateway.intake.active_definitions import ServedDefinitions, public_definition
from producers.gateway.intake.submission import FRAMES, JSON, read
from producers.publishers.pinned_query import pin_query
from tests.queries import make_queries, make_query, make_table

TEXT = {"discover": "text", "length": 24}
BYTES = {"discover": "bytes", "length": 24}
KEY = bytes(range(32))
START = 1_700_000_000


def ask(domain=TEXT, edition=2, **settings):
    return make_query({"domain": domain, "epsilon": 2.0, "pane": "5m"}, **settings, name="crashes", edition=edition)


def test_the_digest_covers_the_coding_and_not_the_search():
    query = ask()
    domain = f'{{"alphabet":"{DEFAULT_ALPHABET}","cells":16,"discover":"text","length":24,"normal":"NFC lower"}}'
    start, end = '{"domain":', ',"epsilon":2.0,"format":1,"name":"crashes","oracle":"olh","pane":300,"table":5}'
    assert query.canonical == start + domain + end
    assert ask(known=["typeerror: x"], search="1h").digest == query.digest
    assert ask(normal="NFC").digest != query.digest
    short_answer = ask({**BYTES, "cells": 14}, answers="once", epsilon=4.0)
    domain = '{"cells":14,"discover":"bytes","length":24,"normal":"none"}'
    assert f'"domain":{domain},"epsilon":4.0,"format":1,"name":"crashes","oracle":"short"' in short_answer.canonical


@pytest.mark.parametrize("edition", [1, 2])
@pytest.mark.parametrize("domain", [TEXT, BYTES, {**TEXT, "alphabet": "ab…"[:2], "cells": 12}])
def test_a_definition_of_the_topic_is_the_same_query(edition, domain):
    query = ask(domain, edition, epsilon=1.0, known=["TypeError: x is undefined at last", ""], windows=["1h", "all"])
    again = query_of("crashes", json.loads(json.dumps(dump(query))))
    assert again == query
    assert again.digest == query.digest
    assert again.known == query.known
    assert again.search == 3_600
    assert again.oracle.width == query.oracle.width
    assert isinstance(again.oracle, Slots)
    assert again.strings.digest == query.digest


@pytest.mark.parametrize(
    ("epsilon", "answers", "oracle", "buckets", "width"),
    [
        (0.25, "life", "hr", None, 6),
        (1.0, "life", "olh", None, 10),
        (2.0, "life", "olh", None, 10),
        (4.0, "once", "short", None, 10),
    ],
)
def test_the_oracle_is_the_best_of_those_with_short_reports(epsilon, answers, oracle, buckets, width):
    query = ask(epsilon=epsilon, answers=answers)
    assert query.oracle_names == (oracle,)
    assert query.buckets == buckets
    assert query.oracle.width == width
    assert query.oracle.state_size == 16 * query.only_oracle.state_size + 16


def test_names_are_searched_in_the_longest_window_by_default():
    assert ask(windows=["5m", "2h", "all"]).search == 7_200
    assert ask(windows=["all"]).search == 3_600
    assert ask(windows=["all"], pane="7m").search == 9 * 420
    assert ask(windows=["5m"], search="10m").search == 600
    assert ask().methods == ()


def test_known_strings_are_coded_like_answers():
    assert ask(known=["TypeError: x is undefined!"]).known == ("typeerror: x is undefine…",)
    assert ask({**TEXT, "alphabet": "ab "}, known=["A-B"]).known == ("a b",)
    assert ask().known == ()


@pytest.mark.parametrize(
    ("settings", "key", "message"),
    [
        ({"domain": {"discover": "words", "length": 4}}, "domain.discover", "text, bytes"),
        ({"domain": {"discover": "text"}}, "domain.length", "from 1 to 128"),
        ({"domain": {"discover": "text", "length": 129}}, "domain.length", "from 1 to 128"),
        ({"domain": {**TEXT, "alphabet": "a"}}, "domain.alphabet", "2 to 255 different"),
        ({"domain": {**TEXT, "alphabet": "abca"}}, "domain.alphabet", "different"),
        ({"domain": {**TEXT, "alphabet": "ab…"}}, "domain.alphabet", "end of a name"),
        ({"domain": {**TEXT, "alphabet": "ab\ud800"}}, "domain.alphabet", "text"),
        ({"domain": {**BYTES, "alphabet": "ab"}}, "domain.alphabet", "absent"),
        ({"domain": {**TEXT, "cells": 11}}, "domain.cells", "12 to 16"),
        ({"domain": {**TEXT, "cells": 17}}, "domain.cells", "12 to 16"),
        ({"domain": {**TEXT, "size": 3}}, "domain.size", "unknown key"),
        ({"domain": {"discover": "bytes", "length": 128}}, "domain", "a smaller length"),
        ({"normal": "NFKC"}, "normal", "NFC lower"),
        ({"known": ["Oom", "oom"]}, "known", "coded differently"),
        ({"known": "oom"}, "known", "list"),
        ({"known": [3]}, "known", "text"),
        ({"domain": {"discover": "bytes", "length": 4}, "known": ["日本"]}, "known", "whole characters"),
        ({"search": "7m"}, "search", "multiple of the pane"),
        ({"pane": "4m"}, "pane", "at least 5m"),
        ({"oracle": "grr"}, "oracle", "hr, olh, full, short"),
        ({"oracle": "haar"}, "oracle", "hr, olh, full, short"),
        ({"sets": {"a": ["x"]}}, "sets", "absent"),
        ({"pairs": [["a", "b"]]}, "pairs", "absent"),
        ({"solution": "rsfd"}, "solution", "absent"),
        ({"groups": {"platform": ["ios"]}}, "groups", "no groups"),
        ({"methods": ["norm_sub"]}, "methods", "no methods"),
        ({"other": True}, "other", "last symbol"),
        ({"threshold": 0.1}, "threshold", "significance"),
        ({"domain": 4, "known": ["a"]}, "known", "unknown strings"),
        ({"domain": ["a", "b"], "normal": "none"}, "normal", "unknown strings"),
        ({"domain": ["a", "b"], "search": "1h"}, "search", "unknown strings"),
    ],
)
def test_what_unknown_strings_rule_out_is_refused_with_its_key(settings, key, message):
    with pytest.raises(QueryError, match=rf"^test: queries\.crashes\.{key}.*: .*{message}"):
        ask(**settings)


def test_unknown_strings_are_no_attribute():
    table = make_table(attributes={"crash": TEXT, "kind": ["a", "b"]}, epsilon=2.0, pane="5m")
    with pytest.raises(QueryError, match=r"attributes\.crash: must not be unknown strings"):
        make_queries({"crashes": table})


def test_a_client_answers_with_any_text_for_life(tmp_path):
    moment = [START]
    query = ask(period="5m")
    client = Client(query, tmp_path / "store", first=True, key=KEY, clock=lambda: moment[0])
    first_reports = client.answer("TypeError: x")
    assert first_reports.shape == (1, query.oracle.width)
    assert query.oracle.check(first_reports) is None
    for text in ("typeerror: X", "TYPEERROR: x"):
        moment[0] += 300
        assert client.answer(text).tolist() == first_reports.tolist()
    part = int.from_bytes(first_reports[0, :2].tobytes(), "little")
    charge = client.spent
    for text in ("", "é" * 400, "日本語", "x" * 25):
        moment[0] += 300
        report = client.answer(text)
        assert int.from_bytes(report[0, :2].tobytes(), "little") == part
        assert query.oracle.check(report) is None
    assert client.spent == charge == query.record_charge == pytest.approx(6.68522707860)
    moment[0] += 300
    with pytest.raises(ReportError, match="must be a text"):
        client.answer(3)


def test_a_client_is_silent_if_its_budget_does_not_allow_the_answer(tmp_path):
    with pytest.raises(BudgetSpent):
        Client(ask(), tmp_path / "store", first=True, key=KEY, max_epsilon=2.0)


def listing(query):
    return json.dumps({"queries": [public_definition(query)]}).encode()


@pytest.mark.parametrize("domain", [TEXT, BYTES])
def test_a_client_reads_the_listing_of_a_gateway(domain):
    query = ask(domain, normal="NFC")
    repeated_query = pin_query(listing(query), "crashes", 2.0, "gateway")
    assert repeated_query.digest == query.digest
    assert repeated_query.strings == query.strings
    with pytest.raises(NotAllowed, match="allows 1"):
        pin_query(listing(query), "crashes", 1.0, "gateway")


def test_a_listing_with_another_coding_than_its_digest_is_refused():
    text = listing(ask()).replace(b'"length": 24', b'"length": 23')
    with pytest.raises(QueryError, match="does not match"):
        pin_query(text, "crashes", 2.0, "gateway")


@pytest.mark.parametrize("domain", [TEXT, BYTES])
def test_a_hundred_thousand_texts_have_codes_and_reports(domain):
    """Texts of all lengths and scripts. The empty text, a NUL and composed accents are among them."""
    query = ask(domain)
    rng = np.random.default_rng(11)
    letters = np.array(list("abcXYZ019 .\N{LATIN SMALL LETTER E WITH ACUTE}\u65e5\u0448\u0301\0"))
    text = "".join(letters[rng.integers(0, len(letters), 3_000_000)])
    starts = rng.integers(0, 2_900_000, 100_000)
    lengths = rng.integers(0, 40, 100_000)
    texts = {"", *(text[i : i + n] for i, n in zip(starts.tolist(), lengths.tolist(), strict=True))}
    strings = query.strings
    rows = np.array([strings.numbers(text) for text in texts])
    assert (rows.max(axis=0) < (strings.coding.size + 1) ** np.array(strings.chunks)).all()
    cells = np.array([strings.cells_of(text) for text in list(texts)[:2_000]])
    assert query.oracle.check(query.oracle.perturb(cells, rng)) is None


@pytest.mark.parametrize("kind", [FRAMES, JSON])
def test_a_gateway_refuses_a_report_of_a_level_that_does_not_exist(kind):
    query = ask()
    at = 1000 * (START // 300 * 300) + 1000
    definitions = ServedDefinitions.of({query.name: query})
    reports = query.oracle.perturb(np.tile(query.strings.cells_of("oom"), (3, 1)), np.random.default_rng(1))
    pane = START // 300 * 300
    for part, is_good in ((query.strings.parts - 1, True), (query.strings.parts, False), (0xFFFF, False)):
        reports[1, :2] = np.frombuffer(part.to_bytes(2, "little"), np.uint8)
        body = encode_json(query.digest, pane, reports) if kind == JSON else encode(query.digest, pane, reports)
        if is_good:
            [submission] = read(body, kind, definitions, at, 1 << 20)
            assert submission.n == 3
        else:
            with pytest.raises(Problem) as caught:
                read(body, kind, definitions, at, 1 << 20)
            assert caught.value.more["reason"] == "malformed"


def test_levels_and_maps_are_drawn_by_their_slots():
    query = ask()
    strings = query.strings
    reports = query.oracle.perturb(np.tile(strings.cells_of("oom"), (30_000, 1)), np.random.default_rng(5))
    parts = np.ascontiguousarray(reports[:, :2]).view("<u2")[:, 0]
    shares = np.bincount(parts, minlength=strings.parts) / len(parts)
    expected = np.array([5] * strings.levels + [3] * 4) / strings.slots
    # Five standard errors of the largest share: false alarms below 1e-5 for 16 parts with this fixed seed.
    assert np.abs(shares - expected).max() < 5 * np.sqrt(expected.max() / len(parts))
    assert query.oracle.check(np.array([[strings.parts, 0, *[0] * (query.oracle.width - 2)]], np.uint8)) == 0
