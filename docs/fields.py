"""The schemas of records, alerts and rows, and their tables in docs, from their declarations: `make pages`."""

import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path

import polars as pl

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from aggregator.board.answers.window_answers import WindowEstimate  # noqa: E402 - the path comes first
from aggregator.records.alert import MEANINGS  # noqa: E402
from aggregator.records.field import declarations, rows  # noqa: E402
from aggregator.records.record import Record  # noqa: E402
from aggregator.records.row_columns import FLAT, column_table, row_schema  # noqa: E402
from aggregator.records.schemas import alert_schema, record_schema  # noqa: E402

SCHEMAS = ROOT / "hubbub" / "schemas"
PAGE = ROOT / "docs" / "records.md"
ROWS_PAGE = ROOT / "docs" / "rows.md"
API_PAGE = ROOT / "docs" / "board-api.md"
_ESTIMATE = re.compile(r"^## `GET [^`]*/estimate`\n.*?(?=^## )", re.DOTALL | re.MULTILINE)
"""The section about the estimate of a window."""
_AS_RECORDED = re.compile(r"^\| .* \| as in \[the record\]\(records.md#a-record\) \|\n", re.MULTILINE)
"""The row of the members that need no text of their own."""


def schema_texts() -> dict[str, str]:
    """Return the text of each schema by the name of its file."""
    schemas = {"record.json": record_schema(), "alert.json": alert_schema(), "rows.json": row_schema()}
    return {name: json.dumps(schema, indent=2) + "\n" for name, schema in schemas.items()}


def page(text: str) -> str:
    """Return the page with the table of all fields that have a meaning, and that of the kinds of alerts."""
    text = _with_table(text, "fields", ["| key | meaning |", "|--|--|", *_lines(rows(Record))])
    return _with_table(text, "kinds of alerts", ["| kind | when |", "|--|--|", *_lines(MEANINGS.items())])


def rows_page(text: str) -> str:
    """Return the page with the table of the columns of rows."""
    lines = [f"| `{name}` | {kind} | {unit} | {meaning} |" for name, kind, unit, meaning in column_table()]
    return _with_table(text, "columns", ["| column | type | unit | meaning |", "|--|--|--|--|", *lines])


def arrow_schema() -> pl.Schema:
    """Return the Arrow schema of rows, as polars has it."""
    return pl.Schema({column.name: pl.DataType.from_python(column.kind) for column in FLAT})


def write_arrow(path: Path) -> None:
    """Write a file of Arrow without rows, unless it has this schema already."""
    # Its bytes depend on the release of polars, so an equal schema stays.
    if not path.exists() or pl.read_ipc_schema(path) != arrow_schema():
        pl.DataFrame(schema=arrow_schema()).write_ipc(path, compat_level=pl.CompatLevel.oldest())


def _lines(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Return the rows of a table."""
    return [f"| `{name}` | {meaning} |" for name, meaning in pairs]


def _with_table(text: str, mark: str, lines: list[str]) -> str:
    """Return a text with a table after its mark, up to the next blank line."""
    table = re.compile(rf"(?<=<!-- {mark} -->\n\n).*?(?=\n\n)", re.DOTALL)
    return table.sub(lambda _: "\n".join(lines), text)


def api_page(text: str) -> str:
    """Return the page with the row of the members of an estimate that are those of the record."""
    [section] = _ESTIMATE.findall(text)
    described = set(re.findall(r"`(\w+)`", " ".join(_first_cells(_AS_RECORDED.sub("", section)))))
    # The members that all answers about a window have are described above the table.
    own = WindowEstimate.__annotations__
    names = [name for name in own if name in declarations(Record) and name not in described]
    cell = ", ".join(f"`{name}`" for name in names)
    row = f"| {cell} | as in [the record](records.md#a-record) |\n"
    return text.replace(section, _AS_RECORDED.sub(lambda _: row, section))


def _first_cells(section: str) -> list[str]:
    return [line.split("|")[1] for line in section.splitlines() if line.startswith("|")]


def main() -> None:
    for name, text in schema_texts().items():
        (SCHEMAS / name).write_text(text, encoding="utf-8")
    write_arrow(SCHEMAS / "rows.arrow")
    ROWS_PAGE.write_text(rows_page(ROWS_PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    API_PAGE.write_text(api_page(API_PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
