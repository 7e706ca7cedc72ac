"""The definitions that a gateway takes reports for: those of the topic that the workers count by.

A query file speaks as long as the topic says nothing: the first worker then founds it for all panes.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import orjson

from hubbub.definitions import MARGIN
from hubbub.definitions import Definitions as Known
from hubbub.definitions.follower import Follower
from hubbub.definitions.versions import Version, Versions
from hubbub.watched import Watched
from oracles.query import Query, load

LATELY = MARGIN / 2
"""Seconds: half of what a version needs until it speaks, since clocks of brokers differ a little."""
STALE = 5.0
"""Seconds without an answer until nothing new is taken."""


@dataclass(frozen=True)
class ServedDefinitions:
    """The definitions in force, and how they are told to clients."""

    versions: Mapping[bytes, Versions] = field(default_factory=dict)
    """By digest, retired ones too."""
    _texts: dict[tuple[bytes, int], bytes] = field(default_factory=dict, compare=False)
    """How versions are told, by digest and first pane: a domain may be long."""

    @classmethod
    def of(cls, queries: Mapping[str, Query]) -> "ServedDefinitions":
        return cls({query.digest: Versions.of(query) for query in queries.values()})

    @classmethod
    def read(cls, path: str | PathLike[str]) -> "ServedDefinitions":
        """Those of a query file."""
        return cls.of(load(path))

    def names(self) -> list[str]:
        """Of all queries that are not retired."""
        return sorted({v.query.name for v in self.versions.values() if not v.newest.retired})

    def listing(self, now: float) -> bytes:
        """The body of GET /v1/queries: the definitions counted at this time; of one name the youngest last."""
        found = [v.at(int(now)) for v in self.versions.values() if int(now) >= v.first]
        found = sorted((v for v in found if not v.retired), key=lambda v: (v.query.name, v.first))
        return b'{"queries":[' + b",".join(map(self._text, found)) + b"]}"

    def _text(self, version: Version) -> bytes:
        key = version.query.digest, version.first
        if key not in self._texts:
            self._texts[key] = orjson.dumps(public_definition(version.query))
        return self._texts[key]


class Standing:
    """The definitions in force now: the topic's, and a file's until there are any."""

    def __init__(self, file: Watched[ServedDefinitions], follower: Follower) -> None:
        self._file = file
        self._follower = follower
        self._topic: ServedDefinitions | None = None
        follower.on_change.append(self._take)

    @property
    def value(self) -> ServedDefinitions:
        return self._file.value if self._topic is None else self._topic

    @property
    def missing(self) -> str | None:
        """Why nobody knows what is in force, None where it is known."""
        return None if self._follower.age < STALE else f"the definitions were not read for {STALE:g} s"

    async def read_lately(self) -> None:
        """Wait until all is known that concerns what is in the log now: a version speaks after `MARGIN` seconds."""
        await self._follower.within(LATELY)

    def _take(self, known: Known) -> None:
        self._topic = ServedDefinitions(known.versions) if known.versions else None


def public_definition(query: Query) -> dict[str, Any]:
    """All that a client needs to answer a query: what the digest is made of, and how often and when to answer."""
    meaning = json.loads(query.canonical)
    del meaning["format"]
    return {
        "digest": query.digest.hex(),
        "solution": None,
        **meaning,
        "other": query.other,
        "period": query.period,
        "lateness": query.lateness,
        "skew": query.skew,
        "from": query.starts,
        "until": query.until,
        "answers": query.answers,
        "budget": query.budget,
        "renew": query.renew,
        "classes": query.classes,
        "record_charge": query.record_charge,
        "buckets": query.buckets,
        "width": query.oracle.width,
    }
