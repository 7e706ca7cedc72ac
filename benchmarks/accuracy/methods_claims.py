"""Claims of Wang et al. about methods, checked with the cells of the study."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import product

from benchmarks.accuracy.methods_cell import KNOWN, Cell
from benchmarks.accuracy.study import Claim, verdict

TEN = ("base", "base_pos", "post_pos", "base_cut", "norm", "norm_mul", "norm_sub", "norm_cut", "norm_hyb", "mle_apx")
"""The ten methods of the paper's guide. calibrate and calibrate_norm_sub are compared with them."""
NEAR = 1.05
PAPER = "Wang et al."


_SIGNS = {
    "base and norm are unbiased": [(m, group, 0) for m, group in product(("base", "norm"), ("frequent", "rare"))],
    "base_pos raises rare values, and the sum": [("base_pos", "rare", 1), ("base_pos", "sum", 1)],
    "norm_sub lowers frequent values and raises rare ones": [("norm_sub", "frequent", -1), ("norm_sub", "rare", 1)],
    "norm_mul lowers frequent values and raises rare ones": [("norm_mul", "frequent", -1), ("norm_mul", "rare", 1)],
    "base_cut lowers rare values": [("base_cut", "rare", -1)],
}
"""The claimed signs of a method's mean error."""


def claims(cells: Mapping[tuple[str, float], Cell]) -> list[Claim]:
    every = list(cells.values())
    half, top = ("10%", "30%", "50%", "70%"), ("top 8", "top 16", "top 32")
    return [
        _best("single values: base_cut is best", every, "base_cut", ("MSE",)),
        _best("single values, absolute error: base_cut is best", every, "base_cut", ("MAE",), "(a question)"),
        _best("top values: norm is best", every, "norm", top),
        _known("top values: norm_hyb is best if k is known", every, top),
        _best("sets: norm_hyb is best", every, "norm_hyb", half),
        _compare("single values", every, ("MSE",)),
        _compare("single values, absolute error", every, ("MAE",)),
        _compare("random sets", every, half),
        _compare("top values", every, top),
        _compare("a set of the most frequent values", every, ("the top tenth",)),
        *_biases(cells),
    ]


def _best(claim: str, cells: Sequence[Cell], method: str, measures: Sequence[str], source: str = PAPER) -> Claim:
    """Return the claim that `method` is the best of the ten, or within 5% of the best."""
    wins, best, trials = 0, Counter[str](), 0
    for cell in cells:
        for measure in measures:
            errors = {m: cell[m, measure].mean for m in TEN}
            least = min(errors, key=errors.__getitem__)
            best[least] += 1
            trials += 1
            wins += errors[method] <= NEAR * errors[least]
    winners = ", ".join(f"{m} {count}" for m, count in best.most_common(4))
    return Claim(
        source,
        claim,
        verdict(wins, trials),
        f"within 5% of the best of the ten in {wins} of {trials} cells; best: {winners}",
    )


def _known(claim: str, cells: Sequence[Cell], measures: Sequence[str]) -> Claim:
    trials = list(product(cells, measures))
    wins = sum(cell[KNOWN, measure].mean <= NEAR * min(cell[m, measure].mean for m in TEN) for cell, measure in trials)
    over_base = max(cell[KNOWN, m].mean / cell["base", m].mean for cell, m in trials)
    result = (
        f"within 5% of the best of the ten in {wins} of {len(trials)} cells;"
        f" at worst {over_base:.1f} times base's error"
    )
    return Claim(PAPER, claim, verdict(wins, len(trials)), result)


def _compare(label: str, cells: Sequence[Cell], measures: Sequence[str]) -> Claim:
    """Return the claim that PowerNS is better than the best of the ten."""
    ratios = [
        cell["calibrate_norm_sub", measure].mean / min(cell[m, measure].mean for m in TEN)
        for cell, measure in product(cells, measures)
    ]
    ahead = sum(ratio < 1.0 for ratio in ratios)
    result = (
        f"in {ahead} of {len(ratios)} cells; its error is {min(ratios):.2f} to {max(ratios):.2f} times that of the best"
    )
    return Claim(
        "(a rule of thumb)", f"{label}: calibrate_norm_sub is better than all ten", verdict(ahead, len(ratios)), result
    )


def _biases(cells: Mapping[tuple[str, float], Cell]) -> list[Claim]:
    """Return the claims about the signs of mean errors at epsilon 1, with four standard errors."""
    claims = []
    for claim, signs in _SIGNS.items():
        wrong, figures = [], []
        for (name, epsilon), cell in cells.items():
            if epsilon != 1.0:
                continue
            for method, group, sign in signs:
                bias = cell[method, group]
                measured_sign = 0 if abs(bias.mean) < 4.0 * bias.stderr else 1 if bias.mean > 0 else -1
                figures.append(f"{name} {method} {group} {bias}")
                if measured_sign != sign:
                    wrong.append(f"{name} {method} {group}")
        answer = "yes" if not wrong else f"not for {', '.join(wrong)}"
        claims.append(Claim(PAPER, claim, answer, "; ".join(figures) + " (in sigma; sums as shares)"))
    return claims
