"""Declarations of fields: a field of a record or an alert states its type, its limits and its meaning once.

The reader, the JSON Schema and the table of docs/records.md follow from them.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, get_type_hints

from hubbub.http.schema import Schema, json_name, schema
from oracles.query.domain import KINDS

JSON_END = "_json"
"""The end of the name of a field that stays JSON."""


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """What a field declares beside its type."""

    meanings: Mapping[str, str]
    """The meaning of the field and of its members, by the path below the field, for example ".flags"."""
    kinds: Collection[str]
    """The kinds of answers whose records have the field."""
    since: int
    """The first version of a record that has the field."""
    is_optional: bool
    """Whether a record of these kinds may lack the field."""
    missing: Callable[[], Any]
    """Returns the value of a record without the field: of another kind, or of an older version."""
    document: Schema | None
    """The schema of the written field, if readers accept more than writers write."""
    is_json: bool
    """Whether the field stays JSON until a reader asks for it."""


def declared(
    meaning: str | Mapping[str, str] = "",
    *,
    kinds: Collection[str] = KINDS,
    since: int = 0,
    is_optional: bool = False,
    missing: Callable[[], Any] = lambda: None,
    document: Schema | None = None,
    is_json: bool = False,
    default: Any = MISSING,
) -> Any:
    """Return a dataclass field with a declaration."""
    declaration = Declaration(
        meanings={"": meaning} if isinstance(meaning, str) else meaning,
        kinds=kinds,
        since=since,
        is_optional=is_optional,
        missing=missing,
        document=document,
        is_json=is_json,
    )
    return field(default=default, metadata={"declaration": declaration})


def declarations(kind: Any) -> dict[str, Declaration]:
    """Return the declarations of a class, by the names of its fields in JSON."""
    return {
        _name(member): member.metadata["declaration"] for member in fields(kind) if "declaration" in member.metadata
    }


def types(kind: Any) -> dict[str, Any]:
    """Return the types of the declared fields of a class, by their names in JSON."""
    hints = get_type_hints(kind, include_extras=True)
    return {_name(member): hints[member.name] for member in fields(kind) if "declaration" in member.metadata}


def _name(member: Field[Any]) -> str:
    """Return the name of a field in JSON. That of a field that stays JSON has an end of its own."""
    return json_name(member.name).removesuffix(JSON_END)


def properties(kind: Any) -> dict[str, Schema]:
    """Return the schema of each declared field, with its meaning."""
    result = {}
    hints = types(kind)
    for name, declaration in declarations(kind).items():
        field_schema = schema(hints[name]) if declaration.document is None else declaration.document
        text = plain(declaration.meanings.get("", ""))
        result[name] = {"description": text, **field_schema} if text else field_schema
    return result


def rows(kind: Any) -> Iterator[tuple[str, str]]:
    """Yield the rows of the page's table: the path of each field or member with a meaning, and the meaning."""
    for name, declaration in declarations(kind).items():
        for path, meaning in declaration.meanings.items():
            if meaning:
                yield f"{name}{path}", meaning


def plain(meaning: str) -> str:
    """Return a meaning without the marks of Markdown.

    >>> plain("the `size`, see [privacy](privacy.md#who)")
    'The size, see privacy'
    """
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", meaning).replace("`", "")
    return text[:1].upper() + text[1:]
