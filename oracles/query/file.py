"""The query file: its queries, and the checks of all their keys together."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from oracles.errors import QueryError
from oracles.mechanisms import COMING, EDITION
from oracles.query.answers import attributes_of
from oracles.query.definition import Query
from oracles.query.draft import Draft
from oracles.query.footprint import check_sizes, tally_cells
from oracles.query.keys import KEYS, Settings, limits, read_keys
from oracles.query.lifetime import check_lifetime
from oracles.query.selection import Selection, open_keys, record_epsilon
from oracles.query.settings import Place, table, whole
from oracles.query.text import read_toml

_NAMES = frozenset(key.name for key in KEYS)
_SETTINGS = frozenset(field.name for field in fields(Settings))
_REVISION = whole("a whole number of at least 0", 0)
_EDITION = whole(f"a whole number from {EDITION} to {COMING}; upgrade hubbub for a later one", EDITION, COMING)


@dataclass(frozen=True)
class File:
    """A query file."""

    queries: Mapping[str, Query]
    revision: int = 0
    """Age of the file: of two files of a prefix, the one with the lower revision is older."""
    paths: tuple[Path, ...] = ()
    """Paths of the file and of its domain files."""
    edition: int = EDITION
    """Edition of the defaults that hold in the file."""


def load(path: str | PathLike[str]) -> dict[str, Query]:
    """Return the queries of a TOML file, by name. A QueryError names file, key and valid range."""
    return dict(load_file(path).queries)


def load_file(path: str | PathLike[str], edition: int | None = None) -> File:
    """Return a query file with its settings outside the queries. `edition` replaces that of the file."""
    place = Place(fspath(path))
    mapping = _tables(Path(path), place)
    if edition is not None:
        mapping["edition"] = edition
    folder = Path(path).parent
    queries = parse(mapping, place.file, folder)
    revision = _REVISION(mapping.get("revision", 0), place / "revision")
    paths = (Path(path), *(folder / name for name in _named_files(mapping["queries"])))
    return File(queries, revision, paths, mapping.get("edition", EDITION))


def _tables(path: Path, place: Place) -> dict[str, Any]:
    """Return the contents of a query file. The error about a file that is missing says what makes one."""
    try:
        return read_toml(path, place)
    except QueryError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise QueryError(f"{error}; `hubbub init` writes a query file, and --queries names another") from error
        raise


def _named_files(tables: Mapping[str, Any]) -> Iterator[str]:
    for query in tables.values():
        for domain in (query.get("domain"), *query.get("attributes", {}).values()):
            if isinstance(domain, dict) and "file" in domain:
                yield domain["file"]


def parse(
    mapping: Mapping[str, Any], where: str, folder: str | PathLike[str] | None, *, standing: bool = False
) -> dict[str, Query]:
    """Return the queries of a file's contents. `where` names it, and `folder` holds its domain files.

    Definitions that are `standing` are already active, so settings that would silence clients are not refused.
    Without a folder a domain may name no file.
    """
    place = Place(where)
    keys = table(dict(mapping), place, ("edition", "revision", "queries"))
    edition = _EDITION(keys.get("edition", EDITION), place / "edition")
    queries = table(keys.get("queries", {}), place / "queries")
    if not queries:
        raise (place / "queries").error("must be one or more tables [queries.NAME], got none")
    within = None if folder is None else Path(folder)
    return {
        name: _query(name, value, place / "queries" / name, within, edition, standing=standing)
        for name, value in queries.items()
    }


def _query(name: str, value: object, place: Place, folder: Path | None, edition: int, *, standing: bool) -> Query:
    draft = Draft(_table(value, place), place, folder, edition, standing)
    read_keys(draft)
    selection: Selection = draft["oracle"]
    _check_size(draft)
    if draft["answers"] == "life" and not standing:
        check_lifetime(selection.oracle, draft["budget"], selection.make, place / "answers")

    values = {key: value for key, value in draft.values.items() if key in _SETTINGS}
    if draft["attributes"]:
        values |= {"sets": (), "ranges": ()}
    else:
        values |= {"sets": draft["sets"][""], "ranges": draft["ranges"][""]}
    query = Query(
        **values | {"starts": draft["from"], "attributes": attributes_of(draft)},
        name=name,
        oracle=selection.oracle,
        oracle_names=selection.names,
        fewer=tuple(getattr(encoder, "fewer", None) for encoder in selection.encoders),
        record_epsilon=record_epsilon(draft),
        limits=limits(draft),
        open=open_keys(draft),
    )
    # The digest keys the hash and covers the whole query, so this comes last.
    oracle = query.oracle.keyed(query.digest)
    return query if oracle is query.oracle else replace(query, oracle=oracle)


def _check_size(draft: Draft) -> None:
    """Refuse a query whose tally or stored windows are too large."""
    cells = tally_cells(draft["oracle"].oracle.state_size, draft["groups"])
    domains = [*draft.domains, *(pair.domain for pair in draft["pairs"])]
    values = sum(domain.comparisons for domain in domains)
    check_sizes(cells, values, draft["windows"], draft.place, "attributes" if draft["attributes"] else "domain")


def _table(value: object, place: Place) -> dict[str, Any]:
    """Return a query's table, with the keys of one answer or of several."""
    keys = table(value, place, _NAMES)
    if "domain" in keys and "attributes" in keys:
        raise (place / "attributes").error(
            "must be absent if domain is present: domain is for one answer, attributes for several"
        )
    if "domain" not in keys and "attributes" not in keys:
        raise (place / "domain").error("is missing; it must be a domain, or attributes must be a table of several")
    for key in ("solution", "pairs"):
        if "domain" in keys and key in keys:
            raise (place / key).error("must be absent if domain is present; it is for attributes only")
    return keys
