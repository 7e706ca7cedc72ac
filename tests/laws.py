"""Exact laws of support counts: of one client's report, of a crowd's sum. No draws: enumeration and convolution."""

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
    """Of how many of so many values a report supports; its own is one of them, or not."""
    return np.convolve(bernoulli(p), binomial(values - 1, q)) if inside else binomial(values, q)


def single(values, p, q, *, inside):
    """The same where a report is one value."""
    return widened(bernoulli(values * q + (p - q) * inside), values)


def subset(o, values, *, inside):
    """The same where a report is a subset of a fixed size."""
    d, m, held = o.size - 1, o.members, int(inside)
    found = np.zeros(values + 1)
    for own, chance in ((1, o.p), (0, 1.0 - o.p)):  # whether the own value is among them
        rest = stats.hypergeom.pmf(np.arange(values + 1 - held), d, values - held, m - own)
        found[own * held :][: len(rest)] += chance * rest
    return found


def hashed(o, chosen, own):
    """The same under all rows that a client can draw."""
    rows = np.arange(o.cells)
    parities = np.bitwise_count(rows[:, None] & (np.asarray(chosen) + o.offset)) & 1
    mine = np.bitwise_count(rows & (own + o.offset)) & 1
    found, lie = np.zeros(len(chosen) + 1), (1.0 - o.p) / (o.buckets - 1)
    for drawn in itertools.product(rows, repeat=o.hashes):
        bucket = sum(parities[row].astype(int) << j for j, row in enumerate(drawn))
        told = np.full(o.buckets, lie)
        told[sum(int(mine[row]) << j for j, row in enumerate(drawn))] = o.p
        np.add.at(found, np.bincount(bucket, minlength=o.buckets), told)
    return found / found.sum()


def hidden(attribute, attributes, values, *, inside):
    """The same for an attribute of rsfd, which is answered in one of so many reports and else faked."""
    o, name, size = attribute.encoder, attribute.name, attribute.size
    kind = single if name == "grr" else unary
    real = kind(values, o.p, o.q, inside=inside)
    if name == "grr":
        fake = widened(bernoulli(values / size), values)
    else:
        hot = values / size if name == "oue_r" else 0.0
        fake = hot * unary(values, o.p, o.q, inside=True) + (1.0 - hot) * unary(values, o.p, o.q, inside=False)
    return real / attributes + fake * (1.0 - 1.0 / attributes)


def client(o, chosen, own):
    """How many of the chosen values a report of this own value supports."""
    if o.name in ("olh", "blh", "hr"):
        return hashed(o, chosen, own)
    inside, values = own in chosen, len(chosen)
    if o.name == "ss":
        return subset(o, values, inside=inside)
    return (single if o.name == "grr" else unary)(values, o.p, o.q, inside=inside)


def crowd(inside, k, outside, m):
    """The sum of k clients of one law and m of another."""
    length = (len(inside) - 1) * (k + m) + 1
    size = 1 << (length - 1).bit_length()
    found = np.fft.irfft(np.fft.rfft(inside, size) ** k * np.fft.rfft(outside, size) ** m, size)
    return np.maximum(found[:length], 0.0)


def of_pair(o, own):
    """The chances that a report supports both of two values, the first alone, the last alone, neither.

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
    first, last = p if own == 0 else q, p if own == 1 else q
    return np.array([both, first - both, last - both, 1.0 - first - last + both])


def joint(groups):
    """The joint law of two counts, from clients and their chances in each group."""
    n = sum(clients for clients, _ in groups)
    size = 1 << n.bit_length()
    wave = np.exp(-2j * np.pi * np.arange(size) / size)
    one, two = wave[:, None], wave[None, : size // 2 + 1]
    found = np.ones((size, size // 2 + 1), complex)
    for clients, (both, first, last, none) in groups:
        found *= (both * one * two + first * one + last * two + none) ** clients
    return np.maximum(np.fft.irfft2(found, (size, size))[: n + 1, : n + 1], 0.0)
