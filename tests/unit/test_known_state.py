"""The age of a gateway's state. No clock of a device is trusted alone, so each jump makes the client ask again."""

from math import inf

import pytest

from producers.errors import DeliveryError, NotAllowed, Stopped
from producers.publishers.known_state import FRESH, KnownState, Moment, StateOfQuery, refuse_stopped, usable

YEAR = 365 * 86_400.0
READ_AT = Moment(1_700_000_000.0, 5_000.0)
DIGEST = "0123456789abcdef"
STATE = KnownState({"page": StateOfQuery(DIGEST, is_stopped=False)}, READ_AT)
STORED = KnownState.restore(STATE.dump())


def after(wall, monotonic):
    return Moment(READ_AT.wall + wall, READ_AT.monotonic + monotonic)


@pytest.mark.parametrize(
    ("wall", "monotonic", "age"),
    [
        pytest.param(60.0, 60.0, 60.0, id="clocks that agree"),
        pytest.param(60.0 - YEAR, 60.0, inf, id="a wall clock that jumped back by a year"),
        pytest.param(60.0 + YEAR, 60.0, 60.0 + YEAR, id="a wall clock that jumped forward by a year"),
        pytest.param(8 * 3600.0, 1.0, 8 * 3600.0, id="a monotonic clock that stood still while the laptop slept"),
        pytest.param(1.0, 8 * 3600.0, 8 * 3600.0, id="a wall clock that stands still"),
    ],
)
def test_the_age_is_the_larger_of_two_clocks(wall, monotonic, age):
    assert STATE.age(after(wall, monotonic)) == age
    assert STATE.is_fresh(after(wall, monotonic)) == (age < FRESH)


def test_a_state_is_enough_for_ten_minutes():
    assert STATE.is_fresh(after(599.9, 599.9))
    assert not STATE.is_fresh(after(600.0, 599.9))
    assert not STATE.is_fresh(after(599.9, 600.0))


def test_after_a_restart_the_client_asks_again():
    # The monotonic clock of a new process may be lower than that of the old one.
    for monotonic in (-5_000.0, 0.0, 60.0):
        assert not STORED.is_fresh(after(1.0, monotonic))
        assert STORED.age(after(1.0, monotonic)) == 1.0
    assert STORED.age(after(-0.1, 1.0)) == inf


@pytest.mark.parametrize("state", [STATE, STORED])
def test_without_contact_a_state_is_enough_for_the_lateness(state):
    lateness = 2 * 86_400.0
    assert usable(state, after(lateness - 1, lateness - 1), lateness) is state
    for moment in (after(lateness, 1.0), after(-YEAR, 60.0), after(YEAR, 60.0)):
        with pytest.raises(DeliveryError, match="too late"):
            usable(state, moment, lateness)
    with pytest.raises(DeliveryError):
        usable(None, READ_AT, lateness)


def test_a_short_lateness_does_not_end_a_fresh_state():
    assert usable(STATE, after(599.0, 599.0), 5.0) is STATE
    with pytest.raises(DeliveryError):
        usable(STORED, after(5.0, 0.0), 5.0)


def test_a_stored_state_is_the_one_that_was_read():
    assert STORED.queries == STATE.queries
    assert KnownState.restore(KnownState(None, READ_AT).dump()).queries is None


def state_of(*, is_stopped, digest=DIGEST):
    return KnownState({"page": StateOfQuery(digest, is_stopped)}, READ_AT)


def test_only_the_present_definition_of_a_running_query_is_answered():
    refuse_stopped(state_of(is_stopped=False), "page", DIGEST)
    refuse_stopped(KnownState(None, READ_AT), "page", DIGEST)
    with pytest.raises(Stopped, match="nothing was charged"):
        refuse_stopped(state_of(is_stopped=True), "page", DIGEST)
    with pytest.raises(Stopped):
        refuse_stopped(state_of(is_stopped=True, digest="f" * 16), "page", DIGEST)
    with pytest.raises(NotAllowed, match="another definition"):
        refuse_stopped(state_of(is_stopped=False, digest="f" * 16), "page", DIGEST)
    with pytest.raises(NotAllowed, match="does not count"):
        refuse_stopped(state_of(is_stopped=False), "other", DIGEST)


GOOD = (
    b'{"queries": {"page": {"digest": "0123456789abcdef", "item": "00", "stopped": true, "sample": 1}}, "asked": null}'
)


def test_a_state_is_read_from_an_answer():
    state = KnownState.parse(GOOD, READ_AT)
    assert state.queries == {"page": StateOfQuery(DIGEST, is_stopped=True)}
    assert state.is_stopped(DIGEST)
    assert not state.is_stopped("f" * 16)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b'{"queries": []}',
        b'{"queries": {"page": 1}}',
        b'{"queries": {"page": {"digest": 1}}}',
        GOOD.replace(b"true", b"1"),
        GOOD.replace(b'"0123456789abcdef"', b"7"),
        b'{"queries":' + b"[" * 100_000,
    ],
)
def test_a_malformed_state_is_a_value_error(body):
    with pytest.raises(ValueError):  # noqa: PT011 - of json, or of the reader
        KnownState.parse(body, READ_AT)


@pytest.mark.parametrize("text", [b"", b"{}", b'{"read_at": 1, "queries": null}', b'{"read_at": NaN, "queries": null}'])
def test_a_damaged_file_is_a_value_error(text):
    with pytest.raises(ValueError):  # noqa: PT011 - of json, or of the reader
        KnownState.restore(text)
