"""Unknown strings on a real broker: three workers, one of which is killed after another, find the same names."""

import time

import numpy as np
import orjson
import pytest

import hubbub
from aggregator.records.maps_record import maps_name
from oracles.frame import encode
from oracles.query import strings
from tests.integration.workers import Place, until
from tests.queries import make_text

HASTE = "from oracles.query import strings\nstrings.LEAST_PANE = 1"
"""Code that lets a worker take panes of seconds, so that the test is short."""
TIMES = {"crowd": 50, "pane": "2s", "lateness": "2s", "skew": "2s", "windows": ["2s", "4s", "all"], "search": "4s"}
TEXTS = {"discover": "text", "length": 6, "cells": 12}
PAUSE = 0.4
"""Seconds between two rounds of frames."""
CRASHES = make_text("crashes", TIMES, domain=TEXTS, epsilon=6.0, answers="fresh", budget=1e9)


def frames(query, rng, partitions, count):
    """Return a frame of the present pane for each partition."""
    texts = ["crash", "oom", *(f"w{rng.integers(10**6)}" for _ in range(20))]
    rows = np.array([query.strings.cells_of(text) for text in texts])
    pane = int(time.time()) // query.pane * query.pane
    result = []
    for partition in range(partitions):
        places = rng.choice(len(rows), count, p=[0.5, 0.3, *[0.01] * 20])
        result.append((partition, encode(query.digest, pane, query.oracle.perturb(rows[places], rng))))
    return result


@pytest.mark.waits
def test_names_are_the_same_bytes_whoever_is_killed(kafka, tmp_path, monkeypatch):
    monkeypatch.setattr(strings, "LEAST_PANE", 1)
    rng = np.random.default_rng(5)
    with Place(kafka, tmp_path, CRASHES, partitions=3) as place:
        workers = [place.start(patch=HASTE) for _ in range(3)]
        for worker in workers:
            worker.ready()
        query = place.queries["crashes"]
        for victim in (0, 1, 2):
            count = len(place.finals())
            while len(place.finals()) <= count:
                place.send(*frames(query, rng, place.partitions, 1_500))
                time.sleep(PAUSE)
            workers[victim].kill()
            workers[victim] = place.start(patch=HASTE)
        for worker in workers:
            worker.ready()
        place.send(*frames(query, rng, place.partitions, 1_500))
        verdict = place.verdict()
        assert verdict.exact, verdict
        table = hubbub.read(place.kafka.servers, "crashes", kind="all", ask=["OOM", "never"], prefix=place.kafka.prefix)
        assert set(table["value"]) == {"oom", "never"}
        last_rows = table.filter(table["end"] == table["end"].max())
        assert last_rows.filter(last_rows["value"] == "oom")["low"].item() > 0.2
        assert last_rows.filter(last_rows["value"] == "never")["high"].item() < 0.1
        records = [orjson.loads(value) for key, value in verdict.expected.items() if b'"maps"' not in value[:8]]
        names = {record["value"] for record in records if record.get("kind") == "enter"}
        assert names == {"crash", "oom"}
        assert any(record.get("values") == ["crash", "oom"] for record in records if record["window"]["size"] == 2)


def test_maps_of_an_older_release_leave_the_topic_of_estimates_after_the_rise(kafka, tmp_path, monkeypatch):
    monkeypatch.setattr(strings, "LEAST_PANE", 1)
    with Place(kafka, tmp_path, CRASHES) as place:
        place.define_in_topic(place.queries)
        digest = place.queries["crashes"].digest
        home = int.from_bytes(digest, "little") % place.partitions
        finals = [f"crashes|{digest.hex()}|tumbling|2|2|{end}".encode() for end in (2, 4)]
        place.send((home, b"{}", finals[0]), topic="estimates")
        place.send(*((home, b'{"maps":[]}', maps_name(key)) for key in finals), topic="estimates")
        place.send((home, None, maps_name(finals[1])), topic="estimates")
        worker = place.start(patch=HASTE).ready()
        until(lambda: worker.events("old maps deleted from estimates"))
        records = [(record.key, record.value) for record in place.read("estimates")]
        assert records[-1] == (maps_name(finals[0]), None)
        assert [key for key, value in records if value is None] == [maps_name(finals[1]), maps_name(finals[0])]
