"""The golden vectors. `python tests/vectors/make.py [FOLDER]` writes them, and always writes the same bytes.

Random bytes are SHA-256 over a label and a counter. The last cases of each group change them, to force rare results
(ties of events, rejected integers, equal keys).
"""

import hashlib
import json
import math
import sys
from pathlib import Path

import numpy as np
from definition_cases import definitions, histories
from frame_cases import frames
from item_cases import items
from recorder_cases import recorders
from string_cases import strings

from oracles import ORACLES, oracle
from oracles.mechanisms import NUMBER_ORACLES, WITH_SUBSETS
from oracles.mechanisms.entropy import Source
from oracles.mechanisms.hashing import Hashing
from oracles.mechanisms.ss import Ss
from oracles.mechanisms.table import best as best_table
from oracles.multi import multi
from producers.entropy import Keyed

SINGLES = [name for name in ORACLES if name not in WITH_SUBSETS]
SMALL = [(1.0, 2), (1.0, 3), (1.0, 37), (0.1, 37), (4.0, 37), (1.0, 256), (16.0, 257), (1.0, 1024)]
LARGE = {
    "grr": [(2.0, 65_536), (2.0, 65_537), (1.0, 1 << 32)],
    "blh": [(2.0, 100_000), (1.0, 1 << 32)],
    "olh": [(8.0, 1024), (2.5, 100_000), (8.0, 1 << 32)],
    "full": [(2.5, 100), (8.0, 1024), (6.0, 100_000)],
    "short": [(8.0, 1024), (6.0, 100_000), (2.0, 1 << 30)],
    "hr": [(2.0, 65_535), (2.0, 65_536), (1.0, 1 << 32)],
}
SUBSETS = [
    (2.0, 2, 2, 1, "full"),
    (1.0, 3, 8, 3, "short"),
    (1.0, 4, 4, 2, "line"),
    (1.5, 100, 16, 3, "full"),
    (3.0, 65_536, 64, 3, "short"),
    (6.0, 1000, 512, 1, "line"),
    (4.0, 1000, 512, 7, "line"),
    (5.0, 4096, 2048, 3, "line"),
    (2.0, 37, 8, 7, "full"),
]
"""Epsilon, size, buckets, subset and family of maps."""
SOLUTIONS = [
    ("spl", 1.0, [3, 37], "adaptive"),
    ("spl", 1.1, [2, 300, 5], ["olh", "ss", "sue"]),
    ("smp", 1.0, [7, 300, 5], "adaptive"),
    ("smp", 4.0, [300, 12, 9], ["grr", "olh", "oue"]),
    ("rsfd", 1.0, [7, 16], "adaptive"),
    ("rsfd", 0.5, [5, 9, 3, 12, 300], ["grr", "oue_z", "oue_r", "sue_z", "grr"]),
]
BINS = [(1.0, 16), (0.1, 256), (4.0, 1024), (16.0, 65_536)]
TALLIES = [(1.0, 2), (1.0, 3), (1.0, 37), (4.0, 100)]
HALVES = [(1.0, 16), (2.0, 64), (4.0, 256)]


class Tape(Source):
    """The random bytes of a label, and a note of those that were used."""

    def __init__(self, label):
        self.label = label
        self.blocks = 0
        self.ahead = bytearray()
        self.used = bytearray()

    def reach(self, count):
        while len(self.ahead) < count:
            self.ahead += hashlib.sha256(f"{self.label}/{self.blocks}".encode()).digest()
            self.blocks += 1

    def raw(self, count):
        self.reach(count)
        data = bytes(self.ahead[:count])
        del self.ahead[:count]
        self.used += data
        return np.frombuffer(data, np.uint8)


class Bent(Tape):
    """A tape on which every draw goes its rarest way.

    The last integer below the threshold and the threshold itself break ties in turn. `at` set to 1 begins with the
    second of them.
    """

    def __init__(self, label, at):
        super().__init__(label)
        self.at = at

    def events(self, threshold, *shape):
        count = math.prod(shape)
        high, low = divmod(threshold, 1 << 56)
        self.reach(8 * count)
        if count and low:
            for place in (0, count // 2, count - 1):
                self.ahead[place] = high
            # Only a byte equal to the threshold's first one needs more bytes, so just those follow.
            ties = self.ahead[:count].count(high)
            breaks = [low - (tie + self.at + 1) % 2 for tie in range(ties)]
            self.ahead[count : count + 7 * ties] = b"".join(part.to_bytes(7, "little") for part in breaks)
        elif count:
            self.ahead[0] = high
        return super().events(threshold, *shape)

    def below(self, bound, count):
        if count and bound & (bound - 1):
            width = next(width for width in (1, 2, 4, 8) if bound <= 1 << 8 * width)
            self.reach(2 * width)
            # The largest integer and the bound itself are both beyond it, so two draws are rejected.
            self.ahead[: 2 * width] = b"\xff" * width + bound.to_bytes(width, "little")
        return super().below(bound, count)

    def subsets(self, count, among, members):
        if count and 0 < members < among:
            self.reach(8 * among)
            # All keys are equal, so the whole draw is repeated.
            self.ahead[: 4 * among] = bytes(4 * among)
            if members > 1:
                self.ahead[4 * among : 4 * among + 8] = bytes(8)
        return super().subsets(count, among, members)


def tapes(label, how_many, bent):
    yield from (Tape(f"{label}/{i}") for i in range(how_many))
    yield from (Bent(f"{label}/bent/{i}", i) for i in range(bent))


def parameters(encoder):
    """Return the parameters of an oracle, by the names of docs/wire-format.md."""
    members = {"m": encoder.members} if isinstance(encoder, Ss) else {}
    hashing = {"l": encoder.hashes, "k": encoder.bits} if isinstance(encoder, Hashing) else {}
    return {**encoder.thresholds, **members, **hashing, "width": encoder.width}


def reports():
    groups = []
    for name in (*SINGLES, *NUMBER_ORACLES):
        for epsilon, size in BINS if name in NUMBER_ORACLES else SMALL + LARGE.get(name, []):
            encoder = oracle(name, epsilon=epsilon, size=size)
            # A case of these oracles needs random bytes for each value, so the file would grow fast.
            long = size > 255 and name in ("sue", "oue", "ss")
            cases = []
            for i, tape in enumerate(tapes(f"{name}/{epsilon}/{size}", 1 if long else 4, 1 if long else 2)):
                value = [size - 1, size // 2, 0, size // 3, size - 1, size // 3][i]
                report = encoder.perturb([value], tape)
                cases.append({"value": value, "entropy": tape.used.hex(), "report": report.tobytes().hex()})
            about = {"oracle": name, "epsilon": epsilon, "size": size, **parameters(encoder)}
            groups.append({**about, "cases": cases})
    subsets = [reports_of_subsets(encoder) for encoder in with_subsets()]
    return {"oracles": groups, "solutions": [records(*part) for part in SOLUTIONS], "subsets": subsets}


def with_subsets():
    """Yield oracles whose reports name several buckets."""
    for epsilon, size, buckets, subset, rows in SUBSETS:
        yield oracle("sub", epsilon=epsilon, size=size, buckets=buckets, subset=subset, rows=rows)


def maps(encoder):
    """Return what a definition says of an oracle with subsets."""
    about = {"oracle": encoder.name, "epsilon": encoder.epsilon, "size": encoder.size}
    return {**about, "buckets": encoder.buckets, "subset": encoder.subset, "rows": encoder.row_family}


def reports_of_subsets(encoder):
    """Return reports from random bytes."""
    size = encoder.size
    cases = []
    for i, tape in enumerate(tapes(f"sub/{maps(encoder)}", 4, 2)):
        value = [size - 1, size // 2, 0, size // 3, size - 1, size // 3][i]
        report = encoder.perturb([value], tape)
        cases.append({"value": value, "entropy": tape.used.hex(), "report": report.tobytes().hex()})
    return {**maps(encoder), **parameters(encoder), "cases": cases}


def question(encoder):
    about = {"solution": encoder.solution, "epsilon": encoder.epsilon, "sizes": list(encoder.sizes)}
    return {**about, "oracles": list(encoder.names)}


def records(solution, epsilon, sizes, names):
    encoder = multi(solution, sizes=sizes, epsilon=epsilon, oracle=names)
    label = f"{solution}/{epsilon}/{sizes}/{names}"
    cases = []
    for i, tape in enumerate(tapes(label, 2 * len(sizes), 2)):
        values = [(size - 1) * (i + j) // 3 % size for j, size in enumerate(sizes)]
        report = encoder.perturb([values], tape)
        cases.append({"values": values, "entropy": tape.used.hex(), "report": report.tobytes().hex()})
    return {
        **question(encoder),
        "attribute_epsilon": encoder.encoders[0].epsilon,
        "width": encoder.width,
        "attributes": [parameters(part) for part in encoder.encoders],
        "cases": cases,
    }


def support():
    singles = []
    for name in SINGLES:
        for epsilon, size in TALLIES:
            encoder = oracle(name, epsilon=epsilon, size=size)
            tape = Tape(f"support/{name}/{epsilon}/{size}")
            reports = np.vstack([encoder.perturb([i * i % size], tape) for i in range(20)])
            implausible = []
            if name in ("sue", "oue") and size == 100:
                implausible = [3, 20]
                # A report of ones alone is one that no honest client sends.
                reports = np.insert(reports, [3, 19], np.packbits(np.ones(size, np.bool_), bitorder="little"), axis=0)
            state = encoder.zeros()
            n = len(reports) - encoder.add(state, reports)
            about = {"oracle": name, "epsilon": epsilon, "size": size, "implausible": implausible, "n": n}
            singles.append({**about, "support": encoder.support(state, n).tolist(), "reports": hexes(reports)})
    numbers = [halves(*part) for part in HALVES]
    subsets = [support_of_subsets(encoder) for encoder in with_subsets() if encoder.size <= 1000]
    solutions = [tally(*part) for part in SOLUTIONS]
    return {"oracles": singles, "solutions": solutions, "numbers": numbers, "subsets": subsets}


def support_of_subsets(encoder):
    tape = Tape(f"support/{maps(encoder)}")
    reports = np.vstack([encoder.perturb([i * i % encoder.size], tape) for i in range(20)])
    state = encoder.zeros()
    encoder.add(state, reports)
    return {**maps(encoder), "support": encoder.support(state, 20).tolist(), "reports": hexes(reports)}


def halves(epsilon, size):
    """Return reports of numbers, how many each level has, and the signs of its blocks."""
    encoder = oracle("haar", epsilon=epsilon, size=size)
    tape = Tape(f"support/haar/{epsilon}/{size}")
    reports = np.vstack([encoder.perturb([i * i % size], tape) for i in range(40)])
    state = encoder.zeros()
    encoder.add(state, reports)
    return {
        "oracle": "haar",
        "epsilon": epsilon,
        "size": size,
        "n": len(reports),
        "levels": encoder.answering(state).tolist(),
        "signs": [part.tolist() for part in encoder.signs(state)],
        "reports": hexes(reports),
    }


KEYS = ("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f", "02" * 32)
DIGEST = "e49ed91b111b507a"
STREAMS = [
    (0, 0, 1, 0, ()),
    (0, 0, 2, 0, (1,)),
    (3, 0, 0, 86_400, ()),
    (65_535, 1, 2, 7, (0,)),
    (0, 0, 2, -1, (3, 0, 299)),
]
ANSWERS = [("grr", 1.0, 5), ("sue", 1.0, 300), ("oue", 2.0, 300), ("ss", 1.0, 9), ("blh", 1.0, 9), ("olh", 1.0, 3)]
ANSWERS += [("hr", 2.0, 9), ("haar", 2.0, 16)]
STARTS = (0, 2_592_000)


def keyed():
    """Return streams of a device key, and the rows, classes and reports that a client with `same` draws from them."""
    streams = [stream(key, *about) for key in KEYS for about in STREAMS]
    singles = [
        answers({"oracle": name, "epsilon": epsilon, "size": size}, oracle(name, epsilon=epsilon, size=size), start)
        for name, epsilon, size in ANSWERS
        for start in STARTS
    ]
    subsets = [answers({"maps": maps(encoder)}, encoder, start) for encoder in with_subsets() for start in STARTS]
    return {"streams": streams, "answers": singles, "subsets": subsets}


def stream(key, attribute, mode, purpose, start, classes):
    source = Keyed(bytes.fromhex(key), bytes.fromhex(DIGEST), attribute, mode, purpose, start, classes)
    about = {"key": key, "digest": DIGEST, "attribute": attribute, "mode": mode, "purpose": purpose}
    return {**about, "round": start, "classes": classes, "bytes": bytes(source.raw(80)).hex()}


def answers(about, encoder, start):
    key, digest = bytes.fromhex(KEYS[1]), bytes.fromhex(DIGEST)
    rows = encoder.rows(1, Keyed(key, digest, 0, 0, 1, start))
    cases = []
    for value in range(min(encoder.size, 5)):
        (answer_class,) = encoder.classify(np.array([value]), rows).tolist()
        report = encoder.answer(np.array([answer_class]), rows, Keyed(key, digest, 0, 0, 2, start, (answer_class,)))
        cases.append({"value": value, "class": answer_class, "report": bytes(report[0]).hex()})
    about |= {"key": KEYS[1], "digest": DIGEST, "round": start}
    about["thresholds"] = encoder.thresholds
    return {**about, "rows": [] if rows is None else rows[0].tolist(), "cases": cases}


LAWS = [(2, 1.0), (3, 0.5), (4, 1.0), (5, 4.0), (8, 2.0), (8, 4.0), (8, 0.25), (4, 6.0)]
TABLES = [
    ("olh", 1.0, 64, 2, "a3dc4497a4d3d094"),
    ("olh", 2.0, 1024, 5, "9107183a397126bb"),
    ("grr", 4.0, 5, 5, "cb48a772cabf4f9d"),
    *((name, 2.0, 100, 2, DIGEST) for name in ("hr", "blh")),
    ("full", 1.0, 12, 2, DIGEST),
    ("short", 2.0, 1024, 6, DIGEST),
]


def tables():
    """Return the laws of tables, tables drawn from random bytes, and those of clients with a key."""
    answers = [looked_up(*part, key) for part in TABLES for key in KEYS]
    return {"laws": [law(*part) for part in LAWS], "answers": answers}


def law(buckets, epsilon):
    best = best_table(buckets, epsilon)
    cases = []
    for i, tape in enumerate(tapes(f"table/{buckets}/{epsilon}", 6, 1)):
        if i == 6:  # an integer that belongs to no table
            tape.ahead += b"\xff" * 8
        cases.append({"table": best.draw(1, tape)[0].tolist(), "entropy": tape.used.hex()})
    about = {"buckets": buckets, "epsilon": epsilon, "t": best.fixed_points, "hi": str(best.hi), "lo": str(best.lo)}
    return {**about, "bound": best.bound, "p": float(best.p), "cases": cases}


def looked_up(name, epsilon, size, points, digest, key):
    """Return the rows, the table and the reports of a client that answers by a table."""
    encoder = oracle(name, epsilon=epsilon, size=size, table=points)
    about = bytes.fromhex(key), bytes.fromhex(digest)
    rows = encoder.rows(1, Keyed(*about, 0, 0, 1, 0))
    cases = []
    for value in range(min(size, 5)):
        (answer_class,) = encoder.classify(np.array([value]), rows).tolist()
        report = encoder.answer(np.array([answer_class]), rows, Keyed(*about, 0, 0, 2, 0, (-1,)))
        cases.append({"value": value, "class": answer_class, "report": bytes(report[0]).hex()})
    table = encoder.tables.draw(1, Keyed(*about, 0, 0, 2, 0, (-1,)))[0].tolist()
    group = {"oracle": name, "epsilon": epsilon, "size": size, "t": points, "key": key, "digest": digest}
    group["thresholds"] = encoder.thresholds
    return {**group, "rows": [] if rows is None else rows[0].tolist(), "table": table, "cases": cases}


def tally(solution, epsilon, sizes, names):
    encoder = multi(solution, sizes=sizes, epsilon=epsilon, oracle=names)
    tape = Tape(f"support/{solution}/{epsilon}/{sizes}/{names}")
    values = [[i * (j + 2) % size for j, size in enumerate(sizes)] for i in range(12)]
    reports = np.vstack([encoder.perturb([part], tape) for part in values])
    state = encoder.zeros()
    n = len(reports) - encoder.add(state, reports)
    estimates = encoder.estimate(state, n)
    return {
        **question(encoder),
        "n": [estimate.n for estimate in estimates],
        "support": [part.tolist() for part in encoder.support(state, n)],
        "reports": hexes(reports),
    }


def hexes(reports):
    return [bytes(part).hex() for part in reports]


def lines(value):
    """Return JSON with one line for each value that contains no objects."""
    if isinstance(value, dict) and any(map(has_objects, value.values())):
        return "{" + ",\n".join(f"{json.dumps(key)}:{lines(part)}" for key, part in value.items()) + "}"
    if has_objects(value):
        return "[\n" + ",\n".join(map(lines, value)) + "]"
    return json.dumps(value, separators=(",", ":"))


def has_objects(value):
    return isinstance(value, list) and any(isinstance(part, dict) for part in value)


def files():
    """Return the name and the text of each file."""
    contents = {"reports.json": reports(), "support.json": support(), "frames.json": frames(), "keyed.json": keyed()}
    contents |= {"tables.json": tables(), "definitions.json": definitions(), "histories.json": histories()}
    contents["strings.json"] = strings(Tape)
    contents["items.json"] = items()
    contents["recorder.json"] = recorders()
    return {name: lines(value) + "\n" for name, value in contents.items()}


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).parent
    for name, content in files().items():
        (folder / name).write_bytes(content.encode())
