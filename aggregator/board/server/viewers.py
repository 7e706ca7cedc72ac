"""Who sees which queries of a board: the holder of HUBBUB_TOKEN all, a token of a file those that the file names.

The file has tables `[tokens.NAME]` with `sha256`, the hashes of a token, and `queries`, names that may have `*`. The
table `[public]` has the `queries` that everybody sees. Such a token suits a link to others: it opens nothing more.
"""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import Any

from oracles.query.settings import Place, Rule, several, table
from oracles.query.text import read_toml

TOKENS = 1_000
"""Limit of names in a file, because each request is compared with all of them."""
_HEX_DIGITS = 64
_PATTERN_LENGTH = 256
_HASHES = Rule(
    "64 hex digits in lower case",
    lambda text: isinstance(text, str) and len(text) == _HEX_DIGITS and not {*text} - {*"0123456789abcdef"},
)
_PATTERNS = Rule(
    "the name of a query, which may have *",
    lambda text: isinstance(text, str) and 0 < len(text) <= _PATTERN_LENGTH and text.isprintable(),
)


@dataclass(frozen=True)
class Sight:
    """The queries that a viewer sees."""

    patterns: tuple[str, ...] | None
    """Names of queries, or None for all queries."""

    def sees(self, query: str) -> bool:
        return self.patterns is None or any(fnmatchcase(query, pattern) for pattern in self.patterns)


ALL = Sight(None)


@dataclass(frozen=True)
class ViewerFile:
    """The tokens of a file, and what everybody sees."""

    tokens: tuple[tuple[bytes, Sight], ...]
    """The SHA-256 of each token, and what its holder sees."""
    public: Sight | None
    """None if the file has no table `[public]`."""

    @classmethod
    def read(cls, path: str | PathLike[str]) -> "ViewerFile":
        """Read a TOML file. Raise a QueryError if it is wrong."""
        place = Place(str(path))
        content = table(read_toml(Path(path), place), place, ("tokens", "public"))
        tables = table(content.get("tokens", {}), place / "tokens")
        if len(tables) > TOKENS:
            raise (place / "tokens").error(f"must be at most {TOKENS} tables [tokens.NAME], got {len(tables)}")

        tokens: list[tuple[bytes, Sight]] = []
        for name, value in tables.items():
            own_place = place / "tokens" / name
            settings = table(value, own_place, ("sha256", "queries"))
            sight = _sight(settings, own_place)
            hashes = several(settings.get("sha256", []), own_place / "sha256", _HASHES)
            tokens += [(bytes.fromhex(text), sight) for text in hashes]

        public = None
        if "public" in content:
            public = _sight(table(content["public"], place / "public", ("queries",)), place / "public")
        return cls(tuple(tokens), public)

    def of(self, token: str) -> Sight | None:
        """Return what the holder of a token sees, or None if the file does not have the token."""
        digest = sha256(token.encode(errors="surrogateescape")).digest()
        sight = None
        for known_digest, known_sight in self.tokens:  # compare with all, so that the time reveals nothing
            if hmac.compare_digest(known_digest, digest):
                sight = known_sight
        return sight


def _sight(settings: Mapping[str, Any], place: Place) -> Sight:
    if "queries" not in settings:
        raise (place / "queries").error(f"is missing; it must be a list of {_PATTERNS.valid}")
    return Sight(tuple(several(settings["queries"], place / "queries", _PATTERNS)))
