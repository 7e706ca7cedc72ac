"""Forged reports: how far they move a share, whether they are seen, and what an operator can do."""

import math
from pathlib import Path

from benchmarks import poison
from benchmarks.accuracy.study import Claim, Figure, Section, Table, Track, seeded
from oracles import ORACLES, Oracle, oracle
from oracles.mechanisms.olh import Olh

SIZES = (4, 64, 1_024, 16_384)
EPSILONS = (0.5, 1.0, 2.0, 4.0)

UNARY, HASHED = ("sue", "oue"), ("blh", "olh", "hr")

TEXT = f"""{poison.FAKES:,} of {poison.CLIENTS:,} clients forge, epsilon {poison.EPSILON:g}, {poison.SIZE:,} values,
real reports, {poison.ROUNDS} rounds. *All* sends what supports all targets, as many as one report can (the maximal
gain of Cao, Jia and Gong 2021); *quiet* gives up some of it to look honest: as many ones as honest clients draw, or 7
of 10 targets a report, drawn anew each time. `skewed` is the flag of a window.

An operator can take an oracle under which a fake weighs little, and fewer buckets; keep forgers few with tokens,
quotas and accounts that cost something; and believe a share only where it exceeds what so many fakes could do.
[privacy.md](privacy.md) says what the flags cannot see."""


def run(track: Track, folder: Path) -> Section:
    del folder
    section = Section(TEXT)
    found = [
        attack
        for name in track(list(ORACLES), description="attacks")
        for attack in poison.attacks(name, seeded("attacks", name))
    ]
    section.tables += [_shifts(found), _weights(), _needed(), _buckets()]
    section.claims += _claims(found)
    return section


def _points(attack: poison.Attack) -> str:
    return str(Figure(attack.shift, attack.stderr).times(100.0))


def _shifts(found: list[poison.Attack]) -> Table:
    rows = [
        [
            f"`{a.oracle}`",
            str(a.targets),
            a.attacker,
            _points(a),
            f"{100 * a.bound:.3f}",
            f"{a.seen} of {poison.ROUNDS}",
        ]
        for a in found
    ]
    note = (
        "Shift of a target's share in points (of 100), mean over targets; `bound` is what so many fakes can do at most."
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
    note = "`shift_per_fake` times n: as many honest people one fake weighs. Closed forms."
    return Table("Weight of one fake", note, ["oracle", "d", *(f"epsilon {e:g}" for e in EPSILONS)], rows)


def _needed() -> Table:
    rows = []
    for name in ORACLES:
        made = [oracle(name, epsilon=e, size=poison.SIZE) for e in EPSILONS]
        needed = [_fakes(o) for o in made]
        rows.append([f"`{name}`", *(f"{count:,}" if count else "nothing is" for count in needed)])
    note = (
        f"As many of {poison.CLIENTS:,} reports have to support an absent value of {poison.SIZE:,} for it to be found"
        " significant in half of all windows. Closed forms."
    )
    return Table("Fakes that make a value", note, ["oracle", *(f"epsilon {e:g}" for e in EPSILONS)], rows)


def _fakes(o: Oracle) -> int | None:
    """Fakes m with m + (n - m) q at the critical count."""
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
    note = "`olh` with `buckets`: weight of a fake, and n times the variance of a rare value's share. Closed forms."
    return Table("Fewer buckets", note, ["buckets", *(f"epsilon {e:g}" for e in (1.0, 2.0, 4.0))], rows)


def _claims(found: list[poison.Attack]) -> list[Claim]:
    over = [a for a in found if a.shift > a.bound + 4.0 * a.stderr]
    loud = [a for a in found if a.attacker == "all" and a.seen == poison.ROUNDS]
    quiet = [a for a in found if a.attacker == "quiet"]
    unseen = sum(not a.seen for a in quiet)
    nobody = sorted({a.oracle for a in found} - {a.oracle for a in found if a.seen})
    most = max(found, key=lambda a: a.shift / a.bound)
    parts = [f"{_range(quiet, names)} of the bound with {', '.join(names)}" for names in (UNARY, HASHED)]
    return [
        Claim(
            "hubbub",
            "no attacker moves a share beyond `shift_per_fake`",
            "yes" if not over else "no",
            f"{len(found)} attacks; at most {most.shift / most.bound:.2f} ± {most.stderr / most.bound:.2f} of it",
        ),
        Claim(
            "hubbub",
            "crowds that go for the most are flagged",
            f"{len(loud)} of {sum(a.attacker == 'all' for a in found)} attacks",
            f"always with {', '.join(UNARY)}; with {', '.join(HASHED)} at 10 targets; never with {', '.join(nobody)}",
        ),
        Claim(
            "hubbub",
            "attackers who evade the flags are not seen, as is said",
            f"{unseen} of {len(quiet)} not seen",
            "shift " + "; ".join(parts),
        ),
    ]


def _range(quiet: list[poison.Attack], names: tuple[str, ...]) -> str:
    parts = [a.shift / a.bound for a in quiet if a.oracle in names]
    return f"{min(parts):.2f} to {max(parts):.2f}"
