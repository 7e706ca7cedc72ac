"""Rows in a random order. Each order has the same probability, with the kernel and with NumPy."""

from collections import Counter
from contextlib import nullcontext
from itertools import permutations

import numpy as np
import pytest
from scipy.stats import chi2

from oracles.kernels import c_library, orders

kernel = pytest.mark.skipif(
    not orders.can_shuffle(), reason="the kernels are not compiled here, or HUBBUB_KERNELS says so"
)
WAYS = {"numpy": c_library.numpy_alone, "kernel": nullcontext}

SIGMA = np.frombuffer(b"expand 32-byte k", "<u4")
ROUNDS = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15)), (
    (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14),
)  # fmt: skip


def chacha(key, blocks):
    """Return the first blocks of ChaCha20 with a nonce of zeros, a row of 16 words each."""
    start = np.zeros((16, blocks), np.uint32)
    start[:12] = np.concatenate([SIGMA, np.frombuffer(key, "<u4")])[:, None]
    start[12] = np.arange(blocks)
    x = start.copy()
    for quarters in ROUNDS * 10:
        for a, b, c, d in quarters:
            for first_word, second_word, third, by in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
                x[first_word] += x[second_word]
                x[third] ^= x[first_word]
                x[third] = x[third] << np.uint32(by) | x[third] >> np.uint32(32 - by)
    return (x + start).T


def shuffle_rows(rows, key=None, cuts=(0, 1)):
    """Return the rows of several pieces in another order."""
    pieces = np.split(rows, [min(cut, len(rows)) for cut in cuts])
    result = np.empty_like(rows)
    orders.shuffle(pieces, result) if key is None else orders.order(pieces, key, result)
    return result


@pytest.mark.parametrize(
    ("key", "block", "stream"),
    [
        (bytes(32), 0, "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"),
        (bytes(32), 1, "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"),
        (bytes(31) + b"\1", 1, "3aeb5224ecf849929b9d828db1ced4dd832025e8018b8160b82284f3c949aa5a"),
        (b"\0\xff" + bytes(30), 2, "72d54dfbf12ec44b362692df94137f328fea8da73990265ec1bbbea1ae9af0ca"),
    ],
)
def test_the_stream_to_compare_with_is_that_of_rfc_8439(key, block, stream):
    """The first four vectors of appendix A.1 of RFC 8439."""
    assert chacha(key, block + 1)[block].tobytes().startswith(bytes.fromhex(stream))


def expected(count, key):
    """Return the row at each place, and the number of skipped words."""
    words = chacha(key, -(-count // 4096) * 256 + 256).reshape(-1, 16, 16).swapaxes(1, 2).ravel()
    stream, order, skips = iter(words.tolist()), [], 0
    for i in range(count):
        places = i + 1
        while (word := next(stream) * places) % (1 << 32) < (1 << 32) % places:
            skips += 1
        place = word >> 32
        order.append(i)
        order[place], order[i] = i, order[place]
    return order, skips


@kernel
@pytest.mark.parametrize("width", [1, 2, 3, 4, 5, 8, 17, 128])
def test_the_kernel_goes_by_the_stream_alone(width):
    rng = np.random.default_rng(width)
    for count in (0, 1, 2, 255, 256, 257, 4096, 5000):
        key = rng.bytes(orders.KEY)
        octets = rng.integers(0, 256, count * width + 8, np.uint8)
        rows = octets[count % 8 :][: count * width].reshape(count, width)  # at any address
        earlier_rows = rows.copy()
        for cuts in ((), (0, 1), (3, 3, 250)):
            assert np.array_equal(shuffle_rows(rows, key, cuts), earlier_rows[expected(count, key)[0]])
        assert np.array_equal(rows, earlier_rows)


@kernel
def test_a_word_that_would_favour_some_places_is_skipped():
    key = bytes(range(32))
    rows = np.arange(150_000, dtype="<u4").view(np.uint8).reshape(-1, 4)
    order, skips = expected(len(rows), key)
    assert skips
    assert shuffle_rows(rows, key).view("<u4").ravel().tolist() == order


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("width", [4, 5])
def test_all_orders_have_the_same_probability(way, width):
    """A chi-square test of the 24 orders of four rows. A correct kernel fails once in a million runs."""
    rows = np.arange(4 * width, dtype=np.uint8).reshape(4, width)
    n = 6_000
    with WAYS[way]():
        counts = Counter(tuple(shuffle_rows(rows)[:, 0] // width) for _ in range(n))
    assert set(counts) <= set(permutations(range(4)))
    assert sum((counts[order] - n / 24) ** 2 / (n / 24) for order in permutations(range(4))) < chi2.isf(1e-6, 23)


@pytest.mark.parametrize("way", WAYS)
def test_each_row_has_the_same_probability_at_every_place(way):
    """A chi-square test of the places of 40 rows. A correct kernel fails once in a million runs."""
    rows, n, counts = np.arange(40, dtype="<u4").view(np.uint8).reshape(-1, 4), 4_000, np.zeros((40, 40))
    with WAYS[way]():
        for _ in range(n):
            counts[shuffle_rows(rows).view("<u4").ravel(), np.arange(40)] += 1
    # Each row and column sums to n, so 39 by 39 counts are free. In permutations they vary by 40/39 more.
    assert ((counts - n / 40) ** 2 / (n / 40)).sum() * 39 / 40 < chi2.isf(1e-6, 39 * 39)


@pytest.mark.parametrize("way", WAYS)
def test_no_two_orders_are_alike(way):
    rows = np.arange(100, dtype="<u8").view(np.uint8).reshape(-1, 8)
    with WAYS[way]():
        assert len({shuffle_rows(rows).tobytes() for _ in range(20)}) == 20


def test_a_library_of_an_older_source_shuffles_nothing(monkeypatch):
    monkeypatch.setattr(c_library, "lib", object)
    assert not orders.can_shuffle()
    rows = np.arange(400, dtype="<u4").view(np.uint8).reshape(-1, 4)
    assert sorted(shuffle_rows(rows).view("<u4").ravel()) == list(range(400))
