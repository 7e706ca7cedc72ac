"""The table of keys in docs/query-file.md, from the rows of oracles/query/keys.py: `make pages`."""

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from oracles.query.draft import REQUIRED, Key  # noqa: E402 - the path comes first
from oracles.query.keys import KEYS  # noqa: E402

PAGE = ROOT / "docs" / "query-file.md"
_BLOCK = re.compile(r"(<!-- keys -->\n).*?(?=\n\n)", re.DOTALL)


def default(key: Key) -> str:
    """Return the default of a key as the page shows it."""
    if key.default is REQUIRED:
        return "required"
    return key.default_text if key.default is None else f"`{json.dumps(key.default)}`"


def table() -> str:
    lines = ["| key | default | digest | meaning |", "|--|--|--|--|"]
    for key in KEYS:
        in_digest = "" if key.digest is None else "yes"
        lines.append(f"| `{key.name}` | {default(key)} | {in_digest} | {key.meaning} |")
    return "\n".join(lines)


def page(content: str) -> str:
    """Return the page with the current table."""
    return _BLOCK.sub(lambda match: match[1] + table(), content)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
