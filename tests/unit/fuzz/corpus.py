"""The corpus of each reader, a few valid inputs of each kind."""

import base64
import gzip
import json
import sqlite3
import tempfile
import tomllib
import zlib
from functools import cache
from itertools import chain, product
from pathlib import Path

import numpy as np
import orjson

from aggregator.merging.block_records import encode as encode_block
from aggregator.merging.blocks import Block, Part
from aggregator.merging.marks import QueryMarks
from aggregator.merging.name_history import NameHistory, NameSearch
from aggregator.merging.snapshot_records import encode_state
from aggregator.merging.windows import Position
from aggregator.publishing.alerts.state import Reference, Silence, State, dump
from aggregator.records.findings import Sighting
from aggregator.tallies import clock_record
from aggregator.tallies.clock_record import ClockRecord, Numbered
from aggregator.tallies.id_log import IdEntry, encode_ids
from aggregator.tallies.progress import Progress, TopicIds, encode_ends
from aggregator.tallies.progress import encode as encode_progress
from aggregator.tallies.snapshot import Snapshot, encode_snapshot
from aggregator.tallies.tally import Tally, encode_tally
from hubbub.definitions import catalog, stop_record
from hubbub.definitions.versions import Versions
from oracles.frame import TICK, encode, encode_json
from oracles.query import File, parse
from oracles.query.settings import Window
from producers import Client
from producers.gateway.intake.active_definitions import ServedDefinitions
from producers.simulation.crowd.scenario import BUNDLED
from tests import boards
from tests.boards import HOMEPAGE, PROFILE, START
from tests.queries import make_text

LETTERS = {"discover": "text", "length": 24, "alphabet": "abcdefghijklmnopqrstuvwxyz ", "cells": 12}
RECORDER = "edition = 2\n" + make_text(
    "saves", domain=["none", "1", "more"], recorder={"keep": "count", "edges": [0, 1, 2]}, period="1d"
)
"""A query file with a recorder."""
STRINGS = "edition = 2\n" + make_text(
    "crashes", domain=LETTERS, normal="NFC", known=["typeerror: x", ""], search="1h", epsilon=2.0, pane="5m"
)
QUERY_FILE = """\
revision = 7
[queries.homepage]
domain = ["a.example", "b.example", "c"]
oracle = "olh"
epsilon = 1.0
pane = "10s"
windows = ["10s", "1m/10s", "all"]
lateness = "5s"
from = 2026-01-01
until = 2027-01-01T10:00:00Z
emit_every = "never"
methods = ["norm_sub", "calibrate"]
threshold = { count = 1000 }
sets = { social = ["a.example"] }
budget = 40.0
answers = "fresh"
renew = "30d"
[queries.page]
domain = { file = "values.txt" }
oracle = "grr"
epsilon = 0.5
pane = "1m"
threshold = 0.01
budget = 9.0
groups = { platform = ["ios", "web"] }
weights = { ios = 0.3, web = 0.7 }
[queries.profile]
attributes = { sex = ["f", "m"], age = 12 }
solution = "smp"
epsilon = 1.0
pane = "10s"
answers = "once"
sets = { sex = { some = ["f"] } }
"""
VALUES = "one\ntwo\nthree, with a comma\nvier\n"
SCENARIO = """\
[[surge]]
value = "a,b"
share = 0.3
begins = "1m"
rises = "10s"
[[fade]]
value = "wiki.example"
falls = "1m"
[[attack]]
targets = ["news.example"]
kind = "maximal_gain"
share = 0.1
lasts = "forever"
[late]
share = 0.01
by = "30s"
[[clock]]
share = 0.01
by = "-1h"
[rhythm]
quiet = 0.2
[duplicate]
share = 0.01
"""
TOKENS = f"""\
[tokens.app]
sha256 = ["{"5e" * 32}", "{"6e" * 32}"]
quota = 1000
[tokens.site]
keys = ["{"7e" * 32}"]
each = 3
"""
CELLS = HOMEPAGE.oracle.state_size


def _snapshot(n, flags=0):
    return Snapshot(n, n // 9, n // 8, flags, np.arange(CELLS) % (n + 1))


@cache
def values_by_topic():
    """Return the values that workers publish for a crowd, by topic."""
    values_of = {"estimates": [], "alerts": [], "truth": []}
    crowds = [boards.Crowd(HOMEPAGE, clients=2_000, surge=2), boards.Crowd(PROFILE, clients=500)]
    for messages in (crowd.next() for _, crowd in product(range(4), crowds)):
        for topic, _, value in messages:
            values_of[topic].append(value)
    values_of["estimates"].append(crowds[0].provisional()[2])
    values_of["status"] = [
        boards.status_message(crowd.query, START, start)[2] for crowd, start in product(crowds, (START, None))
    ]
    return {topic: values[:12] for topic, values in values_of.items()}


def record_keys():
    """Return the keys of final and provisional records."""
    crowd = boards.Crowd(HOMEPAGE, clients=50)
    messages = [*crowd.next(), *boards.Crowd(PROFILE, clients=50).next(), crowd.provisional()]
    return [key for _, key, _ in messages]


@cache
def reports():
    """Return a tick and frames of both queries, binary and JSON, with and without an id."""
    draw = np.random.default_rng(14)
    frames = [TICK]
    for query, shape in ((HOMEPAGE, 4), (PROFILE, (4, 2))):
        rows = query.oracle.perturb(np.zeros(shape, np.int64), draw)
        for write in (encode, encode_json):
            frames += [write(query.digest, START, rows), write(query.digest, START, rows, bytes(range(8)))]
    return frames


def submissions():
    """Return bodies of requests, with successive frames, an array, or single frames."""
    binary = [frame for frame in reports() if frame.startswith(b"HBB1") and frame != TICK]
    return [b"".join(binary), b"[" + b",".join(f for f in reports() if f.startswith(b"{")) + b"]", *reports()]


def gzip_bodies():
    return [gzip.compress(body, mtime=0) for body in submissions()]


@cache
def snapshots():
    return [encode_snapshot(_snapshot(n)) for n in (0, 7, 300, 100_000)]


@cache
def tallies():
    return [
        encode_tally(Tally(np.arange(CELLS), n, 1, 2, 3, 99, clock)) for n, clock in ((3, None), (300, START * 1000))
    ]


@cache
def segments():
    return [encode_ids([IdEntry(bytes([i] * 8), 5 + step * i) for i in range(9)]) for step in (1, 100, 1 << 40)]


@cache
def progress():
    closed_through = {HOMEPAGE.digest: START, PROFILE.digest: START + 50}
    topic_ids = TopicIds(b"r" * 16, b"s" * 16)
    return [
        encode_ends(Progress(9, START * 1000, closed_through)),
        encode_ends(Progress(9, None, closed_through, topic_ids)),
        encode_progress(Progress(9, START * 1000, topic_ids=topic_ids, closed_clock=START * 1000 + 500)),
    ]


@cache
def clock_records():
    topic_ids = TopicIds(b"r" * 16, b"s" * 16)
    clocks = Numbered.of({0: START * 1000, 3: START * 1000 + 70})
    return [
        clock_record.encode(ClockRecord(4, topic_ids, clocks, Numbered.of({0: 5, 1: 1 << 40, 2: 7}))),
        clock_record.encode(ClockRecord(4, topic_ids)),
    ]


@cache
def alert_states():
    reference = Reference(START, 700, 600, np.arange(HOMEPAGE.domains[0].size).astype(np.uint16))
    return [
        dump(State(START)),
        dump(
            State(START, {1: 0.5, 2: None}, (Silence(2, "fade", START, 0.1),), (reference, reference), has_values=True)
        ),
    ]


@cache
def blocks():
    counts = np.arange(HOMEPAGE.domains[0].size).astype(np.uint16)
    part = Part(700, 600, counts, is_visible=True, is_complete=True)
    return [encode_block(Block(START, (part_stretch,))) for part_stretch in (part, None)]


@cache
def name_histories():
    search = NameSearch(Window("all", 0, 0), START - 600, START, ("crash", "日本"), ("crash",), ())
    return [NameHistory().encode(), NameHistory({"oom": Sighting(START, START, True)}, (search,), True).encode()]


@cache
def maps():
    counts = [base64.b64encode(zlib.compress(np.arange(4096).astype("<u4").tobytes())).decode()] * 4
    return [orjson.dumps({"maps": counts, "n": [5_000] * 4})]


@cache
def discoveries():
    row = {"levels": [9, 8, 7], "names_n": [5], "ambiguous": ["a"], "first_seen": {"b": START}, "smallest": 0.1}
    return [orjson.dumps(row)]


def _marks():
    result = QueryMarks(Versions.of(HOMEPAGE))
    for number in range(30):
        result.count(START - 300 + 10 * number, [20 + number])
    return result


@cache
def marks():
    return [_marks().encode(), QueryMarks.lost(Versions.of(HOMEPAGE), START).encode()]


@cache
def states():
    alerts = [alert_states()[1]]
    position = Position(START + 10, START - 500, START, _snapshot(300))
    return [
        encode_state(Position(START + 10), alerts, _marks()),
        encode_state(position, alerts, _marks()),
        encode_state(position, [], _marks()),
    ]


@cache
def definition_writes():
    """Return keys and values of the topic of definitions."""
    writes = catalog.changes(File({"a": HOMEPAGE, "b": PROFILE}), catalog.Definitions(), [], "00" * 8).writes
    return [*writes, stop_record.write("homepage", "00" * 8, is_stopped=True, reason="wrong values")]


KEYS = (
    f"tally|{HOMEPAGE.digest.hex()}|{START}|3",
    f"ids|{HOMEPAGE.digest.hex()}|{START}|3|5|9",
    "progress|3|0123456789abcdef.7",
    f"closed|{HOMEPAGE.digest.hex()}|{START}|0",
    f"open|{HOMEPAGE.digest.hex()}|{START}|0",
    "watermark|0|0123456789abcdef",
    *(
        f"state|{HOMEPAGE.digest.hex()}|{window}|{START + 10}"
        for window in ("tumbling|10|10", "hopping|60|10", "all|0|0")
    ),
    f"state|{HOMEPAGE.digest.hex()}|all|0|0|{START + 10}|2",
    f"block|{HOMEPAGE.digest.hex()}|tumbling|10|10|4|{START + 10}",
)


@cache
def listing():
    """Return the answer to GET /v1/queries."""
    return ServedDefinitions.of(_queries()).listing(1_790_000_000).text


def _queries():
    return parse(tomllib.loads(QUERY_FILE.replace('{ file = "values.txt" }', '["x", "y"]')), "test", ".")


@cache
def store():
    """Return the bytes of a ledger with one answer, and of its key."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store"
        query = parse(tomllib.loads(QUERY_FILE.replace('{ file = "values.txt" }', '["x", "y"]')), "test", ".")[
            "homepage"
        ]
        client = Client(query, path)
        client.answer("a.example")
        with sqlite3.connect(path) as database:
            database.execute("VACUUM")
        return path.read_bytes(), Path(f"{path}.key").read_bytes()


def scenarios():
    return [SCENARIO, *(path.read_text() for path in BUNDLED.values())]


def vectors():
    """Return the frames of the test vectors for clients in any language."""
    groups = json.loads((Path(__file__).parents[2] / "vectors" / "frames.json").read_text())
    return [bytes.fromhex(case["hex"]) for case in chain.from_iterable(groups.values()) if "hex" in case]
