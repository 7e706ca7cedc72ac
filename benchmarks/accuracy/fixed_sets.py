"""The study of fixed sets: partitions of the values that everybody knows, such as areas by state."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import numpy as np

from benchmarks.accuracy import draw, populations
from benchmarks.accuracy.methods_claims import NEAR, PAPER, TEN
from benchmarks.accuracy.study import Claim, Figure, Section, Table, Track, seeded, verdict
from oracles import oracle
from oracles.calibrate import calibrate
from oracles.consistency import METHODS, apply
from oracles.kernels.simplex import project
from oracles.types import Floats, Ints

RUNS = 40
EPSILONS = (0.2, 0.5, 1.0, 1.5, 2.0)
AREAS, PEOPLE, EXPONENT = 915, 1_000_000, 1.1
SETS = {"370 areas": 370, "49 states": 49, "9 regions": 9}
"""The partitions of the paper's census areas."""
BEST, BEST_SUM = "calibrate, best", "calibrate, best -> norm_sub"

EDUCATION = {
    "no secondary school": "1st-4th 5th-6th 7th-8th Preschool",
    "some secondary school": "9th 10th 11th 12th",
    "secondary school": "HS-grad Some-college",
    "vocational": "Assoc-acdm Assoc-voc",
    "degree": "Bachelors Doctorate Masters Prof-school",
}
COUNTRIES = {
    "Asia": "Cambodia China Hong India Iran Japan Laos Philippines Taiwan Thailand Vietnam",
    "Europe": "England France Germany Greece Holand-Netherlands Hungary Ireland Italy Poland Portugal Scotland"
    " Yugoslavia",
    "North America": "Canada Outlying-US(Guam-USVI-etc) United-States",
    "Central America": "Cuba Dominican-Republic El-Salvador Guatemala Haiti Honduras Jamaica Mexico Nicaragua"
    " Puerto-Rico Trinadad&Tobago",
    "South America": "Columbia Ecuador Peru",
    # Nobody knows whether this is Korea or Africa.
    "South": "South",
}
"""Values of two attributes of Adult, by set. Their codes follow the alphabet."""

TEXT = f"""Wang et al. 2020, the sets of their Figure 4. Their census file is not public. In its place {AREAS} areas
have Zipf {EXPONENT} shares in a seeded random order and {PEOPLE:,} people, with the paper's three partitions: 370
areas, 49 states and 9 regions. In a balanced partition all sets have the same number of values, give or take one. In an
unbalanced partition each set has a chance, drawn first, and each value joins a set by these chances. Adult has
countries by continent, and education by level. The oracle is `olh`, with {RUNS} runs per cell. Every error is the mean
over the sets of a partition of (estimated - true)^2, relative to sigma^2."""


@dataclass
class Population:
    """The counts of some values, and partitions of these values as matrices of members."""

    name: str
    counts: Ints
    partitions: Mapping[str, Floats]
    errors: dict[tuple[float, str, str], list[float]] = field(default_factory=dict)

    def run(self, epsilon: float, number: int) -> None:
        """Draw one estimate, and add the errors of all methods on all partitions."""
        o = oracle("olh", epsilon=epsilon, size=len(self.counts))
        truth = self.counts / self.counts.sum()
        e = draw.estimate(o, self.counts, seeded("fixed sets", self.name, epsilon, number))

        power, best = calibrate(e), calibrate(e, "best").shares
        shares = {method: apply(method, e, calibrated=power) for method in METHODS}
        shares |= {BEST: best, BEST_SUM: project(best)}

        for (name, members), (method, own) in product(self.partitions.items(), shares.items()):
            # post_pos promises nothing for values: it clips the answer about a set.
            answers = np.maximum(members @ e.shares, 0.0) if method == "post_pos" else members @ own
            error = float(np.mean((answers - members @ truth) ** 2)) / e.sigma**2
            self.errors.setdefault((epsilon, name, method), []).append(error)

    def error(self, epsilon: float, partition: str, method: str) -> Figure:
        return Figure.of(self.errors[epsilon, partition, method])


def balanced(size: int, sets: int, rng: np.random.Generator) -> Floats:
    """Return the members of sets that are as large as one another, or one value larger."""
    return _members(rng.permutation(np.arange(size) % sets), sets)


def unbalanced(size: int, sets: int, rng: np.random.Generator) -> Floats:
    """Return the members of sets of many sizes. None is empty."""
    chances = rng.dirichlet(np.ones(sets))
    owners = np.concatenate([np.arange(sets), rng.choice(sets, size - sets, p=chances)])
    return _members(rng.permutation(owners), sets)


def _members(owners: Ints, sets: int) -> Floats:
    return (owners == np.arange(sets)[:, None]).astype(np.float64)


def census() -> Population:
    """Return the areas, with each of the paper's partitions in both forms."""
    counts = populations.zipf(AREAS, PEOPLE, EXPONENT)[seeded("census").permutation(AREAS)]
    partitions = {
        f"{name}, {form.__name__}": form(AREAS, sets, seeded(name, form.__name__))
        for (name, sets), form in product(SETS.items(), (balanced, unbalanced))
    }
    return Population("areas", counts, partitions)


def adult(folder: Path) -> Iterator[Population]:
    """Yield the two attributes of Adult whose values form sets by themselves."""
    columns, rows = populations.marginals(folder, "adult"), populations.rows(folder, "adult")
    if columns is None or rows is None:
        return
    counts = dict(zip(rows[0], columns, strict=True))
    for column, name, sets in (
        ("native-country", "Adult, countries by continent", COUNTRIES),
        ("education", "Adult, education by level", EDUCATION),
    ):
        owners = {value: number for number, words in enumerate(sets.values()) for value in words.split()}
        members = _members(np.array([owners[value] for value in sorted(owners)]), len(sets))
        yield Population(column, counts[column], {name: members})


def run(track: Track, folder: Path) -> Section:
    section = Section(TEXT)
    everybody = [census(), *adult(folder)]
    if len(everybody) == 1:
        section.omissions.append("countries and education of Adult, because its file is missing")

    for own, epsilon, number in track(list(product(everybody, EPSILONS, range(RUNS))), description="fixed sets"):
        own.run(epsilon, number)

    section.tables += [_table(own, partition) for own in everybody for partition in own.partitions]
    section.claims += claims(everybody)
    return section


def _table(population: Population, partition: str) -> Table:
    rows = [
        [f"`{method}`", *(str(population.error(epsilon, partition, method)) for epsilon in EPSILONS)]
        for method in (*METHODS, BEST, BEST_SUM)
    ]
    sizes = population.partitions[partition].sum(axis=1)
    note = f"{len(sizes)} sets of {sizes.min():.0f} to {sizes.max():.0f} of {len(population.counts)} values."
    return Table(f"Fixed sets: {partition}", note, ["", *(f"epsilon {epsilon:g}" for epsilon in EPSILONS)], rows)


def claims(everybody: list[Population]) -> list[Claim]:
    """Return whether the paper's Figure 4 holds, and how `best` compares."""
    cells = [(own, partition, epsilon) for own in everybody for partition in own.partitions for epsilon in EPSILONS]
    regions = [cell for cell in cells if "9 regions" in cell[1]]
    mul = [_ratio(*cell, "norm_mul") for cell in regions]
    power = [_ratio(*cell, "calibrate") for cell in cells]
    best = [_ratio(*cell, BEST_SUM) for cell in cells]
    near = {
        method: sum(_ratio(*cell, method) <= NEAR for cell in cells) for method in ("norm_sub", "mle_apx", "norm_hyb")
    }
    counts = ", ".join(f"{count} ({method})" for method, count in near.items())
    ahead = sum(ratio < 1.0 for ratio in best)
    return [
        Claim(
            PAPER, "fixed sets: norm_sub, mle_apx and norm_hyb are best",
            verdict(min(near.values()), len(cells)),
            f"within 5% of the best of the ten in {counts} of {len(cells)} cells",
        ),
        Claim(
            PAPER, "fixed sets: norm_mul is as good on the 9 regions",
            verdict(sum(ratio <= NEAR for ratio in mul), len(mul)),
            f"{min(mul):.2f} to {max(mul):.2f} times the error of the best of the ten",
        ),
        Claim(
            PAPER, "fixed sets: Power is poor",
            verdict(sum(ratio > NEAR for ratio in power), len(power)),
            f"`calibrate` has {min(power):.2f} to {max(power):.2f} times the error of the best of the ten",
        ),
        Claim(
            "(a question)", "fixed sets: `calibrate` with `best`, then norm_sub, is better than all ten",
            verdict(ahead, len(best)),
            f"in {ahead} of {len(best)} cells; {min(best):.2f} to {max(best):.2f} times the error of the best",
        ),
    ]  # fmt: skip


def _ratio(population: Population, partition: str, epsilon: float, method: str) -> float:
    """Return the error of a method relative to that of the best of the ten."""
    least = min(population.error(epsilon, partition, other).mean for other in TEN)
    return population.error(epsilon, partition, method).mean / least
