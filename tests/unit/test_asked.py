"""Lists that people sign: their bytes, their chain, and the attacks that a device withstands."""

import json
from dataclasses import replace

import pytest

from hubbub.asked.asked_list import AskedError, read_list
from hubbub.asked.document import LARGEST, canonical, document_of, hash_of
from hubbub.asked.list_folder import read_folder
from hubbub.asked.next_list import draft
from hubbub.asked.trust import MOST_STEPS, Trust
from hubbub.asked.words import changes
from oracles.errors import ParameterError, QueryError
from oracles.query.public_definition import public_definition
from tests.asked import APPLICATION, DAY, KEYS, NOW, PEOPLE, ask, make_list

TRUST = Trust(APPLICATION, KEYS, 2)


def item_of(query):
    return json.loads(json.dumps(public_definition(query)))


# The bytes


def test_a_list_is_read_as_it_was_written():
    signed_list = make_list(ask(), ask("crashes"))

    assert read_list(signed_list.file) == signed_list
    short_list = read_list(signed_list.served)
    assert short_list.hash == signed_list.hash
    assert TRUST.accept(None, [short_list], NOW) == short_list
    assert all(question.document is None for questions in short_list.queries.values() for question in questions)


def test_signatures_may_come_later_and_change_no_hash():
    draft_list = make_list(ask(), people=())
    assert draft_list.signed_bytes.startswith(b'hubbub asked 1\n{"application":"Example Notes","expires":')
    assert make_list(ask()).hash == draft_list.hash
    with pytest.raises(AskedError, match="has a signature of the key"):
        make_list(ask(), people=(PEOPLE[0], PEOPLE[0]))


def test_members_that_an_operator_changes_alone_are_not_in_a_document():
    item = item_of(ask())
    document = document_of(item)

    assert hash_of(document) == hash_of(document_of({**item, "spread": 8, "stopped": True, "sample": 0.5}))
    # A release that knows more members changes no document of a query without them.
    assert document_of({**item, "recorder": None, "arms": None, "experiment": None}) == document
    assert hash_of(document_of({**item, "recorder": {"keep": "count"}})) != hash_of(document)


@pytest.mark.parametrize("member", ["answers", "budget", "period", "about", "purpose", "contact", "lateness", "until"])
def test_a_member_that_no_digest_covers_is_bound(member):
    item = item_of(ask())
    other = {**item, member: {"answers": "once", "budget": 99.0}.get(member, "other")}

    signed_list = make_list(ask())
    TRUST.check(item, signed_list, NOW)
    with pytest.raises(AskedError, match=r"the definition of 'saves' is not in list 1"):
        TRUST.check(other, signed_list, NOW)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"null",
        b"\xff",
        b"[" * 100_000,
        b'{"application":1}',
        make_list(ask()).file + b"\n",
        make_list(ask()).file.replace(b'"number":1', b'"number":1.0'),
        make_list(ask()).file.replace(b'"number":1', b'"number":true'),
        make_list(ask()).file.replace(b'{"application"', b'{"application":"x","application"'),
    ],
    ids=["empty", "list", "null", "bytes", "deep", "type", "line", "float", "boolean", "twice"],
)
def test_a_malformed_list_is_an_error_of_its_own(text):
    with pytest.raises(AskedError):
        read_list(text)


# The attacks


def test_a_list_with_any_other_byte_is_refused():
    text = make_list(ask()).served
    for place in range(len(text)):
        for bit in (1, 32):
            forgery = text[:place] + bytes([text[place] ^ bit]) + text[place + 1 :]
            with pytest.raises(AskedError):
                TRUST.accept(None, [read_list(forgery)], NOW)


def test_a_document_with_any_other_byte_is_refused():
    text = make_list(ask()).file
    start = text.index(b'"document"')
    for place in range(start, start + 600, 3):
        with pytest.raises(AskedError):
            read_list(text[:place] + bytes([text[place] ^ 1]) + text[place + 1 :])


@pytest.mark.parametrize(
    ("signed_list", "reason"),
    [
        (make_list(ask(), people=PEOPLE[:1]), "signed by 1 of 3 known keys, and needs 2"),
        (replace(make_list(ask()), signatures=make_list(ask()).signatures[:1] * 2), "signed by 1 of 3"),
        (replace(make_list(ask()), number=2), "signed by 0 of 3"),
        (make_list(ask(), application="Another"), "of application 'Another', not of 'Example Notes'"),
        (make_list(ask(), expires=NOW), "list 1 has expired"),
    ],
    ids=["one signature", "the same key twice", "other content", "another application", "expired"],
)
def test_a_first_list_is_refused(signed_list, reason):
    with pytest.raises(AskedError, match=reason):
        TRUST.accept(None, [signed_list], NOW)


def test_foreign_keys_do_not_count():
    signed_list = make_list(ask(), people=PEOPLE)
    with pytest.raises(AskedError, match="signed by 0 of 1 known keys"):
        Trust(APPLICATION, KEYS[:1], 1).accept(None, [replace(signed_list, signatures=signed_list.signatures[1:])], NOW)
    Trust(APPLICATION, KEYS[2:], 1).accept(None, [signed_list], NOW)


FIRST = make_list(ask())
SECOND = make_list(ask(), ask("crashes"), previous=FIRST)
THIRD = make_list(ask("crashes"), previous=SECOND)


def test_a_device_follows_the_chain_and_needs_signatures_of_the_newest_alone():
    assert TRUST.accept(FIRST, [SECOND], NOW) == SECOND
    assert TRUST.accept(FIRST, [replace(SECOND, signatures=()), THIRD], NOW) == THIRD
    assert TRUST.accept(SECOND, [SECOND], NOW) == SECOND
    assert [TRUST.first_needed(last_list, THIRD) for last_list in (None, FIRST, SECOND, THIRD)] == [3, 2, 3, 3]


@pytest.mark.parametrize(
    ("last_list", "newer", "reason"),
    [
        (SECOND, [FIRST], "list 1 is older than list 2"),
        (FIRST, [THIRD], "list 3 does not come after list 1"),
        (FIRST, [make_list(ask("other"))], "two lists with the number 1"),
        (SECOND, [make_list(ask("crashes"), previous=make_list(ask(), previous=FIRST))], "does not name the hash"),
        (FIRST, [replace(SECOND, application="Another"), THIRD], "of another application"),
        (FIRST, [make_list(ask("other"), previous=FIRST), THIRD], "list 3 does not name the hash of list 2"),
    ],
    ids=["rollback", "gap", "number used again", "rewritten", "another application", "swapped"],
)
def test_a_list_that_does_not_follow_is_refused(last_list, newer, reason):
    with pytest.raises(AskedError, match=reason):
        TRUST.accept(last_list, newer, NOW)


def test_a_gateway_cannot_make_a_device_read_without_end():
    far = make_list(ask(), number=MOST_STEPS + 2)
    with pytest.raises(AskedError, match="more than 1000 lists"):
        TRUST.first_needed(FIRST, far)


def test_a_release_with_new_keys_begins_anew_and_does_not_go_back():
    false_list = make_list(ask("where"), number=5, people=PEOPLE[:2])
    new_trust = Trust(APPLICATION, KEYS[2:], 1)
    good = make_list(ask(), number=6, people=PEOPLE[2:])

    assert new_trust.accept(false_list, [good], NOW) == good
    with pytest.raises(AskedError, match="list 4 is older than list 5"):
        new_trust.accept(false_list, [make_list(ask(), number=4, people=PEOPLE[2:])], NOW)


def test_an_expired_list_answers_nothing_more():
    TRUST.check(item_of(ask()), FIRST, FIRST.expires - 1)
    with pytest.raises(AskedError, match="list 1 has expired"):
        TRUST.check(item_of(ask()), FIRST, FIRST.expires)


@pytest.mark.parametrize(
    ("keys", "threshold"),
    [((), 1), (KEYS, 0), (KEYS, 4), (KEYS, True), (KEYS[:1] * 2, 1), (("ab",), 1), ((KEYS[0], KEYS[0].upper()), 1)],
)
def test_a_trust_that_could_not_hold_is_an_error_at_once(keys, threshold):
    with pytest.raises(ParameterError):
        Trust(APPLICATION, keys, threshold)


# The next list


def test_a_changed_question_keeps_its_former_document_for_one_list():
    other = ask(budget=5.0)
    second = make_list(other, previous=FIRST)
    for query in (ask(), other):
        TRUST.check(item_of(query), second, NOW)

    third = make_list(other, previous=second)
    TRUST.check(item_of(other), third, NOW)
    with pytest.raises(AskedError):
        TRUST.check(item_of(ask()), third, NOW)
    with pytest.raises(AskedError):
        TRUST.check(item_of(ask()), make_list(other, previous=FIRST, to_drop=["saves"]), NOW)


@pytest.mark.parametrize("key", ["about", "purpose", "contact", "until"])
def test_a_query_that_does_not_say_what_people_must_know_is_refused(key):
    query = replace(ask(), **{key: None})
    with pytest.raises(QueryError, match=f"query saves: a list needs {key}"):
        draft([query], APPLICATION, None, time_s=NOW, expires=NOW + DAY)


def test_of_a_long_document_the_list_has_the_hash():
    long = ask("long", domain=[f"a value with a long name, number {number}" for number in range(2000)])
    (question,) = make_list(long).queries["long"]

    assert len(canonical(document_of(item_of(long)))) > LARGEST
    assert question.document is None
    TRUST.check(item_of(long), make_list(long), NOW)


def test_changes_are_said_in_words_and_what_costs_more_stands_first():
    dear = ask("dear", epsilon=4.0, budget=8.0)
    lines = changes(FIRST, make_list(ask(budget=5.0), dear, previous=FIRST))

    assert [line.split()[0] for line in lines] == ["dear", "saves"]
    assert lines[0].startswith("dear is new. What: How often a person saved a document")
    assert "One report: changes the odds of any guess by a factor of at most 54.6" in lines[0]
    assert "budget was 4.0, is 5.0" in lines[1]
    assert changes(SECOND, THIRD) == ["saves is asked no more."]
    assert changes(FIRST, make_list(ask(), previous=FIRST)) == []


# The folder


def folder_of(path, *lists):
    for signed_list in lists:
        (path / f"{signed_list.number}.json").write_bytes(signed_list.file)
    return path


def test_a_folder_has_all_lists_in_order(tmp_path):
    assert read_folder(folder_of(tmp_path, FIRST, SECOND, THIRD)) == [FIRST, SECOND, THIRD]
    # Somebody may keep other files beside them.
    (tmp_path / "README.md").write_text("how we sign")
    assert len(read_folder(tmp_path)) == 3


@pytest.mark.parametrize(
    ("lists", "reason"),
    [
        ([], "has no list"),
        ([FIRST, THIRD], "list 3 does not come after list 1"),
        ([make_list(ask("other")), SECOND], "list 2 does not name the hash of list 1"),
    ],
)
def test_a_folder_with_a_fault_is_an_error(tmp_path, lists, reason):
    with pytest.raises(AskedError, match=reason):
        read_folder(folder_of(tmp_path, *lists))


def test_a_file_with_another_number_is_an_error(tmp_path):
    (tmp_path / "7.json").write_bytes(FIRST.file)
    with pytest.raises(AskedError, match=r"7\.json has list 1"):
        read_folder(tmp_path)
