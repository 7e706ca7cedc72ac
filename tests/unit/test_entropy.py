"""Randomness, with exact draws from a stream of bytes and an error without entropy."""

import os

import numpy as np
import pytest

from oracles import oracle
from oracles.errors import EntropyError, ParameterError
from oracles.mechanisms.chance import ONE
from oracles.mechanisms.entropy import Seeded, Source, System, source
from oracles.multi import multi


class Bytes(Source):
    def __init__(self, data):
        self.data = data

    def raw(self, count):
        assert len(self.data) >= count, "more was read than expected"
        data = self.data[:count]
        self.data = self.data[count:]
        return np.frombuffer(data, np.uint8)


@pytest.mark.parametrize("failure", [OSError("no device"), NotImplementedError("none here")])
def test_nothing_is_perturbed_without_entropy(monkeypatch, failure):
    def fail(count):
        raise failure

    monkeypatch.setattr(os, "urandom", fail)
    for subject, values in (
        (oracle("oue", epsilon=1.0, size=4), [1]),
        (multi("smp", sizes=[2, 3], epsilon=1.0), [[0, 1]]),
    ):
        with pytest.raises(EntropyError, match="no value was perturbed"):
            subject.perturb(values)


def test_too_little_entropy_is_a_failure(monkeypatch):
    monkeypatch.setattr(os, "urandom", lambda count: bytes(count - 1))
    with pytest.raises(EntropyError, match="7 of 8 bytes"):
        System().raw(8)


def test_clients_draw_from_the_system_and_never_repeat(monkeypatch):
    requests = []
    real = os.urandom
    monkeypatch.setattr(os, "urandom", lambda count: requests.append(count) or real(count))
    np.random.seed(1)  # noqa: NPY002 - the legacy global state must have no influence
    o = oracle("oue", epsilon=1.0, size=512)
    first_reports = o.perturb([3])
    second = o.perturb([3])
    assert not np.array_equal(first_reports, second)
    assert sum(requests) >= 2 * 512


def test_a_seeded_simulation_repeats_itself():
    o = oracle("ss", epsilon=1.0, size=40)
    first_reports, second_reports = (o.perturb(np.arange(40), np.random.default_rng(5)) for _ in range(2))
    assert np.array_equal(first_reports, second_reports)


def test_a_source_is_a_generator_or_nothing():
    assert isinstance(source(None), System)
    assert isinstance(source(np.random.default_rng(1)), Seeded)
    for wrong_value in (1, "seed", np.random.RandomState(1)):
        with pytest.raises(ParameterError, match="Generator"):
            source(wrong_value)


def test_an_event_is_decided_by_its_first_byte_and_ties_by_seven_more():
    threshold = (5 << 56) | 1000
    below = (999).to_bytes(7, "little")
    middle = (1000).to_bytes(7, "little")
    above = (2**56 - 1).to_bytes(7, "little")
    stream = Bytes(bytes([4, 5, 6, 5, 5]) + below + middle + above)
    assert stream.events(threshold, 5).tolist() == [True, True, False, False, False]
    assert not stream.data
    assert Bytes(bytes([127, 128])).events(ONE >> 1, 2).tolist() == [True, False], "no tie where the rest is zero"


def test_ties_in_large_draws_are_broken_at_every_position():
    first = np.full(1 << 14, 9, np.uint8)
    first[[0, 7, 8, 5000, (1 << 14) - 1]] = 5
    low = [(i % 2).to_bytes(7, "little") for i in range(5)]
    events = Bytes(first.tobytes() + b"".join(low)).events((5 << 56) | 1, 1 << 14)
    assert np.flatnonzero(events).tolist() == [0, 8, (1 << 14) - 1]


def test_integers_below_a_bound_are_drawn_by_rejection():
    stream = Bytes(bytes([0xF7, 0x05, 0x06, 0x09, 0x03]))
    assert stream.below(6, 3).tolist() == [1, 5, 3], "7 and 6 are rejected; then theirs are drawn again, in order"
    assert stream.below(1, 4).tolist() == [0, 0, 0, 0], "nothing to choose, nothing read"
    assert Bytes(bytes([1, 2, 3, 0xF4])).below(1 << 26, 1).tolist() == [0x00030201]
    assert Bytes(bytes([1, 0, 0, 0, 2, 0, 0, 0])).below((1 << 33) + 2, 1).tolist() == [(2 << 32) + 1]


def test_a_subset_with_a_tie_at_its_edge_is_drawn_again():
    keys = lambda *numbers: b"".join(number.to_bytes(4, "little") for number in numbers)
    stream = Bytes(keys(5, 5, 9) + keys(2, 7, 1) + keys(8, 3, 4))
    assert stream.subsets(2, 3, 1).tolist() == [[False, True, False], [False, False, True]]
    assert not stream.data
    assert Bytes(b"").subsets(2, 3, 0).tolist() == [[False] * 3] * 2
    assert Bytes(b"").subsets(1, 2, 2).tolist() == [[True] * 2]
