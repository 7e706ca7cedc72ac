"""Query files and logs whose finals hold every kind of answer, alert, state and block.

The logs are always the same: clients draw from a hash of a label, and their values follow from whole numbers.
"""

import tomllib
from hashlib import shake_128
from itertools import count

import numpy as np

from oracles.frame import TICK, encode, encode_json
from oracles.mechanisms.entropy import Source
from oracles.query import parse

START = 1_700_006_400
"""A whole multiple of all windows and seasons of the cases."""


class Stream(Source):
    """The bytes that a client draws: a hash of a label."""

    def __init__(self, label):
        self._label = label
        self._blocks = count()
        self._ahead = b""

    def raw(self, size):
        while len(self._ahead) < size:
            self._ahead += shake_128(f"{self._label}/{next(self._blocks)}".encode()).digest(1 << 14)
        data = np.frombuffer(self._ahead[:size], np.uint8)
        self._ahead = self._ahead[size:]
        return data

    def draw(self, weights, size):
        """Return so many positions, each with a chance that is proportional to its weight."""
        ends = np.cumsum(np.asarray(weights, np.int64))
        words = self.raw(4 * size).view("<u4").astype(np.int64)
        return np.searchsorted(ends, words * ends[-1] >> 32, side="right")


class Case:
    """A query file, and the log of its reports on some partitions."""

    def __init__(self, tables, partitions=1):
        self.tables = {"edition": 2, **tomllib.loads(tables)}
        self.queries = parse(self.tables, "a case", None)
        self.log = [[] for _ in range(partitions)]

    def report(self, name, pane, *weights, size, group=0, frame_id=None, partition=0):
        """Append a frame of a query, with weights for the values of each attribute, by name. `pane` counts from 0."""
        query = self.queries[name]
        start = START + pane * query.pane
        stream = Stream(f"{query.canonical}/{pane}/{group}/{frame_id}/{partition}")
        columns = [stream.draw(attribute_weights, size) for attribute_weights in weights]
        values = np.stack(columns, axis=1) if query.attributes else columns[0]
        reports = query.oracle.perturb(values, stream)
        self.append(start + query.pane, encode(query.digest, start, reports, frame_id, group=group), partition)
        return reports

    def append(self, time, data, partition=0):
        """Append the bytes of a record at a time in seconds."""
        self.log[partition].append([time * 1000 + 250, data.hex()])

    def end(self):
        """Close all panes by ticks, and return the content of the case."""
        last = max(records[-1][0] for records in self.log if records) // 1000
        for partition in range(len(self.log)):
            self.append(last + 100, TICK, partition)
        return {"queries": self.tables, "log": self.log}


def falling(size, first=0):
    """Return weights that fall from a position on, like those of words."""
    return [1000 // (1 + (place - first) % size) for place in range(size)]


def peak(size, middle, width):
    """Return weights of numbers around a middle."""
    return [max(1, width - abs(place - middle)) ** 2 for place in range(size)]


def values():
    """Values with a calibrated prior, sets, a season and few published values, which change slowly and at once."""
    case = Case("""
        [queries.pages]
        domain = 30
        oracle = "grr"
        epsilon = 4.0
        answers = "fresh"
        budget = 1e9
        pane = "10s"
        period = "10s"
        windows = ["10s", "40s/20s", "all"]
        methods = ["norm_sub", "base_cut"]
        publish = 5
        sets = { low = [0, 1, 2, 3], last = [29] }
        season = "320s"
        threshold = 0.07
        alerts_a_day = 20.0

        [queries.words]
        domain = 40
        oracle = "olh"
        epsilon = 4.0
        answers = "fresh"
        budget = 1e9
        pane = "10s"
        windows = ["1m", "2m/1m"]
        methods = ["calibrate", "norm_sub"]
        publish = 12
        sets = { low = [0, 1, 2, 3] }
        season = "2m"

        [queries.panel]
        domain = ["a", "b", "c", "d"]
        epsilon = 3.0
        pane = "10s"
        period = "20s"
        windows = ["20s", "40s"]
        methods = ["norm_mul", "mle_apx"]
        publish = "all"
        alerts_a_day = 50.0
    """)
    for pane in range(84):
        weights = falling(30)
        if 24 <= pane < 50:
            weights[7] += 900
        weights[0] -= 12 * pane
        case.report("pages", pane, weights, size=240)
        case.report("panel", pane, [40, 30, 20, 10 + 90 * (pane > 60)], size=80)
        if pane % 6 == 0 and pane < 48:
            case.report("words", pane, falling(40), size=1500)
    return case


def limits():
    """A count as threshold, significance, and each oracle of values."""
    oracles = ("grr", "sue", "oue", "blh", "olh", "hr", "ss", "full", "short")
    table = """
        [queries.{0}]
        domain = 20
        oracle = "{0}"
        epsilon = 3.0
        answers = "once"
        pane = "10s"
        windows = ["10s", "20s"]
        methods = ["norm_sub"]
        threshold = {1}
        alerts_a_day = 9.0
    """
    tables = (table.format(name, ("{ count = 50 }", '"significance"')[place % 2]) for place, name in enumerate(oracles))
    case = Case("".join(tables))
    for pane in range(6):
        for name in oracles:
            case.report(name, pane, falling(20, first=5 * (pane > 3)), size=400)
    return case


def crowds():
    """Windows that are small or held, on three partitions, with reports that came twice."""
    case = Case(
        """
        [queries.visits]
        domain = 6
        oracle = "oue"
        epsilon = 2.0
        answers = "fresh"
        budget = 1e9
        pane = "10s"
        windows = ["10s", "30s/10s", "40s", "all"]
        max_ids = 3
        crowd = 60
        methods = ["norm_sub", "norm_cut"]
    """,
        partitions=3,
    )
    sizes = [90, 200, 20, 0, 20, 20, 90, 0, 0, 120, 10, 300, 61, 59, 60, 0, 0, 0, 0, 0, 0, 0, 80, 200, 200, 200]
    for pane, size in enumerate(sizes):
        for partition in range(3 if size else 0):
            own_size = size // 3 + (size % 3 if partition == 0 else 0)
            frame_id = (3 * pane + partition + 3).to_bytes(8, "little")
            for _ in range(1 + (pane == 11)):
                case.report("visits", pane, falling(6), size=own_size, frame_id=frame_id, partition=partition)
    return case


def numbers():
    """Numbers on both scales: their quantiles, ranges, limits and changes."""
    case = Case("""
        [queries.load]
        domain = { low = 1, high = 60000, bins = 64, scale = "log", unit = "ms" }
        epsilon = 4.0
        answers = "fresh"
        budget = 1e9
        pane = "10s"
        windows = ["10s", "40s/20s", "all"]
        quantiles = [0.1, 0.5, 0.95]
        ranges = { slow = [1000, 60000], quick = [1, 20] }
        threshold = { p95 = 2000, p50 = 400 }
        season = "160s"
        crowd = 50
        alerts_a_day = 20.0

        [queries.year]
        domain = { low = 1900, high = 2028, bins = 16 }
        epsilon = 3.0
        pane = "10s"
        period = "20s"
        windows = ["20s"]
        crowd = 50
        alerts_a_day = 50.0
    """)
    for pane in range(48):
        is_slow = 16 <= pane < 32
        case.report("load", pane, peak(64, 44 if is_slow else 28, 14), size=640)
        case.report("year", pane, peak(16, 5 + pane // 8, 6), size=320)
    case.report("load", 48, peak(64, 30, 14), size=40)
    return case


def many_numbers():
    """Numbers far from zero, in bins that seven digits do not tell apart, and numbers of groups."""
    case = Case("""
        [queries.stamps]
        domain = { low = 1700000000, high = 1700086400, bins = 1024, unit = "s" }
        epsilon = 6.0
        answers = "fresh"
        budget = 1e9
        pane = "30s"
        windows = ["30s", "1m"]
        ranges = { morning = [1700000000, 1700043200] }
        groups = { platform = ["ios", "android"] }
        crowd = 100
    """)
    for pane in range(4):
        case.report("stamps", pane, peak(1024, 300, 200), size=1600, group=1)
        case.report("stamps", pane, peak(1024, 700, 300), size=1600 if pane % 2 else 60, group=2)
    return case


def groups():
    """Groups with weights, of which some are withheld and one has no reports."""
    case = Case("""
        [queries.screens]
        domain = ["home", "search", "cart", "help", "about"]
        oracle = "grr"
        epsilon = 3.0
        answers = "fresh"
        budget = 1e9
        pane = "10s"
        windows = ["10s", "20s", "1m/20s", "all"]
        groups = { platform = ["ios", "android", "web", "tv"] }
        weights = { ios = 0.25, android = 0.6, web = 0.15, tv = 0 }
        methods = ["norm_sub", "norm"]
        sets = { shop = ["search", "cart"] }
        alerts_a_day = 20.0

        [queries.plain]
        domain = 4
        oracle = "grr"
        epsilon = 3.0
        answers = "fresh"
        budget = 1e9
        pane = "10s"
        windows = ["10s"]
        groups = { release = ["1.0", "1.1"] }

        [queries.profile]
        attributes = { age = 8, plan = ["free", "paid"] }
        pairs = [["age", "plan"]]
        solution = "smp"
        epsilon = 4.0
        answers = "fresh"
        budget = 1e9
        pane = "10s"
        windows = ["20s"]
        groups = { release = ["1.0", "1.1"] }
        weights = { "1.0" = 0.5, "1.1" = 0.5 }
        crowd = 20
    """)
    for pane in range(24):
        case.report("screens", pane, falling(5, first=pane // 12), size=300, group=1)
        case.report("screens", pane, falling(5, first=1), size=500 if pane != 9 else 12, group=2)
        case.report("screens", pane, falling(5, first=2), size=(70, 10, 55)[pane % 3], group=3)
        case.report("screens", pane, falling(5, first=3), size=60, group=0)
        case.report("plain", pane, falling(4), size=90, group=1 + pane % 2)
        case.report("profile", pane, falling(8), [3, 1 + pane // 12], size=300, group=1)
        case.report("profile", pane, falling(8), [2, 3], size=200 if pane > 5 else 25, group=2)
    return case


def several():
    """Several attributes by each solution, with a pair, numbers among values, and changes."""
    case = Case("""
        [queries.crashes]
        attributes = { version = ["3.1", "3.2"], crash = ["TypeError", "RangeError", "OOM"], os = 9 }
        pairs = [["version", "crash"]]
        solution = "smp"
        oracle = "hr"
        epsilon = 4.0
        answers = "fresh"
        budget = 1e9
        pane = "10s"
        windows = ["10s", "30s"]
        sets = { os = { even = [0, 2, 4, 6, 8] } }
        publish = 2
        crowd = 30
        alerts_a_day = 20.0

        [queries.mixed]
        attributes = { place = 5, load = { low = 0, high = 100, bins = 16, unit = "%" } }
        solution = "spl"
        epsilon = 8.0
        answers = "fresh"
        budget = 1e9
        pane = "10s"
        windows = ["10s", "all"]
        ranges = { load = { high = [50, 100] } }
        methods = ["norm_mul"]
        alerts_a_day = 20.0

        [queries.fake]
        attributes = { age = 7, country = 12 }
        solution = "rsfd"
        epsilon = 4.0
        pane = "10s"
        windows = ["20s"]
        methods = ["norm_sub"]
    """)
    for pane in range(20):
        case.report("crashes", pane, [5, 3, 1 + pane // 12 * 9], falling(9), [1 + pane // 10 * 6, 2], size=500)
        case.report("mixed", pane, peak(16, 4 + pane // 10 * 6, 5), falling(5, first=pane // 10), size=400)
        case.report("fake", pane, falling(7), falling(12), size=200)
    return case


def names():
    """Unknown strings, of which some are known before, one appears later, and one stretch is withheld."""
    case = Case("""
        [queries.errors]
        domain = { discover = "text", length = 12, cells = 12 }
        known = ["timeout", "never seen"]
        epsilon = 6.0
        answers = "fresh"
        budget = 1e9
        pane = "5m"
        windows = ["10m", "5m", "all"]
        search = "10m"
    """)
    query = case.queries["errors"]
    strings = query.oracle.strings
    texts = ["oom", "timeout", "x is null", "é" * 20, *(f"rare {number}" for number in range(60))]
    rows = np.array([strings.cells_of(text) for text in texts])
    for pane in range(6):
        start = START + 300 * pane
        stream = Stream(f"names/{pane}")
        weights = [300, 150, 200 if pane > 3 else 0, 120, *[5] * 60]
        reports = query.oracle.perturb(rows[stream.draw(weights, 16_000 if pane != 2 else 90)], stream)
        case.append(start + 300, encode(query.digest, start, reports))
    return case


def large_record():
    """A record that is too large, with groups and a weighted total."""
    long_names = [f"{number:0>8}{'x' * 210}" for number in range(32_000)]
    case = Case(f"""
        [queries.large]
        domain = {long_names}
        oracle = "olh"
        epsilon = 8.0
        answers = "fresh"
        budget = 1e9
        pane = "10s"
        publish = "all"
        groups = {{ platform = ["ios", "android"] }}
        weights = {{ ios = 0.5, android = 0.5 }}
    """)
    for group in (1, 2):
        case.report("large", 0, [30] * 10 + [0] * 31_980 + [30] * 10, size=800, group=group)
    return case


def rejects():
    """Frames that are late, early, malformed, unknown or empty, and frames in JSON, among good ones."""
    case = Case(
        """
        [queries.web]
        domain = 9
        oracle = "oue"
        epsilon = 1.0
        answers = "fresh"
        budget = 1e9
        pane = "10s"
        lateness = "5s"
        skew = "20s"
        windows = ["10s", "20s/10s", "all"]
        require_id = true
        groups = { platform = ["ios", "web"] }
        crowd = 30
    """,
        partitions=2,
    )
    query = case.queries["web"]
    all_ones = np.full((5, query.oracle.width), 255, np.uint8)
    all_ones[:, -1] = 1
    for pane in range(14):
        start = START + 10 * pane
        for partition in range(2):
            frame_id = (2 * pane + partition + 2).to_bytes(8, "little")
            other_id = (2 * pane + partition + 1000).to_bytes(8, "little")
            reports = case.report(
                "web", pane, falling(9), size=120, group=1 + pane % 2, frame_id=frame_id, partition=partition
            )
            later = start + 10 + partition
            in_json = encode_json(
                query.digest, start, reports[:40], other_id, group={"platform": ("ios", "tv")[pane % 2]}
            )
            case.append(later, in_json, partition)
            case.append(later, encode(query.digest, start, all_ones, bytes([pane + 1] * 8)), partition)
            case.append(later, encode(query.digest, start, reports), partition)
            case.append(later, encode(query.digest, start - 100, reports, other_id), partition)
            case.append(later, encode(query.digest, start + 100, reports, other_id), partition)
            case.append(later, encode(b"nobody!!", start, reports, other_id), partition)
            case.append(later, b"{", partition)
            case.append(later, TICK, partition)
    return case


CASES = {
    make.__name__: make
    for make in (values, limits, crowds, numbers, many_numbers, groups, several, names, large_record, rejects)
}
"""A function that makes each case, by its name."""
