"""`hubbub sink` writes the finals of the topic to files, each once."""

import time

import orjson
import pytest

from aggregator.reading import doctor
from aggregator.records.row_columns import FLAT
from tests.boards import START, definition_messages, in_thread, publish
from tests.brokers import create_topics
from tests.sinks import Sink, contents, final, keys, rows_of, view

OPTIONS = "--every", "1s", "--settle", "1s"


@pytest.fixture
def kafka(tansu):
    kafka = in_thread(lambda: create_topics(tansu, partitions=2))
    publish(kafka, definition_messages())
    return kafka


def test_a_sink_writes_each_final_once_and_goes_on_where_it_stopped(kafka, tmp_path, capsys):
    ends = range(START + 10, START + 100, 10)
    messages = [final(end) for end in ends]
    strange = [("estimates", b"x", b"{}"), ("estimates", b"y", orjson.dumps({"version": 9})), ("estimates", b"z", None)]
    strange += [final(START, query="../../x"), ("estimates", b"year", final(10**12)[2])]
    publish(kafka, [*messages, *messages[:3], *strange])
    code, stderr = Sink(kafka, tmp_path, "--once", *OPTIONS).wait()
    assert code == 0, stderr
    files = contents(tmp_path)
    rows = rows_of(files)
    assert rows.columns == [column.name for column in FLAT]
    assert set(rows["end"]) == {*ends}
    assert not list(tmp_path.parent.rglob("query=..*"))
    assert len(keys(rows)) == 9 * len(orjson.loads(messages[0][2])["values"])
    state = orjson.loads((tmp_path / "_sink" / "state.json").read_bytes())
    assert [gap["to"] - gap["from"] for gap in state["gaps"]] == [1]
    assert sum(state["offsets"].values()) == len(messages) + 3 + len(strange)

    # The doctor reads the state, and a target of another prefix needs a person.
    place = ["--kafka", kafka.servers, "--embedded", "--sink", str(tmp_path), "--strict"]
    assert doctor.main([*place, "--prefix", f"{kafka.prefix}other."]) == 4
    assert f"holds finals of prefix '{kafka.prefix}'" in capsys.readouterr().out
    doctor.main([*place, "--prefix", kafka.prefix])
    assert "newest 0 records in `finals`; gaps: 1 known" in capsys.readouterr().out

    # A final of a file that is written comes late, and one of the present day.
    now = int(time.time()) // 10 * 10
    publish(kafka, [final(START + 100), final(now)])
    code, stderr = Sink(kafka, tmp_path, "--once", *OPTIONS).wait()
    assert code == 0, stderr
    later = contents(tmp_path)
    assert files.items() < later.items()
    assert [path for path in later if path not in files] == [next(iter(files)).replace(".parquet", ".late-1.parquet")]
    finals, open_rows = view(tmp_path)
    assert keys(finals).isdisjoint(keys(open_rows))
    assert set(finals["end"]) == {*ends, START + 100}
    assert set(open_rows["end"]) == {now}


def test_a_running_sink_keeps_a_second_one_away_and_ends_in_order(kafka, tmp_path):
    now = int(time.time()) // 10 * 10
    publish(kafka, [final(now)])
    with Sink(kafka, tmp_path, "--every", "1h") as sink:
        while not (tmp_path / "_sink" / "lock").exists() or not (tmp_path / "_sink" / "lock").read_bytes():
            assert sink.process.poll() is None
            time.sleep(0.05)
        code, stderr = Sink(kafka, tmp_path).wait()
        assert code == 4
        assert f"process {sink.process.pid}" in stderr
        code, stderr = sink.stop()
        assert code == 0, stderr
    assert code == 0
