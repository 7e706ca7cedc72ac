"""A key of a query file, and a query while its keys are read."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oracles.errors import QueryError
from oracles.query.domain import Domain
from oracles.query.settings import Place, Rule
from oracles.query.strings import is_discovery

if TYPE_CHECKING:
    from oracles.query import Query

REQUIRED = object()
"""Default of a key that every query must have."""


@dataclass(frozen=True)
class Draft:
    """The table of a query, and the values of the keys that are read so far."""

    table: dict[str, Any]
    place: Place
    folder: Path | None
    """Folder of the domain files, or None if a domain may name no file."""
    edition: int
    standing: bool
    """Whether the definition is already active. Settings that would silence clients are then not refused."""
    values: dict[str, Any] = field(default_factory=dict)

    def __contains__(self, key: str) -> bool:
        """Whether the table has the key."""
        return key in self.table

    def __getitem__(self, key: str) -> Any:
        """Return the value of a key that is read."""
        return self.values[key]

    def at(self, key: str) -> Place:
        return self.place / key

    def error(self, key: str, fault: str) -> QueryError:
        return self.at(key).error(fault)

    def read(self, key: str, rule: Rule, default: Any) -> Any:
        """Return a value by its rule. The default is a value of a query file too."""
        return rule(self.table.get(key, default), self.at(key))

    def multiple(self, key: str, length: int | None, of: str, name: str) -> int | None:
        """Return a length. It must be a multiple of the length of another key, which an error calls `name`."""
        if length is not None and length % self[of]:
            raise self.error(key, f"must be a multiple of the {name} ({self[of]}s), got {length}s")
        return length

    @property
    def has_strings(self) -> bool:
        """Whether the answers are unknown strings."""
        return is_discovery(self.table.get("domain"))

    @property
    def domains(self) -> list[Domain]:
        """Domain of the one answer, or of each attribute."""
        return list(self["attributes"].values()) or [self["domain"]]

    @property
    def longest(self) -> int:
        """Seconds of the longest finite window, or 0."""
        longest: int = max(window.size for window in self["windows"])
        return longest


@dataclass(frozen=True)
class Key:
    """A key of a query."""

    name: str
    meaning: str
    """Meaning on the page docs/query-file.md."""
    rule: Rule | None = None
    """Rule of values that depend on no other key."""
    default: Any = None
    """Default as a query file would have it, `REQUIRED`, or None if the key has no value by default."""
    default_text: str = ""
    """Default on the page, if it depends on other keys."""
    settle: Callable[[Draft], Any] | None = None
    """Function that reads a value that depends on other keys, or checks it. The keys of earlier rows are settled."""
    dump: Callable[["Query"], Any] | None = None
    """Function that returns the value as a query file has it, or None if the query lacks it."""
    digest: Callable[["Query"], Any] | None = None
    """Function that returns the part of the digest, or None if there is none. Without it no value changes a digest."""
    no_strings: str = ""
    """Reason for which queries of unknown strings cannot have the key."""
    only_strings: bool = False
    absent: Any = None
    """Value in queries that cannot have the key."""

    def read(self, draft: Draft) -> Any:
        """Return the value by its rule alone."""
        if self.rule is None:
            return None
        if self.name in draft.table:
            return self.rule(draft.table[self.name], draft.at(self.name))
        if self.default is REQUIRED:
            raise draft.error(self.name, f"is missing; it must be {self.rule.valid}")
        return self._default_value

    @cached_property
    def _default_value(self) -> Any:
        """The default, converted once. A worker reads thousands of definitions when it starts."""
        return None if self.rule is None or self.default is None else self.rule.convert(self.default)

    def suits(self, draft: Draft) -> bool:
        """Whether queries of these answers can have the key. Raise an error if one has it nevertheless."""
        fault = 'it is for unknown strings, domain = { discover = "text" }' if self.only_strings else self.no_strings
        if not fault or draft.has_strings == self.only_strings:
            return True
        if self.name in draft:
            raise draft.error(self.name, f"must be absent: {fault}")
        return False

    def in_file(self, query: "Query") -> Any:
        """Return the value of a query as a query file has it, or None if the query lacks it."""
        if self.dump is not None:
            return self.dump(query)
        value = getattr(query, self.name)
        return value if self.rule is None else self.rule.dump(value)
