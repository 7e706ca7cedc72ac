"""The columns of flat rows: each one with its type, its unit and its meaning, in the order of files."""

from dataclasses import dataclass
from typing import Any

from aggregator.records.group_fields import WEIGHTED_COLUMNS
from aggregator.records.kinds import KINDS
from oracles.consistency import METHODS, UNBIASED

FORMAT = "1"
"""The version of the rows in files. A later version has other columns or meanings, not only more columns."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its type, what it says, its unit, and the rows that have it."""

    name: str
    kind: type
    meaning: str
    unit: str = ""
    in_tables: bool = True
    """Whether `hubbub.read` and `hubbub export` have it too."""
    is_known: bool = False
    """Whether no row has null in it."""


_OLD_METHODS = tuple(METHODS)[:13]
"""The methods whose columns stand in the middle. Later ones come at the end of METHODS, and of the columns."""


def _method_column(name: str) -> Column:
    return Column(name, float, f"share by the [method](methods.md) `{name}`; null if the query does not use it")


_WINDOW_COLUMNS = (
    Column("query", str, "name of the query", is_known=True),
    Column("digest", str, "digest of its definition, in hexadecimal", is_known=True),
    Column("attribute", str, "name of the attribute; null if a client gives one answer"),
    Column("group", str, "value of the [group](query-file.md#groups); null in the total"),
    Column("kind", str, "kind of window: `tumbling`, `hopping` or `all`", is_known=True),
    Column("size", int, "length of the window; 0 for windows since the start", "seconds", is_known=True),
    Column("step", int, "distance between two windows; 0 for windows since the start", "seconds", is_known=True),
    Column("start", int, "beginning of the window", "Unix seconds, UTC", is_known=True),
    Column("end", int, "end of the window, which is not in it", "Unix seconds, UTC", is_known=True),
    Column("n", int, "reports in the window; 0 if it is withheld", "reports", is_known=True),
    Column("n_independent", int, "reports with noise of their own, which all errors use", "reports", is_known=True),
    Column("flags", str, "[flags](records.md#flags) of the record, with commas between them", is_known=True),
    Column("position", int, "place in the record, from 0", in_tables=False, is_known=True),
    Column("value", str, "the value; for numbers the name of a quantile, mean or range; null if withheld"),
    Column("number", float, "for [numbers](numbers.md): the quantile or mean", "as `unit` says"),
    Column("unit", str, "for numbers: the unit of `number`"),
    Column("first_seen", int, "for [unknown strings](unknown.md): end of the window that found it", "Unix seconds"),
    Column(UNBIASED, float, "unbiased share, which can be negative", "share"),
    Column("stderr", float, "standard error of the unbiased share or of the number", "share, or as `unit` says"),
    Column("low", float, "lower end of the interval", "share, or as `unit` says"),
    Column("high", float, "upper end of the interval", "share, or as `unit` says"),
)
_PROOF_COLUMNS = (
    Column("level", float, "level of the interval", "probability"),
    Column("proved", bool, "whether the value is proved to be frequent"),
    Column("first_rank", int, "first place that its true share can have, from 1"),
    Column("last_rank", int, "last place that its true share can have"),
    Column("central", float, "[epsilon](privacy.md#who-sees-only-the-estimates) that this record alone reveals"),
    Column("by_weight", float, "in rows of a total with [`weights`](query-file.md#groups): the share", "share"),
    Column("by_weight_low", float, "lower end of its 95% interval", "share"),
    Column("by_weight_high", float, "upper end of its 95% interval", "share"),
    Column("sample", float, "share of the devices that were asked; null without sampling", in_tables=False),
    Column("reports", float, "estimated reports of all devices; null without sampling", "reports", in_tables=False),
    Column("reports_stderr", float, "standard error of `reports`; null without sampling", "reports", in_tables=False),
    Column("reason", str, "why the row has no share"),
)


def _later_columns() -> list[Column]:
    """Return the columns of methods and kinds that came after this list. They stand at the end."""
    names = {column.name for column in (*_WINDOW_COLUMNS, *_PROOF_COLUMNS)}
    columns = [_method_column(name) for name in METHODS if name not in _OLD_METHODS]
    for kind in KINDS.values():
        new_columns = {name: column for name, column in kind.COLUMNS.items() if name not in names}
        columns += [Column(name, column, "see the kind of answers") for name, column in new_columns.items()]
    columns += [Column(name, float, "see `by_weight`") for name in WEIGHTED_COLUMNS if name not in names]
    return columns


FLAT: tuple[Column, ...] = (*_WINDOW_COLUMNS, *map(_method_column, _OLD_METHODS), *_PROOF_COLUMNS, *_later_columns())
"""All columns of a file, in order."""
COLUMNS: dict[str, type] = {column.name: column.kind for column in FLAT if column.in_tables}
"""The columns of `hubbub.read` and `hubbub export` with their types. They are the same for every query."""
_JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean"}
_TYPE_NAMES = {str: "text", int: "int64", float: "float64", bool: "bool"}


def row_schema() -> dict[str, Any]:
    """Return the JSON Schema of a row."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A row of a final of hubbub: one value of a window",
        "type": "object",
        "properties": {column.name: _property(column) for column in FLAT},
        "required": [column.name for column in FLAT if column.is_known],
    }


def _property(column: Column) -> dict[str, Any]:
    name = _JSON_TYPES[column.kind]
    return {"type": name if column.is_known else [name, "null"], "description": _text(column)}


def _text(column: Column) -> str:
    return f"{column.meaning} ({column.unit})" if column.unit else column.meaning


def column_table() -> list[tuple[str, str, str, str]]:
    """Return name, type, unit and meaning of each column."""
    return [(column.name, _TYPE_NAMES[column.kind], column.unit, column.meaning) for column in FLAT]
