"""Random logs with all kinds of records, for queries with small limits on ids, skew and lateness."""

from dataclasses import replace

import numpy as np

from hubbub.definitions.versions import Version, Versions
from oracles.frame import TICK, encode, encode_json
from oracles.query.groups import Groups
from oracles.query.settings import Window
from tests.queries import make_queries, make_table

START = 1_700_000_000
PLATFORMS = ("ios", "web", "android")
WEB_TIMES = {"lateness": "5s", "skew": "20s", "windows": ["10s", "1m/20s", "30s", "all"]}
APP_TIMES = {"pane": "5s", "lateness": "0s", "skew": "10s", "windows": ["5s", "15s/5s", "all"]}
PROFILE_TIMES = {"lateness": "30s", "skew": "0s", "windows": ["20s", "all"]}
QUERIES = make_queries(
    {
        "web": make_table(WEB_TIMES, domain=5, oracle="grr", budget=1e9, max_ids=2, crowd=5),
        "app": make_table(APP_TIMES, domain=100, oracle="oue", budget=1e9, require_id=True, crowd=4),
        "profile": make_table(PROFILE_TIMES, attributes={"a": 3, "b": 9}, epsilon=2.0, budget=1e9, crowd=3),
        "gone": make_table(domain=3, oracle="olh", epsilon=2.0, budget=1e9, crowd=1),
    }
)
QUERIES["profile"] = replace(QUERIES["profile"], starts=START + 20, until=START + 150)
BY_DIGEST = {query.digest: query for query in QUERIES.values()}
LIMIT = 900
"""Bytes of the longest frame."""


STOP = object()
"""A change that only stops a query. The next change lets it go on."""


def with_changes(name, *changes):
    """Return the versions of a query.

    A change has a first pane (seconds after START) and new settings, None to retire the query, or STOP.
    """
    versions = Versions.of(QUERIES[name])
    query = QUERIES[name]
    for seconds, settings in changes:
        is_stopped = settings is STOP
        query = query if is_stopped else replace(query, **(settings or {}))
        version = Version(START + seconds, query, retired=settings is None, is_stopped=is_stopped)
        versions = versions.with_version(version)
    return versions


_SHORT, _HOPS, _HALF, _ALL = QUERIES["web"].windows
VERSIONS = {
    versions.query.digest: versions
    for versions in (
        with_changes(
            "web",
            (
                40,
                {"lateness": 30, "windows": (_SHORT, _HOPS), "crowd": 2, "groups": Groups("platform", ("ios", "web"))},
            ),
            (70, {"lateness": 0, "windows": (Window("hopping", 30, 10), _ALL, _HOPS, _HALF)}),
            (100, {"skew": 5, "max_ids": 3, "crowd": 8, "groups": Groups("platform", PLATFORMS)}),
            (120, {"publish": 3}),
        ),
        with_changes("app", (50, {"lateness": 10}), (75, None), (105, {"lateness": 5, "require_id": False})),
        with_changes("profile", (60, STOP), (80, {})),
        with_changes("gone", (60, None)),
    )
}
POOL = {
    name: query.oracle.perturb(
        np.zeros((40, 2), int) if query.attributes else np.zeros(40, int), np.random.default_rng(7)
    )
    for name, query in QUERIES.items()
}
IMPLAUSIBLE = np.array([[255] * 12 + [15]], np.uint8)
"""A report of "app" that is well-formed and implausible."""


def frame(random, partition, partitions, seconds):
    """Return a frame of about this time. A worker refuses some of them."""
    query = random.choice([*QUERIES.values(), QUERIES["web"]])
    pane = (seconds + random.choice([-45, -20, -15, -10, -5, 0, 0, 0, 0, 0, 0, 5, 10, 25])) // query.pane * query.pane
    rows = [random.randrange(40) for _ in range(random.choice([0, 1, 1, 1, 2, 5]))]
    reports = POOL[query.name][rows]
    if query.name == "app" and random.random() < 0.2:
        reports = np.concatenate([reports, IMPLAUSIBLE])
    partition_named = partition if random.random() < 0.97 else partition + 1
    number = random.randrange(1, 7) * partitions + partition_named
    name = number.to_bytes(8, "little") if query.require_id or random.random() < 0.6 else None
    group = random.choice([0, 1, 1, 2, 3, 4]) if query.name == "web" else 0
    data = encode(query.digest, pane, reports, name, group=group)
    if random.random() < 0.25:
        named = (
            {"platform": random.choice([*PLATFORMS, "tv"])} if query.name == "web" and random.random() < 0.9 else None
        )
        data = encode_json(query.digest, pane, reports, name, group=named)
    if random.random() < 0.1:
        bad = np.full((1, query.oracle.width), 255, np.uint8)
        another_frame = encode(b"nobody!!", pane, reports)
        empty_frame = encode(query.digest, pane, bad[:0])[:6] + bytes(2) + encode(query.digest, pane, bad[:0])[8:]
        wrong_frames = [None, b"", b"{", data[:-1], data + bytes(LIMIT), encode(query.digest, pane + 1, reports)]
        data = random.choice([*wrong_frames, another_frame, empty_frame, encode(query.digest, pane, bad)])
    return data


def random_log(random, partitions, length, *, log_has_time=True, ends=True):
    """Return the records of each partition, with gaps in their offsets. `ends` adds a tick that closes all panes."""
    log = []
    for partition in range(partitions):
        offset = random.choice([0, 5])
        milliseconds = START * 1000
        records = []
        for _ in range(length):
            milliseconds += random.choice([0, 0, 0, 1, 500, 999, 1000, 2500, 5001, -2000])
            if random.random() < 0.03:
                milliseconds += random.choice([40_000, 90_000])
            data = frame(random, partition, partitions, milliseconds // 1000)
            if random.random() < 0.15:
                data = TICK
            has_false_time = not log_has_time and data != TICK
            records.append((offset, random.randrange(1 << 45) if has_false_time else milliseconds, data))
            offset += random.choice([1, 1, 1, 2, 9])
        final_ticks = [(offset, (START + 500) * 1000, TICK)] if ends else []
        log.append(records + final_ticks)
    return log
