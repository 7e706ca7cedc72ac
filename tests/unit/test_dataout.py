"""The recipes of docs/dataout.md read the files of a sink, each row once."""

import re
from contextlib import closing
from pathlib import Path

import duckdb
import polars as pl
import pytest

from aggregator.sink import row_file
from aggregator.sink.file_names import FINALS, OPEN, FileName
from aggregator.sink.folder import Folder
from tests.boards import START
from tests.sinks import KEY, files_of, keys

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
    query, view = recipes("sql", folder)
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
