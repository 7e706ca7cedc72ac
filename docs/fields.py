"""The schemas of records and alerts, and a table of docs/records.md, from declarations of fields: `make pages`."""

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from aggregator.records.field import rows  # noqa: E402 - the path comes first
from aggregator.records.record import Record  # noqa: E402
from aggregator.records.schemas import alert_schema, record_schema  # noqa: E402

SCHEMAS = ROOT / "hubbub" / "schemas"
PAGE = ROOT / "docs" / "records.md"
TABLE = re.compile(r"(?<=<!-- fields -->\n\n).*?(?=\n\n)", re.DOTALL)
"""The table after its mark, up to the next blank line."""


def schema_texts() -> dict[str, str]:
    """Return the text of each schema by the name of its file."""
    schemas = {"record.json": record_schema(), "alert.json": alert_schema()}
    return {name: json.dumps(schema, indent=2) + "\n" for name, schema in schemas.items()}


def page(text: str) -> str:
    """Return the page with the table of all fields that have a meaning."""
    lines = ["| key | meaning |", "|--|--|", *(f"| `{path}` | {meaning} |" for path, meaning in rows(Record))]
    return TABLE.sub("\n".join(lines).replace("\\", r"\\"), text)


def main() -> None:
    for name, text in schema_texts().items():
        (SCHEMAS / name).write_text(text, encoding="utf-8")
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
