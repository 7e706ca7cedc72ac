"""A client and a server in plain Python, written from docs/wire-format.md alone, slow and direct.

It shares only that page with the package. If both produce the same bytes, the page is right.
"""

import hmac
from decimal import Context, Decimal
from fractions import Fraction
from itertools import accumulate
from math import comb, nextafter

ONE = 1 << 64
DIGITS = Context(prec=60)
HEXADECIMAL = """
    b 13 25 43 83 11b 203 409 805 1009 201b 4021 8003 1002b 20009 40009 80027 100009 200005 400003 800021 100001b
    2000009 400001b 8000027 10000003 20000005 40000003
"""
POLYNOMIALS = {k: int(word, 16) for k, word in enumerate(HEXADECIMAL.split(), start=3)}
FAMILIES = {"oue_z": "oue", "oue_r": "oue", "sue_z": "sue"}


class Stream:
    """Random bytes, used up in order."""

    def __init__(self, data):
        self.data = data
        self.used = 0

    def take(self, count):
        start = self.used
        self.used = self.used + count
        if self.used > len(self.data):
            raise EOFError(f"{self.used} bytes are needed, there are {len(self.data)}")
        return self.data[start : self.used]

    def integer(self, count):
        return int.from_bytes(self.take(count), "little")

    def event(self, threshold):
        return self.events(threshold, 1)[0]

    def events(self, threshold, count):
        high = threshold >> 56
        low = threshold & ((1 << 56) - 1)
        first_bits = self.take(count)
        # The first byte of a random number nearly always decides, so the other seven are drawn only if it is equal.
        return [byte < high or (byte == high and low > 0 and self.integer(7) < low) for byte in first_bits]

    def below(self, bound):
        bits = (bound - 1).bit_length()
        if bits == 0:
            return 0
        width = next(width for width in (1, 2, 4, 8) if 8 * width >= bits)
        while True:
            integer = self.integer(width) & ((1 << bits) - 1)
            # A remainder of division would favour small integers, so integers beyond the bound are drawn again.
            if integer < bound:
                return integer

    def other(self, own, bound):
        """A uniform integer below `bound` that is not `own`."""
        integer = self.below(bound - 1)
        return integer if integer < own else integer + 1

    def subset(self, members, among):
        if members in (0, among):
            return set(range(members))
        while True:
            keys = [self.integer(4) for _ in range(among)]
            order = sorted(range(among), key=lambda item: keys[item])
            # Two equal keys at the edge would leave the choice to the sort, so all are drawn again.
            if keys[order[members - 1]] != keys[order[members]]:
                return set(order[:members])


class Keyed(Stream):
    """The stream of a device key, as long as it is read."""

    def __init__(self, key, digest, attribute, mode, purpose, start, classes):
        super().__init__(b"")
        self.key = key
        self.about = digest + attribute.to_bytes(2, "little") + bytes([mode, purpose])
        self.about += b"".join(number.to_bytes(8, "little", signed=True) for number in (start, *classes))

    def take(self, count):
        while len(self.data) < self.used + count:
            # The number of the block is the last part of its message, so blocks can be made in any order.
            block = self.about + (len(self.data) // 32).to_bytes(4, "little")
            self.data += hmac.new(self.key, block, "sha256").digest()
        return super().take(count)


def repeated(name, epsilon, size, value, key, digest, start):
    """Return the rows, the class of a value and the report of a client that answers for life."""
    about = parameters(name, epsilon, size)
    own_rows = []
    answer_class = value
    if "k" in about:
        draw = Keyed(key, digest, 0, 0, 1, start, ())
        own_rows = words(name, about, draw)
        answer_class = hashed(name, about, own_rows, value)
    stream = Keyed(key, digest, 0, 0, 2, start, (answer_class,))
    if "k" not in about:
        return own_rows, answer_class, report(name, epsilon, size, value, stream)
    return own_rows, answer_class, bucketed(about, own_rows, answer_class, stream).to_bytes(about["width"], "little")


def looked_up(name, epsilon, size, points, value, key, digest):
    """Return the rows, the table, the class of a value and the report of a client that answers by a table."""
    about = parameters(name, epsilon, size)
    own_rows = []
    answer_class = value
    if "k" in about:
        own_rows = words(name, about, Keyed(key, digest, 0, 0, 1, 0, ()))
        answer_class = hashed(name, about, own_rows, value)
    g = 1 << about["l"] if "k" in about else size
    table = draw_table(g, points, *integers_of_table(g, points, epsilon), Keyed(key, digest, 0, 0, 2, 0, (-1,)))
    answer = table[answer_class]
    if "k" in about:
        answer |= sum(row << (about["l"] + j * about["k"]) for j, row in enumerate(own_rows))
    return own_rows, table, answer_class, answer.to_bytes(about["width"], "little")


def counts_of_tables(g):
    """Return the number of permutations of g buckets with k fixed points, for each k."""
    derangements = [1, 0]
    while len(derangements) <= g:
        derangements.append((len(derangements) - 1) * (derangements[-1] + derangements[-2]))
    return [comb(g, k) * derangements[g - k] for k in range(g + 1)]


def integers_of_table(g, t, epsilon):
    """Return hi and lo of a table."""
    counts = counts_of_tables(g)
    ratio = exp(Decimal(epsilon))
    likely = sum(counts[t:])

    def lo(hi):
        return (ONE - hi * likely) // (sum(counts) - likely)

    def holds(hi):
        weights = [count * (hi if k >= t else lo(hi)) for k, count in enumerate(counts)]
        p = Fraction(sum(k * weight for k, weight in enumerate(weights)), g * sum(weights))
        return p < 1 and p.numerator * (g - 1) <= DIGITS.multiply(ratio, p.denominator - p.numerator)

    low, high = 1, ONE // likely
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low, lo(low)


def draw_table(g, t, hi, lo, stream):
    """Return the bucket of each class."""
    counts = counts_of_tables(g)
    weights = [count * (hi if k >= t else lo) for k, count in enumerate(counts)]
    number = stream.integer(8)
    # Weights need not sum to 2^64. Numbers beyond them would favour some tables, so they are drawn again.
    while number >= sum(weights):
        number = stream.integer(8)
    k = g
    while number >= weights[k]:
        number -= weights[k]
        k -= 1
    order = list(range(g))
    for i in range(k if k < g else 0):
        j = i + stream.below(g - i)
        order[i], order[j] = order[j], order[i]
    table = list(range(g))
    remaining_order = sorted(order[k:])
    while k < g:
        buckets = list(remaining_order)
        for i in range(len(remaining_order) - 1, 0, -1):
            j = stream.below(i + 1)
            buckets[i], buckets[j] = buckets[j], buckets[i]
        if all(bucket != other for bucket, other in zip(buckets, remaining_order, strict=True)):
            for answer_class, bucket in zip(remaining_order, buckets, strict=True):
                table[answer_class] = bucket
            break
    return table


def exp(number):
    return DIGITS.exp(number)


def largest(losing, winning, ratio):
    share = DIGITS.multiply(ratio, winning)

    def holds(threshold):
        return threshold * losing <= DIGITS.multiply(share, ONE - threshold)

    # The division is rounded, so the steps below find the largest integer that holds exactly.
    integer = int(DIGITS.divide(DIGITS.multiply(share, ONE), DIGITS.add(share, losing)))
    while holds(integer + 1):
        integer += 1
    while not holds(integer):
        integer -= 1
    return integer


def parameters(name, epsilon, size):
    """Return the thresholds of a query, its numbers of rows, bits and ones, and the bytes of a report."""
    exact = Decimal(epsilon)
    e = exp(exact)
    if name == "grr":
        return {"T": largest(size - 1, 1, e), "width": 1 if size <= 256 else 2 if size <= 65536 else 4}
    if name in ("sue", "oue"):
        keep = largest(1, 1, exp(DIGITS.divide(exact, 2)) if name == "sue" else e)
        own = keep if name == "sue" else ONE // 2
        return {"T_p": own, "T_q": ONE - keep, "width": -(-size // 8)}
    if name == "ss":
        m = ones(size, e)
        return {"T": largest(size - m, m, e), "m": m, "width": -(-size // 8)}
    minimum = {"full": 2, "short": 3}.get(name, 1)
    k = next(k for k in range(minimum, 64) if 1 << k >= size + (name == "hr"))
    l = {"olh": rows, "full": best_rows, "short": best_rows}.get(name, lambda *_: 1)(e, name, size, k)
    bits = l + (2 if name == "short" else l) * k
    return {"T": largest((1 << l) - 1, 1, e), "l": l, "k": k, "width": 4 if bits <= 32 else -(-bits // 64) * 8}


def maps(group):
    """Return the threshold, the numbers of rows and bits, and the bytes of a report of `sub`."""
    g, m, family = group["buckets"], group["subset"], group["rows"]
    l = g.bit_length() - 1
    k = next(k for k in range(3 if family != "full" else 1, 64) if 1 << k >= group["size"])
    words = {"full": l, "short": 2, "line": 1}[family]
    head = (comb(g, m) - 1).bit_length()
    about = {"T": largest(g - m, m, exp(Decimal(group["epsilon"]))), "l": l, "k": k, "words": words, "head": head}
    return {**about, "width": -(-(head + words * k) // 8)}


def words_of_subsets(group, stream):
    """Return the words that give the map of a client of `sub`."""
    about, family = maps(group), group["rows"]
    if family == "line":
        return [1 + stream.below((1 << about["k"]) - 1)]
    while True:
        own_words = [stream.below(1 << about["k"]) for _ in range(about["words"])]
        if family == "short" or len({*xors(own_words)}) == 1 << about["l"]:
            return own_words


def xors(own_words):
    """Return the xor of each set of words."""
    sums = [0]
    for word in own_words:
        sums += [total ^ word for total in sums]
    return sums


def bucket_of_subsets(group, own_words, value):
    """Return the bucket of a value under a map of `sub`."""
    about = maps(group)
    if group["rows"] == "full":
        return sum(((row & value).bit_count() & 1) << j for j, row in enumerate(own_words))
    a, b = [*own_words, 0][:2]
    k = about["k"]
    return (product(a, value, k) ^ product(b, product(value, value, k), k)) & ((1 << about["l"]) - 1)


def product(one, other, k):
    """Return the product of two elements of the field of 2^k elements."""
    result = 0
    for i in range(k):
        result ^= one if other >> i & 1 else 0
        one <<= 1
        one ^= POLYNOMIALS[k] if one >> k else 0
    return result


def members_of_rank(rank, count):
    """Return the members of the subset with this rank, the largest first."""
    members = []
    for i in range(count, 0, -1):
        member = i - 1
        while comb(member + 1, i) <= rank:
            member += 1
        members.append(member)
        rank -= comb(member, i)
    return members


def report_of_subsets(group, own_words, own, stream):
    """Return the report of a bucket under a map of `sub`."""
    about, g, m = maps(group), group["buckets"], group["subset"]
    inside = stream.event(about["T"])
    others = members_of_rank(stream.below(comb(g - 1, m - inside)), m - inside)
    subset = sorted([other + (other >= own) for other in others] + [own] * inside)
    number = sum(comb(member, i) for i, member in enumerate(subset, 1))
    for j, word in enumerate(own_words):
        number |= word << (about["head"] + j * about["k"])
    return number.to_bytes(about["width"], "little")


def support_of_subsets(group, reports):
    """Return how many reports of `sub` support each value."""
    about, support = maps(group), [0] * group["size"]
    for data in reports:
        number = int.from_bytes(data, "little")
        subset = members_of_rank(number & ((1 << about["head"]) - 1), group["subset"])
        places = [about["head"] + j * about["k"] for j in range(about["words"])]
        own_words = [number >> place & ((1 << about["k"]) - 1) for place in places]
        for value in range(group["size"]):
            support[value] += bucket_of_subsets(group, own_words, value) in subset
    return support


def best_rows(e, name, size, k):
    def error(l):
        g = 1 << l
        collision = Fraction(1, 1 << l) if name == "short" else Fraction((1 << k - l) - 1, (1 << k) - 1)
        p = DIGITS.divide(e, DIGITS.add(e, g - 1))
        q = DIGITS.multiply(p, DIGITS.divide(collision.numerator, collision.denominator))
        rest = (1 - collision) / (g - 1)
        lie = DIGITS.multiply(DIGITS.subtract(1, p), DIGITS.divide(rest.numerator, rest.denominator))
        q, gap = DIGITS.add(q, lie), DIGITS.subtract(p, DIGITS.add(q, lie))
        flat = DIGITS.divide(DIGITS.multiply(size, DIGITS.multiply(q, DIGITS.subtract(1, q))), DIGITS.power(gap, 2))
        return DIGITS.add(flat, DIGITS.divide(DIGITS.subtract(1, DIGITS.add(p, q)), gap))

    shortest = {"full": 2, "short": 3}[name]
    fit = [l for l in range(shortest, min(8, k) + 1) if l + (2 if name == "short" else l) * k <= 64]
    return min(fit, key=error)


def rows(e, *_):
    def error(l):
        g = 1 << l
        return DIGITS.divide(DIGITS.power(DIGITS.add(e, g - 1), 2), g - 1)

    return min(range(1, 9), key=error)


def ones(size, e):
    def error(m):
        profit = DIGITS.multiply(m, e)
        p = DIGITS.divide(profit, DIGITS.add(profit, size - m))
        inside = DIGITS.multiply(p, m - 1)
        outside = DIGITS.multiply(DIGITS.subtract(1, p), m)
        q = DIGITS.divide(DIGITS.add(inside, outside), size - 1)
        spread = DIGITS.multiply(q, DIGITS.subtract(1, q))
        return DIGITS.divide(spread, DIGITS.power(DIGITS.subtract(p, q), 2))

    floor = int(DIGITS.divide(size, DIGITS.add(e, 1)))
    return min((min(max(m, 1), size - 1) for m in (floor, floor + 1)), key=error)


def share_of(solution, epsilon, attributes):
    """Return the epsilon of each attribute."""
    exact = Decimal(epsilon)
    if solution == "smp":
        return epsilon
    if solution == "spl":
        return rounded_down(DIGITS.divide(exact, attributes))
    inner = DIGITS.add(DIGITS.multiply(attributes, DIGITS.subtract(exp(exact), 1)), 1)
    return rounded_down(DIGITS.ln(inner))


def rounded_down(number):
    near = float(number)
    return nextafter(near, 0.0) if Decimal(near) > number else near


def parity(number):
    return number.bit_count() & 1


def words(name, about, stream):
    """What a report holds of its rows: the rows, or a and b."""
    if name == "haar":
        level = stream.below(about["k"])
        return [(2 * stream.below(1 << about["k"] - 1 - level) + 1) << level]
    number = 2 if name == "short" else about["l"]
    while True:
        seeds = [stream.below(1 << about["k"]) for _ in range(number)]
        if name != "full" or independent(seeds):
            return seeds


def independent(code_rows):
    sums = {0}
    for row in code_rows:
        sums |= {row ^ total for total in sums}
    return len(sums) == 1 << len(code_rows)


def times_x(word, k):
    return word << 1 ^ (POLYNOMIALS[k] if word >> (k - 1) else 0)


def rows_of_pair(about, a, b):
    code_rows = [0] * about["l"]
    for i in range(about["k"]):
        for j in range(about["l"]):
            code_rows[j] |= ((a ^ b) >> j & 1) << i
        a = times_x(a, about["k"])
        b = times_x(times_x(b, about["k"]), about["k"])
    return code_rows


def hashed(name, about, seeds, value):
    code = value + (name == "hr")
    code_rows = rows_of_pair(about, *seeds) if name == "short" else seeds
    return sum(parity(row & code) << j for j, row in enumerate(code_rows))


def report(name, epsilon, size, value, stream):
    """Return the report of `value` as bytes."""
    about = parameters(name, epsilon, size)
    if name == "grr":
        answer = value if stream.event(about["T"]) else stream.other(value, size)
    elif name in ("sue", "oue"):
        answer = unary(about, size, value, stream)
    elif name == "ss":
        inside = stream.event(about["T"])
        items = stream.subset(about["m"] - inside, size - 1)
        answer = sum(1 << (size - 1 if item == value else item) for item in items) | inside << value
    else:
        answer = hashing(name, about, value, stream)
    return answer.to_bytes(about["width"], "little")


def unary(about, size, value, stream):
    own = None if value is None else stream.event(about["T_p"])
    bits = stream.events(about["T_q"], size)
    if value is not None:
        bits[value] = own
    return sum(bit << place for place, bit in enumerate(bits))


def hashing(name, about, value, stream):
    own_rows = words(name, about, stream)
    return bucketed(about, own_rows, hashed(name, about, own_rows, value), stream)


def bucketed(about, own_rows, bucket, stream):
    l, k = about["l"], about["k"]
    if not stream.event(about["T"]):
        bucket = stream.other(bucket, 1 << l)
    return bucket | sum(row << (l + j * k) for j, row in enumerate(own_rows))


def multi_report(solution, names, epsilon, sizes, values, stream):
    """Return the report of a record with one value for each attribute. `names` are the oracles."""
    share = share_of(solution, epsilon, len(sizes))
    triples = list(zip(names, sizes, values, strict=True))
    if solution == "spl":
        return b"".join(report(name, share, size, value, stream) for name, size, value in triples)
    j = stream.below(len(sizes))
    if solution == "smp":
        name, size, value = triples[j]
        widest = max(parameters(name, share, size)["width"] for name, size, _ in triples)
        return j.to_bytes(2, "little") + report(name, share, size, value, stream).ljust(widest, b"\0")
    parts = []
    for i, (name, size, value) in enumerate(triples):
        encoder = FAMILIES.get(name, name)
        real = i == j
        parts.append(report(encoder, share, size, value, stream) if real else fake(name, share, size, stream))
    return b"".join(parts)


def fake(name, epsilon, size, stream):
    encoder = FAMILIES.get(name, name)
    about = parameters(encoder, epsilon, size)
    if name == "grr":
        return stream.below(size).to_bytes(about["width"], "little")
    if name == "oue_r":
        return report(encoder, epsilon, size, stream.below(size), stream)
    return unary(about, size, None, stream).to_bytes(about["width"], "little")


def support(name, epsilon, size, reports):
    """Return n and the support of each value by its definition, without implausible reports."""
    about = parameters(name, epsilon, size)
    answers = [int.from_bytes(report, "little") for report in reports]
    if name in ("sue", "oue"):
        low, high = plausible(about, size)
        answers = [answer for answer in answers if low <= answer.bit_count() <= high]
    return len(answers), [sum(supports(name, about, answer, value) for answer in answers) for value in range(size)]


def halves(epsilon, bins, reports):
    """Return for each level of numbers how many reports it has, and the signs of its blocks.

    The sign of a block is how many reports say that the number lies in the left half, minus how many say the right one.
    """
    assert parameters("haar", epsilon, bins)["k"] == bins.bit_length() - 1
    numbers, signs = [], []
    integers = [int.from_bytes(report, "little") for report in reports]
    for j in range(bins.bit_length() - 1):
        own = [(integer >> 1, integer & 1) for integer in integers if (integer >> 1) & ((2 << j) - 1) == 1 << j]
        numbers.append(len(own))
        lefts = range(0, bins, 2 << j)
        signs.append([sum(1 if parity(row & left) == bit else -1 for row, bit in own) for left in lefts])
    return numbers, signs


def multi_support(solution, names, epsilon, sizes, reports):
    """Return n and the support of each value for each attribute. All `reports` are plausible."""
    share = share_of(solution, epsilon, len(sizes))
    encoders = [FAMILIES.get(name, name) for name in names]
    widths = [parameters(name, share, size)["width"] for name, size in zip(encoders, sizes, strict=True)]
    parts = [[] for _ in sizes]
    for report in reports:
        if solution == "smp":
            j = int.from_bytes(report[:2], "little")
            parts[j].append(report[2 : 2 + widths[j]])
        else:
            for j, width in enumerate(widths):
                start = sum(widths[:j])
                parts[j].append(report[start : start + width])
    return [support(*triples) for triples in zip(encoders, [share] * len(sizes), sizes, parts, strict=True)]


def supports(name, about, answer, value):
    if name == "grr":
        return answer == value
    if name in ("sue", "oue", "ss"):
        return answer >> value & 1
    l, k = about["l"], about["k"]
    own_rows = [answer >> (l + j * k) & ((1 << k) - 1) for j in range(2 if name == "short" else l)]
    return hashed(name, about, own_rows, value) == answer & ((1 << l) - 1)


def plausible(about, size):
    """Return the least and the most ones of a plausible report. Probabilities are integers, times 2^(64 size)."""
    p, q = about["T_p"], about["T_q"]
    others = [comb(size - 1, k) * q**k * (ONE - q) ** (size - 1 - k) for k in range(size)]
    law = [(ONE - p) * a + p * b for a, b in zip([*others, 0], [0, *others], strict=True)]

    def first(sums):
        return next(k for k, total in enumerate(sums) if 2 * 10**9 * total > ONE**size)

    return first(accumulate(law)), size - first(accumulate(reversed(law)))
