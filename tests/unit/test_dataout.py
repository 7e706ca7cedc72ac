"""The recipes of docs/dataout.md read the files of a sink, each row once."""

import re
from contextlib import closing
from pathlib import Path

import duckdb
import polars as pl
import pytest

import hubbub
from aggregator.reading.export import reader
from aggregator.records.decoder import decode
from aggregator.sink import row_file
from aggregator.sink.file_names import FINALS, OPEN, FileName
from aggregator.sink.folder import Folder
from oracles.errors import ParameterError
from tests.boards import START
from tests.sinks import KEY, files_of, final, keys

PAGE = (Path(__file__).parents[2] / "docs" / "dataout.md").read_text()


@pytest.fixture
def folder(tmp_path):
    """A day with a late file and an open file that is not removed yet, and a day that is only open."""
    ends = [START + 60 * number for number in range(4)]
    name, rows = files_of(ends, size=60)
    next_name, next_rows = files_of([START + 86_400], size=60)
    with closing(Folder(tmp_path)) as target:
        target.take()
        for path, table in (
            (name.path(FINALS), rows.filter(pl.col("end") < ends[2])),
            (name.path(FINALS, 1), rows.filter(pl.col("end") == ends[2])),
            (name.path(OPEN), rows.filter(pl.col("end") < ends[2])),
            (next_name.path(OPEN), next_rows),
        ):
            target.replace(path, row_file.encode(table))
    # A file of an older release lacks the last columns.
    other = FileName("older", name.day, name.window)
    (tmp_path / other.folder(FINALS)).mkdir(parents=True)
    old_rows = rows.with_columns(query=pl.lit("older")).select(list(row_file.SCHEMA)[:-3])
    old_rows.write_parquet(tmp_path / other.path(FINALS))
    return tmp_path


def recipes(language, folder):
    blocks = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return [block.replace("/data/estimates", str(folder)) for block in blocks]


def test_duckdb_reads_one_query_and_the_view_of_all_rows(folder):
    # Those after them are of warehouses, which do not run here.
    query, view, *_ = recipes("sql", folder)
    with duckdb.connect() as connection:
        rows = connection.execute(query).fetchall()
        assert len(rows) == 3 * len({value for value, *_ in rows})
        connection.execute(view)
        columns = ", ".join(f'"{name}"' for name in KEY)
        view_rows = connection.execute(f"SELECT {columns} FROM estimates").fetchall()  # noqa: S608 - names of columns
        table = pl.DataFrame(view_rows, schema=KEY, orient="row", infer_schema_length=None)
        days = connection.execute("SELECT DISTINCT day FROM estimates ORDER BY day").fetchall()
    assert len(days) == 2
    assert len(keys(table)) == table.height
    ends = table.filter(pl.col("query") == "homepage")["end"].unique().sort().to_list()
    assert ends == [START, START + 60, START + 120, START + 86_400]
    assert table.filter(pl.col("query") == "older").height


def test_polars_reads_all_files(folder):
    names = {}
    exec(recipes("python", folder)[0], names)  # noqa: S102 - the page's own code
    table = names["shares"]
    assert table.columns == ["value", "unbiased", "low", "high"]
    assert table.height == 3 * table["value"].n_unique()


def test_hubbub_reads_the_rows_of_a_folder_as_those_of_kafka(folder):
    table = hubbub.read(folder, "homepage")
    assert table.schema == reader.table([]).schema
    moments = [START, START + 60, START + 120, START + 86_400]
    assert table["end"].unique().sort().dt.epoch("s").to_list() == moments
    records = [decode(final(end, size=60)[2]) for end in moments]
    assert table.equals(reader.table(records))
    assert hubbub.read(str(folder), "homepage", since=START + 60, until=START + 120)["end"].n_unique() == 1
    assert hubbub.read(folder, "homepage", kind="hopping").is_empty()
    assert hubbub.read(folder, "older")["reason"].is_null().all()


def test_hubbub_says_what_a_folder_does_not_hold(folder):
    for arguments, text in (
        ({"query": "homepages"}, "homepage"),
        ({"query": "homepage", "group": "ios"}, "no groups"),
        ({"query": "homepage", "compare": (START, START + 60)}, "need the records of Kafka"),
    ):
        with pytest.raises(ParameterError, match=text):
            hubbub.read(folder, **arguments)
    with pytest.raises(ParameterError, match="no folder"):
        hubbub.read(folder / "nothing", "homepage")
    with pytest.raises(ParameterError, match="no kind of store"):
        hubbub.read("ftp://bucket/prefix", "homepage")
