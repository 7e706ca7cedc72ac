"""The record and the alert that docs/records.md shows, from the query and the counts that it names: `make pages`."""

import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from aggregator.publishing.finals.final import window_result  # noqa: E402 - the path comes first
from aggregator.publishing.window import CountedWindow  # noqa: E402
from aggregator.records.span import Span  # noqa: E402
from aggregator.tallies.snapshot import Snapshot  # noqa: E402
from oracles.query import parse  # noqa: E402
from oracles.types import MARKS  # noqa: E402

PAGE = ROOT / "docs" / "records.md"
START = 1_700_000_000
COUNTS = [2_000, 6_000, 1_000]
"""Reports of each value."""
WIDTH = 124
"""Columns of a line that holds a whole list or object."""
_QUERY = re.compile(r"```toml\n(.*?)```", re.DOTALL)
_EXAMPLE = re.compile(r"(?<=```json\n).*?(?=```)", re.DOTALL)


def examples(query_text: str) -> list[str]:
    """Return the record and the second alert of a query's first window."""
    query = parse(tomllib.loads(query_text), "docs/records.md", ".")["homepage"]
    span = Span(query.windows[0], START, START + query.pane)
    total = Snapshot(sum(COUNTS), 0, 0, 0, np.append(COUNTS, np.zeros(MARKS, np.int64)))
    result = window_result(CountedWindow(query, span, total, ()), ())
    (_, record), *_ = result.window.records
    _, (_, alert), *_ = result.decision.alerts
    return [text_of(_shortened(value)) for value in (record, alert)]


def _shortened(value: bytes) -> Any:
    """Return JSON with four digits of each number."""
    return json.loads(value, parse_float=lambda number: float(f"{float(number):.4g}"))


def text_of(value: Any, indent: str = "") -> str:
    """Return JSON in which each list and object is on one line if it fits there."""
    line = json.dumps(value)
    if indent and len(indent) + len(line) <= WIDTH:
        return line
    if isinstance(value, dict):
        parts = [f"{json.dumps(name)}: {text_of(member, indent + '  ')}" for name, member in value.items()]
        start, end = "{}"
    else:
        parts = [text_of(member, indent + "  ") for member in value]
        start, end = "[]"
    return f"{start}\n" + ",\n".join(f"{indent}  {part}" for part in parts) + f"\n{indent}{end}"


def page(text: str) -> str:
    """Return the page with the present examples. They are its first two blocks of JSON."""
    [query_text] = _QUERY.findall(text)
    texts = iter(examples(query_text))
    return _EXAMPLE.sub(lambda _: f"{next(texts)}\n", text, count=2)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
