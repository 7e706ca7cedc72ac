"""The study of forged reports: their effect on shares, and how often the flags detect them."""

import math
from pathlib import Path

from benchmarks import poison
from benchmarks.accuracy.study import Claim, Figure, Section, Table, Track, seeded
from oracles import ORACLES, Oracle, oracle
from oracles.mechanisms.olh import Olh

SIZES = (4, 64, 1_024, 16_384)
EPSILONS = (0.5, 1.0, 2.0, 4.0)

UNARY, HASHED = ("sue", "oue"), ("blh", "olh", "hr")

TEXT = f"""{poison.FAKES:,} of {poison.CLIENTS:,} clients send forged reports, with epsilon {poison.EPSILON:g},
{poison.SIZE:,} values, real reports and {poison.ROUNDS} rounds. The attacker *all* sends reports that support
the most targets (the maximal gain of Cao, Jia and Gong 2021). The attacker *quiet* has less effect but looks
honest: it sends as many ones as honest clients, or supports 7 of 10 targets per report, with a new choice each
time. `skewed` is the flag of a window.

An operator can choose an oracle with a small weight of one fake, and fewer buckets. Tokens, quotas and accounts
that cost something limit the number of forgers. Trust a share only if it is larger than the possible effect of
that many fakes. [privacy.md](privacy.md) says which forgeries the flags cannot detect."""


def run(track: Track, folder: Path) -> Section:
    del folder
    section = Section(TEXT)
    attacks = [
        attack
        for name in track(list(ORACLES), description="attacks")
        for attack in poison.attacks(name, seeded("attacks", name))
    ]
    section.tables += [_shifts(attacks), _weights(), _forgers(), _buckets()]
    section.claims += _claims(attacks)
    return section


def _points(attack: poison.Attack) -> str:
    return str(Figure(attack.shift, attack.stderr).times(100.0))


def _shifts(attacks: list[poison.Attack]) -> Table:
    rows = [
        [
            f"`{a.oracle}`",
            str(a.targets),
            a.attacker,
            _points(a),
            f"{100 * a.bound:.3f}",
            f"{a.flags} of {poison.ROUNDS}",
        ]
        for a in attacks
    ]
    note = (
        "Shift of a target's share in points (of 100), mean over targets. `bound` is the largest possible effect of"
        " that many fakes."
    )
    return Table("Shift, and flags", note, ["oracle", "targets", "attacker", "shift", "bound", "`skewed`"], rows)


def _weights() -> Table:
    rows = []
    for name in ORACLES:
        for size in SIZES:
            weights = [oracle(name, epsilon=e, size=size).shift_per_fake(1) for e in EPSILONS]
            if name in ("grr", "ss") or size == SIZES[0]:
                rows.append(
                    [f"`{name}`", f"{size:,}" if name in ("grr", "ss") else "any", *(f"{w:.2f}" for w in weights)]
                )
    note = "`shift_per_fake` times n: the number of honest people with the weight of one fake. Closed forms."
    return Table("Weight of one fake", note, ["oracle", "d", *(f"epsilon {e:g}" for e in EPSILONS)], rows)


def _forgers() -> Table:
    rows = []
    for name in ORACLES:
        choices = [oracle(name, epsilon=e, size=poison.SIZE) for e in EPSILONS]
        numbers = [_fakes(o) for o in choices]
        rows.append([f"`{name}`", *(f"{count:,}" if count else "none" for count in numbers)])
    note = (
        f"Number of {poison.CLIENTS:,} reports that must support an absent value of {poison.SIZE:,}, so that half of"
        " all windows find it significant. Closed forms."
    )
    return Table("Fakes that make a value", note, ["oracle", *(f"epsilon {e:g}" for e in EPSILONS)], rows)


def _fakes(o: Oracle) -> int | None:
    """Return the number of fakes m with m + (n - m) q at the critical count."""
    critical = o.critical(poison.CLIENTS)
    return None if critical is None else math.ceil((critical - poison.CLIENTS * o.q) / (1.0 - o.q))


def _buckets() -> Table:
    rows = []
    for buckets in (2, 4, 8, 16):
        row = [str(buckets)]
        for epsilon in (1.0, 2.0, 4.0):
            o = Olh(epsilon, 1024, buckets) if buckets <= Olh(epsilon, 1024).buckets else None
            row.append(f"{o.shift_per_fake(1):.2f}, {o.variance(1):.2f}" if o else "")
        rows.append(row)
    note = "`olh` with `buckets`: weight of one fake, and n times the variance of a rare value's share. Closed forms."
    return Table("Fewer buckets", note, ["buckets", *(f"epsilon {e:g}" for e in (1.0, 2.0, 4.0))], rows)


def _claims(attacks: list[poison.Attack]) -> list[Claim]:
    violations = [a for a in attacks if a.shift > a.bound + 4.0 * a.stderr]
    detections = [a for a in attacks if a.attacker == "all" and a.flags == poison.ROUNDS]
    quiet = [a for a in attacks if a.attacker == "quiet"]
    unseen = sum(not a.flags for a in quiet)
    blind = sorted({a.oracle for a in attacks} - {a.oracle for a in attacks if a.flags})
    most = max(attacks, key=lambda a: a.shift / a.bound)
    parts = [f"{_range(quiet, names)} of the bound with {', '.join(names)}" for names in (UNARY, HASHED)]
    return [
        Claim(
            "hubbub",
            "no attacker moves a share by more than `shift_per_fake`",
            "yes" if not violations else "no",
            f"{len(attacks)} attacks; at most {most.shift / most.bound:.2f} ± {most.stderr / most.bound:.2f} times the"
            " bound",
        ),
        Claim(
            "hubbub",
            "forgers with the largest effect are flagged",
            f"{len(detections)} of {sum(a.attacker == 'all' for a in attacks)} attacks",
            f"always with {', '.join(UNARY)}; with {', '.join(HASHED)} at 10 targets; never with {', '.join(blind)}",
        ),
        Claim(
            "hubbub",
            "forgers who avoid the flags are not detected, as documented",
            f"{unseen} of {len(quiet)} not detected",
            "shift " + "; ".join(parts),
        ),
    ]


def _range(quiet: list[poison.Attack], names: tuple[str, ...]) -> str:
    parts = [a.shift / a.bound for a in quiet if a.oracle in names]
    return f"{min(parts):.2f} to {max(parts):.2f}"
