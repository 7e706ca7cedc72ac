"""The keys `about`, `purpose`, `contact` and `public`: what a query says to the people who answer it."""

import json

import pytest

from hubbub.definitions.formats import Formats
from hubbub.definitions.key_formats import early_keys
from hubbub.definitions.table import dump, query_of
from oracles.errors import QueryError
from oracles.query.public_definition import public_definition
from producers.errors import NotAllowed
from producers.pins import MEMBERS, check_pins, pins_of
from producers.publishers.pinned_query import pin_query
from tests.queries import make_query

TEXTS = {
    "about": "How often a person saved a document in a day",
    "purpose": "Decide whether saving needs a button",
    "contact": "privacy@example.org",
}


def ask(**keys):
    return make_query(domain=["yes", "no"], **keys)


def test_they_change_neither_the_digest_nor_the_table_of_a_query_without_them():
    plain, query = ask(), ask(**TEXTS, public=True)

    assert query.digest == plain.digest
    assert not {*TEXTS, "public"} & dump(plain).keys()
    assert not TEXTS.keys() & public_definition(plain).keys()


def test_the_topic_and_the_listing_hold_them():
    query = ask(**TEXTS, public=True)

    assert query_of(query.name, dump(query)) == query
    assert {name: public_definition(query)[name] for name in TEXTS} == TEXTS
    # Whether results are public is the operator's concern, and no device acts on it.
    assert "public" not in public_definition(query)


@pytest.mark.parametrize("key", TEXTS)
@pytest.mark.parametrize(
    "text",
    ["", " ", "x" * 501, "two\nlines", "\x1b]0;title\x07", "right\u202eto left", 7],
    ids=["empty", "blank", "long", "lines", "escape", "direction", "number"],
)
def test_a_text_that_cannot_be_shown_in_one_line_is_refused(key, text):
    with pytest.raises(QueryError, match=rf"{key}: must be a text of 1 to 500 characters in one line"):
        ask(**{key: text})


def test_public_is_true_or_false():
    with pytest.raises(QueryError, match="public: must be true or false"):
        ask(public="yes")


def test_workers_of_an_older_formats_version_are_not_given_them():
    sentences = [*early_keys([ask(**TEXTS, public=True)], Formats(2, "0.2.0"))]

    assert [sentence.split("`")[1] for sentence in sentences] == ["about", "contact", "public", "purpose"]
    assert not [*early_keys([ask(**TEXTS, public=True)], Formats(3, "0.3.0"))]


def test_an_application_can_pin_them():
    query, other = ask(**TEXTS), ask(**{**TEXTS, "about": "Where a person lives"})

    pins = pins_of(query)
    assert {name: pins[name] for name in TEXTS} == TEXTS
    check_pins(public_definition(query), pins)
    with pytest.raises(NotAllowed, match="pins about to"):
        check_pins(public_definition(other), pins)
    with pytest.raises(NotAllowed, match="pins contact to"):
        check_pins(public_definition(ask()), {"contact": TEXTS["contact"]})


def test_pins_of_a_query_without_them_are_those_of_older_clients():
    assert set(pins_of(ask(), digest=True)) == set(MEMBERS) - TEXTS.keys()


def test_a_client_reads_them_from_a_gateway():
    query = ask(**TEXTS)
    listing = json.dumps({"queries": [{**public_definition(query)}]}).encode()

    listed = pin_query(listing, query.name, 16.0, "the gateway")
    assert (listed.about, listed.purpose, listed.contact) == tuple(TEXTS.values())
