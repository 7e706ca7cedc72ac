"""`hubbub rejects` shows the frames that a real worker refused."""

import json
import re
import sys

import orjson

from tests import forks
from tests.integration.workers import Place, environment, until
from tests.queries import make_text
from tests.slowness import patience

PAGE = make_text(
    "page", domain=["a", "b", "c"], oracle="grr", epsilon=2.0, budget=1e9, pane="1s", lateness="1s", skew="3s"
)


def output(place, *arguments):
    """Return what the command prints."""
    command = [sys.executable, "-m", "hubbub", "rejects", *arguments]
    env = environment(place.kafka, place.file)
    process = forks.run(command, env=env, timeout=patience(60))
    assert process.returncode == 0
    assert process.stderr == ""
    return process.stdout


def test_refused_frames_are_counted_and_decoded(tansu, tmp_path):
    with Place(tansu, tmp_path, PAGE, partitions=1) as place:
        worker = place.start().ready()
        place.wait_for_ticks()  # before there is a clock nothing is late
        assert output(place) == "no refused frames\n"
        frame = place.frame("page", [0] * 9)
        strange = frame[:8] + b"\0" * 7 + b"\1" + frame[16:]
        place.send(
            (0, place.frame("page", [1], pane=1_700_000_000, number=0x0102)),
            (0, strange),
            (0, b"\x1b[2J rubbish"),
            (0, b'{"digest": "rubbish"}'),
            (0, frame[:-1]),
        )
        until(lambda: worker.total("hubbub_rejected_total") >= 5)
        until(lambda: len(place.read("rejects")) == 5)
        assert worker.total("hubbub_rejected_frames_total", reason="malformed") == 3
        assert worker.total("hubbub_rejected_frames_total") == 5
        text = output(place)
        assert re.match(r"5 refused frames since 20\d\d-", text)
        assert re.search(r"^ +3  malformed$", text, re.MULTILINE)
        assert "late: " in text
        assert re.search(r"query page, pane 2023-11-14T22:13:20Z, reports of 1 bytes, id 0201000000000000", text)
        assert "digest 0000000000000001, which no query has" in text
        assert "JSON that begins with {" in text
        assert "\x1b" not in text
        lines = [json.loads(line) for line in output(place, "--json", "--last", "2").splitlines()]
        assert [line["offset"] for line in lines] == sorted(line["offset"] for line in lines)
        assert len(lines) == 2
        late = [orjson.loads(line) for line in output(place, "--json", "--reason", "late").splitlines()]
        assert [(line["query"], line["pane"], line["reason"]) for line in late] == [("page", 1_700_000_000, "late")]
