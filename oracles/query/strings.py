"""Keys of a query of unknown strings: their coding, the oracle of their cells, and the search for names."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from oracles.discover import Coding
from oracles.discover.alphabet import DEFAULT_ALPHABET, LONGEST, NORMALS, OPEN_END
from oracles.discover.cell_hash import LEAST_CELLS, MOST_CELLS
from oracles.errors import ParameterError
from oracles.query.settings import Place, Rule, choice, duration, repeated, shown, table, whole

TEXT, BYTES = "text", "bytes"
DISCOVER = "discover"
"""Key of a domain of unknown strings."""
ORACLES_OF_CELLS = ("hr", "olh", "full", "short")
"""Oracles of the cells. Their reports are short for any number of cells."""
LEAST_PANE = 300
"""Seconds of the shortest pane: a pane has a tally of several megabytes."""
MOST_NAMES = 4_096
"""Most strings in `known`, because a query keeps at most so many names."""
SEARCH_BY_DEFAULT = 3_600
"""Seconds between searches if no window is finite."""
_KEYS = (DISCOVER, "length", "alphabet", "cells")
_KIND = choice(TEXT, BYTES)
_LENGTH = whole(f"a whole number of symbols from 1 to {LONGEST}", 1, LONGEST)
_CELLS = whole(f"a whole number from {LEAST_CELLS} to {MOST_CELLS}", LEAST_CELLS, MOST_CELLS)
_NORMAL = choice(*NORMALS)
_ALPHABET = Rule("a text of different symbols", lambda value: isinstance(value, str) and is_encodable(value))
_NAME = Rule("a text", lambda value: isinstance(value, str) and is_encodable(value))


@dataclass(frozen=True)
class Discovery:
    """The domain of unknown strings: their coding, and the number of hashed cells."""

    coding: Coding
    cells: int
    """Logarithm of the number of cells."""

    @property
    def kind(self) -> str:
        """Whether symbols are characters ("text") or bytes."""
        return BYTES if self.coding.alphabet is None else TEXT

    @property
    def table(self) -> dict[str, Any]:
        """The domain as a query file has it, with all defaults."""
        alphabet = {} if self.coding.alphabet is None else {"alphabet": self.coding.alphabet}
        return {DISCOVER: self.kind, "length": self.coding.length, **alphabet, "cells": self.cells}

    @property
    def meaning(self) -> dict[str, Any]:
        """The settings that the digest covers."""
        return {**self.table, "normal": self.coding.normal}

    def is_whole(self, text: str) -> bool:
        """Whether the name of a text is coded like the text. Bytes may end inside a character."""
        name = self.coding.name(text).removesuffix(OPEN_END)
        return bool((self.coding.symbols(name) == self.coding.symbols(text)).all())


def is_discovery(domain: object) -> bool:
    """Whether a domain of a query file is one of unknown strings."""
    return isinstance(domain, dict) and DISCOVER in domain


def keys_of_meaning(meaning: object) -> dict[str, Any]:
    """Return the keys of a query file for the `meaning` of unknown strings, and none for any other domain."""
    if not is_discovery(meaning):
        return {}
    # A query file has the normal form beside the domain.
    table = cast(dict[str, Any], meaning)
    return {"domain": {key: value for key, value in table.items() if key != "normal"}, "normal": table["normal"]}


def is_encodable(text: str) -> bool:
    """Whether UTF-8 can hold a text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_values(keys: Mapping[str, Any], place: Place) -> None:
    """Refuse values that a query of unknown strings cannot have, although it may have their keys."""
    if keys.get("other"):
        raise (place / "other").error("must be absent: a character outside the alphabet becomes its last symbol")
    if keys.get("threshold", "significance") != "significance":
        raise (place / "threshold").error(
            'must be "significance": a name counts as found if its report counts prove it'
        )


def read_discovery(keys: Mapping[str, Any], place: Place, pane: int) -> Discovery:
    """Return the domain of a query of unknown strings. Its pane must be long enough."""
    _check_values(keys, place)
    if pane < LEAST_PANE:
        raise (place / "pane").error(
            f"must be at least {LEAST_PANE // 60}m for unknown strings, because each pane has a tally of several "
            f"megabytes; got {pane}s"
        )

    domain_place = place / "domain"
    domain = table(keys["domain"], domain_place, _KEYS)
    kind = _KIND(domain[DISCOVER], domain_place / DISCOVER)
    if "length" not in domain:
        raise (domain_place / "length").error(f"is missing; it must be {_LENGTH.valid}")
    length = _LENGTH(domain["length"], domain_place / "length")
    cells = _CELLS(domain.get("cells", MOST_CELLS), domain_place / "cells")
    if kind == BYTES and "alphabet" in domain:
        raise (domain_place / "alphabet").error(f'must be absent if discover is "{BYTES}"')
    alphabet = None
    if kind == TEXT:
        alphabet = _ALPHABET(domain.get("alphabet", DEFAULT_ALPHABET), domain_place / "alphabet")
    normal = _NORMAL(keys.get("normal", NORMALS[-1] if kind == BYTES else NORMALS[0]), place / "normal")
    try:
        return Discovery(Coding(length, alphabet, normal), cells)
    except ParameterError as error:
        raise (domain_place / "alphabet").error(str(error)) from error


def read_known(value: object, place: Place, discovery: Discovery) -> tuple[str, ...]:
    """Return the names of the strings that are always candidates."""
    if not isinstance(value, list) or len(value) > MOST_NAMES:
        raise place.error(f"must be a list of at most {MOST_NAMES:,} texts, got {shown(value)}")
    texts = [_NAME(item, place) for item in value]
    names = [discovery.coding.name(text) for text in texts]
    repeat = repeated(names)
    if repeat is not None:
        earlier = texts[names.index(names[repeat])]
        raise place.error(
            f"must be coded differently, but {shown(earlier)} and {shown(texts[repeat])} are {names[repeat]!r}"
        )
    for text, name in zip(texts, names, strict=True):
        if not discovery.is_whole(text):
            raise place.error(f"must be whole characters, but the first symbols of {shown(text)} are {name!r}")
    return tuple(names)


def read_search(value: object, place: Place, pane: int, longest: int) -> int:
    """Return the length of the shortest window that is searched. `longest` is the longest finite window, or 0."""
    if value is None:
        # Rounded up, because a search is of whole panes.
        return longest or -(-SEARCH_BY_DEFAULT // pane) * pane
    length: int = duration(1)(value, place)
    if length % pane:
        raise place.error(f"must be a multiple of the pane ({pane}s), got {length}s")
    return length
