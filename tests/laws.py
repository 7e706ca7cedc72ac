"""Exact laws of support counts, for the report of one client and for the sum of a crowd.

They come from enumeration and convolution, without random draws.
"""

import itertools

import numpy as np
from scipy import stats


def bernoulli(p):
    return np.array([1.0 - p, p])


def binomial(n, p):
    return stats.binom.pmf(np.arange(n + 1), n, p)


def widened(law, top):
    return np.concatenate([law, np.zeros(top + 1 - len(law))])


def unary(values, p, q, *, inside):
    """Return the law of the number of supported values among `values`. `inside` tells whether the own value is one."""
    return np.convolve(bernoulli(p), binomial(values - 1, q)) if inside else binomial(values, q)


def single(values, p, q, *, inside):
    """Return the law of `unary` for reports that are one value."""
    return widened(bernoulli(values * q + (p - q) * inside), values)


def subset(o, values, *, inside):
    """Return the law of `unary` for reports that are a subset of a fixed size."""
    d = o.size - 1
    m = o.members
    own_inside = int(inside)
    law = np.zeros(values + 1)
    for own, chance in ((1, o.p), (0, 1.0 - o.p)):  # whether the own value is among them
        rest = stats.hypergeom.pmf(np.arange(values + 1 - own_inside), d, values - own_inside, m - own)
        law[own * own_inside :][: len(rest)] += chance * rest
    return law


def hashed(o, values, own):
    """Return the law of `client` for an oracle that hashes, over all rows that a client can draw."""
    rows = np.arange(o.cells)
    parities = np.bitwise_count(rows[:, None] & (np.asarray(values) + o.offset)) & 1
    mine = np.bitwise_count(rows & (own + o.offset)) & 1
    law = np.zeros(len(values) + 1)
    lie = (1.0 - o.p) / (o.buckets - 1)
    for draw in itertools.product(rows, repeat=o.hashes):
        bucket = sum(parities[row].astype(int) << j for j, row in enumerate(draw))
        chances = np.full(o.buckets, lie)
        chances[sum(int(mine[row]) << j for j, row in enumerate(draw))] = o.p
        np.add.at(law, np.bincount(bucket, minlength=o.buckets), chances)
    return law / law.sum()


def hidden(attribute, attributes, values, *, inside):
    """Return the law for an attribute of rsfd. One of `attributes` reports answers it, and the others fake it."""
    o, name, size = attribute.encoder, attribute.name, attribute.size
    kind = single if name == "grr" else unary
    real = kind(values, o.p, o.q, inside=inside)
    if name == "grr":
        fake = widened(bernoulli(values / size), values)
    else:
        hot = values / size if name == "oue_r" else 0.0
        fake = hot * unary(values, o.p, o.q, inside=True) + (1.0 - hot) * unary(values, o.p, o.q, inside=False)
    return real / attributes + fake * (1.0 - 1.0 / attributes)


def client(o, values, own):
    """Return the law of the number of `values` that a report of this own value supports."""
    if o.name in ("olh", "blh", "hr"):
        return hashed(o, values, own)
    inside = own in values
    size = len(values)
    if o.name == "ss":
        return subset(o, size, inside=inside)
    return (single if o.name == "grr" else unary)(size, o.p, o.q, inside=inside)


def crowd(inside, k, outside, m):
    """Return the law of the sum of k clients of one law and m clients of another."""
    length = (len(inside) - 1) * (k + m) + 1
    size = 1 << (length - 1).bit_length()
    law = np.fft.irfft(np.fft.rfft(inside, size) ** k * np.fft.rfft(outside, size) ** m, size)
    return np.maximum(law[:length], 0.0)


def of_pair(o, own):
    """Return the chances that a report supports both of two values, the first alone, the last alone, and neither.

    Its own value is the first (0), the last (1), or another one (None).
    """
    p, q, d = o.p, o.q, o.size
    if o.name == "grr" or (o.name == "ss" and d == 2):
        both = 0.0
    elif o.name == "ss":
        m = o.members
        both = p * (m - 1) / (d - 1)
        if own is None:
            both = (p * (m - 1) * (m - 2) + (1.0 - p) * m * (m - 1)) / ((d - 1) * (d - 2))
    else:
        both = q * (q if own is None else p)
    first = p if own == 0 else q
    last = p if own == 1 else q
    return np.array([both, first - both, last - both, 1.0 - first - last + both])


def joint(groups):
    """Return the joint law of two counts, from clients and their chances in each group."""
    n = sum(clients for clients, _ in groups)
    size = 1 << n.bit_length()
    wave = np.exp(-2j * np.pi * np.arange(size) / size)
    first_wave = wave[:, None]
    second_wave = wave[None, : size // 2 + 1]
    transform = np.ones((size, size // 2 + 1), complex)
    for clients, (both, first, last, none) in groups:
        transform *= (both * first_wave * second_wave + first * first_wave + last * second_wave + none) ** clients
    return np.maximum(np.fft.irfft2(transform, (size, size))[: n + 1, : n + 1], 0.0)
