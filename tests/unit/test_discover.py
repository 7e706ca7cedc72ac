"""Unknown strings: the coding, the cells, and names that are found, proved and asked for.

Statistical tests have fixed seeds. All of them together fail by chance with a probability below 1e-6.
"""

import hashlib

import numpy as np
import pytest

from oracles import oracle
from oracles.conformance import FALSE_ALARM
from oracles.discover import Coding, Slots, Strings, ask, cells, search
from oracles.errors import ParameterError, ReportError
from oracles.kernels.tails import binomial_tail

LETTERS = "abcdefghijklmnopqrstuvwxyz"
DIGEST = bytes(range(8))


def small(length=8, bits=12):
    return Strings(Coding(length, LETTERS), bits, DIGEST)


def slots(strings, epsilon=4.0):
    return Slots(strings, lambda size: oracle("olh", epsilon=epsilon, size=size, buckets=8))


def words(rng, count, length=8):
    return ["".join(rng.choice(list(LETTERS), rng.integers(3, length + 1))) for _ in range(count)]


class Drawn(Slots):
    """Slots whose tally holds support counts, drawn as clients' reports would give them. That is faster."""

    def draw(self, rng, strings, shares, n):
        """Draw the counts of `n` clients that have these strings with these shares, or else one of their own."""
        rows = np.array([cells(self.strings, text) for text in strings]).reshape(len(strings), self.strings.parts)
        part_of_slot = self.strings.part(np.arange(self.strings.slots))
        chances = np.bincount(part_of_slot) / self.strings.slots
        self.numbers = rng.multinomial(n, chances).tolist()
        self.counts = []
        size = 1 << self.strings.cells
        for part, clients in enumerate(self.numbers):
            true_counts = rng.multinomial(clients, [*shares, 1.0 - sum(shares)])
            holders = np.bincount(rows[:, part], true_counts[:-1], size).astype(np.int64)
            holders += np.bincount(rng.integers(0, size, true_counts[-1]), minlength=size)
            p = self.cell_oracle.p
            q = self.cell_oracle.q
            self.counts.append(rng.binomial(holders, p) + rng.binomial(clients - holders, q))
        return self.zeros()

    def support(self, state, n):
        return self.counts

    def answering(self, state, n):
        return self.numbers


@pytest.mark.parametrize(
    ("coding", "text", "again"),
    [
        (Coding(6, "abc "), "CAB, of", "cab   …"),
        (Coding(6, "abc "), "", ""),
        (Coding(6, "abc", "NFC"), "aBc", "acc"),
        (Coding(8, None, "none"), "naïve", "naïve"),
        (Coding(3, None, "none"), "日本", "日…"),
        (Coding(4, None, "none"), "日本", "日\N{REPLACEMENT CHARACTER}…"),
        (Coding(9, None, "none"), "日本", "日本"),
        (Coding(5, "e\u0301\xe9"), "e\u0301", "\xe9"),
    ],
)
def test_a_text_is_coded_and_read_back(coding, text, again):
    assert coding.text(coding.symbols(text)) == again
    strings = Strings(coding, 12, DIGEST)
    assert strings.text(strings.numbers(text)) == again


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"length": 0}, "from 1 to 128"),
        ({"length": 129}, "from 1 to 128"),
        ({"length": 3, "alphabet": "a"}, "2 to 255"),
        ({"length": 3, "alphabet": "aba"}, "different"),
        ({"length": 3, "alphabet": "ab…"}, "end of a name"),
        ({"length": 3, "normal": "NFKC"}, "NFC lower"),
    ],
)
def test_a_coding_without_sense_is_refused(arguments, message):
    with pytest.raises(ParameterError, match=message):
        Coding(**arguments)


def test_chunks_hold_as_many_symbols_as_cells_and_limits_allow():
    assert Strings(Coding(24, LETTERS), 16, DIGEST).chunks == [3] + 10 * [2] + [1]
    assert Strings(Coding(24, None, "none"), 16, DIGEST).chunks == [2] + 22 * [1]
    assert Strings(Coding(2, LETTERS), 16, DIGEST).chunks == [2]
    assert len(Strings(Coding(24, LETTERS), 16, DIGEST).valid(0)) == 26**3 + 26**2 + 26 + 1


def test_a_cell_is_the_xor_of_a_word_for_each_chunk():
    """The words by SHA-256 alone, as a client in another language computes them."""
    strings = Strings(Coding(24, LETTERS), 13, DIGEST)
    numbers = strings.numbers("hubbub")
    own_cells = cells(strings, "hubbub").tolist()
    for part in range(strings.parts):
        cell = 0
        for chunk in range(min(part, strings.levels - 1) + 1):
            block = (
                DIGEST + chunk.to_bytes(2, "little") + int(numbers[chunk]).to_bytes(4, "little") + bytes([part // 8])
            )
            word = hashlib.sha256(block).digest()[4 * (part % 8) :][:4]
            cell ^= int.from_bytes(word, "little") & ((1 << 13) - 1)
        assert own_cells[part] == cell


def test_levels_have_five_slots_and_maps_three():
    strings = small()
    parts = strings.part(np.arange(strings.slots))
    assert np.bincount(parts).tolist() == [5] * strings.levels + [3] * 4


def test_reports_name_their_part_and_support_its_cell():
    strings = small()
    o = slots(strings)
    rng = np.random.default_rng(2)
    n = 40_000
    tally = o.zeros()
    o.add(tally, o.perturb(np.broadcast_to(cells(strings, "hubbub"), (n, strings.parts)), rng))
    for part, (support, answers) in enumerate(zip(o.support(tally, n), o.answering(tally, n), strict=True)):
        count = support[cells(strings, "hubbub")[part]]
        assert binomial_tail(np.array([count]), answers, o.cell_oracle.p, below=True)[0] > FALSE_ALARM
        assert binomial_tail(np.array([count]), answers, o.cell_oracle.p)[0] > FALSE_ALARM
    with pytest.raises(ReportError, match="shape"):
        o.perturb([[0, 1]], rng)


def test_names_of_real_reports_are_found_and_tallies_of_two_workers_give_the_same():
    strings = small()
    rng = np.random.default_rng(3)
    n = 60_000
    o = slots(strings, 6.0)
    texts = ["crash", "hubbub", "oom", "segfault"]
    rows = np.array([cells(strings, text) for text in texts] + [cells(strings, text) for text in words(rng, 400)])
    places = rng.choice(len(rows), n, p=[0.3, 0.2, 0.15, 0.15, *[0.2 / 400] * 400])
    reports = o.perturb(rows[places], rng)
    whole_state = o.zeros()
    first_state = o.zeros()
    second_state = o.zeros()
    o.add(whole_state, reports)
    o.add(first_state, reports[::-1][: n // 3])
    o.add(second_state, reports[::-1][n // 3 :])
    result = search(o, whole_state, n)
    assert {name.text.removesuffix("…") for name in result.names} == set(texts)
    assert search(o, first_state + second_state, n) == result
    for name in result.names:
        answer = ask(o, whole_state, n, None, name.text, [name.text for name in result.names])
        assert answer.share == name.share
        assert answer.stderr == name.stderr
        assert answer.n == name.n
        assert answer.level == 0.95 < name.level
    levels = {name.text: name.level for name in search(o, whole_state, n, dictionary=["oom"]).names}
    assert levels["oom"] == 0.95 < levels["crash"]
    stranger = ask(o, whole_state, n, None, "never", [name.text for name in result.names])
    assert stranger.low == 0.0 < stranger.high < 0.05


@pytest.mark.parametrize("repeats", [1, 5])
def test_at_most_one_window_in_twenty_has_a_false_name(repeats):
    """With a chance of 1/20 each, more than 13 of 40 windows have one with a probability of 5e-9.

    With repeats each client sends its report again, as one that answers for life and keeps its string.
    """
    strings = small()
    rng = np.random.default_rng(5)
    o = Drawn(strings, lambda size: oracle("olh", epsilon=2.0, size=size))
    false_windows = 0
    names = 0
    for _ in range(40):
        texts = words(rng, 300)
        weights = 1.0 / np.arange(1, 301)
        state = o.draw(rng, texts, 0.8 * weights / weights.sum(), 200_000)
        o.counts, o.numbers = ([repeats * value for value in every] for every in (o.counts, o.numbers))
        result = search(o, state, repeats * 200_000, 200_000)
        false_windows += any(name.text.removesuffix("…") not in texts for name in result.names)
        names += len(result.names)
    assert false_windows <= 13
    assert names >= 40, "the test shows nothing if no name is found"


def test_repeated_answers_prove_less():
    strings = small()
    rng = np.random.default_rng(7)
    o = Drawn(strings, lambda size: oracle("olh", epsilon=4.0, size=size))
    state = o.draw(rng, ["hubbub"], [0.03], 100_000)
    assert [name.text for name in search(o, state, 100_000).names] == ["hubbub"]
    assert search(o, state, 100_000, 2_000).names == ()
    once = ask(o, state, 100_000, None, "hubbub")
    often = ask(o, state, 100_000, 25_000, "hubbub")
    assert often.share == once.share
    assert often.stderr == pytest.approx(2 * once.stderr, rel=0.01)


@pytest.mark.parametrize(
    ("text", "name"), [("日本語の名前", "日本\N{REPLACEMENT CHARACTER}…"), ("", ""), ("naï…", "naï…")]
)
def test_strings_of_bytes_are_found_even_if_they_end_within_a_character(text, name):
    strings = Strings(Coding(8, None, "none"), 12, DIGEST)
    rng = np.random.default_rng(11)
    o = Drawn(strings, lambda size: oracle("olh", epsilon=4.0, size=size))
    state = o.draw(rng, [text], [0.3], 100_000)
    (name_row,) = search(o, state, 100_000, dictionary=[name]).names
    assert name_row.text == name
    assert name_row.level == 0.95
    answer = ask(o, state, 100_000, None, text, [name])
    assert answer.text == name
    assert answer.share == name_row.share


def test_a_name_that_shares_its_cells_with_confirmed_ones_is_ambiguous():
    strings = small()
    rng = np.random.default_rng(9)
    o = Drawn(strings, lambda size: oracle("olh", epsilon=4.0, size=size))
    state = o.draw(rng, ["hubbub"], [0.3], 100_000)
    own_cells = cells(strings, "hubbub")[strings.levels :]
    names = {}
    while len(names) < 4:  # one text in 1,024 has one of the four cells
        text = words(rng, 1)[0]
        for value in np.flatnonzero(cells(strings, text)[strings.levels :] == own_cells).tolist():
            names.setdefault(value, text)
    answer = ask(o, state, 100_000, None, "hubbub", names.values())
    assert answer.is_ambiguous
    assert np.isnan([answer.share, answer.low, answer.high]).all()
    assert not ask(o, state, 100_000, None, "hubbub", list(names.values())[:3]).is_ambiguous


def test_an_empty_tally_has_no_names():
    o = slots(small())
    assert search(o, o.zeros(), 0).names == ()
    assert np.isnan(ask(o, o.zeros(), 0, None, "hubbub").share)
