"""The key `spread`: on how many partitions the reports of a query are counted."""

from typing import TYPE_CHECKING, Any

from oracles.query.draft import Draft, Key
from oracles.query.settings import instead, whole

if TYPE_CHECKING:
    from oracles.query import Query

DEFAULT = 8
"""Partitions by default, from edition 3 on. Eight carry 80 MB/s."""
MOST = 65_535
_RULE = instead(whole(f"a whole number from 1 to {MOST}", 1, MOST), "all", None)


def _settle(draft: Draft) -> Any:
    if "spread" in draft:
        return draft.read("spread", _RULE, None)
    # A definition in a topic has all of its settings, so without the key it is on all partitions.
    return DEFAULT if draft.edition >= 3 and not draft.standing else None


def _in_file(query: "Query") -> int | None:
    # Only a definition that uses the key has it in the topic, so others keep their bytes.
    return query.spread


SPREAD = Key(
    "spread",
    'number of partitions on which the reports of the query are counted, or `"all"` '
    "([topics.md](topics.md#queries-on-some-partitions)). A change applies two minutes later than other changes",
    default_text='editions 1 and 2 `"all"`, edition 3 8',
    settle=_settle,
    dump=_in_file,
)
