"""`hubbub export` and `hubbub.read` return the published records unchanged."""

import asyncio
import csv
import json
import sys
from itertools import chain

import orjson
import polars as pl
import pytest

import hubbub
from aggregator.reading.export.command import main
from aggregator.reading.export.finals import no_match
from oracles.errors import ParameterError
from tests.boards import HOMEPAGE, PANE, PROFILE, START, Crowd, definition_messages, in_thread, publish
from tests.brokers import create_topics


@pytest.fixture(scope="module")
def crowd_records(tansu):
    """Return topics with the records of two crowds, some of them repeated, and with invalid records."""
    crowd = Crowd(HOMEPAGE, clients=2_000)
    other = Crowd(PROFILE, clients=2_000)
    messages = [*chain.from_iterable(crowd.next() for _ in range(7))]
    kafka = in_thread(lambda: create_topics(tansu))
    strange = [("estimates", b"x", b"{}"), ("estimates", b"x", None), crowd.provisional()]
    publish(
        kafka,
        [
            *definition_messages(),
            *messages,
            *messages[:5],
            *strange,
            *chain.from_iterable(other.next() for _ in range(2)),
        ],
    )
    return kafka, messages


@pytest.fixture
def place(crowd_records):
    return crowd_records[0]


def test_a_table_holds_every_value_of_every_final_once(crowd_records):
    place, messages = crowd_records
    table = hubbub.read(place.servers, "homepage", prefix=place.prefix)
    records = [orjson.loads(value) for topic, _, value in messages if topic == "estimates"]
    assert table.height == sum(len(record["values"]) for record in records)
    assert table.schema["start"] == table.schema["end"] == pl.Datetime("us", "UTC")
    for record in records:
        window = record["window"]
        rows = table.filter((pl.col("kind") == window["kind"]) & (pl.col("end").dt.epoch("s") == window["end"]))
        assert rows["value"].to_list() == record["values"]
        for name, numbers in {**record["shares"], **{key: record[key] for key in ("stderr", "low", "high")}}.items():
            assert rows[name].to_list() == numbers
        proved = {hitter["value"] for hitter in record["hitters"]["unbiased"] if hitter["decided"]}
        assert set(rows.filter(pl.col("proved"))["value"]) == proved
        assert set(rows["n"]) == {record["n"]}


def test_times_kinds_and_attributes_select_records(place):
    since = START + 3 * PANE
    until = START + 5 * PANE
    table = hubbub.read(place.servers, "homepage", prefix=place.prefix, since=since, until=until, kind="tumbling")
    assert sorted(set(table["end"].dt.epoch("s"))) == [START + 3 * PANE, START + 4 * PANE]
    profile = hubbub.read(place.servers, "profile", prefix=place.prefix)
    assert set(profile["attribute"]) == {"age", "sex"}
    assert set(profile["digest"]) == {PROFILE.digest.hex()}


def test_columns_have_their_types_for_any_content(place):
    """So tables of several queries, or of a time without windows, can be joined."""
    home, profile, none = (
        hubbub.read(place.servers, query, prefix=place.prefix, since=since)
        for query, since in (("homepage", 0), ("profile", 0), ("homepage", START + 1000))
    )
    assert none.height == 0
    assert home.schema == profile.schema == none.schema
    assert home.schema["attribute"] == home.schema["flags"] == pl.String
    assert none.schema["unbiased"] == none.schema["high"] == pl.Float64
    assert pl.concat([none, profile, home]).height == profile.height + home.height


def test_it_reports_why_there_is_no_match(place, caplog):
    with pytest.raises(ParameterError, match="there are no finals of query 'homepages'; did you mean 'homepage'"):
        hubbub.read(place.servers, "homepages", prefix=place.prefix)
    assert no_match("homepage", {}) == "there are no finals yet, of any query"
    hubbub.read(place.servers, "homepage", prefix=place.prefix, since=START + 1000)
    assert "its finals end from 2023-11-14T22:13:30+00:00 to 2023-11-14T22:14:30+00:00" in caplog.text
    with pytest.raises(ParameterError, match="no finals of query homepage of the group 'ios'; they have no groups"):
        hubbub.read(place.servers, "homepage", prefix=place.prefix, group="ios")


def test_the_command_refuses_a_query_that_does_not_exist(place, tmp_path, capsys):
    output = tmp_path / "estimates.csv"
    where = ["--kafka", place.servers, "--prefix", place.prefix, "--output", str(output)]
    assert main(["--query", "homepages", *where]) == 2
    assert "there are no finals of query 'homepages'; did you mean 'homepage'?" in capsys.readouterr().err
    assert not output.exists()
    assert main(["--query", "homepage", "--from", "2030-01-01", *where]) == 0
    assert output.read_text().startswith("query,")


@pytest.mark.parametrize(("limits", "is_told"), [([], True), (["--to", "2025-01-01"], False)])
def test_a_terminal_learns_when_the_next_final_comes(place, tmp_path, capsys, monkeypatch, limits, is_told):
    where = ["--kafka", place.servers, "--prefix", place.prefix, "--query", "homepage", "--kind", "all"]
    output = ["--output", str(tmp_path / "out.csv")]
    assert main([*where, *output, *limits]) == 0
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert main([*where, *output, *limits]) == 0
    assert ("the next window of homepage end" in capsys.readouterr().err) == is_told


def test_it_works_in_a_notebook(place):
    """A notebook has an event loop in the thread already."""

    async def cell():
        return hubbub.read(place.servers, "profile", prefix=place.prefix)

    assert in_thread(lambda: asyncio.run(cell())).height > 0


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_files_have_the_content_of_the_table(place, tmp_path, form):
    file = tmp_path / f"out.{form}"
    where = ["--kafka", place.servers, "--prefix", place.prefix, "--query", "homepage", "--output", str(file)]
    assert main([*where, "--format", form, "--kind", "all"]) == 0
    table = hubbub.read(place.servers, "homepage", prefix=place.prefix, kind="all")
    if form == "parquet":
        assert pl.read_parquet(file).equals(table)
        return
    with file.open(newline="") as lines:
        rows = [json.loads(line) for line in lines] if form == "jsonl" else list(csv.DictReader(lines))
    assert [row["value"] for row in rows] == table["value"].to_list()
    assert [float(row["unbiased"]) for row in rows] == table["unbiased"].to_list()
    assert set(rows[0]) == set(table.columns)
