"""The key `lengthened`: errors that allow for devices which stay in a round longer than `renew` says."""

import pytest

from hubbub.definitions.table import dump, query_of
from oracles.errors import QueryError
from oracles.query import parse
from tests.queries import make_query

ROUNDS = {"domain": 8, "oracle": "hr", "period": "1d", "renew": "7d", "windows": ["30d"]}
DAY = 86_400


def query(edition=2, **keys):
    return make_query({**ROUNDS, **keys}, edition=edition)


@pytest.mark.parametrize("edition", [1, 2])
def test_earlier_editions_count_the_periods_of_a_round(edition):
    assert query(edition).repeats(0, 30 * DAY) == 7
    assert query(edition, lengthened=True).repeats(0, 30 * DAY) == 30
    assert query(edition, lengthened=True).repeats(100, DAY) == 1


def test_edition_3_counts_each_period():
    assert query(3).repeats(0, 30 * DAY) == 30
    assert query(3, lengthened=False).repeats(0, 30 * DAY) == 7
    assert query(3, renew="30d", answers="once").repeats(0, 30 * DAY) == 30
    assert query(3, answers="once").repeats(0, 30 * DAY) == 7, "the report of once stays for its round alone"
    assert query(3, answers="fresh").repeats(0, 30 * DAY) == 1


def test_edition_3_changes_no_digest_of_edition_2():
    for keys in ({}, {"renew": "30d"}, {"answers": "once"}, {"oracle": "auto", "domain": 1000, "epsilon": 2.0}):
        assert query(3, **keys).digest == query(2, **keys).digest


@pytest.mark.parametrize("keys", [{"answers": "once"}, {"answers": "fresh"}])
@pytest.mark.parametrize("lengthened", [True, False])
def test_other_answers_have_no_such_key(keys, lengthened):
    with pytest.raises(QueryError, match="lengthened: must be absent"):
        query(**keys, lengthened=lengthened)
    with pytest.raises(QueryError, match="lengthened: must be absent"):
        make_query({"domain": 8, "lengthened": lengthened})


def test_only_a_definition_that_uses_the_key_has_it_in_the_topic():
    assert "lengthened" not in dump(query())
    assert "lengthened" not in dump(query(3, lengthened=False))
    table = dump(query(3))
    assert table["lengthened"] is True
    assert query_of("q", table).repeats(0, 30 * DAY) == 30
    assert query_of("q", dump(query(3, lengthened=False))).repeats(0, 30 * DAY) == 7


def test_a_later_edition_is_refused():
    with pytest.raises(QueryError, match="edition: must be a whole number from 1 to 3"):
        parse({"edition": 4, "queries": {"q": ROUNDS}}, "file", None)
