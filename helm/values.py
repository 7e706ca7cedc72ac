"""`make chart` generates the schema and the table of the chart's values from the comments of helm/hubbub/values.yaml.

The comment above a key describes it. A line "@ KEYWORD: ..." limits its value as in JSON Schema. A line
"@ free: KIND" leaves the check of the value to Kubernetes.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).parent / "hubbub"
BEGIN, END = "<!-- values -->\n", "<!-- /values -->\n"
TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}


class CommentError(Exception):
    """A key without a description."""


def keys(node: yaml.MappingNode, lines: list[str]) -> Iterator[tuple[str, str, dict[str, Any], yaml.Node]]:
    """Yield each key of a mapping with its description, its bounds and its value."""
    for key, value in node.value:
        first = key.start_mark.line
        start = first
        while start and lines[start - 1].lstrip().startswith("#"):
            start -= 1
        comments = [line.strip().removeprefix("#").strip() for line in lines[start:first]]
        bounds = {k: v for line in comments if line.startswith("@") for k, v in yaml.safe_load(line[1:]).items()}
        about = " ".join(line for line in comments if not line.startswith("@"))
        if not about:
            raise CommentError(f"values.yaml:{first + 1}: {key.value} has no comment. Write one above the key")
        yield key.value, about, bounds, value


def plain(node: yaml.Node) -> Any:
    return yaml.safe_load(yaml.serialize(node))


def schema(node: yaml.MappingNode, lines: list[str]) -> dict[str, Any]:
    """Return a schema that allows the mapping's keys only, each with the type of its default."""
    properties = {}
    for name, about, bounds, value in keys(node, lines):
        rest = {keyword: bound for keyword, bound in bounds.items() if keyword != "free"}
        closed = isinstance(value, yaml.MappingNode) and not bounds
        inner = schema(value, lines) if closed else {"type": TYPES[type(plain(value))], **rest}
        properties[name] = {"description": about, **inner}
    return {"type": "object", "additionalProperties": False, "properties": properties}


def rows(node: yaml.MappingNode, lines: list[str], above: str = "") -> Iterator[str]:
    """Yield one line of the table for each value."""
    for name, about, bounds, value in keys(node, lines):
        path = f"{above}{name}"
        if isinstance(value, yaml.MappingNode) and not bounds:
            yield f"| **`{path}`** | | {about} |"
            yield from rows(value, lines, f"{path}.")
        else:
            default = plain(value)
            text = "a query over 1,000 values" if path == "queries.file" else f"`{json.dumps(default)}`"
            yield f"| `{path}` | {text} | {about} |"


def generated() -> dict[Path, str]:
    """Return the content of the files that values.yaml generates."""
    text = (CHART / "values.yaml").read_text()
    lines, root = text.splitlines(), yaml.compose(text, Loader=yaml.SafeLoader)
    assert isinstance(root, yaml.MappingNode)  # noqa: S101 - values.yaml is one
    whole = {"$schema": "http://json-schema.org/draft-07/schema#", **schema(root, lines)}
    # Helm adds a key `global` to every chart, and a parent chart may have other values in it.
    whole["properties"]["global"]["additionalProperties"] = True
    readme = (CHART / "README.md").read_text()
    before, after = readme.split(BEGIN)[0], readme.split(END)[1]
    table = "\n".join(["", "| value | default | description |", "|--|--|--|", *rows(root, lines), "", ""])
    return {
        CHART / "values.schema.json": json.dumps(whole, indent=2) + "\n",
        CHART / "README.md": before + BEGIN + table + END + after,
    }


if __name__ == "__main__":
    try:
        for path, content in generated().items():
            path.write_text(content)
    except CommentError as error:
        sys.exit(str(error))
