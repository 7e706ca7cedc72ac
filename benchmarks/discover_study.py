"""The benchmark of unknown strings: names found beside other methods, false names, forgers, and the time of a search.

python -m benchmarks.discover_study [--only PART ...] [--runs N] [--windows N] [--write]
"""

import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from itertools import product

import numpy as np
from scipy import optimize, special

from benchmarks.discover_crowd import LETTERS, Crowd, DrawnSlots, plain
from benchmarks.discover_methods import LISTED, pem, sfp
from benchmarks.harness import ROOT, arguments, show, table_of, write_block
from oracles.discover import Coding, Name, Search, Strings, cells, search
from oracles.discover.slot_forgery import skewed_slots
from oracles.types import Floats, Ints

PAGE = ROOT / "docs" / "unknown.md"
WORDS = 1_000_000
EPSILONS, SIZES = (1.0, 2.0, 4.0), (100_000, 1_000_000, 10_000_000)
RUNS, WINDOWS = 6, 400
STEPS = (0.6, 0.8, 1.0, 1.2, 1.4)
"""Shares of planted words, as multiples of the expected limit."""
RULE = 20.0
"""The smallest share that is found with a probability of 90%, in errors of the share of one client's answer."""
FALSE_CELLS = ((1_000_000, 2.0), (100_000, 1.0))
CLIENTS = (1, 5)
"""How often a client answers: once, or for life."""
VICTIM = 3
"""Place of the word that forgers hide."""
RIVALS = ((4, 1.0), (3, 3.5), (3, 5.0))
"""Numbers of forged names that share a cell with it in one map each, and their shares as multiples of its own."""


def f1(names: list[int | None]) -> float:
    """Return the F1 score of the first 32 of a list of places against the 32 most frequent words."""
    first = names[:LISTED]
    hits = sum(place is not None and place < LISTED for place in first)
    return 2 * hits / (len(first) + LISTED)


def found(runs: int = RUNS, words: int = WORDS, sizes: tuple[int, ...] = SIZES) -> Iterator[list[str]]:
    """Yield names found, F1 and the smallest share for each number of clients and epsilon, beside PEM and SFP."""
    rows: dict[tuple[int, float], list[list[float]]] = {(n, e): [] for n, e in product(sizes, EPSILONS)}
    trials: dict[tuple[int, float], list[tuple[float, bool]]] = {key: [] for key in rows}
    for run in range(runs):
        crowd = Crowd.zipf(words, run)
        for (n, epsilon), results in rows.items():
            rng = np.random.default_rng((run, n, int(epsilon)))
            slots = DrawnSlots(crowd.strings, epsilon)
            people = crowd.people(n, rng)
            ours, pems, sfps = (
                [crowd.places.get(plain(name)) for name in names]
                for names in (
                    _by_share(search(slots, slots.draw(crowd.text_cells, people, rng), n)),
                    pem(crowd, n, epsilon, rng),
                    sfp(crowd, n, epsilon, rng),
                )
            )
            strangers = sum(place is None for place in pems)
            results.append([len(ours), f1(ours), f1(pems), strangers, len(sfps), f1(sfps)])
            for _ in range(2):
                trials[n, epsilon] += _planted(crowd, slots, n, rng)
    for (n, epsilon), results in rows.items():
        own, score, pem_score, strangers, sfp_names, sfp_score = np.mean(results, axis=0)
        share = smallest_share(trials[n, epsilon])
        factor = share * np.sqrt(n) / _sigma(DrawnSlots(crowd.strings, epsilon))
        yield [
            *(f"{n:,}", f"{epsilon:g}", f"{own:.1f}", f"{share:.2%}", f"{factor:.1f}", f"{score:.2f}"),
            *(f"{pem_score:.2f}", f"{strangers:.0f}", f"{sfp_names:.1f}", f"{sfp_score:.2f}"),
        ]


def _by_share(result: Search) -> list[str]:
    return [name.text for name in sorted(result.names, key=lambda name: -name.share)]


def _sigma(slots: DrawnSlots) -> float:
    p = slots.cell_oracle.p
    q = slots.cell_oracle.q
    return float(np.sqrt(q * (1 - q)) / (p - q))


def _planted(crowd: Crowd, slots: DrawnSlots, n: int, rng: np.random.Generator) -> Iterator[tuple[float, bool]]:
    """Yield the shares of planted words, and whether they were found."""
    places = rng.choice(len(crowd.words), len(STEPS), replace=False).tolist()
    limit = min(RULE * _sigma(slots) / np.sqrt(n), 0.19)
    plan = {place: float(step * limit) for place, step in zip(places, STEPS, strict=True)}
    state = slots.draw(crowd.text_cells, crowd.people(n, rng, plan), rng)
    names = {plain(name.text) for name in search(slots, state, n).names}
    yield from ((share, crowd.words[place] in names) for place, share in plan.items())


def smallest_share(trials: list[tuple[float, bool]]) -> float:
    """Return the share that is found with a probability of 90%, by a logistic curve over its logarithm."""
    shares = np.log([share for share, _ in trials])
    hits = np.array([hit for _, hit in trials])

    def loss(curve: Floats) -> float:
        chances = special.expit(curve[1] * (shares - curve[0]))
        # Without the small terms, data that a threshold separates have an infinite slope.
        return float(-np.log(np.where(hits, chances, 1 - chances) + 1e-12).sum() + 1e-3 * curve[1] ** 2)

    middle, slope = optimize.minimize(loss, [float(np.median(shares)), 8.0], method="Nelder-Mead").x
    return float(np.exp(middle + special.logit(0.9) / slope))


def false_names(windows: int = WINDOWS, words: int = 100_000) -> Iterator[list[str]]:
    """Yield the share of windows with a name that nobody has, for new clients and for a panel."""
    for n, epsilon in FALSE_CELLS:
        for repeats in CLIENTS:
            crowd = Crowd.zipf(words, 9)
            count = 0
            total = 0
            slots = DrawnSlots(crowd.strings, epsilon)
            for window in range(windows):
                rng = np.random.default_rng((window, n, repeats))
                state = panel(crowd, slots, n, repeats, rng)
                names = [crowd.places.get(plain(name.text)) for name in search(slots, state[0], n, state[1]).names]
                count += any(place is None for place in names)
                total += len(names)
            answers = "once" if repeats == 1 else f"{repeats} times for life"
            yield [f"{n:,}", f"{epsilon:g}", answers, str(windows), f"{count / windows:.1%}", f"{total / windows:.1f}"]


def panel(crowd: Crowd, slots: DrawnSlots, n: int, repeats: int, rng: np.random.Generator) -> tuple[Ints, int]:
    """Return the tally of `n` reports, and the number of independent ones.

    With `repeats` half of the clients keep their word and send the same report again. The others have a new word each
    time, and answer by their table, so that their reports are independent.
    """
    if repeats == 1:
        return slots.draw(crowd.text_cells, crowd.people(n, rng), rng), n
    half = n // (2 * repeats)
    state = repeats * slots.draw(crowd.text_cells, crowd.people(half, rng), rng)
    for _ in range(repeats):
        state = state + slots.draw(crowd.text_cells, crowd.people(half, rng), rng)
    return state, n // repeats


def poisoning(
    runs: int = 10, n: int = 1_000_000, epsilon: float = 2.0, words: int = 100_000, seed: int = 3
) -> Iterator[list[str]]:
    """Yield what forgers show and hide. They replace honest clients, and their reports support their cell for sure."""
    crowd = Crowd.zipf(words, seed)
    slots = DrawnSlots(crowd.strings, epsilon)
    gain = (1 - slots.cell_oracle.q) / (slots.cell_oracle.p - slots.cell_oracle.q)
    for part in (0.002, 0.004, 0.006, 0.008, 0.01):
        hits = 0
        shares = []
        flags = 0
        for run in range(runs):
            state, names = _with_forgers(crowd, slots, n, {"forgedname": round(part * n)}, run)
            shares += [name.share for name in names.names if plain(name.text) == "forgedname"]
            hits += any(plain(name.text) == "forgedname" for name in names.names)
            flags += skewed_slots(slots, state, n, n)
        share = f"{np.mean(shares):.2%}" if shares else ""
        yield [
            f"{part:.1%}",
            "show a name",
            f"shown in {hits} of {runs}, as {share or 'nothing'}",
            f"{flags} of {runs}",
        ]
    for part in (0.005, 0.02, 0.05):
        hits = flags = 0
        for run in range(runs):
            fakes = {"forgedname": round(part * n)}
            state, names = _with_forgers(crowd, slots, n, fakes, run, levels_only=True)
            hits += any(plain(name.text) == "forgedname" for name in names.names)
            flags += skewed_slots(slots, state, n, n)
        yield [f"{part:.1%}", "show a name, by levels only", f"shown in {hits} of {runs}", f"{flags} of {runs}"]
    victim = crowd.words[VICTIM]
    truth = float(crowd.shares[VICTIM])
    rivals = colliding(slots, victim, np.random.default_rng(seed))
    for count, factor in RIVALS:
        forgers = round(factor * truth * n / gain)
        fates = {"shown": 0, "ambiguous": 0, "gone": 0}
        shares = []
        flags = 0
        for run in range(runs):
            state, names = _with_forgers(crowd, slots, n, dict.fromkeys(rivals[:count], forgers), run)
            shares += [name.share for name in names.names if plain(name.text) == victim]
            unclear = victim in map(plain, names.ambiguous)
            hidden_fate = "ambiguous" if unclear else "gone"
            fates["shown" if victim in map(_text, names.names) else hidden_fate] += 1
            flags += skewed_slots(slots, state, n, n)
        fate = ", ".join(f"{outcome} in {times} of {runs}" for outcome, times in fates.items() if times)
        if shares:
            fate += f", as {np.mean(shares):.1%}"
        aim = f"hide a name of {truth:.1%} by {count} others of {factor * truth:.1%}"
        yield [f"{count * forgers / n:.1%}", aim, fate, f"{flags} of {runs}"]


def _text(name: Name) -> str:
    return plain(name.text)


def _with_forgers(
    crowd: Crowd, slots: DrawnSlots, n: int, forgers: dict[str, int], run: int, *, levels_only: bool = False
) -> tuple[Ints, Search]:
    """Return the tally of a window with forgers of each name, and its names."""
    rng = np.random.default_rng((run, 8))
    strings = slots.strings
    parts = slots.strings.parts
    state = slots.draw(crowd.text_cells, crowd.people(n - sum(forgers.values()), rng), rng)
    counts = state[:-parts].reshape(parts, -1)
    answering = state[-parts:]
    chances = np.bincount(strings.part(np.arange(strings.slots))).astype(np.float64)
    # Maps prove names. Forgers of levels alone can only lead the search astray.
    if levels_only:
        chances[strings.levels :] = 0.0
    for name, count in forgers.items():
        own_cells = cells(strings, name)
        for part, clients in enumerate(rng.multinomial(count, chances / chances.sum()).tolist()):
            counts[part] += rng.binomial(clients, slots.cell_oracle.q, counts.shape[1])
            cell = int(own_cells[part])
            counts[part, cell] += clients - rng.binomial(clients, slots.cell_oracle.q)
            answering[part] += clients
    return state, search(slots, state, n)


def colliding(slots: DrawnSlots, victim: str, rng: np.random.Generator) -> list[str]:
    """Return a name for each map that has the cell of a victim there."""
    strings = slots.strings
    names: dict[int, str] = {}
    wanted = cells(strings, victim)[strings.levels :]
    # A random name has the cell of the victim in a given map with chance 1 in 65,536.
    while len(names) < len(wanted):
        name = "".join(rng.choice(list(LETTERS), 6))
        for each in np.flatnonzero(cells(strings, name)[strings.levels :] == wanted).tolist():
            names.setdefault(each, name)
    return [names[each] for each in sorted(names)]


def speed() -> Iterator[list[str]]:
    """Yield the CPU time of a search, after the words of the hash are known."""
    codings = {
        "26 letters, length 24": Coding(24, LETTERS, "none"),
        "the default alphabet, length 24": Coding(24),
        "bytes, length 24": Coding(24, None, "none"),
    }
    for name, coding in codings.items():
        strings = Strings(coding, 16, bytes(8))
        slots = DrawnSlots(strings, 2.0)
        rng = np.random.default_rng(5)
        rows = np.array([cells(strings, text) for text in ("crash", "hubbub", "oom")])
        state = slots.draw(rows, np.array([400_000, 300_000, 300_000]), rng)
        # The first search also builds the tables of the hash.
        begin = time.process_time()
        search(slots, state, 1_000_000)
        first = time.process_time() - begin
        seconds = []
        for _ in range(5):
            begin = time.process_time()
            search(slots, state, 1_000_000)
            seconds.append(time.process_time() - begin)
        yield [name, str(strings.levels), f"{first:.2f} s", f"{min(seconds):.2f} s"]


Rows = Callable[[Namespace], Iterator[list[str]]]
PARTS: dict[str, tuple[list[str], Rows]] = {
    "speed": (["strings", "levels", "the first search of a query", "later ones"], lambda _: speed()),
    "poisoning": (["forgers", "aim", "result", "`skewed`"], lambda _: poisoning()),
    "false": (
        ["reports", "epsilon", "answers", "windows", "with a false name", "names a window"],
        lambda options: false_names(options.windows),
    ),
    "found": (
        [
            *("clients", "epsilon", "names", "smallest share", "in sigma_1/sqrt(n)", "F1"),
            *("PEM: F1", "false of 32", "SFP: names", "F1"),
        ],
        lambda options: found(options.runs),
    ),
}


def main() -> None:
    options = arguments(
        "Measure how unknown strings are found.",
        only=(list(PARTS), "parts to measure"),
        runs=(RUNS, "crowds"),
        windows=(WINDOWS, "windows of false names"),
        write=(False, "write the tables into docs/unknown.md"),
    )
    for name in options.only:
        head, rows = PARTS[name]
        text = table_of(head, rows(options))
        show(f"{name}\n{text}\n")
        if options.write:
            write_block(PAGE, name, text)


if __name__ == "__main__":
    main()
