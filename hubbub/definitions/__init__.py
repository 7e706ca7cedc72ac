"""The definitions of what is counted, as their topic says it: every worker follows the topic, none its file.

A record holds one version of a definition, with all its settings and the values of its domain files,
so that a worker or an audit needs no file at all. No key is written twice: its own timestamp says from
which pane on a version speaks, so it must never be replaced by a younger copy.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from hubbub.definitions import corrections
from hubbub.definitions.corrections import Correction
from hubbub.definitions.table import TIMES, dump
from hubbub.definitions.versions import Version, Versions
from oracles.errors import HubbubError
from oracles.query import File, Query, parse

MARGIN = 2
"""Seconds between a version's own time and the first record of the reports that it can concern, beside the skew."""

Write = tuple[bytes, bytes]
_FAULTS = (
    *(ValueError, TypeError, AttributeError, LookupError, ArithmeticError, RecursionError, HubbubError),
    OSError,  # a time that no calendar of the system has
)
"""Errors of a record that says no definition."""


class DefinitionsError(HubbubError):
    """A query file that would retire what nobody has asked to retire."""

    exit_code = 2


class TopicRecord(NamedTuple):
    """One record of the topic."""

    key: bytes
    value: bytes | None
    timestamp: int
    """Milliseconds, the log's own."""


class Unreadable(NamedTuple):
    """A record that cannot be read, and why; it is passed over."""

    key: bytes
    fault: str


@dataclass(frozen=True)
class Definitions:
    """The definitions that stand, each with all its versions."""

    versions: Mapping[bytes, Versions] = field(default_factory=dict)
    """By digest, retired ones too; the youngest last."""
    revision: int = 0
    """The highest of a file whose definitions stand here."""
    corrections: tuple[Correction, ...] = ()
    unread: tuple[Unreadable, ...] = ()
    over: Mapping[bytes, str] = field(default_factory=dict)
    """The names of definitions that are let go of, by digest."""
    founding: str | None = None
    """The token of what was appended first."""

    @property
    def queries(self) -> dict[bytes, Query]:
        """The newest of each digest."""
        return {digest: versions.query for digest, versions in self.versions.items()}

    @property
    def active(self) -> dict[str, Query]:
        """The queries that are counted, by name."""
        return {v.query.name: v.query for v in self.versions.values() if not v.newest.retired}


_NOTHING = Definitions()


@dataclass(frozen=True)
class Changes:
    """The changes that a file asks of the topic."""

    writes: list[Write] = field(default_factory=list)
    """To be appended, all at once."""
    lacking: tuple[str, ...] = ()
    """Queries that are counted, and that the file lacks: nothing is appended, since nobody has said to retire them."""
    ignored: tuple[str, ...] = ()
    """Queries that were to be retired and are not counted, or stand in the file."""
    behind: bool = False
    """Whether the topic has a later revision of the file: nothing is appended."""


def read(records: Iterable[TopicRecord], before: Definitions = _NOTHING) -> Definitions:
    """The definitions that the records of the topic say, in their order; a value of None takes a key's record back.

    `before` is what records said that came before these, and are not among them any more.
    """
    standing: dict[bytes, TopicRecord] = {}
    for record in records:
        standing.pop(record.key, None)
        if record.value is not None:
            standing[record.key] = record
    found: dict[bytes, Versions] = dict(before.versions)
    unread: list[Unreadable] = []
    times: list[Correction] = list(before.corrections)
    revision, founding = before.revision, before.founding
    for record in standing.values():
        try:
            if record.key.startswith(corrections.KIND):
                times.append(corrections.decode(record.key, record.value or b""))
                continue
            said = _read_content(record)
        except _FAULTS as error:
            unread.append(Unreadable(record.key, f"{type(error).__name__}: {error}"[:300]))
            continue
        founding = said.token if founding is None else founding
        revision = max(revision, said.revision)
        if said.first is None:
            _enter(found, said, first=0 if said.founds and said.token == founding else None)
        else:
            found[said.query.digest] = Versions.of(said.query, said.first if said.retired else None)
    return Definitions(found, revision, tuple(times), tuple(unread), before.over, founding)


class _Said(NamedTuple):
    query: Query
    retired: bool
    revision: int
    token: str
    """Of all that was appended at once; empty in the records of version 0.1."""
    founds: bool
    """Whether the topic was empty for who appended it."""
    first: int | None
    """In the records of version 0.1, of which the newest spoke for all panes, where it is retired for those before."""
    timestamp: int


def _enter(found: dict[bytes, Versions], said: _Said, first: int | None) -> None:
    """Take a version in. What it replaces, an older digest of its name, is retired by it."""
    query = said.query
    before = found.get(query.digest)
    if before is not None and before.newest[1:] == (query, said.retired):
        return
    replaced = [] if said.retired else _replaced(found, query)
    if first is None:
        skews = [versions.query.skew for versions in (*replaced, *([before] if before else []))]
        first = _first_pane(said.timestamp, max(query.skew, *skews, 0), query.pane)
    version = Version(first, query, said.retired)
    for versions in replaced:
        old = versions.query
        end = -(-first // old.pane) * old.pane
        found[old.digest] = versions.followed(Version(end, old, retired=True))
    found.pop(query.digest, None)
    found[query.digest] = before.followed(version) if before else Versions((version,))


def _replaced(found: Mapping[bytes, Versions], query: Query) -> list[Versions]:
    return [
        versions
        for digest, versions in found.items()
        if digest != query.digest and versions.query.name == query.name and not versions.newest.retired
    ]


def _first_pane(timestamp: int, skew: int, pane: int) -> int:
    """The first pane that begins after all that could be counted when the version was written."""
    return ((timestamp + 1000 * (skew + MARGIN)) // (1000 * pane) + 1) * pane


def changes(file: File, known: Definitions, retire: Collection[str], token: str) -> Changes:
    """The writes that it takes for the topic to say what the file says.

    `token` is of these writes alone. Queries that the file lacks are retired only where `retire` names them.
    """
    if file.revision < known.revision:
        return Changes(behind=True)
    active = known.active
    queries = {name: _kept(query, active.get(name)) for name, query in file.queries.items()}
    ignored = tuple(sorted(name for name in retire if name in file.queries or name not in active))
    lacking = tuple(sorted(name for name in active if name not in file.queries and name not in retire))
    if lacking:
        return Changes(lacking=lacking, ignored=ignored)
    changed = [(query, False) for query in queries.values() if active.get(query.name) != query]
    changed += [(query, True) for name, query in active.items() if name in retire and name not in file.queries]
    about = {"revision": file.revision, "founds": known.founding is None}
    return Changes([_write(query, token, {"retired": gone, **about}) for query, gone in changed], ignored=ignored)


def _kept(query: Query, standing: Query | None) -> Query:
    """The query with the oracle that stands, where the file leaves it open and all else of the digest is the same."""
    if standing is None or not query.automatic or query.digest == standing.digest:
        return query
    oracle = {key: value for key, value in dump(standing).items() if key in ("oracle", "buckets")}
    table = {key: value for key, value in dump(query).items() if key != "buckets"} | oracle
    try:
        again = _parsed(query.name, table)
    except HubbubError:  # its oracle does not suit what the file asks for
        return query
    return again if again.digest == standing.digest else query


def _write(query: Query, token: str, about: Mapping[str, Any]) -> Write:
    said = {"query": query.name, "definition": dump(query), **about}
    value = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"{query.digest.hex()}|v{token}".encode(), value.encode()


def _read_content(record: TopicRecord) -> _Said:
    """The content of a record; any error where it cannot be read."""
    digest_text, _, name = record.key.decode("ascii").partition("|")
    digest = bytes.fromhex(digest_text)
    said = json.loads(record.value or b"")
    query = _query(said["query"], said["definition"], digest)
    retired = said["retired"]
    if not isinstance(retired, bool):
        raise TypeError("retired must be true or false")
    if name.startswith("v"):
        revision, founds = said.get("revision", 0), said.get("founds", False)
        if type(revision) is not int or type(founds) is not bool:
            raise TypeError("revision must be a whole number, founds true or false")
        return _Said(query, retired, revision, name, founds, None, record.timestamp)
    return _Said(query, retired, 0, "", founds=False, first=int(name), timestamp=record.timestamp)


def _parsed(name: str, definition: dict[str, Any]) -> Query:
    times = {key: datetime.fromtimestamp(definition[key], UTC) for key in TIMES if key in definition}
    table = definition | times
    return parse({"queries": {name: table}}, "the topic of definitions", None, standing=True)[name]


def _query(name: str, definition: dict[str, Any], digest: bytes) -> Query:
    query = _parsed(name, definition)
    if query.digest != digest:
        raise ValueError(f"the definition of {name} has the digest {query.digest.hex()}, its key {digest.hex()}")
    return query
