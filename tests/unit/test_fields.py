"""What the fields of records and alerts declare, and what is made from it."""

import json
import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from aggregator.records.decoder import decode
from aggregator.records.group_fields import WEIGHTED_COLUMNS
from aggregator.records.kinds import KINDS
from aggregator.records.row_columns import COLUMNS
from aggregator.records.schemas import record_schema
from aggregator.records.span import Span
from aggregator.tallies.snapshot import Snapshot
from oracles.consistency import METHODS
from oracles.errors import ReportError
from oracles.query import parse
from tests import schemas
from tests.results import build

ROOT = Path(__file__).parents[2]
QUERY = parse({"queries": {"q": {"domain": 3, "oracle": "grr", "epsilon": 2.0, "pane": "10s"}}}, "test", ".")["q"]


def pages(name="fields"):
    spec = spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def document():
    """Return a record of values."""
    total = Snapshot(900, 0, 0, 0, np.append([200, 600, 100], np.zeros(64, np.int64)))
    ((_, value),) = build(QUERY, Span(QUERY.windows[0], 0, 10), total).records
    return json.loads(value)


@pytest.mark.parametrize("name", ["record.json", "alert.json", "rows.json"])
def test_the_schemas_are_those_of_the_declarations(name):
    text = (ROOT / "hubbub" / "schemas" / name).read_text()
    assert text == pages().schema_texts()[name], "run `make pages`"


def test_the_table_of_the_page_is_that_of_the_declarations():
    text = (ROOT / "docs" / "records.md").read_text()
    assert "| `quality.flags` |" in text
    assert "<!-- kinds of alerts -->\n\n| kind | when |\n" in text
    assert text == pages().page(text), "run `make pages`"


def test_rows_have_the_columns_of_the_page_and_of_both_schemas():
    page = (ROOT / "docs" / "rows.md").read_text()
    assert page == pages().rows_page(page), "run `make pages`"
    arrow = pl.read_ipc_schema(ROOT / "hubbub" / "schemas" / "rows.arrow")
    assert arrow == pages().arrow_schema(), "run `make pages`"
    schema = json.loads((ROOT / "hubbub" / "schemas" / "rows.json").read_text())
    assert list(schema["properties"]) == list(arrow) == re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)


@pytest.mark.parametrize("kind", [*KINDS.values()])
def test_each_cell_of_a_kind_has_a_column(kind):
    assert kind.COLUMNS.items() <= COLUMNS.items()
    assert COLUMNS.keys() >= {*METHODS, *WEIGHTED_COLUMNS}


def test_the_page_shows_a_real_record_and_alert():
    text = (ROOT / "docs" / "records.md").read_text()
    texts = re.findall("```json\n(.*?)```", text, re.DOTALL)[:2]
    record, alert = map(json.loads, texts)
    schemas.RECORD.validate(record)
    schemas.ALERT.validate(alert)
    assert text == pages("examples").page(text), "run `make pages`"


def test_the_row_of_the_api_has_the_members_that_need_no_text():
    text = (ROOT / "docs" / "board-api.md").read_text()
    assert re.search(r"^\| `oracle`, `sigma`, .*`quality` \| as in \[the record\]", text, re.MULTILINE)
    assert text == pages().api_page(text), "run `make pages`"


@pytest.mark.parametrize("name", record_schema()["required"])
def test_schema_and_decoder_refuse_a_record_without_a_required_member(name):
    record = document()
    schemas.RECORD.validate(record)
    del record[name]
    assert not schemas.RECORD.is_valid(record)
    # Older records lack some members, and get the declared value of them.
    if name not in ("level", "size", "threshold", "answers"):
        with pytest.raises(ReportError):
            decode(json.dumps(record).encode())


def test_an_older_record_has_the_declared_values_of_later_fields():
    record = {**document(), "version": 2}
    for name in ("significance", "size", "threshold", "answers", "central", "level"):
        del record[name]
    older = decode(json.dumps(record).encode())
    assert (older.significance, older.size, older.threshold, older.answers, older.central) == (None,) * 5
    assert older.member("level") is None
    assert older.shares["unbiased"].tolist() == record["shares"]["unbiased"]
